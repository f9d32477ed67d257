"""Encoding passages that are added: what models made of a text before is taken from the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

import numpy as np

from uec_rag.base.gaussian import Gaussian, Terms
from uec_rag.encoders.base import TermEncoder
from uec_rag.encoders.calls import patiently
from uec_rag.ensemble.convolution import block_scales
from uec_rag.ensemble.uec import UEC
from uec_rag.stores.base import Searched
from uec_rag.stores.passage import Passage


def encode_additions(
    uec: UEC,
    store: Searched,
    passages: Sequence[Passage],
    *,
    text_of: Callable[[Passage], str] | None = None,
    show_progress: bool | None = None,
) -> Gaussian:
    """Encode passages for a store, where models see each different text that is not there once.

    Words are counted again, since they are also those of titles and sources in the metadata.

    Parameters
    ----------
    uec : UEC
        The ensemble of the store.
    store : Searched
    passages : sequence of n Passage
    text_of : callable(passage) -> str, optional
        Returns what models and words see of a passage, if it is not `searched` and `counted`.
    show_progress : bool, optional
        As in `UEC.encode`, as are the errors.

    Returns
    -------
    Gaussian
        n Gaussians, as `Store.add` takes them.
    """
    see = text_of or attrgetter("searched")
    texts = [see(passage) for passage in passages]
    words = texts if text_of is not None else [passage.counted for passage in passages]
    rows, stored = _stored(uec, store, passages, see)
    misses = [at for at, text in enumerate(texts) if text not in rows]
    hits = [at for at, text in enumerate(texts) if text in rows]
    parts = list[Gaussian]()
    if misses or not hits:
        inputs, of_words = [texts[at] for at in misses], [words[at] for at in misses]
        with patiently():
            encoded = uec.encode(inputs, "passage", words=of_words, show_progress=show_progress)
        parts.append(uec.fitted.combine_as(encoded, "passage"))
    if hits and stored is not None:
        gaussians = stored[[rows[texts[at]] for at in hits]]
        parts.append(gaussians.with_terms(_terms(uec, [words[at] for at in hits])))
    return parts[0] if len(parts) == 1 else Gaussian.join(parts)[np.argsort([*misses, *hits])]


def _stored(
    uec: UEC, store: Searched, passages: Sequence[Passage], see: Callable[[Passage], str]
) -> tuple[dict[str, int], Gaussian | None]:
    """Return which texts a store has, with their rows among the Gaussians that it has of them."""
    if all(isinstance(encoder, TermEncoder) for encoder in uec.encoders):
        return {}, None
    view, texts = store.snapshot(), {*map(see, passages)}
    ids = {text: twin.id for twin in view.twins(passages) if (text := see(twin)) in texts}
    if not ids:
        return {}, None
    try:
        return {text: row for row, text in enumerate(ids)}, view.vectors([*ids.values()])
    except KeyError:  # in a store elsewhere, it was deleted meanwhile
        return {}, None


def _terms(uec: UEC, words: Sequence[str]) -> list[Terms]:
    """Count words as blocks of the ensemble's Gaussians."""
    scales = block_scales(uec.fitted.weights)
    return [
        block.scale_by(scale)
        for encoder, scale in zip(uec.encoders, scales, strict=False)
        if isinstance(encoder, TermEncoder)
        for block in encoder.encode(words, "passage").blocks
    ]
