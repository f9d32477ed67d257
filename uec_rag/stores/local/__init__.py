"""Passages and their Gaussians in memory or in a folder, searched exactly."""

from uec_rag.stores.local.store import LocalStore
from uec_rag.stores.local.view import View

__all__ = ["LocalStore", "View"]
