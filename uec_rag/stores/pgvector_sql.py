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
    return sql.SQL(
        f"id, body, metadata, vector_send(mean), vector_send(spread){_words(len(notes.words))}"
    )


def _words(blocks: int) -> str:
    return "".join(f", words{i}, counts{i}" for i in range(blocks))


def written_apart(table: sql.Identifier, notes: Notes) -> sql.Composed:
    """A table of this transaction alone, to copy new points into."""
    return sql.SQL(
        "CREATE TEMPORARY TABLE written ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA"
    ).format(_columns(_written(notes)), table)


def copied(notes: Notes) -> sql.Composed:
    """Copy into that table."""
    return sql.SQL("COPY written ({}) FROM STDIN (FORMAT BINARY)").format(_columns(_written(notes)))


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


def _nearest(tables: Tables, notes: Notes, where: Clause, mean: FloatArray, count: int) -> Clause:
    """Numbers of the nearest by mu_s."""
    text = sql.SQL("SELECT number FROM {} WHERE {} ORDER BY {} <#> %s::{}({}) LIMIT %s").format(
        tables.points,
        where.text,
        searched(notes),
        sql.SQL("halfvec" if is_half(notes) else "vector"),
        sql.Literal(notes.dimension),
    )
    return Clause(text, [*where.values, literal(mean), count])


def candidates(
    tables: Tables,
    notes: Notes,
    where: Clause,
    mean: FloatArray,
    words: list[Alike],
    count: int,
    by_words: int,
) -> Clause:
    """Numbers of the nearest `count` by mu_s, and of those most alike in each block's words."""
    near = _nearest(tables, notes, where, mean, count)
    found = [near, *(one.numbers(tables, where, by_words) for one in words)]
    text = sql.SQL(" UNION ").join(
        sql.SQL("(SELECT number FROM ({}) AS of_one)").format(one.text) for one in found
    )
    return Clause(text, [value for one in found for value in one.values])


def multiplied(tables: Tables, found: Clause, vectors: FloatArray, blocks: int) -> Clause:
    """Inner products of vectors with the means of candidates, and the words of so many blocks."""
    product = sql.SQL("-(mean <#> %s::vector)")
    text = sql.SQL(
        "SELECT {products}{words} FROM ({found}) AS candidates JOIN {points} USING (number)"
    ).format(
        products=sql.SQL(", ").join([product] * len(vectors)),
        words=sql.SQL(_words(blocks)),
        found=found.text,
        points=tables.points,
    )
    return Clause(text, [*map(literal, vectors), *found.values])


def best(
    tables: Tables,
    notes: Notes,
    found: Clause,
    mean: FloatArray,
    spread: FloatArray,
    words: list[Alike],
    beta: float,
    k: int,
) -> Clause:
    """The k best of candidates by s_hat."""
    alike = [one.similarity(tables) for one in words]
    text = sql.SQL(
        "SELECT {point} FROM (SELECT points.*, -(mean <#> %s::vector){words} AS mu, "
        "-(spread <#> %s::vector) AS sigma2 FROM ({found}) AS candidates "
        "JOIN {points} AS points USING (number)) AS scored "
        "ORDER BY mu / sqrt(1 + %s::float8 * sigma2) DESC LIMIT %s"
    ).format(
        point=point(notes),
        words=sql.Composed([sql.SQL(" + {}").format(one.text) for one in alike]),
        found=found.text,
        points=tables.points,
    )
    values = [literal(mean), *(v for one in alike for v in one.values), literal(spread)]
    return Clause(text, [*values, *found.values, float(PROBIT) * beta, k])


def _written(notes: Notes) -> list[str]:
    """Columns that are written, in the order of `row_of`."""
    names = ["point", "id", "body", "metadata", "facts", "numbers", "mean", "spread"]
    blocks = range(len(notes.words))
    return [*names, *(f"{part}{i}" for i in blocks for part in ("words", "counts"))]


def _columns(names: list[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))
