"""Passages encoded on a cluster and written into a store."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import ray

from uec_rag.distributed.members import Pool, Resources
from uec_rag.encoders.base import WithoutVectors
from uec_rag.ensemble.faults import MISSING
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Passage
from uec_rag.stores.filling import filling

if TYPE_CHECKING:
    from ray import ObjectRef

    from uec_rag.encoders import Encoded

_AT_ONCE = 256  # passages encoded and written together
_AHEAD = 3  # such parts on their way for each actor: one encoded, one waiting, one being written


@dataclass(frozen=True)
class Indexed:
    """What `index` did.

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
    """Whether a stored passage is the one that is given, and is not to be encoded again.

    Parameters
    ----------
    held, given : Passage
    words : set of str
        Members that a passage may lack for good: it has no word for them.
    """
    missing = held.metadata.get(MISSING, ())
    metadata = {key: value for key, value in held.metadata.items() if key != MISSING}
    return replace(held, metadata=metadata) == given and words >= {*missing}


def _parts(passages: Iterable[Passage]) -> Iterator[list[Passage]]:
    """Some at a time, each id once."""
    coming = iter(passages)
    while some := list(islice(coming, _AT_ONCE)):
        yield [*{passage.id: passage for passage in some}.values()]
