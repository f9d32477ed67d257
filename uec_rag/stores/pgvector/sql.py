"""The SQL of a store in PostgreSQL: its tables, its writes and its queries."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, LiteralString, NamedTuple, Self
from uuid import UUID

import numpy as np
from psycopg import sql

from uec_rag.base.gaussian import FloatArray
from uec_rag.stores.base import Passage
from uec_rag.stores.engine import (
    BlockSchema,
    CollectionSchema,
    Point,
    QueryTerms,
    Words,
    point_id,
)
from uec_rag.stores.filters import (
    And,
    AnyFact,
    Bound,
    Compare,
    Condition,
    HasId,
    HasPart,
    Not,
    Or,
    Predicate,
    by_facts,
    facts_of,
    field,
    numbers_of,
)

WIDEST = 16_000
"""Numbers that pgvector takes in a vector."""

# Of a row that may stand in a page of 8 KB: there 3,000 means of 768 numbers are multiplied in
# 2 ms, in 24 where they are cut in pieces of 2 KB, as PostgreSQL does.
_IN_PAGE = 8160
_PLAIN = 1750  # numbers of a mean that leave room in a page for what cannot be put elsewhere

_INDEXED, _HALF_INDEXED = 2000, 4000  # that its HNSW takes, in single and in half precision


class Tables(NamedTuple):
    """The tables and functions of a collection."""

    points: sql.Identifier
    notes: sql.Identifier  # One row: what holds for all of them, how many they are and how long
    words: sql.Identifier  # How many passages hold a term
    postings: sql.Identifier  # Which do
    counting: sql.Identifier  # The function that keeps those three right
    kept: sql.Identifier  # What processes have in common

    @classmethod
    def of(cls, collection: str) -> Self:
        """Return the names of a collection's tables."""
        ends = ["", "_notes", "_words", "_postings", "_counting", "_kept"]
        return cls(*(sql.Identifier(f"{collection}{end}") for end in ends))


def drop(tables: Tables) -> sql.Composed:
    """Remove the tables; that of notes is locked first, as every write does."""
    return sql.SQL(
        "DROP TABLE IF EXISTS {notes}, {points}, {words}, {postings}, {kept};"
        "DROP FUNCTION IF EXISTS {counting};"
    ).format(**tables._asdict())


def create(tables: Tables, notes: CollectionSchema) -> sql.Composed:
    """Make the tables, and their indexes but for `indexed`."""
    blocks = range(len(notes.words))
    columns = "".join(f", words{i} bigint[] NOT NULL, counts{i} real[] NOT NULL" for i in blocks)
    made = sql.SQL(
        "CREATE TABLE {kept} (name text PRIMARY KEY, version text NOT NULL, data bytea NOT NULL);"
        "CREATE TABLE {notes} (notes json NOT NULL, passages bigint NOT NULL DEFAULT 0, "
        "written uuid NOT NULL DEFAULT gen_random_uuid(), "
        "lengths float8[] NOT NULL DEFAULT {lengths});"
        "CREATE TABLE {points} (point uuid PRIMARY KEY, "
        "number bigint GENERATED ALWAYS AS IDENTITY UNIQUE, id text NOT NULL, body text NOT NULL, "
        "metadata json NOT NULL, facts text[] NOT NULL, numbers jsonb NOT NULL, "
        "mean vector({mean}) NOT NULL, spread vector({spread}) NOT NULL{columns}) "
        "WITH (toast_tuple_target = {page});"
        "CREATE INDEX ON {points} USING gin (facts);"
        "CREATE TABLE {words} (block smallint, key bigint, held bigint NOT NULL, "
        "PRIMARY KEY (block, key));"
        "CREATE TABLE {postings} (block smallint, key bigint, number bigint, count real NOT NULL, "
        "length real NOT NULL, PRIMARY KEY (block, key, number) INCLUDE (count, length));"
    ).format(
        **tables._asdict(),
        lengths=sql.Literal([0.0 for _ in blocks]) + sql.SQL("::float8[]"),
        mean=sql.Literal(notes.dimension),
        spread=sql.Literal(notes.dimension + notes.scales),
        columns=sql.SQL(columns),
        page=sql.Literal(_IN_PAGE),
    )
    if notes.dimension <= _PLAIN:
        plain = sql.SQL("ALTER TABLE {} ALTER COLUMN mean SET STORAGE PLAIN;")
        made += plain.format(tables.points)
    return made + _counting(tables, len(notes.words))


def indexed(tables: Tables, notes: CollectionSchema) -> sql.Composed:
    """Make the HNSW index over means, unless there is one or they are too wide for it."""
    if notes.dimension > _HALF_INDEXED:  # every search looks at all
        return sql.SQL("SELECT").format()
    kind = sql.SQL("halfvec_ip_ops" if is_half(notes) else "vector_ip_ops")
    index = sql.SQL("CREATE INDEX ON {} USING hnsw (({}) {})")
    body = sql.SQL(
        "BEGIN IF NOT EXISTS (SELECT FROM pg_index "
        "JOIN pg_class AS class ON class.oid = indexrelid JOIN pg_am AS am ON am.oid = class.relam "
        "WHERE indrelid = {name}::regclass AND amname = 'hnsw') THEN {index}; END IF; END"
    ).format(
        name=sql.Literal(tables.points.as_string(None)),
        index=index.format(tables.points, searched(notes), kind),
    )
    return sql.SQL("DO {}").format(sql.Literal(body.as_string(None)))


def is_half(notes: CollectionSchema) -> bool:
    """Tell if the index is of half precision."""
    return _INDEXED < notes.dimension <= _HALF_INDEXED


def searched(notes: CollectionSchema) -> sql.Composable:
    """Return the expression that the index is over."""
    if is_half(notes):
        return sql.SQL("(mean::halfvec({}))").format(sql.Literal(notes.dimension))
    return sql.SQL("mean")


_GONE = """
UPDATE {notes} SET written = gen_random_uuid(), passages = passages
    - (SELECT count(*) FROM gone);
"""
_COME = """
UPDATE {notes} SET written = gen_random_uuid(), passages = passages
    + (SELECT count(*) FROM come);
"""
_WORDS_GONE = """
UPDATE {notes} SET lengths[{i} + 1] = lengths[{i} + 1]
    - (SELECT COALESCE(sum(count), 0) FROM gone, unnest(counts{i}) AS count);
DELETE FROM {postings} AS held USING gone, unnest(words{i}) AS key
    WHERE held.block = {i} AND held.key = key.key AND held.number = gone.number;
INSERT INTO {words} AS known SELECT {i}, key, -count(*)
    FROM gone, unnest(words{i}) AS key GROUP BY key ORDER BY key
    ON CONFLICT (block, key) DO UPDATE SET held = known.held + EXCLUDED.held;
DELETE FROM {words} AS known USING (SELECT DISTINCT key FROM gone, unnest(words{i}) AS key) AS lost
    WHERE known.block = {i} AND known.key = lost.key AND known.held = 0;
"""
_WORDS_COME = """
UPDATE {notes} SET lengths[{i} + 1] = lengths[{i} + 1]
    + (SELECT COALESCE(sum(count), 0) FROM come, unnest(counts{i}) AS count);
INSERT INTO {postings} SELECT {i}, held.key, come.number, held.count,
    (SELECT sum(count) FROM unnest(counts{i}) AS count)
    FROM come, unnest(words{i}, counts{i}) AS held (key, count) ORDER BY held.key;
INSERT INTO {words} AS known SELECT {i}, key, count(*)
    FROM come, unnest(words{i}) AS key GROUP BY key ORDER BY key
    ON CONFLICT (block, key) DO UPDATE SET held = known.held + EXCLUDED.held;
"""


def _counting(tables: Tables, blocks: int) -> sql.Composed:
    """Write the triggers that count passages and terms in the transaction that writes them.

    A writer has locked the points by then, in their order; the row of notes is the first that
    is taken here, so that no two wait for each other.
    """

    def filled(first: LiteralString, each: LiteralString) -> sql.Composed:
        names = tables._asdict()
        parts = [sql.SQL(first).format(**names)]
        parts += [sql.SQL(each.replace("{i}", str(i))).format(**names) for i in range(blocks)]
        return sql.Composed(parts)

    body = sql.SQL(
        "BEGIN IF TG_OP <> 'INSERT' THEN {gone} END IF; IF TG_OP <> 'DELETE' THEN {come} END IF; "
        "RETURN NULL; END"
    ).format(gone=filled(_GONE, _WORDS_GONE), come=filled(_COME, _WORDS_COME))
    made = sql.SQL("CREATE FUNCTION {}() RETURNS trigger LANGUAGE plpgsql AS {};").format(
        tables.counting, sql.Literal(body.as_string(None))
    )
    for when, seen in (
        ("INSERT", "NEW TABLE AS come"),
        ("UPDATE", "OLD TABLE AS gone NEW TABLE AS come"),
        ("DELETE", "OLD TABLE AS gone"),
    ):
        made += sql.SQL(
            f"CREATE TRIGGER counting_{when.lower()} AFTER {when} ON {{}} REFERENCING {seen} "
            "FOR EACH STATEMENT EXECUTE FUNCTION {}();"
        ).format(tables.points, tables.counting)
    return made


_ORDERS: dict[str, LiteralString] = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


class Clause(NamedTuple):
    """A condition in SQL, which is never NULL, and its parameters."""

    text: sql.SQL | sql.Composed
    values: list[object]


def clause(condition: Condition | AnyFact | None) -> Clause:
    """Translate a condition.

    ValueError if it is a callable, which PostgreSQL does not run.
    """
    asked = (
        by_facts(condition, "PostgreSQL")
        if isinstance(condition, Compare | Predicate)
        else condition
    )
    match asked:
        case None:
            return Clause(sql.SQL("TRUE"), [])
        case And(conditions):
            return _joined(" AND ", "TRUE", conditions)
        case Or(conditions):
            return _joined(" OR ", "FALSE", conditions)
        case Not(one):
            inner = clause(one)
            return Clause(sql.SQL("NOT ({})").format(inner.text), inner.values)
        case HasId(ids):
            return Clause(sql.SQL("point = ANY(%s::uuid[])"), [[*map(point_id, ids)]])
        case AnyFact(facts):
            return _facts(*facts)
        case HasPart(item, key, part):
            has = _facts(item)
            text = sql.SQL(
                "({} OR COALESCE(json_typeof(metadata->%s) = 'string' "
                "AND strpos(metadata->>%s, %s) > 0, FALSE))"
            ).format(has.text)
            return Clause(text, [*has.values, key, key, part])
        case Bound(key, operator, limit):
            order = sql.SQL(_ORDERS[operator])
            if isinstance(limit, str):
                text = sql.SQL(  # by code points, as Python does
                    "COALESCE(json_typeof(metadata->%s) = 'string' "
                    'AND (metadata->>%s) COLLATE "C" {} %s, FALSE)'
                ).format(order)
                return Clause(text, [key, key, limit])
            number = sql.SQL("COALESCE((numbers->>%s)::float8 {} %s::float8, FALSE)").format(order)
            return Clause(number, [field(key), limit])


def _joined(word: LiteralString, nothing: LiteralString, conditions: Sequence[Condition]) -> Clause:
    if not conditions:
        return Clause(sql.SQL(nothing), [])
    parts = [clause(one) for one in conditions]
    whole = sql.SQL(word).join(sql.SQL("({})").format(part.text) for part in parts)
    return Clause(whole, [value for part in parts for value in part.values])


def _facts(*facts: str) -> Clause:
    return Clause(sql.SQL("facts && %s::text[]"), [list(facts)])


TYPES = ["uuid", "text", "text", "text", "text[]", "jsonb", "bytea", "bytea"]
"""The column types of a point in PostgreSQL's binary form."""

WORD_TYPES = ["int8[]", "float4[]"]
"""And for each sparse block."""


def row_of(point: Point) -> tuple[object, ...]:
    """Return the row of a point, with the types of `TYPES`."""
    passage = point.passage
    return (
        UUID(point_id(passage.id)),
        passage.id,
        passage.text,
        json.dumps(passage.metadata),
        facts_of(passage.metadata),
        numbers_of(passage.metadata),
        _sendable(point.mean),
        _sendable(point.spread),
        *(
            part
            for words in point.words
            # PostgreSQL's whole numbers have a sign.
            for part in (words.keys.view(np.int64).tolist(), words.counts.tolist())
        ),
    )


def point_of(row: Sequence[Any]) -> Point:
    """Make a point of id, text, metadata, and of its vectors and terms, if these were read."""
    passage = Passage(*row[:3])
    if len(row) == 3:
        return Point(passage)
    return Point(passage, _sent(row[3]), _sent(row[4]), _words_of(row[5:]))


def _sendable(vector: FloatArray) -> bytes:
    """Encode a vector as pgvector takes and sends it: its length, two zero bytes, its numbers."""
    return struct.pack(">HH", len(vector), 0) + vector.astype(">f4").tobytes()


def _sent(vector: bytes) -> FloatArray:
    """Decode a result of `_sendable`."""
    return np.frombuffer(vector, ">f4", offset=4).astype(np.float32)


def _words_of(columns: Sequence[Any]) -> tuple[Words, ...]:
    return tuple(
        Words(np.array(keys, np.int64).view(np.uint64), np.array(counts, np.float32))
        for keys, counts in zip(columns[::2], columns[1::2], strict=True)
    )


# Words in PostgreSQL: postings in a table, BM25 in SQL.
#
# Of 10,000 passages the best 256 for a question came in 7 ms from such a table, all of them, in 4
# ms and 98.7 % of them where common words are left to the scoring; in 29 ms and 70 % from a GIN
# index over arrays, whose matches have to be unpacked; in 4 ms and 81 % from pgvector's HNSW over
# sparsevec, and 91 % of the best ten. It takes four times the room of the arrays.

_LOOKED_UP = 200_000  # postings; words that are more common than the rest of a query's come last


def bm25_query(
    tables: Tables, block: int, noted: BlockSchema, wanted: QueryTerms, where: Clause, count: int
) -> Clause:
    """Write the query of the points of the highest BM25 in a sparse block that share a word.

    Common words are left out if a query has so many that it would take long; they count when the
    candidates are scored.
    """
    some = max(1, int(np.searchsorted(np.cumsum(wanted.held), _LOOKED_UP, "right")))
    saturated, damping = "held.count", list[object]()
    if noted.saturation is not None:
        k1, b = noted.saturation.k1, noted.saturation.b
        saturated = "held.count / (held.count + %s::float8 + %s::float8 * held.length)"
        damping = [k1 * (1 - b), k1 * b / max(wanted.mean_length, 1e-30)]
    among = sql.SQL("held.number IN (SELECT number FROM {} WHERE {})")
    text = sql.SQL(
        "SELECT held.number FROM unnest(%s::bigint[], %s::float8[]) AS asked (key, share) "
        "JOIN {postings} AS held USING (key) WHERE held.block = {block} AND {where} "
        "GROUP BY held.number ORDER BY sum(share * ({saturated})) DESC LIMIT %s"
    ).format(
        postings=tables.postings,
        block=sql.Literal(block),
        where=among.format(tables.points, where.text) if where.values else where.text,
        saturated=sql.SQL(saturated),
    )
    asked = [wanted.keys[:some].view(np.int64).tolist(), wanted.shares[:some].tolist()]
    return Clause(text, [*asked, *where.values, *damping, count])


PASSAGE = sql.SQL("id, body, metadata")


def point(notes: CollectionSchema) -> sql.SQL:
    """Write the columns of a point, in the order of `point_of`."""
    return sql.SQL(
        f"id, body, metadata, vector_send(mean), vector_send(spread){_words(len(notes.words))}"
    )


def _words(blocks: int) -> str:
    return "".join(f", words{i}, counts{i}" for i in range(blocks))


def upserting(table: sql.Identifier, notes: CollectionSchema) -> tuple[sql.Composed, ...]:
    """Copy rows into a temporary table of the transaction, and upsert from there.

    Points that are there are replaced.
    """
    # In the order of `row_of`.
    names = ["point", "id", "body", "metadata", "facts", "numbers", "mean", "spread"]
    names += [f"{part}{i}" for i in range(len(notes.words)) for part in ("words", "counts")]
    columns = sql.SQL(", ").join(map(sql.Identifier, names))
    updated = (sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in names[1:])
    apart = sql.SQL(
        "CREATE TEMPORARY TABLE written ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA"
    )
    upserted = sql.SQL(
        "INSERT INTO {} ({columns}) SELECT {columns} FROM written ORDER BY point "
        "ON CONFLICT (point) DO UPDATE SET {}"
    )
    return (
        apart.format(columns, table),
        sql.SQL("COPY written ({}) FROM STDIN (FORMAT BINARY)").format(columns),
        upserted.format(table, sql.SQL(", ").join(updated), columns=columns),
    )


def scanned(table: sql.Identifier, what: sql.SQL, where: Clause) -> sql.Composed:
    """Write the query of a page of points after one; takes its UUID or '' twice, and a count."""
    return sql.SQL(
        "SELECT {}, point::text FROM {} WHERE (%s = '' OR point > NULLIF(%s, '')::uuid) "
        "AND ({}) ORDER BY point LIMIT %s"
    ).format(what, table, where.text)


def candidates(
    tables: Tables,
    notes: CollectionSchema,
    where: Clause,
    mean: FloatArray,
    words: Sequence[QueryTerms],
    count: int,
) -> Clause:
    """Write the query of the nearest `count` points by mu_s, and of as many by each block's words.

    They come as `point_of` takes them.
    """
    text = sql.SQL("SELECT number FROM {} WHERE {} ORDER BY {} <#> %s::{}({}) LIMIT %s").format(
        tables.points,
        where.text,
        searched(notes),
        sql.SQL("halfvec" if is_half(notes) else "vector"),
        sql.Literal(notes.dimension),
    )
    found = [Clause(text, [*where.values, json.dumps(mean.tolist()), count])]
    for block, (noted, wanted) in enumerate(zip(notes.words, words, strict=False)):
        if len(wanted.keys):
            found.append(bm25_query(tables, block, noted, wanted, where, count))
    numbers = sql.SQL(" UNION ").join(
        sql.SQL("(SELECT number FROM ({}) AS of_one)").format(one.text) for one in found
    )
    together = sql.SQL("SELECT {} FROM ({}) AS candidates JOIN {} USING (number)").format(
        point(notes), numbers, tables.points
    )
    return Clause(together, [value for one in found for value in one.values])
