"""Search of one state of a store: exact, or approximate with exact scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import PROBIT, FloatArray, Gaussian, Terms, probit
from uec_rag.base.postings import Corpus, Postings
from uec_rag.base.sums import largest
from uec_rag.stores.base import Found, Passage
from uec_rag.stores.memory.state import State, checked

# Exact top-k by the uncertainty-aware score, looking at a few candidates only.
#
# For beta >= 0 a score lies between mu_s and 0. So: take the m best by mu_s, score those, and if
# the k-th score is above what the best mu_s left out can score at most, nothing left out can
# enter; else take more. At most it scores mu_s itself, if that is positive; a negative one is
# raised towards 0 by its variance, at most by the largest variance that the query has with any
# row. Where mu_s is known up to an error only, candidates are scored with the exact one, and what
# is left out must be below by the error, too.

_AT_ONCE = 16  # times as many candidates as before
_ROUNDED = 1 + 1e-5  # scores are float32
_UNDERFLOW = -1e-37  # a negative score above this may have become 0

Moments = Callable[[NDArray[np.int64]], tuple[FloatArray, FloatArray]]
"""mu_s and sigma_s^2 of one query against some rows, (m,) -> (m,), (m,)."""


class Top(NamedTuple):
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
) -> Top:
    """Find the k highest scores of one query; ties go to the earlier row.

    `mu`, shape (N,): similarities; -inf for rows that do not take part. `moments`: mu_s and
    sigma_s^2 of given rows. `k`: at most the number of finite entries of `mu`. `beta`: at least 0.
    `error`: how far `mu` may be from what `moments` returns. `most`: gives what sigma_s^2 of no row
    exceeds; asked for only where the k-th score is negative.
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
            return Top(rows[order], scores[order], exact[order], sigma2[order])
        # All that could enter, unless that is so many that more candidates may rule most of it out.
        near = int(np.count_nonzero(mu >= enough - error))
        m = min(count, max(2 * m, near if near <= _AT_ONCE * m else 0))


def _largest(mu: FloatArray, m: int) -> tuple[NDArray[np.int64], float]:
    """Rows of the m largest values, and the largest value among the others."""
    if m == len(mu):
        return np.arange(m), -np.inf
    rows = largest(mu, m + 1)
    return rows[1:], float(mu[rows[0]])


_COPY_BELOW = 0.25  # share of rows below which they are copied out rather than all multiplied
_GRAPH_FROM = 0.1  # share of rows from which a graph of all of them finds enough of these
_ANSWERS = 4096  # of the graph that a snapshot remembers
_BLOCK = 2**26  # similarities held at a time

Answers: TypeAlias = dict[tuple[bytes, int], NDArray[np.int64]]
"""Rows that a graph found for queries, by their bits and how many it was asked for.

Others write to the graph meanwhile, and what they add has it go other ways: a snapshot that is
asked the same again answers the same.
"""


def similarities(state: State, blocks: Sequence[FloatArray | Terms]) -> list[FloatArray]:
    """Inner products of queries with what is stored of the live rows, (n, count) each.

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


def of_query(state: State, query: Gaussian) -> FloatArray:
    """mu_s of queries and the live rows, shape (n, count)."""
    first, *others = similarities(state, [query.mean, *query.terms])
    for other in others:
        first += other
    return first


def contributions(
    state: State, terms: Sequence[Terms], rows: NDArray[np.int64]
) -> list[list[FloatArray]]:
    """What each of the queries' terms adds, see `Postings.contributions`, for each sparse block."""
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
        return checked(source.products(live, blocks))
    products = checked(source.products(slice(state.rows), blocks))
    return products if live is None else [product[:, live] for product in products]


def exact_search(
    state: State, query: Gaussian, k: int, beta: float, mu: FloatArray | None = None
) -> Found:
    """Top k of each query; `mu`, where it is known, has a column per live row."""
    hits = _Hits(state, query, k)
    scan = state.scan
    errors = np.zeros(len(query)) if scan is None else scan.bound(query.mean)
    step = max(1, _BLOCK // state.count)
    for start in range(0, len(query), step):
        block = slice(start, start + step)
        known = of_query(state, query[block]) if mu is None else mu[block]
        for i, row in enumerate(known, start):

            def moments(
                columns: NDArray[np.int64], i: int = i, row: FloatArray = row
            ) -> tuple[FloatArray, FloatArray]:
                known = row[columns] if scan is None else None
                return hits.moments(i, hits.rows(columns), known)

            top = top_k(row, moments, k, beta, errors[i], partial(hits.most, i))
            hits.put(i, top._replace(rows=hits.rows(top.rows)))
    return hits.found(exact=True)


def similarities_near(
    state: State,
    query: Gaussian,
    count: int,
    blocks: Sequence[FloatArray | Terms],
    answers: Answers | None = None,
) -> list[FloatArray]:
    """Similarities of blocks of queries to the nearest of each, shapes (n, c)."""
    found = nearest(state, query.mean, count, query.terms, answers) if state.count else []
    few = min(map(len, found), default=0)
    rows = np.array([row[:few] for row in found], dtype=np.int64).reshape(len(query), few)
    terms = [block for block in blocks if isinstance(block, Terms)]
    means = [block for block in blocks if not isinstance(block, Terms)]
    by_means = [np.zeros(rows.shape, dtype=np.float32) for _ in means]
    for i, near in enumerate(rows if state.means.dimension else ()):
        products = checked(state.means.products(near, [block[i : i + 1] for block in means]))
        for similarities_, product in zip(by_means, products, strict=True):
            similarities_[i] = product[0]
    by_terms = [
        np.array([columns.sum(axis=1) for columns in of_block]).reshape(rows.shape)
        for of_block in contributions(state, terms, rows)
    ]
    of_terms, of_means = iter(by_terms), iter(by_means)
    return [next(of_terms if isinstance(block, Terms) else of_means) for block in blocks]


def nearest(
    state: State,
    mean: FloatArray,
    count: int,
    terms: Sequence[Terms] = (),
    answers: Answers | None = None,
) -> list[NDArray[np.int64]]:
    """Live rows of probably the highest mu_s, best first, about `count` of them for each query.

    Where the graph is of little help, because few of its rows are live or all are wanted, the
    rows are those of an exact search. Beside the rows of the highest products of means are as many
    of the highest products of terms.
    """
    found = _nearest_means(state, mean, count, answers)
    for (held, corpus), block in zip(state.words, terms, strict=False):
        by_terms = _of_terms(state, held, corpus, block)
        live = state.live_rows()
        for i, row in enumerate(by_terms):
            best = largest(row, min(count, len(row)))
            more = live[best[row[best] > 0]]
            found[i] = np.concatenate([found[i], np.setdiff1d(more, found[i])])
    return found


def _nearest_means(
    state: State, mean: FloatArray, count: int, answers: Answers | None
) -> list[NDArray[np.int64]]:
    share = state.count / max(1, state.rows)
    graph = state.graph
    if graph is not None and share >= _GRAPH_FROM and count < state.count:
        rows = _by_graph(state, mean, count, int(np.ceil(count / share)), answers)
        if min(map(len, rows), default=count) >= count // 2:
            return rows
    count = min(count, state.count)
    everything = state.live_rows()
    out = []
    for row in _products(state, [mean])[0]:
        best = largest(row, count)
        out.append(everything[best[np.argsort(-row[best])]])
    return out


def _by_graph(
    state: State, mean: FloatArray, count: int, asked: int, answers: Answers | None
) -> list[NDArray[np.int64]]:
    """Live rows that the graph finds, at most `count` for each query."""
    assert state.graph is not None
    known = {} if answers is None else answers
    keys = [(row.tobytes(), asked) for row in mean]
    found = {key: known[key] for key in {*keys} & known.keys()}
    new = [i for i, key in enumerate(keys) if key not in found]
    if len(known) + len(new) > _ANSWERS:
        known.clear()
    for i, row in zip(new, state.graph.nearest(mean[new], asked), strict=True):
        found[keys[i]] = known.setdefault(keys[i], _live(state, row)[:count])
    return [found[key] for key in keys]


def approximate_search(
    state: State,
    query: Gaussian,
    k: int,
    beta: float,
    candidates: int,
    answers: Answers | None = None,
) -> Found:
    """Top k of each query among its nearest rows by mu_s, with exact scores.

    It is `exact` where no other row can enter: all were candidates, or the k-th score of every
    query reaches the product of the query's length and the longest mean's, which no mu_s exceeds.
    Among unit vectors that hardly ever happens: the query has to be in the store k times.
    """
    hits = _Hits(state, query, k)
    bounds = np.linalg.norm(query.mean, axis=1) * np.float32(state.longest)
    for held, block in zip(state.postings if query.terms else (), query.terms, strict=True):
        bounds = bounds + block.scale * np.float32(held.scale)  # similarities of terms reach 1
    proven = True
    for i, rows in enumerate(nearest(state, query.mean, candidates, query.terms, answers)):
        mu, sigma2 = hits.moments(i, rows)
        scores = probit(mu, sigma2, beta)
        best = np.lexsort((rows, -scores))[:k]
        hits.put(i, Top(rows[best], scores[best], mu[best], sigma2[best]))
        proven &= len(rows) == state.count or bool(scores[best[-1]] >= bounds[i])
    return hits.found(exact=proven)


def _live(state: State, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of some rows that are of this state and live in it."""
    rows = rows[rows < state.rows]
    if state.live is not None:
        place = np.minimum(np.searchsorted(state.live, rows), len(state.live) - 1)
        rows = rows[state.live[place] == rows]
    return rows


class _Hits:
    """Hits being collected, and what their variances are made of."""

    def __init__(self, state: State, query: Gaussian, k: int) -> None:
        self._state = state
        self._mean, self._variance = query.mean, query.variance
        second = query.mean**2 + self._variance
        self._weights = second if state.profile is None else second @ state.profile.T
        self._query_terms = query.terms
        self._passages: list[list[Passage]] = [[] for _ in range(len(query))]
        self._texts: dict[int, str] = {}  # by row: queries that find a passage share its text
        self._scores, self._mu, self._sigma2 = np.empty((3, len(query), k), dtype=np.float32)

    def rows(self, columns: NDArray[np.int64]) -> NDArray[np.int64]:
        return columns if self._state.live is None else self._state.live[columns]

    def moments(
        self, i: int, rows: NDArray[np.int64], mu: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """mu_s, where it is not known already, and sigma_s^2 of query i and some rows."""
        [means] = checked([self._state.means.rows(rows)])
        if mu is None:
            mu = means @ self._mean[i]
            for block in contributions(self._state, self._terms(i), rows[None]):
                mu += block[0].sum(axis=1)
        sigma2: FloatArray = self._state.scales[rows] @ self._weights[i]
        sigma2 += means**2 @ self._variance[i]
        checked([mu, sigma2])
        return mu, sigma2

    def most(self, i: int) -> float:
        """What sigma_s^2 of query i exceeds with no row, up to rounding."""
        state = self._state
        passages = (state.scales[: state.rows] @ self._weights[i]).max(initial=0.0)
        own = self._variance[i].max(initial=0.0) * np.float64(state.longest) ** 2
        return float(passages + own) * (1 + 1e-4)

    def _terms(self, i: int) -> list[Terms]:
        return [block[i : i + 1] for block in self._query_terms]

    def put(self, i: int, top: Top) -> None:
        """Note down the hits of query i; `top` counts rows of the state."""
        self._scores[i], self._mu[i], self._sigma2[i] = top.scores, top.mu, top.sigma2
        for row in top.rows.tolist():
            held = self._state.passages[row]
            text = self._texts.setdefault(row, held.text)
            self._passages[i].append(Passage(held.id, text, held.metadata))

    def found(self, *, exact: bool) -> Found:
        return Found(self._passages, self._scores, self._mu, self._sigma2, exact)
