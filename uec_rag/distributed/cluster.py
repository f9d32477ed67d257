"""Index passages and fit ensembles on a cluster.

Encoders run on pools of actors. The curvature of each part of the pairs is a task, and the results
are added up. Slopes are fitted in the calling process, since they only need one similarity per
pair.
"""

from __future__ import annotations

import itertools
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import ray

from uec_rag.base.environment import missing_extra
from uec_rag.encoders import Encoded, Encoder, Role
from uec_rag.encoders.base import EncoderInside, InThread, TermEncoder
from uec_rag.ensemble.fit import fit as fit_here
from uec_rag.ensemble.uec import UEC
from uec_rag.laplace.curvature import Curvature, Layer, accumulate
from uec_rag.retrieval.result import without_findings
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Passage, checked_passage, content_id
from uec_rag.stores.places import filling

if TYPE_CHECKING:
    from ray import ObjectRef

    from uec_rag.ensemble.fit import PairsLike

_BATCH = 256  # texts per task, and passages that are encoded and written together


@dataclass(frozen=True)
class Resources:
    """The resources that Ray reserves.

    Attributes
    ----------
    workers : int
        Number of actors for each member.
    num_cpus, num_gpus : float
        CPUs and GPUs of each actor; fractions of a GPU are shared by several.
    """

    workers: int = 1
    num_cpus: float = 1.0
    num_gpus: float = 0.0

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"workers: expected an integer >= 1, got {self.workers}.")


class _Member:
    """An encoder in its own process."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def encode(self, texts: list[str], role: Role) -> Encoded:
        return self._encoder.encode(texts, role)


class Pool:
    """A pool of actors with the same encoder, which start with the first text.

    Ray restarts a dead actor and repeats its tasks.

    Parameters
    ----------
    encoder : Encoder
    resources : Resources
    """

    def __init__(self, encoder: Encoder, resources: Resources) -> None:
        self._encoder, self._resources = encoder, resources
        self._actors: list[Any] = []
        self._turn = itertools.count()

    def submit(self, texts: Sequence[str], role: Role) -> ObjectRef[Encoded]:
        """Encode texts on the next of the actors, in turn."""
        if not self._actors:
            kind: Any = ray.remote(
                num_cpus=self._resources.num_cpus,
                num_gpus=self._resources.num_gpus,
                max_restarts=-1,
                max_task_retries=-1,
            )(_Member)
            self._actors = [kind.remote(self._encoder) for _ in range(self._resources.workers)]
        actor = self._actors[next(self._turn) % len(self._actors)]
        reference: ObjectRef[Encoded] = actor.encode.remote(list(texts), role)
        return reference

    def close(self) -> None:
        """End the actors."""
        for actor in self._actors:
            ray.kill(actor)


@contextmanager
def _pools(encoders: Sequence[Encoder], resources: Resources) -> Iterator[list[Pool]]:
    """Yield a pool for each encoder, on the connected cluster or else on this machine."""
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False)
    pools = [Pool(encoder, resources) for encoder in encoders]
    try:
        yield pools
    finally:
        for pool in pools:
            pool.close()


class ClusterEncoder(InThread, EncoderInside):
    """A dense encoder that runs on a pool.

    Parameters
    ----------
    encoder : Encoder
    pool : Pool
    """

    def __init__(self, encoder: Encoder, pool: Pool) -> None:
        super().__init__(encoder)
        self._pool = pool

    @property
    def revision(self) -> str:
        """The revision of the wrapped encoder."""
        return self._encoder.revision

    def encode(self, texts: Sequence[str], role: Role, *, show_progress: bool = False) -> Encoded:
        """Embed texts in batches on the actors."""
        parts = [texts[i : i + _BATCH] for i in range(0, len(texts), _BATCH)]
        if not parts:
            return self._encoder.encode(texts, role)
        encoded = ray.get([self._pool.submit(part, role) for part in parts])
        embedding = np.concatenate([part.embedding for part in encoded])
        if all(part.features is part.embedding for part in encoded):
            return Encoded(embedding, embedding)
        return Encoded(embedding, np.concatenate([part.features for part in encoded]))


_PARTS = 4  # parts of the pairs per worker


def fit(uec: UEC, pairs: PairsLike, resources: Resources = Resources()) -> UEC:
    """Fit an ensemble on Ray, with the same result as `UEC.fit` up to rounding.

    Parameters
    ----------
    uec : UEC
    pairs : iterable or mapping
        As in `UEC.fit`, with the same errors.
    resources : Resources
        Resources for each member.

    Returns
    -------
    UEC
        The same object, fitted.
    """

    def mapped(layer: Layer) -> Curvature:
        task = ray.remote(num_cpus=resources.num_cpus, max_retries=-1)(accumulate)
        parts = [task.remote(part) for part in layer.parts(_PARTS * resources.workers)]
        return reduce(add, ray.get(parts))

    with _pools(uec.encoders, resources) as pools:
        encoders = [
            encoder if isinstance(encoder, TermEncoder) else ClusterEncoder(encoder, pool)
            for encoder, pool in zip(uec.encoders, pools, strict=True)
        ]
        uec.fitted = fit_here(
            encoders,
            uec.fitted,
            pairs,
            uec.options,
            curvature=mapped,
        )
    return uec


_AHEAD = 3  # batches in flight per actor: one being encoded, one waiting, one being written


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
    """Encode passages on Ray, each member on its own actors, and write them into a store.

    The calling process reads and writes, with a few batches per actor in flight. Unchanged passages
    that are already in the store are not encoded again, so an interrupted run can be continued.
    Existing passages are replaced, never duplicated.

    Parameters
    ----------
    retriever : Retriever
        The retriever with the ensemble and the store.
    passages : iterable of Passage
        Any number of passages, see `read_passages`.
    resources : Resources
        Resources for each member.
    advance : callable, optional
        Called after each batch with the number of its passages.

    Raises
    ------
    ray.exceptions.RayError
        If an encoder fails. Actors that die are restarted.
    """
    uec = retriever.uec
    window = _AHEAD * resources.workers
    in_flight: deque[tuple[list[Passage], list[ObjectRef[Encoded]]]] = deque()
    read = written = 0

    def write() -> int:
        encoded, references = in_flight.popleft()
        parts = uec.fitted.gaussians(ray.get(references))
        return len(retriever.add_encoded(encoded, parts))

    with _pools(uec.encoders, resources) as pools, filling(retriever.store):
        for batch in _batches(passages):
            stored = {held.id: held for held in retriever.get([passage.id for passage in batch])}
            new = [p for p in batch if p.id not in stored or not is_as(stored[p.id], p)]
            read += len(batch)
            if new:
                texts = [passage.text for passage in new]
                in_flight.append((new, [pool.submit(texts, "passage") for pool in pools]))
            if len(in_flight) >= window:
                written += write()
            if advance is not None:
                advance(len(batch))
        while in_flight:
            written += write()
    return Indexed(read, written)


def is_as(held: Passage, given: Passage) -> bool:
    """Return whether a stored passage equals a given one, and need not be encoded again."""
    return without_findings(held) == without_findings(given)


def _batches(passages: Iterable[Passage]) -> Iterator[list[Passage]]:
    """Yield batches of passages, in which each id is unique."""
    remaining = iter(passages)
    while batch := list(islice(remaining, _BATCH)):
        yield [*{passage.id: passage for passage in batch}.values()]


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
    return checked_passage(Passage(id_, row[text], metadata))
