"""Encoding of passages on a cluster, into a store."""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray

from uec_rag.base.environment import missing_extra
from uec_rag.distributed.fit import Pool, Resources
from uec_rag.encoders.base import WithoutVectors
from uec_rag.ensemble.faults import missing_members
from uec_rag.retrieval.result import without_findings
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Passage, keepable
from uec_rag.stores.places import filling

if TYPE_CHECKING:
    from ray import ObjectRef

    from uec_rag.encoders import Encoded


_AT_ONCE = 256  # passages encoded and written together
_AHEAD = 3  # such parts on their way for each actor: one encoded, one waiting, one being written


@dataclass(frozen=True)
class Indexed:
    """The counts of an `index` run.

    Attributes
    ----------
    read : int
        Passages that came.
    written : int
        Those that were not there already as they are.
    """

    read: int
    written: int


def index(
    retriever: Retriever,
    passages: Iterable[Passage],
    resources: Resources = Resources(),  # noqa: B008  (frozen)
    *,
    advance: Callable[[int], None] | None = None,
) -> Indexed:
    """Encode passages on Ray, every member on actors of its own, and write them into a store.

    The process that calls reads and writes; a few parts for each actor are on their way at a time.
    Passages that the store holds already are not encoded, so that a run that ended half-way goes
    on where it was; those that an encoder had failed on are. Writing replaces, so that nothing is
    there twice, whatever dies meanwhile.

    Parameters
    ----------
    retriever : Retriever
        Whose ensemble encodes and whose store is written to.
    passages : iterable of Passage
        Of any length, see `read_passages`.
    resources : Resources
        For each member.
    advance : callable, optional
        Told after each part how many passages it had.

    Raises
    ------
    ray.exceptions.RayError
        If an encoder fails; actors that die are started again.
    """
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False)
    uec = retriever.uec
    pools = [Pool(encoder, resources) for encoder in uec.encoders]
    members = zip(uec.names, uec.encoders, strict=True)
    words = {name for name, encoder in members if isinstance(encoder, WithoutVectors)}
    window = _AHEAD * resources.workers
    on_their_way: deque[tuple[list[Passage], list[ObjectRef[Encoded]]]] = deque()
    read = written = 0

    def write() -> int:
        some, references = on_their_way.popleft()
        parts = uec.fitted.gaussians(ray.get(references))
        return len(retriever.add_encoded(some, parts))

    try:
        with filling(retriever.store):
            for part in _parts(passages):
                there = {held.id: held for held in retriever.get([passage.id for passage in part])}
                lacking = [p for p in part if p.id not in there or not is_as(there[p.id], p, words)]
                read += len(part)
                if lacking:
                    texts = [passage.text for passage in lacking]
                    on_their_way.append(
                        (lacking, [pool.submit(texts, "passage") for pool in pools])
                    )
                if len(on_their_way) >= window:
                    written += write()
                if advance is not None:
                    advance(len(part))
            while on_their_way:
                written += write()
    finally:
        for pool in pools:
            pool.close()
    return Indexed(read, written)


def is_as(held: Passage, given: Passage, words: AbstractSet[str]) -> bool:
    """Tell if a stored passage equals the one given, and need not be encoded again.

    `words`: members that a passage may lack for good: it has no word for them.
    """
    same = without_findings(held) == without_findings(given)
    return same and words >= missing_members(held.metadata)


def _parts(passages: Iterable[Passage]) -> Iterator[list[Passage]]:
    """Yield some passages at a time, each id once."""
    coming = iter(passages)
    while some := list(islice(coming, _AT_ONCE)):
        yield [*{passage.id: passage for passage in some}.values()]


_ROWS_AT_ONCE = 1024  # rows of a Parquet file
KINDS = (".jsonl", ".parquet", ".txt")
"""Endings of the files that are read."""


def read_passages(path: str | os.PathLike[str], *, text: str = "text") -> Iterator[Passage]:
    """Read passages from a file, or from all such files in a folder and the folders inside it.

    A row of Parquet or a JSON line is a passage with its other fields as metadata, a line of a
    ".txt" one without. The field "id" names a passage; without it its name is a hash of all it
    holds, so that the same passage is the same again. Blank texts are left out.

    Parameters
    ----------
    path : path
    text : str
        The field that holds the text.

    Yields
    ------
    Passage

    Raises
    ------
    FileNotFoundError
        If there is no such file, or none of these kinds in the folder.
    ValueError, TypeError
        If a row has no text, or what an index could not keep; file and row are named.
    ImportError
        Without pyarrow, for Parquet.
    """
    root = Path(path)
    files = [root]
    if root.is_dir():  # Spark writes folders whose names end as files do
        files = sorted(f for f in root.rglob("*") if f.suffix in KINDS and f.is_file())
    if not files or not root.exists():
        raise FileNotFoundError(f"path: expected files that end in {KINDS}, found none in {path}")
    if files[0].suffix not in KINDS:
        raise ValueError(f"path: expected a file that ends in {KINDS}, got {str(path)!r}.")
    for file in files:
        number = 0
        try:
            for row in _rows(file, text):
                number += 1
                passage = _passage(row, text)
                if passage is not None:
                    yield passage
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{file}, about row {number}: {error}") from error


def _rows(file: Path, text: str) -> Iterator[object]:
    if file.suffix == ".parquet":
        try:
            from pyarrow.parquet import ParquetFile
        except ModuleNotFoundError as error:
            raise ImportError(missing_extra("pyarrow", "ray")) from error
        with ParquetFile(file) as table:
            for batch in table.iter_batches(batch_size=_ROWS_AT_ONCE):
                yield from batch.to_pylist()
        return
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield {text: line.strip()} if file.suffix == ".txt" else json.loads(line)


def _passage(row: object, text: str) -> Passage | None:
    if not isinstance(row, Mapping) or not isinstance(row.get(text), str):
        raise ValueError(f"expected a row with a string {text!r}, got {row!r:.80}")
    if not row[text].strip():
        return None
    metadata: dict[str, Any] = {key: row[key] for key in row if key not in (text, "id")}
    named = row.get("id")
    id_ = _content_hash(row[text], metadata) if named is None else str(named)
    return keepable(Passage(id_, row[text], metadata))


def _content_hash(text: str, metadata: Mapping[str, Any]) -> str:
    content = json.dumps([text, metadata], sort_keys=True, default=str)
    return hashlib.blake2b(content.encode(errors="surrogatepass"), digest_size=16).hexdigest()
