"""Passages and their Gaussians in memory, searched exactly."""

from uec_rag.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
