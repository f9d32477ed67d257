"""Functions to open a Qdrant store at an address, and a store for a saved folder."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

from uec_rag.base.errors import as_corrupted, warn
from uec_rag.base.files import read_json
from uec_rag.stores.base import Store, check_store

if TYPE_CHECKING:
    from uec_rag.stores.qdrant import QdrantStore

_SCHEMES = {"qdrant": "http", "qdrant+http": "http", "qdrant+https": "https"}
_EXPECTED = "expected qdrant://HOST:PORT/COLLECTION or qdrant:///FOLDER/COLLECTION"


STORE = "store.json"
"""The file name of the address of an engine, in the folder of an index in it."""


def check_address(address: str) -> None:
    """Raise ValueError, without opening it, if an address is not one that `open_store` takes.

    The message omits an address that may have a password.
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
    parts = PurePosixPath("/", unquote(where)).parts
    try:
        _ = urlsplit(f"//{host}").port
    except ValueError as error:
        raise ValueError(f"{address!r}: {_EXPECTED}; {error}.") from error
    if len(parts) < 2 or (host and len(parts) > 2):
        raise ValueError(f"{address!r}: {_EXPECTED}.")


def open_store(address: str, *, existing: bool = False) -> QdrantStore:
    """Open the Qdrant store at an address.

    Parameters
    ----------
    address : str
        ``qdrant://HOST:PORT/COLLECTION`` for a server, or ``qdrant+https://`` for one with TLS (its
        key is read from QDRANT_API_KEY); ``qdrant:///FOLDER/COLLECTION`` for a local folder.
    existing : bool
        Whether a folder must already have a database; by default, one is created.

    Raises
    ------
    FileNotFoundError
        If `existing` and the folder has no database.
    ValueError
        If the address has another format; the message omits it, since it may have a password.
    ImportError, ConnectionError
        As raised by `QdrantStore`.
    """
    check_address(address)
    scheme, _, rest = address.partition("://")
    host, _, where = rest.partition("/")
    path = PurePosixPath("/", unquote(where))
    from uec_rag.stores.qdrant import QdrantStore

    if host:
        url, key = f"{_SCHEMES[scheme]}://{host}", os.environ.get("QDRANT_API_KEY")
        return QdrantStore(url=url, collection=path.name, api_key=key)
    if existing and not Path(path.parent, "meta.json").is_file():
        raise FileNotFoundError(
            f"store: there is no Qdrant database in {str(path.parent)!r}; check the address "
            "(uec-rag: --store)."
        )
    return QdrantStore(path=str(path.parent), collection=path.name)


def saved_store(folder: Path, store: Store | None) -> Store | None:
    """Return the store that an index's folder names; None if its passages are in the folder.

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
        check_store(store)
    if not os.path.lexists(folder / STORE):
        if store is not None:
            raise ValueError("this index stores its own passages; omit store=")
        return None
    noted = read_json(folder / STORE)
    address = str(noted.get("address"))
    if store is None and noted.get("store") == "source":
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
    if hasattr(store, "address"):
        _check_collection(cast("QdrantStore", store), noted, address)
    if hasattr(store, "restore"):  # a source of candidates, of which words were learned
        with as_corrupted(folder / STORE):
            store.restore(noted)
    return store


def _check_collection(store: QdrantStore, noted: dict[str, Any], address: str) -> None:
    """Raise ValueError if a collection is empty, and warn if it is another than that of an index.

    `noted`: what the index says of its store. `address`: that of the store.
    """
    if store.address != address and not len(store):
        raise ValueError(
            f"store: there is no passage in {store.address!r:.300}, and those of this index "
            f"were saved in {address!r:.300}; check the name (uec-rag: --store)."
        )
    if (schema := store.schema()) and noted.get("id", schema.id) not in ("", schema.id):
        warn(
            f"store: the collection at {store.address!r:.300} is not the one that this index was "
            f"saved with, at {address!r:.300}: its passages may be of other documents. If they are "
            "meant, save the index with it again."
        )
