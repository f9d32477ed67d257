"""Tables of a store in PostgreSQL, and what keeps them in step with each other."""

from __future__ import annotations

from typing import LiteralString, NamedTuple, Self

from psycopg import sql

from uec_rag.stores.engine_notes import Notes

WIDEST = 16_000
"""Numbers that pgvector takes in a vector."""

# Of a row that may stand in a page of 8 KB: there 3,000 means of 768 numbers are multiplied in
# 2 ms, in 24 where they are cut in pieces of 2 KB, as PostgreSQL does.
_IN_PAGE = 8160
_PLAIN = 1750  # numbers of a mean that leave room in a page for what cannot be put elsewhere

_INDEXED, _HALF_INDEXED = 2000, 4000  # that its HNSW takes, in single and in half precision


class Tables(NamedTuple):
    """What belongs to a collection.

    Attributes
    ----------
    points : Identifier
    notes : Identifier
        One row: what holds for all of them, how many they are and how long.
    words : Identifier
        How many passages hold a term.
    postings : Identifier
        Which do.
    counting : Identifier
        The function that keeps those three right, whoever writes.
    kept : Identifier
        What processes have in common.
    """

    points: sql.Identifier
    notes: sql.Identifier
    words: sql.Identifier
    postings: sql.Identifier
    counting: sql.Identifier
    kept: sql.Identifier

    @classmethod
    def of(cls, collection: str) -> Self:
        """The names they have."""
        ends = ["", "_notes", "_words", "_postings", "_counting", "_kept"]
        return cls(*(sql.Identifier(f"{collection}{end}") for end in ends))


def create(tables: Tables, notes: Notes) -> sql.Composed:
    """Make the tables instead of those that are there, and their indexes but for `indexed`."""
    blocks = range(len(notes.words))
    columns = "".join(f", words{i} bigint[] NOT NULL, counts{i} real[] NOT NULL" for i in blocks)
    made = sql.SQL(
        "DROP TABLE IF EXISTS {points}, {notes}, {words}, {postings}, {kept};"
        "DROP FUNCTION IF EXISTS {counting};"
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


def indexed(tables: Tables, notes: Notes) -> sql.Composed:
    """Make the HNSW that finds the nearest, unless there is one or means are too wide for it."""
    if notes.dimension > _HALF_INDEXED:  # every search looks at all
        return sql.SQL("SELECT").format()
    kind = sql.SQL("halfvec_ip_ops" if is_half(notes) else "vector_ip_ops")
    index = sql.SQL("CREATE INDEX ON {} USING hnsw (({}) {})")
    return sql.SQL(
        "DO $make$ BEGIN IF NOT EXISTS (SELECT FROM pg_index "
        "JOIN pg_class AS class ON class.oid = indexrelid JOIN pg_am AS am ON am.oid = class.relam "
        "WHERE indrelid = {name}::regclass AND amname = 'hnsw') THEN {index}; END IF; END $make$"
    ).format(
        name=sql.Literal(tables.points.as_string(None)),
        index=index.format(tables.points, searched(notes), kind),
    )


def is_half(notes: Notes) -> bool:
    """Whether the index is of half precision."""
    return _INDEXED < notes.dimension <= _HALF_INDEXED


def searched(notes: Notes) -> sql.Composable:
    """What the index is of."""
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
    """Triggers by which passages are counted, and their terms, in the transaction that writes.

    The row of notes is the first that any writer takes, so that no two wait for each other.
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
