"""Copies of an index in another store, without encoding a text again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from uec_rag.base.gaussian import Gaussian
from uec_rag.encoders.base import WithoutVectors
from uec_rag.retrieval.calibrate import corpus_fingerprint, publish, written
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Passage, Store
from uec_rag.stores.places import filling
from uec_rag.stores.transfer import Transfer, moment, transfer

_EARLIER = ""  # the state that a calibration of an earlier corpus is published under


def copy_index(
    source: Retriever, store: Store, *, advance: Callable[[int], None] | None = None
) -> tuple[Retriever, Transfer]:
    """Copy an index into another store; an interrupted copy is resumed.

    No model runs; words are counted anew.

    Parameters
    ----------
    store : Store
        Empty, or with a part of what is copied.
    advance : callable, optional
        Called after each part with its number of passages.

    Returns
    -------
    copy : Retriever
        With the calibration of the source, which is published in the store. If the source has
        changed since it was calibrated, a search in the copy warns of it as well.
    transfer : Transfer
        The counts and the checksum.

    Raises
    ------
    FingerprintMismatch
        If the store holds passages of another ensemble or fit.
    RuntimeError
        As `uec_rag.stores.transfer.transfer`.
    """
    uec = source.uec

    def with_words(passages: list[Passage], gaussians: Gaussian) -> Gaussian:
        return gaussians.with_terms(uec.embed_terms([passage.text for passage in passages]))

    has_words = any(isinstance(encoder, WithoutVectors) for encoder in uec.encoders)
    convert = with_words if has_words else None  # stores return vectors without their words
    store.bind(uec.fingerprint)
    held = moment(source.store)
    with filling(store):
        done = transfer(held, store, convert=convert, advance=advance)
    copy = Retriever(uec, store, unanswerable=source.unanswerable)
    calibration = source.calibration
    if calibration is not None:
        current = not done.others and calibration.corpus == corpus_fingerprint(held)
        if current:  # of the same passages, in the order of this store
            calibration = replace(calibration, corpus=corpus_fingerprint(store))
        copy.set_calibration(calibration, current=current)
        if not done.others:
            publish(store, calibration, written(store) if current else _EARLIER)
    return copy, done
