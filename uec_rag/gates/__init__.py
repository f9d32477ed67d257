"""The gate on an index: whether a question is answered, with a guarantee, or an advisor asked.

`gate` is made of `labels`, which its guarantee comes from; `policy` says when it asks an advisor,
`rulings` are what it decides.
"""

from uec_rag.gates.gate import Gate

__all__ = ["Gate"]
