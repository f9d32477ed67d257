"""Stores of the ensemble's Gaussians, and their search: one protocol, in memory and in Qdrant."""

import os
import re
from typing import TYPE_CHECKING

from uec_rag.stores.base import Filter, Passage, Store
from uec_rag.stores.local.store import LocalStore

if TYPE_CHECKING:
    from uec_rag.stores.qdrant import QdrantStore

__all__ = ["Filter", "LocalStore", "Passage", "QdrantStore", "Store", "open_store"]


def __getattr__(name: str) -> object:
    """Import the store in Qdrant, and its client from an extra, on first use."""
    if name == "QdrantStore":
        from uec_rag.stores.qdrant import QdrantStore

        return QdrantStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def open_store(address: str) -> "QdrantStore":
    """Open the Qdrant store at an address.

    Parameters
    ----------
    address : str
        ``qdrant://HOST:PORT/COLLECTION`` for a server, or ``qdrant+https://`` for one with TLS (its
        key is read from QDRANT_API_KEY); ``qdrant:///FOLDER/COLLECTION`` for a local folder.

    Raises
    ------
    ValueError
        If the address has another format; the message omits it, since it may have a password.
    ImportError, ConnectionError
        As raised by `QdrantStore`.
    """
    found = re.fullmatch(r"qdrant(?:\+(https?))?://([^/@?#]*)/(.*/)?([^/]+)", address, re.DOTALL)
    scheme, host, folder, collection = found.groups() if found else (None,) * 4
    if collection is None or (host and (folder or {*"@?#"} & {*collection})):
        raise ValueError(
            "store: expected qdrant://HOST:PORT/COLLECTION or qdrant:///FOLDER/COLLECTION, without "
            "user, password, ? or #; the key of a server is taken from QDRANT_API_KEY."
        )
    from uec_rag.stores.qdrant import QdrantStore

    if host:
        key = os.environ.get("QDRANT_API_KEY")
        return QdrantStore(url=f"{scheme or 'http'}://{host}", collection=collection, api_key=key)
    return QdrantStore(path=f"/{folder or ''}", collection=collection)
