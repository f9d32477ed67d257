"""Functions to open a store at an address or for a saved folder."""

from __future__ import annotations

import os
import re
import warnings
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from uec_rag.base.errors import warn
from uec_rag.base.files import read_json
from uec_rag.stores.base import Store, check_store
from uec_rag.stores.engine import EngineStore

_WEB = {"qdrant": "http", "qdrant+http": "http", "qdrant+https": "https"}
_POSTGRES = ("postgresql", "postgres")
EXPECTED = (
    "expected qdrant://HOST:PORT/COLLECTION, qdrant:///FOLDER/COLLECTION or "
    "postgresql://USER@HOST/DATABASE?collection=TABLE"
)
"""The format of the address of an engine, for messages."""


STORE = "store.json"
"""The file name of the address of an engine, in the folder of an index in it."""


def check_engine(address: str) -> None:
    """Raise ValueError, without opening it, if an address is not one that `open_store` takes.

    The message omits an address that may have a password.
    """
    scheme, mark, rest = address.partition("://")
    if mark and (scheme in _POSTGRES or _plugin(scheme)):
        return
    if not mark or scheme not in _WEB:
        named = scheme if mark and re.fullmatch("[a-z0-9+]*", scheme) else "..."
        raise ValueError(f"{named}://: {EXPECTED}.")
    host, _, where = rest.partition("/")
    if host and {*"@?#"} & {*rest}:
        raise ValueError(
            f"{scheme}://...: {EXPECTED}, without user, password, ? or #; the key of a server "
            "is taken from QDRANT_API_KEY."
        )
    parts = PurePosixPath("/", unquote(where)).parts
    try:
        _ = urlsplit(f"//{host}").port
    except ValueError as error:
        raise ValueError(f"{address!r}: {EXPECTED}; {error}.") from error
    if len(parts) < 2 or (host and len(parts) > 2):
        raise ValueError(f"{address!r}: {EXPECTED}.")


def _plugin(scheme: str) -> EntryPoint | None:
    """Return the entry point with the scheme of an address, of another package's store."""
    is_own = scheme in _WEB or scheme in _POSTGRES
    return None if is_own else next(iter(entry_points(group="uec_rag.stores", name=scheme)), None)


def open_store(address: str, *, existing: bool = False) -> EngineStore:
    """Open the store at an address.

    Parameters
    ----------
    address : str
        ``qdrant://HOST:PORT/COLLECTION`` for a server, or ``qdrant+https://`` for one with TLS (its
        key is read from QDRANT_API_KEY); ``qdrant:///FOLDER/COLLECTION`` for a local folder; or
        ``postgresql://USER@HOST/DATABASE?collection=TABLE``, a libpq URI except for the table. For
        another scheme, the entry point of this name in the group ``uec_rag.stores`` is called with
        the arguments of this function.
    existing : bool
        Whether a folder must already have a database; by default, one is created.

    Raises
    ------
    FileNotFoundError
        If `existing` and the folder has no database.
    ValueError
        If the address has another format; the message omits it, since it may have a password.
    ImportError, ConnectionError
        As raised by the stores.
    """
    check_engine(address)
    scheme, _, rest = address.partition("://")
    if plugin := _plugin(scheme):
        store: EngineStore = plugin.load()(address, existing=existing)
        return store
    if scheme in _WEB:
        from uec_rag.stores.qdrant.store import QdrantStore

        host, _, where = rest.partition("/")
        path = PurePosixPath("/", unquote(where))
        if not host:
            if existing and not Path(path.parent, "meta.json").is_file():
                raise FileNotFoundError(
                    f"store: there is no Qdrant database in {str(path.parent)!r}; check the "
                    "address (uec-rag: --store), or copy the index there first: uec-rag copy."
                )
            return QdrantStore(path=str(path.parent), collection=path.name)
        return QdrantStore(
            url=f"{_WEB[scheme]}://{host}",
            collection=path.name,
            api_key=os.environ.get("QDRANT_API_KEY"),
        )
    from uec_rag.stores.pgvector.store import PgVectorStore

    named = re.search("([?&])collection=([^&]*)(&?)", address)
    if named is None:
        return PgVectorStore(address)
    # The rest is passed to libpq unchanged.
    before, after = address[: named.start()], address[named.end() :]
    dsn = before + (named[1] + after if after else "")
    return PgVectorStore(dsn, collection=unquote(named[2]))


def store_at(address: str, *, existing: bool = False) -> EngineStore:
    """Open the store at an address, as `open_store`, the new name, does."""
    warnings.warn("store_at: use open_store, the new name.", DeprecationWarning, stacklevel=2)
    return open_store(address, existing=existing)


def filling(store: Store) -> AbstractContextManager[object]:
    """Return a context in which a store may postpone work to the end of the block.

    `store`: a store with a method `filling`, as `PgVectorStore`, or any other, without effect.
    """
    block: AbstractContextManager[object] = getattr(store, "filling", nullcontext)()
    return block


def saved_store(folder: Path, store: Store | None) -> Store | None:
    """Return the store that an index's folder names; None if its passages are in the folder.

    An engine is never opened from the address in a saved folder: a folder from an untrusted source
    could name a server that steals the user's key, or a database that executes code when read.

    Raises
    ------
    ValueError
        If the passages are in an engine and no store is given, or vice versa; or if the given store
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
    address = noted.get("address", noted.get("store"))
    if store is None:
        raise ValueError(
            f"path: the passages of this index are in a store elsewhere ({address!r:.300}), which "
            "is not opened just because a saved folder names it; if it is yours, open it: "
            f"Retriever.load(path, store=...) (uec-rag: --store {address!r:.300})."
        )
    if isinstance(store, EngineStore):
        if store.address != address and not len(store):
            raise ValueError(
                f"store: there is no passage in {store.address!r:.300}, and those of this index "
                f"were saved in {address!r:.300}; check the name (uec-rag: --store), or copy them "
                "there first: uec-rag copy."
            )
        if (notes := store.schema()) and noted.get("id", notes.id) not in ("", notes.id):
            warn(
                f"store: the collection at {store.address!r:.300} is not the one that this index "
                f"was saved with, at {address!r:.300}: its passages may be of other documents. If "
                "they are meant, save the index with it again."
            )
    return store
