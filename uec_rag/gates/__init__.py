"""The gate on an index: whether a question is answered, with a guarantee, or an advisor asked.

Its guarantee comes from a `labelled_search`; `policy` says when the `gate` asks an advisor,
`rulings` are what it decides, by the `opinion` of an `advisor` or of `decision_models`.
"""

from uec_rag.gates.gate import Gate

__all__ = ["Gate"]
