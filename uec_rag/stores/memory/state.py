"""The state of a store in memory at one moment: how it is searched, and how the next is made."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import finite
from uec_rag.base.errors import FingerprintMismatch, IndexCorrupted
from uec_rag.base.gaussian import PROBIT, FloatArray, Gaussian, Terms, probit
from uec_rag.base.postings import Corpus, Frequencies, Postings
from uec_rag.base.similarity import largest
from uec_rag.stores.base import Filter, Top
from uec_rag.stores.filters import parse
from uec_rag.stores.memory.passages import MetadataIndex, PassageLog
from uec_rag.stores.memory.vectors import Means, Scan

_COMPACT_ABOVE = 0.5  # share of deleted rows at which the rest is copied together


def _empty() -> FloatArray:
    return np.zeros((0, 0), dtype=np.float32)


@dataclass(frozen=True, eq=False)
class State:
    """One consistent view of the store. Writers build the next one; readers keep theirs.

    The buffers may be longer than `rows`, and are shared between states: a writer only fills
    places that no earlier state looks at. A row never changes; replacing a passage adds a row.
    """

    rows: int = 0
    means: Means = field(default_factory=Means)
    scales: FloatArray = field(default_factory=_empty)
    profile: FloatArray | None = None
    fingerprint: str | None = None  # of the ensemble whose Gaussians these are
    longest: float = 0.0  # norm that no mean exceeds
    passages: PassageLog = field(default_factory=PassageLog)
    alive: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    row_of: dict[str, int] = field(default_factory=dict)
    earlier: dict[int, int] = field(default_factory=dict)  # row -> the row its id had before
    live: NDArray[np.int64] | None = None  # None: all rows
    index: MetadataIndex = field(default_factory=MetadataIndex)
    scan: Scan | None = None  # what to multiply with instead of the means
    postings: tuple[Postings, ...] = ()  # of the sparse blocks
    frequencies: tuple[Frequencies, ...] = ()  # of each, if the rows are some of a larger corpus

    @property
    def words(self) -> list[tuple[Postings, Corpus]]:
        """Each sparse block, and the corpus over which a term's rarity is counted.

        That is all rows that live, let through or not, or what is known of a larger corpus.
        """
        alive = self.alive[: self.rows]
        left = None if alive.all() else alive
        known = self.frequencies or [None] * len(self.postings)
        return [
            (held, Corpus(self.rows, left, frequencies))
            for held, frequencies in zip(self.postings, known, strict=True)
        ]

    @property
    def count(self) -> int:
        """The number of live rows."""
        return self.rows if self.live is None else len(self.live)

    def postings_with(self, blocks: Sequence[Terms]) -> tuple[Postings, ...]:
        """Return the postings of each sparse block with those of new rows added.

        ValueError if they are weighed otherwise than those that are there.
        """
        held = self.postings or [Postings.none() for _ in blocks]
        return tuple(one.written(self.rows, terms) for one, terms in zip(held, blocks, strict=True))

    def live_rows(self) -> NDArray[np.int64]:
        """Return the live rows, ascending."""
        return np.arange(self.rows) if self.live is None else self.live

    def row(self, id_: str) -> int | None:
        """Return the row of an id, None if it is not there."""
        row = self.row_of.get(id_)
        # Both dicts are shared with later states: go back past what those have added.
        while row is not None and row >= self.rows:
            row = self.earlier.get(row)
        return row if row is not None and self.alive[row] else None

    def gaussians(self, rows: NDArray[np.int64]) -> Gaussian:
        """Return the Gaussians of some rows."""
        [mean], scales = checked([self.means.rows(rows)]), self.scales[rows]
        widths = self.means.widths
        if self.profile is None:
            return Gaussian(mean, scales, widths=widths)
        return Gaussian.factored(mean, scales, self.profile, widths=widths)

    def step(self, count: int) -> int:
        """Return the step between live rows at which about `count` are taken."""
        return max(1, self.count // count)

    def sample(self, count: int) -> Gaussian:
        """Return the Gaussians of about `count` live rows at regular steps, gathered once."""
        if count not in self._samples:
            self._samples[count] = self.gaussians(self.live_rows()[:: self.step(count)])
        return self._samples[count]

    @cached_property
    def _samples(self) -> dict[int, Gaussian]:
        return {}


LARGEST_PRODUCT = 1e18
"""No product of stored means and a query's is beyond it; its square is still a float32."""


def checked(numbers: list[FloatArray], most: float = math.inf) -> list[FloatArray]:
    """Return stored numbers, or results of them, once they are known to be finite.

    Opening an index reads as little of its means as it can: what is no number shows here.

    IndexCorrupted if one is NaN or infinite, or beyond `most` in either direction.
    """
    if not all(finite(some, least=-most, most=most) for some in numbers):
        raise IndexCorrupted(
            "store: a stored vector gives NaN or infinity: it is damaged, or longer than float32 "
            "can multiply. Load the index with verify=True, or build it again."
        )
    return numbers


def filtered(state: State, filter: Filter | None) -> State:
    """Return the state with only the rows that a filter lets through."""
    if filter is None:
        return state
    condition = parse(filter)  # also of an empty store: a filter that is wrong is always refused
    rows = state.index.select(condition, state.passages, state.live_rows(), state.row)
    return replace(state, live=rows)


def without_leftovers(state: State) -> State:
    """Drop the rows that an interrupted `add` left in buffers that states share."""
    row_of = {id_: row for id_ in state.row_of if (row := state.row(id_)) is not None}
    return replace(state, passages=state.passages.first(state.rows), row_of=row_of, earlier={})


def bound(state: State, fingerprint: str) -> State:
    """Record which ensemble the Gaussians are of; FingerprintMismatch for another."""
    if not state.count or state.fingerprint in (None, fingerprint):
        return replace(state, fingerprint=fingerprint)
    raise FingerprintMismatch(
        f"store: it holds vectors of another ensemble ({str(state.fingerprint)[:12]!r}, this one "
        f"is {fingerprint[:12]!r}): other models, revisions or posterior. Use that ensemble or "
        "build the index again."
    )


def check_fits(state: State, gaussians: Gaussian) -> None:
    """Raise ValueError unless Gaussians are of the stored dimension and posterior."""
    if not state.rows:
        return
    if gaussians.dimension != state.means.dimension:
        raise ValueError(
            f"gaussians: expected dimension {state.means.dimension}, as stored, "
            f"got {gaussians.dimension}."
        )
    if len(gaussians.terms) != len(state.postings):
        raise ValueError(
            f"gaussians: expected {len(state.postings)} blocks of terms, as stored, got "
            f"{len(gaussians.terms)}."
        )
    for held, block in zip(state.postings, gaussians.terms, strict=True):
        held.check_fits(block)
    same = (
        gaussians.profile is None
        if state.profile is None
        else gaussians.profile is not None and np.array_equal(gaussians.profile, state.profile)
    )
    if not same:
        raise ValueError(
            "gaussians: their variance has another profile than the stored ones; they come "
            "from another posterior. Build the index again."
        )


def compacted(state: State) -> State:
    """Return the state itself, or one without its deleted rows if these are most of it."""
    if state.count >= state.rows * (1 - _COMPACT_ABOVE):
        return state
    live = state.live_rows()
    passages = PassageLog()
    passages.extend([state.passages[row] for row in live.tolist()])
    means = state.means.chosen(live)
    return State(
        rows=len(live),
        means=means,
        scales=state.scales[live],
        profile=state.profile,
        fingerprint=state.fingerprint,
        longest=state.longest,
        passages=passages,
        scan=None if state.scan is None else state.scan.written(0, len(live), means),
        alive=np.ones(len(live), dtype=bool),
        row_of={passages[row].id: row for row in range(len(live))},
        postings=tuple(held.chosen(live) for held in state.postings),
    )


# Exact top-k by the uncertainty-aware score, looking at a few candidates only.
#
# For beta >= 0 a score lies between mu_s and 0. So: take the m best by mu_s, score those, and if
# the k-th score is above what the best mu_s left out can score at most, nothing left out can
# enter; else take more. At most it scores mu_s itself, if that is positive; a negative one is
# raised towards 0 by its variance, at most by the largest variance that the query has with any
# row. If mu_s is known up to an error only, candidates are scored with the exact one, and what
# is left out must be below by the error, too.

_AT_ONCE = 16  # times as many candidates as before
_ROUNDED = 1 + 1e-5  # scores are float32
_UNDERFLOW = -1e-37  # a negative score above this may have become 0

Moments = Callable[[NDArray[np.int64]], tuple[FloatArray, FloatArray]]
"""mu_s and sigma_s^2 of one query against some rows, (m,) -> (m,), (m,)."""


class Best(NamedTuple):
    """The k best rows of one query, best first; shape (k,) each."""

    rows: NDArray[np.int64]
    scores: FloatArray
    mu: FloatArray
    sigma2: FloatArray


def top_k(
    mu: FloatArray,
    moments: Moments,
    k: int,
    beta: float,
    error: float = 0.0,
    most: Callable[[], float] = lambda: np.inf,
) -> Best:
    """Find the k highest scores of one query; ties go to the earlier row.

    `mu`, shape (N,): similarities; -inf for rows that do not take part. `moments`: mu_s and
    sigma_s^2 of given rows. `k`: at most the number of finite entries of `mu`. `beta`: at least 0.
    `error`: how far `mu` may be from what `moments` returns. `most`: gives what sigma_s^2 of no row
    exceeds; asked for only if the k-th score is negative.
    """
    count = len(mu)
    m = min(count, 2 * k + 16)
    shrinking: float | None = None  # how many times closer to 0 than mu_s a score may be
    while True:
        rows, left_out = _largest(mu, m)
        exact, sigma2 = moments(rows)
        scores = probit(exact, sigma2, beta)
        order = np.lexsort((rows, -scores))[:k]
        last = float(scores[order[-1]])
        # Only a mu_s from here on can enter, or tie.
        enough = last
        if last <= 0:
            if shrinking is None:
                shrinking = np.sqrt(1 + float(PROBIT) * beta * most()) * _ROUNDED if beta else 1.0
            enough = min(last, _UNDERFLOW) * shrinking
        if m == count or enough > left_out + error:
            return Best(rows[order], scores[order], exact[order], sigma2[order])
        # All that could enter, unless that is so many that more candidates may rule most of it out.
        near = int(np.count_nonzero(mu >= enough - error))
        m = min(count, max(2 * m, near if near <= _AT_ONCE * m else 0))


def _largest(mu: FloatArray, m: int) -> tuple[NDArray[np.int64], float]:
    """Find the rows of the m largest values, and the largest value among the others."""
    if m == len(mu):
        return np.arange(m), -np.inf
    rows = largest(mu, m + 1)
    return rows[1:], float(mu[rows[0]])


_COPY_BELOW = 0.25  # share of rows below which they are copied out rather than all multiplied
_BLOCK = 2**26  # similarities held at a time


def similarities(state: State, blocks: Sequence[FloatArray | Terms]) -> list[FloatArray]:
    """Multiply queries with the stored blocks of the live rows, (n, count) each.

    Arrays are multiplied with consecutive blocks of the means, terms with the sparse blocks.
    """
    if not state.count:  # perhaps of no dimension yet
        return [np.zeros((len(block), 0), dtype=np.float32) for block in blocks]
    dense = iter(_products(state, [b for b in blocks if not isinstance(b, Terms)]))
    words = iter(state.words)
    return [
        _of_terms(state, *next(words), block) if isinstance(block, Terms) else next(dense)
        for block in blocks
    ]


def contributions(
    state: State, terms: Sequence[Terms], rows: NDArray[np.int64]
) -> list[list[FloatArray]]:
    """Compute what each query term adds, see `Postings.contributions`, for each sparse block."""
    return [
        held.contributions(block, rows, corpus)
        # Without terms a query is known as a vector only.
        for (held, corpus), block in zip(state.words if terms else (), terms, strict=True)
    ]


def _of_terms(state: State, postings: Postings, corpus: Corpus, terms: Terms) -> FloatArray:
    found = postings.similarities(terms, corpus)
    return found if state.live is None else found[:, state.live]


def _products(state: State, blocks: Sequence[FloatArray]) -> list[FloatArray]:
    if not state.means.dimension:  # words alone
        return [np.zeros((len(block), state.count), dtype=np.float32) for block in blocks]
    if not blocks:
        return []
    source, live = state.scan or state.means, state.live
    if live is not None and len(live) < state.rows * _COPY_BELOW:
        return checked(source.products(live, blocks), LARGEST_PRODUCT)
    products = checked(source.products(slice(state.rows), blocks), LARGEST_PRODUCT)
    return products if live is None else [product[:, live] for product in products]


def _fused(state: State, query: Gaussian) -> FloatArray:
    """Compute mu_s of queries and the live rows, shape (n, count)."""
    first, *others = similarities(state, [query.mean, *query.terms])
    for other in others:
        first += other
    return first


def exact_top_k(
    state: State, query: Gaussian, k: int, beta: float, mu: FloatArray | None = None
) -> Top:
    """Find the k best live rows of each query; `mu`, if known, has a column per live row."""
    moments = _Moments(state, query)
    errors = np.zeros(len(query)) if state.scan is None else state.scan.bound(query.mean)
    step, best = max(1, _BLOCK // max(1, state.count)), list[Best]()
    for start in range(0, len(query), step):
        block = slice(start, start + step)
        known = _fused(state, query[block]) if mu is None else mu[block]
        for i, row in enumerate(known, start):
            of_one = partial(moments.at, i, row)
            best.append(top_k(row, of_one, k, beta, errors[i], partial(moments.most, i)))
    columns, scores, found, sigma2 = (np.stack(part) for part in zip(*best, strict=True))
    return Top(columns, scores, found, sigma2)


class _Moments:
    """The products from which mu_s and sigma_s^2 of n queries and the rows of a state follow."""

    def __init__(self, state: State, query: Gaussian) -> None:
        self._state, self._query = state, query
        self._mean, self._variance = query.mean, query.variance
        second = query.mean**2 + self._variance
        self._weights = second if state.profile is None else second @ state.profile.T

    def at(
        self, i: int, known: FloatArray, columns: NDArray[np.int64]
    ) -> tuple[FloatArray, FloatArray]:
        """Compute mu_s and sigma_s^2 of query i and some columns.

        `known`, array, shape (count,): mu_s, which is exact unless the store is compressed.
        """
        state = self._state
        rows = columns if state.live is None else state.live[columns]
        [means] = checked([state.means.rows(rows)])
        if state.scan is None:
            mu = known[columns]
        else:
            mu = means @ self._mean[i]
            terms = [block[i : i + 1] for block in self._query.terms]
            for block in contributions(state, terms, rows[None]):
                mu += block[0].sum(axis=1)
        sigma2: FloatArray = state.scales[rows] @ self._weights[i]
        sigma2 += means**2 @ self._variance[i]
        checked([mu, sigma2])
        return mu, sigma2

    def most(self, i: int) -> float:
        """Bound sigma_s^2 of query i and any row, up to rounding."""
        state = self._state
        passages = (state.scales[: state.rows] @ self._weights[i]).max(initial=0.0)
        own = self._variance[i].max(initial=0.0) * np.float64(state.longest) ** 2
        return float(passages + own) * (1 + 1e-4)
