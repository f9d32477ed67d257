"""Passages and their Gaussians in memory, searched exactly or over a graph."""

from uec_rag.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
