"""Passages and their vectors in memory or in a folder, searched exactly.

`store` writes and `view` searches; below them, `contents` and `database` have the texts, `segments`
the vectors; `cleaning` removes what was deleted.
"""

from uec_rag.stores.local.store import LocalStore
from uec_rag.stores.local.view import View

__all__ = ["LocalStore", "View"]
