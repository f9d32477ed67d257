"""Functions to open a Qdrant store at an address, and the store that an index names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

from uec_rag.base.checks import check_type
from uec_rag.stores.base import LinkedStore, Store

if TYPE_CHECKING:
    from uec_rag.stores.qdrant import QdrantStore

_SCHEMES = {"qdrant": "http", "qdrant+http": "http", "qdrant+https": "https"}
_EXPECTED = "expected qdrant://HOST:PORT/COLLECTION or qdrant:///FOLDER/COLLECTION"

STORE = "store"
"""The setting of an index that says where its passages are, if they are not in the folder."""


def check_address(address: str) -> tuple[str, PurePosixPath]:
    """Return the URL of the server, or "", and the path of the collection, without opening it.

    ValueError if it is not an address that `open_store` takes; the message omits an address that
    may have a password.
    """
    scheme, mark, rest = address.partition("://")
    if scheme not in _SCHEMES or not mark:
        named = scheme if mark and re.fullmatch("[a-z0-9+]*", scheme) else "..."
        raise ValueError(f"{named}://: {_EXPECTED}.")
    host, _, where = rest.partition("/")
    if host and {*"@?#"} & {*rest}:
        raise ValueError(
            f"{scheme}://...: {_EXPECTED}, without user, password, ? or #; the key of a server "
            "is taken from QDRANT_API_KEY."
        )
    path = PurePosixPath("/", unquote(where))
    try:
        _ = urlsplit(f"//{host}").port
    except ValueError as error:
        raise ValueError(f"{address!r}: {_EXPECTED}; {error}.") from error
    if len(path.parts) < 2 or (host and len(path.parts) > 2):
        raise ValueError(f"{address!r}: {_EXPECTED}.")
    return f"{_SCHEMES[scheme]}://{host}" if host else "", path


def open_store(address: str) -> QdrantStore:
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
    url, path = check_address(address)
    from uec_rag.stores.qdrant import QdrantStore

    if url:
        key = os.environ.get("QDRANT_API_KEY")
        return QdrantStore(url=url, collection=path.name, api_key=key)
    return QdrantStore(path=str(path.parent), collection=path.name)


def saved_store(settings: Mapping[str, Any], store: Store | None) -> Store | None:
    """Return the store that an index's settings name; None if its passages are in the folder.

    Qdrant is never opened from the address in a saved folder: a folder from an untrusted source
    could name a server that steals the user's key, or a database that executes code when read.

    Raises
    ------
    ValueError
        If the passages are elsewhere and no store is given, or vice versa; or if the given store
        is empty and at another address.
    TypeError
        If `store` is not a store.
    """
    if store is not None:
        check_type(store, Store, "store", "a store, such as LocalStore()")
    state = settings.get(STORE)
    if state is None and store is not None:
        raise ValueError("this index stores its own passages; omit store=")
    if state is None:
        return None
    if not isinstance(state, dict):
        raise ValueError(f"path: the index names no store, but {state!r:.60}; build it again.")
    address = state.get("address")
    if store is None and state.get("store") == "source":
        raise ValueError(
            f"path: this is the fit of a retriever over {address!r:.300}, without passages; pass "
            "that store: UECGate.load(path, UECRetriever.over(your_store)), or "
            "Retriever.load(path, store=retriever.index.store)."
        )
    if store is None:
        raise ValueError(
            f"path: the passages of this index are in a store elsewhere ({address!r:.300}), which "
            "is not opened just because a saved folder names it; if it is yours, open it: "
            f"Retriever.load(path, store=...) (uec-rag: --store {address!r:.300})."
        )
    cast(LinkedStore, store).restore(state)
    return store
