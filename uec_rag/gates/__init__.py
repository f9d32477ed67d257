"""The gate on an index: whether a question is answered, with a guarantee, or an advisor asked.

`gate` is made of `labels`; `policy` says when it asks, `rulings` are what it decides.
"""

from uec_rag.gates.gate import Gate

__all__ = ["Gate"]
