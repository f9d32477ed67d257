"""Stores of passages and vectors, and their search: one protocol, in memory and in Qdrant.

`base` has the protocol, `passage`, `metadata` and `encodings` what is kept, `filters` what selects;
`local` is ours, `qdrant` an engine, `source` any other store, of which `candidates` are compared.
"""

from uec_rag.stores.base import Filter, Store
from uec_rag.stores.local.store import LocalStore
from uec_rag.stores.passage import Passage

__all__ = ["Filter", "LocalStore", "Passage", "Store"]
