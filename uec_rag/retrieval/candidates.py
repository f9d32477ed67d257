"""Passages that another vector store found for one query, and what tells of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from uec_rag.base.frequencies import Frequencies
from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.terms import Terms
from uec_rag.stores.base import Filter, Found, Passage
from uec_rag.stores.engine_words import similarities
from uec_rag.stores.memory import MemoryStore


class Candidates(MemoryStore):
    """Passages near one query, in memory, that stand for a corpus elsewhere.

    Parameters
    ----------
    passages : sequence of Passage
    gaussians : Gaussian
        Of them.
    sample : Gaussian
        Of passages from all over the corpus.
    size : int
        Of the corpus.
    """

    def __init__(
        self, passages: Sequence[Passage], gaussians: Gaussian, sample: Gaussian, size: int
    ) -> None:
        super().__init__()
        # The engine's metadata may be what no saved index could keep.
        self.add([Passage(passage.id, passage.text) for passage in passages], gaussians)
        self._found = {passage.id: passage for passage in passages}
        self._sample, self._size = sample, size
        seen = zip(gaussians.terms, sample.terms, strict=True)
        self._frequencies = tuple(frequencies_seen(*terms, size) for terms in seen)
        self._state = replace(self._state, frequencies=self._frequencies)

    remote = True
    """Whether most passages are elsewhere."""

    @property
    def approximate(self) -> bool:
        """Whether there are others."""
        return self.count < self._size

    @property
    def count(self) -> int:
        """How many candidates there are."""
        return len(self._found)

    def __len__(self) -> int:
        return self._size

    def sample(self, count: int) -> Gaussian:
        """Gaussians of passages from all over the corpus."""
        return self._sample[:count]

    def sampled(self, terms: Sequence[Terms], count: int) -> list[FloatArray]:
        """Similarities of queries' terms to the passages of `sample(count)`, for each block."""
        known = zip(terms, self.sample(count).terms, self._frequencies, strict=True)
        return [similarities(*of_block) for of_block in known]

    def search(
        self,
        query: Gaussian,
        k: int,
        *,
        beta: float,
        filter: Filter | None = None,
        mu: FloatArray | None = None,
    ) -> Found:
        """Find the best candidates; as `MemoryStore.search`."""
        if not self.count:
            return MemoryStore().search(query, 1, beta=beta)
        found = super().search(query, k, beta=beta, filter=filter, mu=mu)
        rows = [[self._found[passage.id] for passage in row] for row in found.passages]
        return replace(found, passages=rows, exact=self.count >= self._size)


def frequencies_seen(near: Terms, sample: Terms, size: int) -> Frequencies:
    """How often terms occur in a corpus of which some passages were seen.

    A term is held by as large a share of the corpus as of the sample, and by no fewer passages than
    were seen to hold it.

    Parameters
    ----------
    near : Terms
        Of passages near a query, which hold its words more often than others do.
    sample : Terms
        Of passages from all over the corpus.
    size : int
        Of the corpus.

    Examples
    --------
    >>> near, sample = Terms.of([[3], [3, 4]], None), Terms.of([[5], [5, 6]], None)
    >>> seen = frequencies_seen(near, sample, 100)
    >>> {int(key): held for key, held in seen.holding.items()}
    {3: 2, 4: 1, 5: 100, 6: 50}
    """
    whole = size <= len(near)  # then it is known
    keys, counts = np.unique(near.keys, return_counts=True)
    holding = dict(zip(keys.tolist(), counts.tolist(), strict=True))
    if not whole and len(sample):
        keys, counts = np.unique(sample.keys, return_counts=True)
        for key, held in zip(keys.tolist(), counts.tolist(), strict=True):
            holding[key] = max(holding.get(key, 0), round(held * size / len(sample)))
    lengths = near.lengths if whole or not len(sample) else sample.lengths
    return Frequencies(size, float(lengths.mean()) * size if len(lengths) else 0.0, holding)
