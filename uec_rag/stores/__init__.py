"""Stores of the ensemble's Gaussians, and their search: one protocol, in memory and in Qdrant."""

from typing import TYPE_CHECKING

from uec_rag.stores.base import Filter, Passage, Store
from uec_rag.stores.local.store import LocalStore

if TYPE_CHECKING:
    from uec_rag.stores.qdrant import QdrantStore

__all__ = ["Filter", "LocalStore", "Passage", "QdrantStore", "Store"]


def __getattr__(name: str) -> object:
    """Import the store in Qdrant, and its client from an extra, on first use."""
    if name == "QdrantStore":
        from uec_rag.stores.qdrant import QdrantStore

        return QdrantStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
