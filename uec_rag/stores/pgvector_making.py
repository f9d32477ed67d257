"""Tables of a store in PostgreSQL, made and read of in a transaction."""

from __future__ import annotations

import json
from typing import LiteralString

import psycopg
from psycopg import sql

from uec_rag.stores.engine_notes import Notes
from uec_rag.stores.pgvector_server import Connection
from uec_rag.stores.pgvector_tables import Tables, create, indexed

_EXTENSION: LiteralString = "CREATE EXTENSION IF NOT EXISTS vector"


def notes_of(connection: Connection, collection: str) -> Notes | None:
    """What is noted of the stored Gaussians; None where there is no table.

    Raises
    ------
    ValueError
        If the table is someone else's.
    """
    names = (collection, f"{collection}_notes")
    asked = "SELECT to_regclass(quote_ident(%s)), to_regclass(quote_ident(%s))"
    table, noted = connection.execute(asked, names).fetchone() or (None, None)
    if table is None and noted is None:
        return None
    if noted is None:
        return Notes.restore(None, collection)  # someone else's
    held = sql.SQL("SELECT notes FROM {}").format(Tables.of(collection).notes)
    row = connection.execute(held).fetchone()
    return Notes.restore(row and row[0], collection)


def make_tables(connection: Connection, collection: str, notes: Notes, *, with_index: bool) -> None:
    """Make the tables of a collection, instead of empty ones that are there.

    Raises
    ------
    ValueError
        If the server has no pgvector.
    PermissionError
        If this role may not make its extension.
    """
    _alone(connection, collection)
    try:
        connection.execute(_EXTENSION)
    except (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile) as error:
        raise ValueError(
            "dsn: the server has no pgvector; install its package there (pgvector 0.8 or "
            "later), or use one that has it."
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise PermissionError(
            "dsn: this role may not create the extension that keeps vectors; have a superuser run "
            "CREATE EXTENSION vector in this database, once."
        ) from error
    made = notes_of(connection, collection)
    if made is not None and made.admit(notes):
        return
    tables = Tables.of(collection)
    connection.execute(create(tables, notes))
    if with_index:
        connection.execute(indexed(tables, notes))
    connection.execute(
        sql.SQL("INSERT INTO {} (notes) VALUES (%s)").format(tables.notes),
        (json.dumps(notes.metadata()),),
    )


def make_index(connection: Connection, collection: str) -> None:
    """Make the index of the nearest, where there is a table without it."""
    _alone(connection, collection)
    notes = notes_of(connection, collection)
    if notes is not None:
        connection.execute(indexed(Tables.of(collection), notes))


def _alone(connection: Connection, collection: str) -> None:
    """Of two that make something at the same time the second finds what the first has made."""
    connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"uec_rag {collection}",))
