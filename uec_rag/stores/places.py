"""Places of stores: opened at an address, or at the one that a saved and trusted folder names.

A saved folder may come from a stranger, who could have it name a server of theirs, to be sent the
user's key, or a database whose reading runs code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from uec_rag.base.errors import IndexCorrupted
from uec_rag.base.saved.files import read_json
from uec_rag.stores.base import Store, check_store
from uec_rag.stores.engine import OPEN_IT, EngineStore

_WEB = {"qdrant": "http", "qdrant+http": "http", "qdrant+https": "https"}
_POSTGRES = ("postgresql", "postgres")
EXPECTED = (
    "expected qdrant://HOST:PORT/COLLECTION, qdrant:///FOLDER/COLLECTION or "
    "postgresql://USER@HOST/DATABASE?collection=TABLE"
)
"""The form of an engine's address, for messages."""


def is_engine(address: str) -> bool:
    """Tell if an address begins as that of an engine which `store_at` opens."""
    scheme, mark, _ = address.partition("://")
    return bool(mark) and scheme in (*_WEB, *_POSTGRES)


def store_at(address: str) -> EngineStore:
    """Open the store at an address.

    Parameters
    ----------
    address : str
        ``qdrant://HOST:PORT/COLLECTION`` of a server, ``qdrant+https://`` for an encrypted one (its
        key is in QDRANT_API_KEY); ``qdrant:///FOLDER/COLLECTION`` for a folder of this machine;
        ``postgresql://USER@HOST/DATABASE?collection=TABLE`` as libpq takes it but for the table.

    Raises
    ------
    ValueError
        If it is none of these; the message does not repeat it, since a password may be in it.
    ImportError, ConnectionError
        As the stores do.
    """
    scheme, _, rest = address.partition("://")
    if scheme in _WEB:
        from uec_rag.stores.qdrant.store import QdrantStore

        host, _, where = rest.partition("/")
        if host and {*"@?#"} & {*rest}:
            raise ValueError(
                f"{scheme}://...: {EXPECTED}, without user, password, ? or #; the key of a server "
                "is taken from QDRANT_API_KEY."
            )
        path = PurePosixPath("/", unquote(where))
        if len(path.parts) < 2 or (host and len(path.parts) > 2):
            raise ValueError(f"{address!r}: {EXPECTED}.")
        if not host:
            return QdrantStore(path=str(path.parent), collection=path.name)
        return QdrantStore(
            url=f"{_WEB[scheme]}://{host}",
            collection=path.name,
            api_key=os.environ.get("QDRANT_API_KEY"),
        )
    if scheme in _POSTGRES:
        from uec_rag.stores.pgvector.store import PgVectorStore

        named = re.search("([?&])collection=([^&]*)(&?)", address)
        if named is None:
            return PgVectorStore(address)
        # All else is for libpq to read, as it is.
        before, after = address[: named.start()], address[named.end() :]
        dsn = before + (named[1] + after if after else "")
        return PgVectorStore(dsn, collection=unquote(named[2]))
    named_ = scheme if re.fullmatch("[a-z0-9+]*", scheme) and scheme != address else "..."
    raise ValueError(f"{named_}://: {EXPECTED}.")


def filling(store: Store) -> AbstractContextManager[object]:
    """Let a store put off, to the end of the block, work that is better done once.

    `store`: those that put off anything have a method `filling`: see `PgVectorStore.filling`.
    """
    block: AbstractContextManager[object] = getattr(store, "filling", nullcontext)()
    return block


GROUP = "uec_rag.stores"
"""Entry points by which other packages name their stores: tag = "module:Class"."""

_OURS = {
    "memory": "uec_rag.stores.memory.store:MemoryStore",
    "pgvector": "uec_rag.stores.pgvector.store:PgVectorStore",
    "qdrant": "uec_rag.stores.qdrant.store:QdrantStore",
}


def saved_store(
    folder: Path, *, trust: bool = False, given: Store | None = None
) -> Callable[[], Store]:
    """Find the function that opens a saved store, by the tag in its ``store.json``.

    Parameters
    ----------
    folder : path
    trust : bool
        Whether to open an engine that the folder names and the user does not.
    given : Store, optional
        What to take instead, where the passages are in an engine.

    Raises
    ------
    ValueError
        If the engine is not to be opened unasked, no installed package has a store of that tag, or
        one is given and the folder itself holds the passages.
    TypeError
        If what is given is no store.
    """
    noted = read_json(folder / "store.json")
    tag = str(noted.get("store", "memory"))
    if given is not None:
        check_store(given)
        if tag == "memory":
            raise ValueError("store: expected none, since this index holds its passages itself.")
        return lambda: given
    if tag in _OURS:
        module, name = _OURS[tag].split(":")
        kind: Any = getattr(import_module(module), name)
        if tag == "memory":
            return partial(kind.load, folder)
        kind.check_saved(noted, trust=trust)
        _check_noted(folder / "store.json", noted)
        return partial(kind.load, folder, trust=trust)
    others = {point.name: point for point in entry_points(group=GROUP)}
    if tag not in others:
        raise ValueError(
            f"path: {str(folder)!r} holds a store of kind {tag!r}; expected one of "
            f"{sorted({*_OURS, *others})}. Install the package that it comes from."
        )
    if not trust:
        raise ValueError(
            f"path: this index is kept by {others[tag].value!r}, which is not opened where a saved "
            f"folder says so. {OPEN_IT}, or with trust=True (uec-rag: --trust)."
        )
    return partial(others[tag].load().load, folder)


def _check_noted(file: Path, noted: Mapping[str, Any]) -> None:
    """Raise IndexCorrupted if an engine's collection or candidates cannot be what it noted."""
    candidates = noted.get("candidates", 1)
    whole = isinstance(candidates, int) and not isinstance(candidates, bool)
    if not isinstance(noted.get("collection", ""), str) or not whole or not 0 < candidates < 2**31:
        raise IndexCorrupted(
            f"path: {str(file)!r} does not name a collection and how many of its passages a search "
            "scores; open the index with Retriever.load(path, store=...), and save it again."
        )
