"""An index in another store, or of a newer fit, without encoding a text again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from uec_rag.base.errors import FingerprintMismatch
from uec_rag.base.gaussian import Gaussian
from uec_rag.encoders.base import Encoded, WithoutVectors
from uec_rag.ensemble.convolution import blocks
from uec_rag.ensemble.faults import missing_members
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.calibrate import corpus_fingerprint, publish, written
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Passage, Store
from uec_rag.stores.places import filling
from uec_rag.stores.transfer import Convert, Transfer, moment, transfer

_EARLIER = ""  # state of a store that a calibration is of, where it is none that this one was in


def copy_index(
    source: Retriever,
    store: Store,
    *,
    refitted: UEC | None = None,
    advance: Callable[[int], None] | None = None,
) -> tuple[Retriever, Transfer]:
    """Copy an index into another store; a copy that ended half-way goes on where it was.

    With `refitted` the copy is of another fit: where the last layers are the identity, as under
    the projection head of most models, each encoder's vector survives a fit, and the passages'
    Gaussians follow from those that are stored. No model runs, but for one text that shows it;
    words are counted anew.

    Parameters
    ----------
    store : Store
        Empty, or with a part of what is copied.
    refitted : UEC, optional
        The ensemble of the same encoders, fitted anew; by default, and with the fit that the
        source has, Gaussians are copied as they are.
    advance : callable, optional
        Told after each part how many passages it had.

    Returns
    -------
    copy : Retriever
        Calibrated as the source is, where the fit is the same: for all who search that store. Where
        the source has changed since, a search in the copy warns of it as well.
    transfer : Transfer
        What was done, and checked.

    Raises
    ------
    FingerprintMismatch
        If the store holds passages of another ensemble or fit, or `refitted` has other encoders.
    ValueError
        If vectors do not survive another fit: an encoder has a last layer of its own, the space
        is shared, or a passage is stored without one of them.
    RuntimeError
        As `uec_rag.stores.transfer.transfer`.
    """
    uec = source.uec if refitted is None else refitted
    convert = _sparse(uec)
    if uec.fingerprint != source.uec.fingerprint:
        convert = _converting(source, uec)
    store.bind(uec.fingerprint)
    held = moment(source.store)
    with filling(store):
        done = transfer(held, store, convert=convert, advance=advance)
    copy = Retriever(uec, store, unanswerable=source.unanswerable)
    calibration = source.calibration
    if calibration is not None and uec.fingerprint == source.uec.fingerprint:
        current = not done.others and calibration.corpus == corpus_fingerprint(held)
        if current:  # of the same passages, in the order of this store
            calibration = replace(calibration, corpus=corpus_fingerprint(store))
        copy.set_calibration(calibration, current=current)
        if not done.others:
            publish(store, calibration, written(store) if current else _EARLIER)
    return copy, done


def _sparse(uec: UEC) -> Convert | None:
    """Words beside the vectors, which stores give without them."""
    if not any(isinstance(encoder, WithoutVectors) for encoder in uec.encoders):
        return None
    return lambda passages, gaussians: gaussians.with_terms(
        uec.embed_terms([passage.text for passage in passages])
    )


def _converting(source: Retriever, uec: UEC) -> Convert:
    """Gaussians of one fit out of those of another."""
    before = source.uec
    if [e.revision or e.name for e in before.encoders] != [
        e.revision or e.name for e in uec.encoders
    ]:
        raise FingerprintMismatch(
            f"refitted: expected the encoders of the index, {before.names}, with the same "
            f"weights and in the same order, got {uec.names}; index the texts again."
        )
    if before.space != "direct" or uec.space != "direct":
        raise ValueError(
            "refitted: a shared space keeps no encoder's own vectors; index the texts again."
        )
    _check_identity(source)
    words, fitted = _sparse(uec), uec.fitted
    widths = [encoder.dimension for encoder in uec.encoders]
    vectors = {name for name, width in zip(before.names, widths, strict=True) if width}

    def convert(passages: list[Passage], gaussians: Gaussian) -> Gaussian:
        own = blocks(gaussians.mean, widths, before.fitted.weights)
        for passage in passages:
            # Whom words could not find they cannot find now; a vector that is missing could be.
            gone = vectors & missing_members(passage.metadata)
            if gone:
                raise ValueError(
                    f"passage {passage.id!r}: it is stored without {sorted(gone)}; add it again "
                    "first."
                )
        lengths = [np.linalg.norm(block, axis=1, keepdims=True) for block in own]
        unit = [
            block / np.maximum(length, np.float32(1e-12))
            for block, length in zip(own, lengths, strict=True)
        ]
        parts = fitted.gaussians([Encoded(block, block) for block in unit])
        dense = fitted.combine(parts, fitted.coefficients(parts, "passage"))
        return dense if words is None else words(passages, dense)

    return convert


def _check_identity(source: Retriever) -> None:
    """Raise ValueError unless encoders' last layers take in what they give out."""
    first = next(source.passages(), None)
    for encoder in source.uec.encoders if first is not None else ():
        assert first is not None
        encoded = encoder.encode([first.text], "passage")
        if not np.array_equal(encoded.embedding, encoded.features):
            raise ValueError(
                f"refitted: {encoder.name!r} has a last layer of its own, whose input is not "
                "stored; index the texts again."
            )
