"""Uncertainty-driven embedding convolution: a retriever that knows when it does not know."""

from importlib import import_module
from typing import TYPE_CHECKING

from uec_rag.base import __version__

if TYPE_CHECKING:
    from uec_rag.base.errors import (
        EncoderFailed,
        FingerprintMismatch,
        IndexCorrupted,
        NoFit,
        UECError,
        UnknownReading,
    )
    from uec_rag.base.gaussian import Gaussian
    from uec_rag.base.quotes import quoted
    from uec_rag.ensemble import UEC
    from uec_rag.gates import Gate
    from uec_rag.gates.advisor import Advice
    from uec_rag.index import Retriever
    from uec_rag.retrieval import SearchResult

__all__ = [
    "UEC",
    "Advice",
    "EncoderFailed",
    "FingerprintMismatch",
    "Gate",
    "Gaussian",
    "IndexCorrupted",
    "NoFit",
    "Retriever",
    "SearchResult",
    "UECError",
    "UnknownReading",
    "__version__",
    "quoted",
]

# Imported on first use: `import uec_rag` stays instant and pulls in no framework.
_HOME = {
    "UEC": "uec_rag.ensemble",
    "Advice": "uec_rag.gates.advisor",
    "Gate": "uec_rag.gates",
    "Gaussian": "uec_rag.base.gaussian",
    "quoted": "uec_rag.base.quotes",
    "Retriever": "uec_rag.index",
    "SearchResult": "uec_rag.retrieval",
}
_ERRORS = ("EncoderFailed", "FingerprintMismatch", "IndexCorrupted", "NoFit", "UECError")
_HOME |= dict.fromkeys((*_ERRORS, "UnknownReading"), "uec_rag.base.errors")


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'uec_rag' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
