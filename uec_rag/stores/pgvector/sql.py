"""The SQL of a store in PostgreSQL: its tables, its writes and its queries."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import astuple
from typing import Any, LiteralString, NamedTuple, Self
from uuid import UUID

import numpy as np
from psycopg import sql

from uec_rag.base.gaussian import FloatArray
from uec_rag.stores import filters
from uec_rag.stores.base import stored_passage
from uec_rag.stores.engine import BlockSchema, CollectionSchema, Point, QueryTerms, Words, point_id

WIDEST = 16_000
"""The largest dimension of a pgvector vector."""

# Size of a row that is stored inline in a page of 8 KB. 3,000 inner products of 768 dimensions take
# 2 ms inline, and 24 ms if PostgreSQL moves the vectors to TOAST chunks of 2 KB.
_IN_PAGE = 8160
_PLAIN = 1750  # dimension of a mean that leaves room in a page for columns that must be inline

_INDEXED, _HALF_INDEXED = 2000, 4000  # largest dimensions of its HNSW in single and half precision


class Tables(NamedTuple):
    """The tables and functions of a collection."""

    points: sql.Identifier
    notes: sql.Identifier  # one row: the schema, the number of points and their total lengths
    words: sql.Identifier  # number of passages that contain a term
    postings: sql.Identifier  # the passages that contain a term
    counting: sql.Identifier  # the trigger function that updates these three

    @classmethod
    def from_name(cls, collection: str) -> Self:
        """Return the names of a collection's tables."""
        ends = ["", "_notes", "_words", "_postings", "_counting"]
        return cls(*(sql.Identifier(f"{collection}{end}") for end in ends))


def drop(tables: Tables) -> sql.Composed:
    """Write the statement that drops the tables; it locks that of notes first, as writes do."""
    return sql.SQL(
        "DROP TABLE IF EXISTS {notes}, {points}, {words}, {postings};"
        "DROP FUNCTION IF EXISTS {counting};"
    ).format(**tables._asdict())


def create(tables: Tables, notes: CollectionSchema) -> sql.Composed:
    """Write the statements that create the tables and all indexes except that of `create_index`."""
    blocks = range(len(notes.words))
    columns = "".join(f", words{i} bigint[] NOT NULL, counts{i} real[] NOT NULL" for i in blocks)
    made = sql.SQL(
        "CREATE TABLE {notes} (notes json NOT NULL, passages bigint NOT NULL DEFAULT 0, "
        "written uuid NOT NULL DEFAULT gen_random_uuid(), "
        "lengths float8[] NOT NULL DEFAULT {lengths});"
        "CREATE TABLE {points} (point uuid PRIMARY KEY, "
        "number bigint GENERATED ALWAYS AS IDENTITY UNIQUE, id text NOT NULL, body text NOT NULL, "
        "metadata json NOT NULL, about text[] NOT NULL, facts text[] NOT NULL, "
        "numbers jsonb NOT NULL, "
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
    return made + _count_triggers(tables, len(notes.words))


def create_index(tables: Tables, notes: CollectionSchema) -> sql.Composed:
    """Write the statement that creates the HNSW index, unless it exists or means are too wide."""
    if notes.dimension > _HALF_INDEXED:  # every search scans all points
        return sql.SQL("SELECT").format()
    kind = sql.SQL("halfvec_ip_ops" if is_half(notes) else "vector_ip_ops")
    index = sql.SQL("CREATE INDEX ON {} USING hnsw (({}) {})")
    body = sql.SQL(
        "BEGIN IF NOT EXISTS (SELECT FROM pg_index "
        "JOIN pg_class AS class ON class.oid = indexrelid JOIN pg_am AS am ON am.oid = class.relam "
        "WHERE indrelid = {name}::regclass AND amname = 'hnsw') THEN {index}; END IF; END"
    ).format(
        name=sql.Literal(tables.points.as_string(None)),
        index=index.format(tables.points, index_expression(notes), kind),
    )
    return sql.SQL("DO {}").format(sql.Literal(body.as_string(None)))


def is_half(notes: CollectionSchema) -> bool:
    """Return whether the index has half precision."""
    return _INDEXED < notes.dimension <= _HALF_INDEXED


def index_expression(notes: CollectionSchema) -> sql.Composable:
    """Return the expression that the index is over."""
    if is_half(notes):
        return sql.SQL("(mean::halfvec({}))").format(sql.Literal(notes.dimension))
    return sql.SQL("mean")


_COUNTED = """
UPDATE {notes} SET written = gen_random_uuid(), passages = passages
    {sign} (SELECT count(*) FROM {rows});
"""
_WORDS_COUNTED = """
UPDATE {notes} SET lengths[{i} + 1] = lengths[{i} + 1]
    {sign} (SELECT COALESCE(sum(count), 0) FROM {rows}, unnest(counts{i}) AS count);
INSERT INTO {words} AS known SELECT {i}, key, {sign} count(*)
    FROM {rows}, unnest(words{i}) AS key GROUP BY key ORDER BY key
    ON CONFLICT (block, key) DO UPDATE SET held = known.held + EXCLUDED.held;
"""
_WORDS_GONE = """
DELETE FROM {postings} AS held USING gone, unnest(words{i}) AS key
    WHERE held.block = {i} AND held.key = key.key AND held.number = gone.number;
DELETE FROM {words} AS known USING (SELECT DISTINCT key FROM gone, unnest(words{i}) AS key) AS lost
    WHERE known.block = {i} AND known.key = lost.key AND known.held = 0;
"""
_WORDS_COME = """
INSERT INTO {postings} SELECT {i}, held.key, come.number, held.count,
    (SELECT sum(count) FROM unnest(counts{i}) AS count)
    FROM come, unnest(words{i}, counts{i}) AS held (key, count) ORDER BY held.key;
"""


def _count_triggers(tables: Tables, blocks: int) -> sql.Composed:
    """Write the triggers that count passages and terms in the transaction of each write.

    The writer has already locked the points, in order; the row of notes is the first lock that is
    taken here, so that writers do not deadlock.
    """

    def filled(rows: LiteralString, sign: LiteralString, each: LiteralString) -> sql.Composed:
        names = tables._asdict() | {"rows": sql.SQL(rows), "sign": sql.SQL(sign)}
        texts = [(_WORDS_COUNTED + each).replace("{i}", str(i)) for i in range(blocks)]
        return sql.Composed([sql.SQL(text).format(**names) for text in (_COUNTED, *texts)])

    body = sql.SQL(
        "BEGIN IF TG_OP <> 'INSERT' THEN {gone} END IF; IF TG_OP <> 'DELETE' THEN {come} END IF; "
        "RETURN NULL; END"
    ).format(gone=filled("gone", "-", _WORDS_GONE), come=filled("come", "+", _WORDS_COME))
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
    """A condition in SQL, which is never NULL, with its parameters."""

    text: sql.SQL | sql.Composed
    values: list[object]


def clause(condition: filters.Condition | filters.AnyFact | None) -> Clause:
    """Translate a condition to SQL; ValueError if it is a callable."""
    if condition is None:
        return Clause(sql.SQL("TRUE"), [])
    match filters.rewrite_by_facts(condition, "PostgreSQL"):
        case filters.And(conditions):
            return _join(" AND ", "TRUE", conditions)
        case filters.Or(conditions):
            return _join(" OR ", "FALSE", conditions)
        case filters.Not(one):
            inner = clause(one)
            return Clause(sql.SQL("NOT ({})").format(inner.text), inner.values)
        case filters.HasId(ids):
            return Clause(sql.SQL("point = ANY(%s::uuid[])"), [[*map(point_id, ids)]])
        case filters.AnyFact(facts):
            return _facts(*facts)
        case filters.HasPart(item, key, part):
            has = _facts(item)
            text = sql.SQL(
                "({} OR COALESCE(json_typeof(metadata->%s) = 'string' "
                "AND strpos(metadata->>%s, %s) > 0, FALSE))"
            ).format(has.text)
            return Clause(text, [*has.values, key, key, part])
        case filters.Bound(key, operator, limit):
            order = sql.SQL(_ORDERS[operator])
            if isinstance(limit, str):
                text = sql.SQL(  # by code points, as Python does
                    "COALESCE(json_typeof(metadata->%s) = 'string' "
                    'AND (metadata->>%s) COLLATE "C" {} %s, FALSE)'
                ).format(order)
                return Clause(text, [key, key, limit])
            number = sql.SQL("COALESCE((numbers->>%s)::float8 {} %s::float8, FALSE)").format(order)
            return Clause(number, [filters.field(key), limit])


def _join(
    word: LiteralString, nothing: LiteralString, conditions: Sequence[filters.Condition]
) -> Clause:
    if not conditions:
        return Clause(sql.SQL(nothing), [])
    parts = [clause(condition) for condition in conditions]
    whole = sql.SQL(word).join(sql.SQL("({})").format(part.text) for part in parts)
    return Clause(whole, [value for part in parts for value in part.values])


def _facts(*facts: str) -> Clause:
    return Clause(sql.SQL("facts && %s::text[]"), [list(facts)])


TYPES = ["uuid", "text", "text", "text", "text[]", "text[]", "jsonb", "bytea", "bytea"]
"""The column types of a point in PostgreSQL's binary form."""

WORD_TYPES = ["int8[]", "float4[]"]
"""The further column types for each sparse block."""


def row_of(point: Point) -> tuple[object, ...]:
    """Return the row of a point, with the types of `TYPES`."""
    passage = point.passage
    return (
        UUID(point_id(passage.id)),
        passage.id,
        passage.text,
        json.dumps(passage.metadata),
        [*astuple(passage.about)],
        filters.facts_of(passage.metadata),
        filters.numbers_of(passage.metadata),
        _sendable(point.mean),
        _sendable(point.spread),
        *(
            part
            for words in point.words
            # PostgreSQL has no unsigned integers.
            for part in (words.keys.view(np.int64).tolist(), words.counts.tolist())
        ),
    )


def point_of(row: Sequence[Any]) -> Point:
    """Make a point from a row of `PASSAGE` and, if they were read, vectors and terms."""
    passage = stored_passage(*row[:4])
    if len(row) == 4:
        return Point(passage)
    words = (
        Words(np.array(keys, np.int64).view(np.uint64), np.array(counts, np.float32))
        for keys, counts in zip(row[6::2], row[7::2], strict=True)
    )
    return Point(passage, _decode_vector(row[4]), _decode_vector(row[5]), tuple(words))


def _sendable(vector: FloatArray) -> bytes:
    """Encode a vector in pgvector's binary format: length, two zero bytes, numbers."""
    return struct.pack(">HH", len(vector), 0) + vector.astype(">f4").tobytes()


def _decode_vector(vector: bytes) -> FloatArray:
    """Decode a vector from pgvector's binary format."""
    return np.frombuffer(vector, ">f4", offset=4).astype(np.float32)


# BM25 in SQL over a table of postings.
#
# Measured for the best 256 of 10,000 passages: 7 ms from such a table with a recall of 100 %; 4 ms
# and 98.7 % if common words are left to the scoring; 29 ms and 70 % with a GIN index over arrays,
# whose matches have to be unpacked; 4 ms and 81 % (91 % of the best ten) with pgvector's HNSW over
# sparsevec. The table takes four times the space of the arrays.

_MAX_POSTINGS = 200_000  # postings to read per query, those of its rarest words first


def bm25_query(
    tables: Tables, block: int, noted: BlockSchema, wanted: QueryTerms, where: Clause, count: int
) -> Clause:
    """Write the query for the points of the highest BM25 in a sparse block.

    The most common words of a query are skipped if it has more than `_MAX_POSTINGS` postings; they
    count when the candidates are scored.
    """
    used = max(1, int(np.searchsorted(np.cumsum(wanted.counts), _MAX_POSTINGS, "right")))
    k1, b = noted.saturation.k1, noted.saturation.b
    damping = [k1 * (1 - b), k1 * b / max(wanted.mean_length, 1e-30)]
    among = sql.SQL("held.number IN (SELECT number FROM {} WHERE {})")
    text = sql.SQL(
        "SELECT held.number FROM unnest(%s::bigint[], %s::float8[]) AS asked (key, share) "
        "JOIN {postings} AS held USING (key) WHERE held.block = {block} AND {where} "
        "GROUP BY held.number ORDER BY sum(share * "
        "held.count / (held.count + %s::float8 + %s::float8 * held.length)) DESC LIMIT %s"
    ).format(
        postings=tables.postings,
        block=sql.Literal(block),
        where=among.format(tables.points, where.text) if where.values else where.text,
    )
    terms = [wanted.keys[:used].view(np.int64).tolist(), wanted.shares[:used].tolist()]
    return Clause(text, [*terms, *where.values, *damping, count])


PASSAGE = sql.SQL("id, body, metadata, about")


def point(notes: CollectionSchema) -> sql.SQL:
    """Write the columns of a point in the order that `point_of` expects."""
    words = _words(len(notes.words))
    return sql.SQL(f"id, body, metadata, about, vector_send(mean), vector_send(spread){words}")


def _words(blocks: int) -> str:
    return "".join(f", words{i}, counts{i}" for i in range(blocks))


def upsert(table: sql.Identifier, notes: CollectionSchema) -> tuple[sql.Composed, ...]:
    """Write the statements that copy rows to a temporary table and upsert them from there."""
    # In the order of `row_of`.
    names = ["point", "id", "body", "metadata", "about", "facts", "numbers", "mean", "spread"]
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


def scan_page(table: sql.Identifier, what: sql.SQL, where: Clause) -> sql.Composed:
    """Write the query for a page of points.

    Its parameters are the last UUID of the previous page or '', twice, those of `where`, and a
    count.
    """
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
    """Write the query for the nearest `count` points by mu_s, and as many by each block's words.

    Its rows are in the format that `point_of` expects.
    """
    text = sql.SQL("SELECT number FROM {} WHERE {} ORDER BY {} <#> %s::{}({}) LIMIT %s").format(
        tables.points,
        where.text,
        index_expression(notes),
        sql.SQL("halfvec" if is_half(notes) else "vector"),
        sql.Literal(notes.dimension),
    )
    clauses = [Clause(text, [*where.values, json.dumps(mean.tolist()), count])]
    for block, (noted, wanted) in enumerate(zip(notes.words, words, strict=False)):
        if len(wanted.keys):
            clauses.append(bm25_query(tables, block, noted, wanted, where, count))
    numbers = sql.SQL(" UNION ").join(
        sql.SQL("(SELECT number FROM ({}) AS of_one)").format(one.text) for one in clauses
    )
    together = sql.SQL("SELECT {} FROM ({}) AS candidates JOIN {} USING (number)").format(
        point(notes), numbers, tables.points
    )
    return Clause(together, [value for one in clauses for value in one.values])
