"""Stores of the ensemble's Gaussians, and their search: one protocol, several engines."""

from importlib import import_module
from typing import TYPE_CHECKING

from uec_rag.stores.base import Filter, Passage, Store
from uec_rag.stores.local.store import LocalStore

if TYPE_CHECKING:
    from uec_rag.stores.pgvector import PgVectorStore
    from uec_rag.stores.qdrant import QdrantStore

__all__ = ["Filter", "LocalStore", "Passage", "PgVectorStore", "QdrantStore", "Store"]

_ON_USE = {"PgVectorStore": "pgvector", "QdrantStore": "qdrant"}  # each needs an extra


def __getattr__(name: str) -> object:
    """Import the stores in engines, and their clients, on first use."""
    if name in _ON_USE:
        return getattr(import_module(f"{__name__}.{_ON_USE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
