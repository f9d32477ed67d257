"""Statements of a store in PostgreSQL: its tables, what is written, what is asked."""

from __future__ import annotations

from psycopg import sql

from uec_rag.stores.engine_notes import Notes
from uec_rag.stores.pgvector_filters import Clause

PASSAGE = sql.SQL("id, body, metadata")
POINT = sql.SQL("id, body, metadata, mean::real[], spread::real[]")

WIDEST = 16_000
"""Numbers that pgvector takes in a vector."""

_INDEXED, _HALF_INDEXED = 2000, 4000  # that its HNSW takes, in single and in half precision
_COLUMNS = ["point", "id", "body", "metadata", "facts", "numbers", "mean", "spread"]


def create(table: sql.Identifier, noted: sql.Identifier, notes: Notes) -> sql.Composed:
    """Make the tables and their indexes, instead of those that are there."""
    made = sql.SQL(
        "DROP TABLE IF EXISTS {table}, {noted};"
        "CREATE TABLE {noted} (notes json NOT NULL);"
        "CREATE TABLE {table} (point uuid PRIMARY KEY, id text NOT NULL, body text NOT NULL, "
        "metadata json NOT NULL, facts text[] NOT NULL, numbers jsonb NOT NULL, "
        "mean vector({mean}) NOT NULL, spread vector({spread}) NOT NULL);"
        "CREATE INDEX ON {table} USING gin (facts);"
    ).format(
        table=table,
        noted=noted,
        mean=sql.Literal(notes.dimension),
        spread=sql.Literal(notes.dimension + notes.scales),
    )
    if notes.dimension > _HALF_INDEXED:  # every search looks at all
        return made
    kind = sql.SQL("halfvec_ip_ops" if _is_half(notes) else "vector_ip_ops")
    index = sql.SQL("CREATE INDEX ON {} USING hnsw (({}) {})")
    return made + index.format(table, _searched(notes), kind)


def written_apart(table: sql.Identifier) -> sql.Composed:
    """A table of this transaction alone, to copy new points into."""
    return sql.SQL("CREATE TEMPORARY TABLE written (LIKE {}) ON COMMIT DROP").format(table)


def copied() -> sql.Composed:
    """Copy into that table."""
    return sql.SQL("COPY written ({}) FROM STDIN").format(_columns(_COLUMNS))


def upserted(table: sql.Identifier) -> sql.Composed:
    """Take over what was copied, replacing points that are there."""
    updated = (sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in _COLUMNS[1:])
    return sql.SQL(
        "INSERT INTO {} ({columns}) SELECT {columns} FROM written ORDER BY point "
        "ON CONFLICT (point) DO UPDATE SET {}"
    ).format(table, sql.SQL(", ").join(updated), columns=_columns(_COLUMNS))


def scanned(table: sql.Identifier, what: sql.SQL, where: Clause) -> sql.Composed:
    """A page of points after one: that one's UUID or '' twice, the condition's, how many."""
    return sql.SQL(
        "SELECT {}, point::text FROM {} WHERE (%s = '' OR point > NULLIF(%s, '')::uuid) "
        "AND ({}) ORDER BY point LIMIT %s"
    ).format(what, table, where.text)


def nearest(table: sql.Identifier, notes: Notes, what: sql.SQL, where: Clause) -> sql.Composed:
    """The nearest by mu_s: the condition's values, the query's mean, how many."""
    return sql.SQL("SELECT {} FROM {} WHERE {} ORDER BY {} <#> %s::{}({}) LIMIT %s").format(
        what,
        table,
        where.text,
        _searched(notes),
        sql.SQL("halfvec" if _is_half(notes) else "vector"),
        sql.Literal(notes.dimension),
    )


def best(table: sql.Identifier, notes: Notes, where: Clause) -> sql.Composed:
    """The best by s_hat of the nearest: mean, spread, what `nearest` asks, beta pi/8, how many."""
    near = nearest(table, notes, sql.SQL("id, body, metadata, mean, spread"), where)
    return sql.SQL(
        "SELECT {} FROM (SELECT *, -(mean <#> %s::vector) AS mu, "
        "-(spread <#> %s::vector) AS sigma2 FROM ({}) AS near) AS scored "
        "ORDER BY mu / sqrt(1 + %s::float8 * sigma2) DESC LIMIT %s"
    ).format(POINT, near)


def _is_half(notes: Notes) -> bool:
    return _INDEXED < notes.dimension <= _HALF_INDEXED


def _searched(notes: Notes) -> sql.Composable:
    """What the index is of."""
    if _is_half(notes):
        return sql.SQL("(mean::halfvec({}))").format(sql.Literal(notes.dimension))
    return sql.SQL("mean")


def _columns(names: list[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))
