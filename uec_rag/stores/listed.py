"""The words of the passages that another package's store can list."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from uec_rag.base.counts import Frequencies
from uec_rag.base.gaussian import Gaussian
from uec_rag.encoders.base import Encoded, Encoder, TermEncoder
from uec_rag.stores.base import Filter, Passage
from uec_rag.stores.local import View


def encode_words(encoders: Sequence[Encoder], passages: Sequence[Passage]) -> list[Encoded]:
    """Count the words of passages, also of their titles and sources, for each encoder of words."""
    texts = [passage.with_source for passage in passages]
    own = [encoder for encoder in encoders if isinstance(encoder, TermEncoder)]
    return [encoder.encode(texts, "passage") for encoder in own]


@dataclass(frozen=True, eq=False)
class Listed:
    """The words of passages, by which a store is searched beside its vectors.

    Attributes
    ----------
    encoded : sequence of Encoded
        What `encode_words` returned.
    rows : dict of str to (int, Passage)
        The passages, by their ids.
    view : View
        The same, with words alone.
    frequencies : sequence of Frequencies
        The rarity of words among them, for each encoder of words.
    """

    encoded: Sequence[Encoded]
    rows: dict[str, tuple[int, Passage]]
    view: View
    frequencies: Sequence[Frequencies]

    @classmethod
    def count(cls, passages: Sequence[Passage], encoders: Sequence[Encoder]) -> Self:
        """Count the words of passages."""
        encoded = encode_words(encoders, passages)
        terms = [block for one in encoded for block in one.blocks]
        none = np.zeros((len(passages), 0), dtype=np.float32)
        view = View.from_passages(passages, Gaussian(none, none, widths=[0], terms=terms))
        rows = {passage.id: (row, passage) for row, passage in enumerate(passages)}
        return cls(encoded, rows, view, [*map(Frequencies.from_terms, terms)])

    def encoded_before(self, passages: Sequence[Passage]) -> list[Encoded]:
        """Return what `encode_words` does, if all have the same words as before; else nothing."""
        found = [self.rows.get(passage.id) for passage in passages]
        rows = [
            known[0]
            for known, passage in zip(found, passages, strict=True)
            if known is not None and known[1].with_source == passage.with_source
        ]
        return [one[rows] for one in self.encoded] if len(rows) == len(passages) else []

    def nearest(
        self, query: Gaussian, count: int, filter: Filter | None, known: Collection[str]
    ) -> list[str]:
        """Return the ids of the passages nearest to a question by its words, of those not known."""
        view = self.view.snapshot(filter)
        if not query.terms or not len(view):
            return []
        score = np.sum([of_block[0] for of_block in view.compare(query.terms).similarities], axis=0)
        best = np.argsort(-score, kind="stable")[:count]
        [found] = view.gather(best[None, score[best] > 0])
        return [passage.id for passage in found if passage.id not in known]
