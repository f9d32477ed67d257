"""Resumable and verified copying of an index to another store, without encoding texts again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

import numpy as np

from uec_rag.base.gaussian import Gaussian
from uec_rag.encoders.base import TermEncoder
from uec_rag.retrieval.calibrate import corpus_fingerprint
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Passage, Store
from uec_rag.stores.engine import EngineStore
from uec_rag.stores.places import filling


def copy_index(
    source: Retriever, store: Store, *, advance: Callable[[int], None] | None = None
) -> tuple[Retriever, Transfer]:
    """Copy an index to another store, or resume an interrupted copy.

    No model is run, but words are counted again.

    Parameters
    ----------
    source : Retriever
    store : Store
        An empty store, or one with a part of the passages.
    advance : callable, optional
        Called after each part with its number of passages.

    Returns
    -------
    copy : Retriever
        The copy, with the calibration of the source. If the source has changed
        since its calibration, searches in the copy warn as well.
    transfer : Transfer
        The counts and the checksum.

    Raises
    ------
    FingerprintMismatch
        If the store contains passages of another ensemble or fit.
    RuntimeError
        As raised by `uec_rag.retrieval.copying.transfer`.
    """
    uec = source.uec

    def with_words(passages: list[Passage], gaussians: Gaussian) -> Gaussian:
        return gaussians.with_terms(uec.embed_terms([passage.text for passage in passages]))

    has_words = any(isinstance(encoder, TermEncoder) for encoder in uec.encoders)
    convert = with_words if has_words else None  # stores return vectors without their words
    store.bind(uec.fingerprint)
    held = frozen_view(source.store)
    with filling(store):
        done = transfer(held, store, convert=convert, advance=advance)
    copy = Retriever(uec, store, unanswerable=source.unanswerable)
    calibration = source.calibration
    if calibration is not None:
        current = not done.others and calibration.corpus == corpus_fingerprint(held)
        if current:  # of the same passages, in the order of this store
            calibration = replace(calibration, corpus=corpus_fingerprint(store))
        copy.set_calibration(calibration, current=current)
    return copy, done


_AT_ONCE = 512
_MODULUS = 2**128

Convert: TypeAlias = Callable[[list[Passage], Gaussian], Gaussian]
"""Makes the Gaussians to write from passages and the Gaussians read with them."""


@dataclass(frozen=True)
class Transfer:
    """The counts and the checksum of a transfer.

    Attributes
    ----------
    passages : int
        Number in the source, all checked to be in the target.
    written : int
        Number of them that the target did not hold before.
    others : int
        Number of passages in the target that are not from the source.
    checksum : str
        Checksum of the source's passages, vectors and variances, independent of their order.
    """

    passages: int
    written: int
    others: int
    checksum: str


def transfer(
    source: Store,
    target: Store,
    *,
    convert: Convert | None = None,
    advance: Callable[[int], None] | None = None,
) -> Transfer:
    """Copy all passages of a store into another, a few hundred at a time.

    Passages that the target already contains are not written again, so that an interrupted transfer
    can be resumed. Each part is read back and compared with the source.

    Parameters
    ----------
    source, target : Store
        Stores bound to the same ensemble. Passages that are written to a source in memory during
        the transfer are not copied; writing to a source in an engine meanwhile is an error.
    convert : callable, optional
        Makes the Gaussians to write from passages and their Gaussians in the source.
    advance : callable, optional
        Called after each part with its number of passages.

    Raises
    ------
    RuntimeError
        If the source has changed, or the target does not contain what was written.
    ValueError, ConnectionError
        As raised by the stores.
    """
    began = source.stamp() if isinstance(source, EngineStore) else None
    source = frozen_view(source)
    count = written = total = 0
    for passages in _parts(source.passages()):
        try:
            gaussians = source.vectors([passage.id for passage in passages])
        except KeyError as error:
            raise RuntimeError(
                f"source: it changed while it was copied ({error.args[0]}); copy again when "
                "nothing writes to it: what was copied stays."
            ) from error
        if convert is not None:
            gaussians = convert(passages, gaussians)
        wanted = digests(passages, gaussians)
        there = _held(target, passages)
        lacking = [row for row, digest in enumerate(wanted) if there.get(digest) is None]
        if lacking:
            some = [passages[row] for row in lacking]
            target.add(some, gaussians[lacking])
            there_now = _held(target, some)
            for row in lacking:
                if wanted[row] not in there_now:
                    raise RuntimeError(
                        f"target: passage {passages[row].id!r} differs from what was written; "
                        "does another process write to it? Copy again: what was copied stays."
                    )
        count, written = count + len(passages), written + len(lacking)
        total = (total + sum(wanted)) % _MODULUS
        if advance is not None:
            advance(len(passages))
    ended = source.stamp() if isinstance(source, EngineStore) else None
    if count != len(source) or began != ended:
        raise RuntimeError(
            f"source: it holds {len(source):,} passages, but {count:,} were read; it changed "
            "while it was copied. Copy again when nothing writes to it: what was copied stays."
        )
    return Transfer(count, written, len(target) - count, f"{total:032x}")


def frozen_view(store: Store) -> Store:
    """Return a snapshot of the store, or the store itself if it is in an engine."""
    return store if store.remote else store.snapshot()


def checksum(store: Store) -> str:
    """Compute the checksum of a store's content as `transfer` does."""
    total = 0
    for passages in _parts(store.passages()):
        total += sum(digests(passages, store.vectors([passage.id for passage in passages])))
    return f"{total % _MODULUS:032x}"


def digests(passages: Sequence[Passage], gaussians: Gaussian) -> list[int]:
    """Hash each passage with its Gaussian, except for sparse blocks, to an integer."""
    shared = b"" if gaussians.profile is None else _bits(gaussians.profile)
    numbers = []
    for passage, mean, scales in zip(passages, gaussians.mean, gaussians.scales, strict=True):
        content = json.dumps([passage.id, passage.text, passage.metadata], sort_keys=True)
        digest = hashlib.blake2b(content.encode(errors="surrogatepass"), digest_size=16)
        for bits in (_bits(mean), _bits(scales), shared):
            digest.update(bits)
        numbers.append(int.from_bytes(digest.digest(), "little"))
    return numbers


def _bits(numbers: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> bytes:
    # Adding 0 turns -0 into 0, as engines may do.
    return np.ascontiguousarray(numbers + np.float32(0), dtype="<f4").tobytes()


def _held(store: Store, passages: Sequence[Passage]) -> dict[int, str]:
    """Return the ids of stored passages, by their current digests in the store."""
    there = store.get([passage.id for passage in passages])
    if not there:
        return {}
    ids = [passage.id for passage in there]
    return dict(zip(digests(there, store.vectors(ids)), ids, strict=True))


def _parts(passages: Iterator[Passage]) -> Iterator[list[Passage]]:
    while some := list(islice(passages, _AT_ONCE)):
        yield some
