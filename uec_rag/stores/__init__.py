"""Where the ensemble's Gaussians are kept and searched: one protocol, several engines."""

from uec_rag.stores.base import Filter, Found, Passage, Store
from uec_rag.stores.memory import MemoryStore

__all__ = ["Filter", "Found", "MemoryStore", "Passage", "Store"]
