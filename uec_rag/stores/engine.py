"""What every store in an engine of someone else's does; the engine itself is a few methods.

An engine keeps points: a passage with its mean, its "spread", [mean^2, scales], and its terms.
sigma_s^2 is the inner product of the second with [var_q, w], so an engine that multiplies vectors
of its candidates can order them by s_hat itself. What comes back is scored again here, in float32.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Self

import numpy as np

from uec_rag.base.checks import check_k
from uec_rag.base.frequencies import Frequencies
from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.similarity import probit
from uec_rag.base.terms import Terms
from uec_rag.stores.additions import checked_addition
from uec_rag.stores.base import Filter, Found, Passage, check_query
from uec_rag.stores.engine_cache import CachedEngine
from uec_rag.stores.engine_notes import Notes
from uec_rag.stores.engine_points import Point, Ranking, Wanted, padded, points_of
from uec_rag.stores.engine_words import contributions, similarities, words_among
from uec_rag.stores.filters import Every, keys_of, parse
from uec_rag.stores.graph import CANDIDATES


class EngineStore(CachedEngine):
    """Passages and their Gaussians in an engine; subclasses give the methods of `Engine`.

    Others may write at the same time: a snapshot is a filtered view, not a moment, but what it has
    found once stays as it was found. Calibrating reads everything into memory once.

    Parameters
    ----------
    candidates : int
        The nearest by mu_s that a search scores, at least; the engine's HNSW looks at as many on
        its way. More of them miss less and take longer. It may be set at any time.

    Raises
    ------
    TypeError, ValueError
        If it is no positive integer.
    """

    approximate = True
    """Whether a search looks at candidates only."""

    remote = True
    """Whether passages are elsewhere: what needs all of them reads them all."""

    def __init__(self, candidates: int = CANDIDATES) -> None:
        super().__init__()
        self.candidates = candidates

    @property
    def candidates(self) -> int:
        """How many a search scores, at least."""
        return self._candidates

    @candidates.setter
    def candidates(self, count: int) -> None:
        check_k(count, "candidates")
        self._candidates = int(count)

    def add(self, passages: Sequence[Passage], gaussians: Gaussian) -> None:
        """Add passages, replacing those whose id is there already.

        They are sent some at a time; each such part is there whole or not at all, and sending all
        of them again after an error does no harm.

        Raises
        ------
        TypeError, ValueError
            If there is not one Gaussian per passage, an id comes twice, metadata cannot be kept, or
            the Gaussians are of another dimension or posterior than the stored ones.
        ConnectionError
            If the engine stays out of reach.
        """
        self._check_writable()
        passages = checked_addition(passages, gaussians)
        if not passages:
            return
        self.stamp()  # somebody may have made the place anew
        wanted, notes = Notes.of(gaussians, self._fingerprint), self.notes()
        if notes is None or not notes.admit(wanted):
            if notes is not None and self.count(None):
                raise ValueError(
                    f"gaussians: expected dimension {notes.dimension}, {len(notes.words)} blocks "
                    f"of terms and the posterior of what {self.engine} holds there, got dimension "
                    f"{wanted.dimension}, {len(wanted.words)} blocks or another posterior. Build "
                    "the index again, in another collection."
                )
            if not wanted.dimension:
                raise ValueError(
                    f"store: {self.engine} keeps words beside vectors only, and this ensemble has "
                    "none; add an encoder to it, or use a MemoryStore."
                )
            self.make(wanted)
            self._read.notes = None
        self.put(points_of(passages, gaussians))
        self._outdate_sample(len(passages))

    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages; ids that are not there are ignored. Returns how many went."""
        self._check_writable()
        there = [*self.passages_of([*dict.fromkeys(ids)])]
        self.remove(there)
        return len(there)

    def _check_writable(self) -> None:
        if self._is_view:
            raise RuntimeError("this is a view of a store; write to the store itself.")

    @classmethod
    def _check_device(cls, device: str | None) -> None:
        """Raise ValueError where `load` is given a device to multiply on."""
        if device is not None:
            raise ValueError(
                f"store_device: expected None, since {cls.engine} multiplies where it runs, got "
                f"{device!r}."
            )

    def snapshot(self, filter: Filter | None = None) -> Self:
        """Return a view of what a filter lets through; of all, where there is none.

        It is no moment: what others write may show in what it was not asked before.

        Raises
        ------
        TypeError, ValueError
            If it is no filter, or one that the engine cannot run.
        """
        view = copy(self)
        view._is_view, view._size, view._stamp = True, None, None
        view._seen, view._rarities = {}, {}
        if filter is None:
            return view
        condition = parse(filter)
        self.check(condition)
        for key in sorted(keys_of(condition) - self._warned):
            if self.count(None) and not self.has_key(key):
                self._warned.add(key)
                warnings.warn(
                    f"filter: no passage has the metadata key {key!r}.", UserWarning, stacklevel=2
                )
        before = self._condition
        view._condition = condition if before is None else Every((before, condition))
        return view

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages of those ids that are there, in the order asked."""
        found = self.passages_of([*dict.fromkeys(ids)])
        return [found[id_] for id_ in ids if id_ in found]

    def vectors(self, ids: Sequence[str]) -> Gaussian:
        """Return the Gaussians of ids.

        Raises
        ------
        KeyError
            If an id is not there.
        """
        return self._gaussians(self._points(ids))

    def _points(self, ids: Sequence[str]) -> list[Point]:
        """Points of ids; KeyError if one is not there."""
        found = {id_: self._seen[id_] for id_ in ids if id_ in self._seen}
        found |= self._noting(self.points([id_ for id_ in dict.fromkeys(ids) if id_ not in found]))
        for id_ in ids:
            if id_ not in found:
                raise KeyError(f"ids: {id_!r} is not in the store.")
        return [found[id_] for id_ in ids]

    def _noting(self, points: Mapping[str, Point]) -> Mapping[str, Point]:
        """Points, which a view keeps: what it has found does not change under it."""
        if self._is_view:
            self._seen |= points
        return points

    def passages(self, filter: Filter | None = None) -> Iterator[Passage]:
        """Iterate over all passages, or those a filter lets through, in an order of its own."""
        return self.scan_passages(self.snapshot(filter)._condition)

    def similarities(self, blocks: Sequence[FloatArray | Terms]) -> list[FloatArray]:
        """Inner products of queries with consecutive blocks of what is stored, (n, N) each.

        All passages are read into memory for it, in the order of `passages`.
        """
        return self._copy().similarities(blocks) if blocks else []

    def sampled(self, terms: Sequence[Terms], count: int) -> list[FloatArray]:
        """Similarities of queries' terms to the passages of `sample(count)`, for each block."""
        return [
            similarities(asked, held, counted)
            for asked, held, counted in zip(
                terms, self.sample(count).terms, self._frequencies(terms), strict=True
            )
        ]

    def _frequencies(self, terms: Sequence[Terms]) -> list[Frequencies]:
        """Of each block's terms, in the whole corpus; a view asks for each term once."""
        for block, asked in enumerate(terms):
            keys, known = np.unique(asked.keys), self._rarities.get(block)
            if known is not None:
                keys = keys[[key not in known.holding for key in keys.tolist()]]
            if known is not None and not len(keys):
                continue
            found = self.frequencies(block, keys)
            holding = {key: found.holding.get(key, 0) for key in keys.tolist()}
            if known is not None:
                found, holding = known, {**known.holding, **holding}
            self._rarities[block] = Frequencies(found.passages, found.length, holding)
        made = [self._rarities[block] for block in range(len(terms))]
        if not self._is_view:
            self._rarities = {}
        return made

    def _wanted(self, count: int, terms: Sequence[Terms]) -> list[tuple[Wanted, ...]]:
        """What each of n queries asks of the sparse blocks."""
        notes = self.notes()
        blocks = [
            noted.wanted(asked, counted)
            for noted, asked, counted in zip(
                notes.words if notes else (), terms, self._frequencies(terms), strict=False
            )
        ]
        return [tuple(block[row] for block in blocks) for row in range(count)]

    def contributions(
        self, terms: Sequence[Terms], ids: Sequence[Sequence[str]]
    ) -> list[list[FloatArray]]:
        """What each of the queries' terms adds to the similarity with some passages.

        Raises
        ------
        KeyError
            If an id is not there.
        """
        self._points([id_ for of_one in ids for id_ in of_one])
        found = [self._gaussians(self._points(of_one)).terms for of_one in ids]
        return [
            [
                contributions(asked[row : row + 1], held[block], counted)
                for row, held in enumerate(found)
            ]
            for block, (asked, counted) in enumerate(
                zip(terms, self._frequencies(terms), strict=True)
            )
        ]

    def similarities_near(
        self, query: Gaussian, count: int, blocks: Sequence[FloatArray | Terms]
    ) -> list[FloatArray]:
        """Similarities to about `count` candidates, probably those of the highest mu_s.

        Up to half of them are those whose words are most like the query's. Their means are
        multiplied where they lie.
        """
        notes = self.notes()
        if notes is None or not len(query) or not len(self):
            return [np.zeros((len(query), 0), dtype=np.float32) for _ in blocks]
        means = [block for block in blocks if not isinstance(block, Terms)]
        terms = [block for block in blocks if isinstance(block, Terms)]
        vectors = np.concatenate([query.mean[:, None], padded(means)], axis=1)
        wanted, counted = self._wanted(len(query), query.terms), self._frequencies(query.terms)
        found = self.near(self._condition, query.mean, wanted, count, vectors)
        few = min(count, *(near.products.shape[1] for near in found))
        out = [np.empty((len(query), few), dtype=np.float32) for _ in blocks]
        for row, near in enumerate(found):
            held = [
                noted.terms([of_one[block] for of_one in near.words])
                for block, noted in enumerate(notes.words if near.words else ())
            ]

            def by_words(
                asked: Sequence[Terms], row: int = row, held: Sequence[Terms] = held
            ) -> list[FloatArray]:
                return [
                    similarities(of_block[row : row + 1], theirs, frequencies)[0]
                    for of_block, theirs, frequencies in zip(asked, held, counted, strict=False)
                ]

            best = _best(near.products[0], by_words(query.terms))[:few]
            of_means, of_terms = iter(near.products[1:]), iter(by_words(terms))
            for block, array in zip(blocks, out, strict=True):
                array[row] = next(of_terms if isinstance(block, Terms) else of_means)[best]
        return out

    def search(
        self,
        query: Gaussian,
        k: int,
        *,
        beta: float,
        filter: Filter | None = None,
        mu: FloatArray | None = None,
    ) -> Found:
        """Find the k passages of the highest s_hat among the nearest by mu_s.

        It is `exact` where all passages were candidates. With `mu`, a column for every passage in
        the order of `passages`, all of them are read into memory.

        Raises
        ------
        ValueError
            If k < 1, the query is of another dimension than the stored passages, or the filter is
            one that the engine cannot run.
        TypeError
            If it is no filter.
        """
        check_k(k)
        if filter is not None:
            return self.snapshot(filter).search(query, k, beta=beta, mu=mu)
        if mu is not None:
            return self._copy().search(query, k, beta=beta, mu=mu)
        size, notes = len(self), self.notes()
        if not size or notes is None or not len(query):
            return Found.nothing(len(query))
        check_query(query, notes.dimension)
        candidates = max(self.candidates, 4 * k)
        second = query.mean**2 + query.variance
        weights = second if notes.profile is None else second @ notes.profile.T
        spread = np.concatenate([query.variance, weights], axis=1)
        exact = size <= candidates
        words, counted = self._wanted(len(query), query.terms), self._frequencies(query.terms)
        ranking = Ranking(query.mean, spread, words, beta, candidates, k, exact)
        best = self.best(self._condition, ranking)
        if min(map(len, best)) < min(k, size):  # an index that found fewer than there are
            best = self.best(self._condition, ranking._replace(exact=True))
        hits, numbers = [], []
        for i, points in enumerate(best):
            similarity = np.array([point.mean for point in points]) @ query.mean[i]
            for block, terms in enumerate(query.terms):
                held = notes.words[block].terms([point.words[block] for point in points])
                similarity += similarities(terms[i : i + 1], held, counted[block])[0]
            sigma2 = np.array([point.spread for point in points]) @ spread[i]
            scores = probit(similarity, sigma2, beta)
            order = np.argsort(-scores, kind="stable")[:k]
            self._noting({points[place].passage.id: points[place] for place in order})
            hits.append([points[place].passage for place in order])
            numbers.append(np.stack([scores, similarity, sigma2])[:, order])
        few = min(map(len, hits))
        scores, similarity, sigma2 = np.stack([row[:, :few] for row in numbers], axis=1)
        return Found([row[:few] for row in hits], scores, similarity, sigma2, exact=exact)


def _best(by_means: FloatArray, by_words: Sequence[FloatArray]) -> list[int]:
    """Order of candidates: the best by each block's words, as many as may come by them, then mu."""
    share = words_among(len(by_means), len(by_words)) if by_words else 0
    first = [place for row in by_words for place in np.argsort(-row)[:share] if row[place] > 0]
    mu = sum(by_words, by_means)
    return [*dict.fromkeys([*first, *np.argsort(-mu, kind="stable")])]
