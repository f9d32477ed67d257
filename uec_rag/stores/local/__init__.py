"""Passages and their Gaussians in memory or in a folder, searched exactly.

`store` writes and `view` searches; below them, `contents` and `database` have the texts, `segments`
the vectors, `scan`s among them.
"""

from uec_rag.stores.local.store import LocalStore
from uec_rag.stores.local.view import View

__all__ = ["LocalStore", "View"]
