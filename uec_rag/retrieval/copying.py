"""Copying of an index to another store, without encoding texts again."""

from __future__ import annotations

from itertools import islice

from uec_rag.base.progress import progress_bar
from uec_rag.retrieval.calibrate import corpus_fingerprint
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Store
from uec_rag.stores.urls import filling

_AT_ONCE = 512


def copy_index(source: Retriever, store: Store) -> Retriever:
    """Copy an index to an empty store, a few hundred passages at a time.

    No model is run, but words are counted again.

    Parameters
    ----------
    source : Retriever
    store : Store

    Returns
    -------
    Retriever
        The copy, with the calibration of the source. If the source has changed since its
        calibration, searches in the copy warn as well.

    Raises
    ------
    FingerprintMismatch
        If the store contains passages of another ensemble or fit.
    ValueError
        If the store is not empty.
    RuntimeError
        If the source, in an engine, has lost or gained passages meanwhile.
    """
    uec, calibration = source.uec, source.calibration
    store.bind(uec.fingerprint)
    if len(store):
        raise ValueError(
            f"store: expected an empty store, got one with {len(store):,} passages; name another "
            "collection, or delete this one."
        )
    held = source.store if source.store.remote else source.store.snapshot()
    passages = held.passages()
    copy = Retriever(uec, store, unanswerable_rate=source.unanswerable_rate)
    with filling(store), progress_bar("Copying passages", len(held)) as bar:
        while some := list(islice(passages, _AT_ONCE)):
            copy._add_vectors(some, held.vectors([passage.id for passage in some]))
            bar.update(len(some))
    if len(store) != len(held):
        raise RuntimeError(
            f"source: it holds {len(held):,} passages, but {len(store):,} were copied; it changed "
            "meanwhile. Copy again, to another store, when nothing writes to it."
        )
    if calibration is not None:
        current = calibration.corpus == corpus_fingerprint(held)
        copy._set_calibration(calibration, current=current)
    return copy
