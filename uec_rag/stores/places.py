"""Stores by the address of where they are."""

from __future__ import annotations

import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

if TYPE_CHECKING:
    from uec_rag.stores.engine import EngineStore

MEMORY = "memory://"
"""What may stand before the folder of an index that is searched in memory."""

_WEB = {"qdrant": "http", "qdrant+http": "http", "qdrant+https": "https"}
_POSTGRES = ("postgresql", "postgres")


def is_place(address: str) -> bool:
    """Whether an address is one of an engine, and no folder's."""
    return "://" in address and not address.startswith(MEMORY)


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
        If it is none of these.
    ImportError, ConnectionError
        As the stores do.
    """
    parts = urlsplit(address)
    if parts.scheme in _WEB:
        path = PurePosixPath(unquote(parts.path))
        if len(path.parts) < 2 or (parts.netloc and len(path.parts) > 2):
            raise ValueError(
                f"{address!r}: expected one collection behind the host, or a folder and a "
                "collection: qdrant://localhost:6333/passages, qdrant:///folder/passages."
            )
        from uec_rag.stores.qdrant import QdrantStore

        if not parts.netloc:
            return QdrantStore(path=str(path.parent), collection=path.name)
        return QdrantStore(
            url=f"{_WEB[parts.scheme]}://{parts.netloc}",
            collection=path.name,
            api_key=os.environ.get("QDRANT_API_KEY"),
        )
    if parts.scheme in _POSTGRES:
        options = dict(parse_qsl(parts.query))
        collection = options.pop("collection", "uec_rag")
        from uec_rag.stores.pgvector import PgVectorStore

        # libpq takes a plus for a plus.
        dsn = urlunsplit(parts._replace(query=urlencode(options, quote_via=quote)))
        return PgVectorStore(dsn, collection=collection)
    raise ValueError(
        f"{address!r}: expected qdrant://HOST:PORT/COLLECTION, qdrant:///FOLDER/COLLECTION or "
        "postgresql://USER@HOST/DATABASE?collection=TABLE."
    )
