"""Passages in a Qdrant collection."""

from uec_rag.stores.qdrant.store import QdrantStore

__all__ = ["QdrantStore"]
