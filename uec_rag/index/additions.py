"""Encoding passages that are added: what models made of a text before is taken from the store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence, Set
from copy import copy
from dataclasses import replace
from operator import attrgetter
from typing import TypeAlias

import numpy as np

from uec_rag.encoders.base import Encoded, TermEncoder
from uec_rag.encoders.cache import CachedEncoder
from uec_rag.encoders.calls import patiently
from uec_rag.ensemble.sketches import encode_with_questions
from uec_rag.ensemble.uec import UEC
from uec_rag.stores.base import Searched
from uec_rag.stores.passage import Passage, with_questions

Key: TypeAlias = tuple[str, ...]
"""The texts of a passage that models see: its own, and the questions beside it."""


def encode_additions(
    uec: UEC,
    store: Searched,
    passages: Sequence[Passage],
    *,
    text_of: Callable[[Passage], str] | None = None,
    show_progress: bool | None = None,
) -> tuple[list[Passage], list[Encoded]]:
    """Encode passages for a store, where models see each different text that is not there once.

    So do they see the questions beside a text. Words are counted again, since they are also those
    of titles and sources in the metadata.

    Parameters
    ----------
    uec : UEC
        The ensemble of the store.
    store : Searched
    passages : sequence of n Passage
    text_of : callable(passage) -> str, optional
        Returns what models and words see of a passage, besides its questions, if it is not `headed`
        and `counted`.
    show_progress : bool, optional
        As in `UEC.encodings`, as are the errors.

    Returns
    -------
    passages : list of n Passage
        The same, with sketches of their questions.
    encodings : list of K Encoded
        As `Store.add` takes them.
    """
    see = text_of or attrgetter("headed")
    heads = [*map(see, passages)]
    words = [
        with_questions(p.metadata, head) if text_of else p.counted_below(head)
        for p, head in zip(passages, heads, strict=True)
    ]
    keys = [(head, *p.seen_beside) for p, head in zip(passages, heads, strict=True)]
    twins, stored = _stored(uec, store, passages, {*keys}, see)
    misses = [at for at, key in enumerate(keys) if key not in twins]
    hits = [at for at, key in enumerate(keys) if key in twins]
    parts, sketches = list[list[Encoded]](), list[bytes]()
    if misses or not hits:
        of_words = [words[at] for at in misses]
        with patiently():
            encoded, sketches = _encode(
                uec, [keys[at] for at in misses], of_words, show_progress=show_progress
            )
        parts.append(encoded)
    if hits:
        rows, of_twins = zip(*(twins[keys[at]] for at in hits), strict=True)
        of_words = [words[at] for at in hits]
        parts.append(
            [
                encoder.encode(of_words, "passage")
                if isinstance(encoder, TermEncoder)
                else block[[*rows]]
                for encoder, block in zip(uec.encoders, stored, strict=True)
            ]
        )
        sketches += of_twins
    order = np.argsort([*misses, *hits])
    encodings = parts[0]
    if len(parts) > 1:
        encodings = [Encoded.join(block)[order] for block in zip(*parts, strict=True)]
    pairs = zip(passages, [sketches[at] for at in order.tolist()], strict=True)
    return [
        p if p.sketch == drawing else replace(p, sketch=drawing) for p, drawing in pairs
    ], encodings


def _encode(
    uec: UEC, keys: Sequence[Key], words: Sequence[str], *, show_progress: bool | None
) -> tuple[list[Encoded], list[bytes]]:
    """Encode different texts with their questions; sketches are b"" where there are none.

    In the shared space, which is the paper's, these are of the same text.
    """
    if uec.fitted.is_direct and any(questions for _, *questions in keys):
        heads, tails = [text for text, *_ in keys], [questions for _, *questions in keys]
        return encode_with_questions(uec, heads, tails, words, show_progress=show_progress)
    texts = ["\n\n".join(filter(None, [text, "\n".join(questions)])) for text, *questions in keys]
    parts = uec.encodings(texts, "passage", words=words, show_progress=show_progress)
    return parts, [b""] * len(keys)


def _stored(
    uec: UEC,
    store: Searched,
    passages: Sequence[Passage],
    different: Set[Key],
    see: Callable[[Passage], str],
) -> tuple[dict[Key, tuple[int, bytes]], list[Encoded]]:
    """Return which of what models see of passages a store has, its rows and sketches."""
    if all(isinstance(encoder, TermEncoder) for encoder in uec.encoders):
        return {}, []
    view = store.snapshot()
    twins = {
        key: twin
        for twin in view.twins(passages)
        if (key := (see(twin), *twin.seen_beside)) in different
    }
    if not twins:
        return {}, []
    try:
        vectors = view.vectors([twin.id for twin in twins.values()])
    except KeyError:  # in a store elsewhere, it was deleted meanwhile
        return {}, []
    rows = {key: (row, twin.sketch) for row, (key, twin) in enumerate(twins.items())}
    return rows, vectors


def remembering(uec: UEC) -> UEC:
    """Return a copy that keeps what services embed, for a call that is repeated if it fails."""
    twin = copy(uec)
    twin.encoders = [
        CachedEncoder(encoder, None, capacity=sys.maxsize)
        if getattr(encoder, "waits", False) and not isinstance(encoder, CachedEncoder)
        else encoder
        for encoder in uec.encoders
    ]
    return twin
