"""Statements of a store in PostgreSQL: what is written, what is asked."""

from __future__ import annotations

from psycopg import sql

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.similarity import PROBIT
from uec_rag.stores.engine_notes import Notes
from uec_rag.stores.pgvector_filters import Clause
from uec_rag.stores.pgvector_rows import literal
from uec_rag.stores.pgvector_tables import Tables, is_half, searched
from uec_rag.stores.pgvector_words import Alike

PASSAGE = sql.SQL("id, body, metadata")


def point(notes: Notes) -> sql.SQL:
    """Columns of a point, in the order of `point_of`."""
    words = "".join(f", words{i}, counts{i}" for i in range(len(notes.words)))
    return sql.SQL(f"id, body, metadata, mean::real[], spread::real[]{words}")


def written_apart(table: sql.Identifier, notes: Notes) -> sql.Composed:
    """A table of this transaction alone, to copy new points into."""
    return sql.SQL(
        "CREATE TEMPORARY TABLE written ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA"
    ).format(_columns(_written(notes)), table)


def copied(notes: Notes) -> sql.Composed:
    """Copy into that table."""
    return sql.SQL("COPY written ({}) FROM STDIN").format(_columns(_written(notes)))


def upserted(table: sql.Identifier, notes: Notes) -> sql.Composed:
    """Take over what was copied, replacing points that are there."""
    names = _written(notes)
    updated = (sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in names[1:])
    return sql.SQL(
        "INSERT INTO {} ({columns}) SELECT {columns} FROM written ORDER BY point "
        "ON CONFLICT (point) DO UPDATE SET {}"
    ).format(table, sql.SQL(", ").join(updated), columns=_columns(names))


def scanned(table: sql.Identifier, what: sql.SQL, where: Clause) -> sql.Composed:
    """A page of points after one: that one's UUID or '' twice, the condition's, how many."""
    return sql.SQL(
        "SELECT {}, point::text FROM {} WHERE (%s = '' OR point > NULLIF(%s, '')::uuid) "
        "AND ({}) ORDER BY point LIMIT %s"
    ).format(what, table, where.text)


def nearest(
    tables: Tables, notes: Notes, what: sql.SQL, where: Clause, mean: FloatArray, count: int
) -> Clause:
    """The nearest by mu_s.

    Parameters
    ----------
    tables, notes
    what : SQL
        Columns.
    where : Clause
    mean : array, shape (d,)
        Of the query.
    count : int
    """
    text = sql.SQL("SELECT {} FROM {} WHERE {} ORDER BY {} <#> %s::{}({}) LIMIT %s").format(
        what,
        tables.points,
        where.text,
        searched(notes),
        sql.SQL("halfvec" if is_half(notes) else "vector"),
        sql.Literal(notes.dimension),
    )
    return Clause(text, [*where.values, literal(mean), count])


def most_alike(tables: Tables, notes: Notes, where: Clause, words: Alike, count: int) -> Clause:
    """The points most alike in a block's words."""
    found = words.numbers(tables, where, count)
    text = sql.SQL("SELECT {} FROM {} JOIN ({}) AS found USING (number)").format(
        point(notes), tables.points, found.text
    )
    return Clause(text, found.values)


def best(
    tables: Tables,
    notes: Notes,
    where: Clause,
    mean: FloatArray,
    spread: FloatArray,
    words: list[Alike],
    beta: float,
    candidates: int,
    k: int,
) -> Clause:
    """The k best by s_hat of the nearest and of those most alike in each block's words."""
    near = nearest(tables, notes, sql.SQL("number"), where, mean, candidates)
    found = [near, *(one.numbers(tables, where, candidates) for one in words)]
    alike = [one.similarity(tables) for one in words]
    text = sql.SQL(
        "SELECT {point} FROM (SELECT points.*, -(mean <#> %s::vector){words} AS mu, "
        "-(spread <#> %s::vector) AS sigma2 FROM ({found}) AS candidates "
        "JOIN {points} AS points USING (number)) AS scored "
        "ORDER BY mu / sqrt(1 + %s::float8 * sigma2) DESC LIMIT %s"
    ).format(
        point=point(notes),
        words=sql.Composed([sql.SQL(" + {}").format(one.text) for one in alike]),
        found=sql.SQL(" UNION ").join(
            sql.SQL("(SELECT number FROM ({}) AS of_one)").format(one.text) for one in found
        ),
        points=tables.points,
    )
    values = [literal(mean), *(v for one in alike for v in one.values), literal(spread)]
    values += [value for one in found for value in one.values]
    return Clause(text, [*values, float(PROBIT) * beta, k])


def _written(notes: Notes) -> list[str]:
    """Columns that are written, in the order of `row_of`."""
    names = ["point", "id", "body", "metadata", "facts", "numbers", "mean", "spread"]
    blocks = range(len(notes.words))
    return [*names, *(f"{part}{i}" for i in blocks for part in ("words", "counts"))]


def _columns(names: list[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))
