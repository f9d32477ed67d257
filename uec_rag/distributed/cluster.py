"""Index passages on a cluster: texts are encoded by `map_batches` of Ray Data."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import ray
import ray.data

from uec_rag.base.environment import missing_extra
from uec_rag.encoders import Encoder
from uec_rag.retrieval.result import without_findings
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Passage, check_passage, content_id

_BATCH = 256  # passages that are looked up, encoded and written together
_AT_A_TIME = 2**16  # passages that Ray is given at a time, and then loads the encoders for


@dataclass(frozen=True)
class Resources:
    """The resources that Ray reserves.

    Attributes
    ----------
    workers : int
        Number of processes, each of which has all encoders.
    num_cpus, num_gpus : float
        CPUs and GPUs of each; fractions of a GPU are shared by several.
    """

    workers: int = 1
    num_cpus: float = 1.0
    num_gpus: float = 0.0

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"workers: expected an integer >= 1, got {self.workers}.")


class _Encoders:
    """Encodes batches of texts in a process of the cluster."""

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        self._encoders = encoders

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        texts = batch["text"].tolist()
        encoded = [encoder.encode(texts, "passage") for encoder in self._encoders]
        return {"rows": [batch["row"].tolist()], "encoded": [pickle.dumps(encoded)]}


@dataclass(frozen=True)
class Indexed:
    """The counts of an `index` run.

    Attributes
    ----------
    read : int
        Number of passages read.
    written : int
        Number of passages that were new or changed.
    """

    read: int
    written: int


def index(
    retriever: Retriever,
    passages: Iterable[Passage],
    resources: Resources = Resources(),
    *,
    advance: Callable[[int], None] | None = None,
) -> Indexed:
    """Encode passages on Ray, and write them into a store.

    The calling process reads and writes. Unchanged passages that are already in the store are not
    encoded again, so an interrupted run can be continued.
    Existing passages are replaced, never duplicated.

    Parameters
    ----------
    retriever : Retriever
        The retriever with the ensemble and the store.
    passages : iterable of Passage
        Any number of passages, see `read_passages`.
    resources : Resources
    advance : callable, optional
        Called after each batch with the number of its passages.

    Raises
    ------
    ray.exceptions.RayError
        If an encoder fails. Processes that die are restarted.
    """
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False)
    uec = retriever.uec
    read = written = 0
    remaining = iter(passages)
    while some := list(islice(remaining, _AT_A_TIME)):
        new: dict[str, Passage] = {}
        for start in range(0, len(some), _BATCH):
            batch = some[start : start + _BATCH]
            stored = {passage.id: passage for passage in retriever.get([p.id for p in batch])}
            new |= {p.id: p for p in batch if not is_as(stored.get(p.id), p)}
        read, unchanged = read + len(some), len(some) - len(new)
        if advance is not None and unchanged:
            advance(unchanged)
        for done in _encode(uec.encoders, [*new.values()], resources):
            written += len(retriever.add_encoded(done[0], uec.fitted.gaussians(done[1])))
            if advance is not None:
                advance(len(done[0]))
    return Indexed(read, written)


def _encode(
    encoders: Sequence[Encoder], passages: Sequence[Passage], resources: Resources
) -> Iterator[tuple[list[Passage], list[Any]]]:
    """Yield batches of passages with what each encoder made of them, in their order."""
    if not passages:
        return
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars, context.execution_options.preserve_order = False, True
    rows = [{"row": row, "text": passage.text} for row, passage in enumerate(passages)]
    dataset = ray.data.from_items(rows).map_batches(
        _Encoders,
        fn_constructor_args=(encoders,),
        batch_size=_BATCH,
        concurrency=resources.workers,
        num_cpus=resources.num_cpus,
        num_gpus=resources.num_gpus,
    )
    for batch in dataset.iter_rows():
        yield [passages[row] for row in batch["rows"]], pickle.loads(batch["encoded"])


def is_as(stored: Passage | None, passage: Passage) -> bool:
    """Return whether a stored passage equals a given one, and need not be encoded again."""
    return stored is not None and without_findings(stored) == without_findings(passage)


_PARQUET_ROWS = 1024  # rows of a Parquet file that are read at a time
KINDS = (".jsonl", ".parquet", ".txt")
"""The suffixes of the files that are read."""


def read_passages(path: str | os.PathLike[str], *, text: str = "text") -> Iterator[Passage]:
    """Read passages from a file, or from all files of these kinds in a folder and its subfolders.

    A row of Parquet or a JSON line is a passage with its other fields as metadata; a line of a
    ".txt" file is a passage without metadata. The id of a passage is the field "id", or else a hash
    of its contents, so that equal passages have equal ids. Blank texts are skipped.

    Parameters
    ----------
    path : path
    text : str
        Name of the field with the text.

    Yields
    ------
    Passage

    Raises
    ------
    FileNotFoundError
        If there is no such file, or none of these kinds in the folder.
    ValueError, TypeError
        If a row has no text, or values that cannot be stored; the message names file and row.
    ImportError
        If pyarrow, which Parquet needs, is not installed.
    """
    root = Path(path)
    files = [root]
    if root.is_dir():  # Spark writes folders named "*.parquet"
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
            for batch in table.iter_batches(batch_size=_PARQUET_ROWS):
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
    id_ = content_id(row[text], metadata) if named is None else str(named)
    return check_passage(Passage(id_, row[text], metadata))
