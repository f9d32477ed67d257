"""Fitting pairs: those that the user gives, checked, and the labelled ones made of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray, Terms
from uec_rag.base.postings import Corpus, Postings

Negatives = Literal["hard", "random"]
"""The negatives of a query: a random and a hard passage, or a random one alone."""

MINIMUM = 32
"""Fewest positive pairs a posterior is fitted on."""

_FEWEST_QUERIES = 5  # a fifth of them is held out

BATCH = 32
"""Texts among which the hard negative is looked for: hard, yet rarely a true answer."""

_HELD_OUT = 0.2
_AT_ONCE = 1 << 22  # numbers of mining held at a time, 16 MiB


@dataclass(frozen=True)
class Pairs:
    """Checked (query, passage, label) triples over distinct texts, in an order of their own.

    Attributes
    ----------
    queries, passages : list of str
        The distinct texts.
    query_index, passage_index : int array, shape (n,)
        Which texts each pair joins.
    labels : float array, shape (n,)
        1 if the passage answers the query, 0 if it does not.
    """

    queries: list[str]
    passages: list[str]
    query_index: NDArray[np.int64]
    passage_index: NDArray[np.int64]
    labels: FloatArray

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def positives(self) -> list[NDArray[np.int64]]:
        """Indices of the passages that answer each query."""
        found: list[list[int]] = [[] for _ in self.queries]
        for q, p in zip(
            self.query_index[self.labels == 1], self.passage_index[self.labels == 1], strict=True
        ):
            found[q].append(int(p))
        return [np.array(sorted(set(f)), dtype=np.int64) for f in found]


def check_pairs(pairs: Iterable[Sequence[object]], name: str = "pairs") -> Pairs:
    """Check fitting pairs before any encoder runs.

    Parameters
    ----------
    pairs : iterable of (query, passage) or (query, passage, label)
        Without labels every pair is an answer; negatives are mined in either case.
    name : str
        What to call the argument in an error.

    Raises
    ------
    TypeError
        If an item is not a tuple of two strings and an optional label.
    ValueError
        If a text is empty, a label is not 0 or 1, all labels are alike, there are fewer than
        `MINIMUM` distinct positive pairs, too few queries have one, or every passage answers
        every query.
    """
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise TypeError(f"{name}: expected (query, passage) tuples, got {type(pairs).__name__}.")
    labels: dict[tuple[str, str], int] = {}
    given: set[int] = set()
    labelled = False
    for index, pair in enumerate(pairs):
        query, passage, label = _triple(pair, f"{name}[{index}]")
        labelled |= label is not None
        value = 1 if label is None else label
        given.add(value)
        labels[query, passage] = max(value, labels.get((query, passage), 0))
    if labelled and len(given) == 1:
        raise ValueError(
            f"{name}: every label is {given.pop()}; expected both 0 and 1. "
            "Leave the labels out where all pairs are answers: negatives are then mined."
        )
    positives = sum(labels.values())
    if positives < MINIMUM:
        raise ValueError(
            f"{name}: expected at least {MINIMUM} distinct pairs of a query and its passage, "
            f"got {positives}; give more, or use the ensemble unfitted."
        )
    answered = {query for (query, _), label in labels.items() if label}
    if len(answered) < _FEWEST_QUERIES:
        raise ValueError(
            f"{name}: expected at least {_FEWEST_QUERIES} distinct queries with an answer, got "
            f"{len(answered)}; a fifth of the queries is held out to tune the variance."
        )
    # Sorted: what is drawn at random below must not hang on the order in which pairs were given.
    labels = dict(sorted(labels.items()))
    queries = {query: None for query, _ in labels}
    passages = {passage: None for _, passage in labels}
    if positives == len(queries) * len(passages):
        raise ValueError(
            f"{name}: every query is paired with every passage (there are {len(passages)}), so "
            "there is no wrong passage to learn from; give pairs over different passages."
        )
    q_of = {text: i for i, text in enumerate(queries)}
    p_of = {text: i for i, text in enumerate(passages)}
    return Pairs(
        list(queries),
        list(passages),
        np.array([q_of[q] for q, _ in labels], dtype=np.int64),
        np.array([p_of[p] for _, p in labels], dtype=np.int64),
        np.array(list(labels.values()), dtype=np.float32),
    )


def _triple(pair: object, name: str) -> tuple[str, str, int | None]:
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) not in (2, 3):
        raise TypeError(
            f"{name}: expected (query, passage) or (query, passage, label), got {pair!r:.80}."
        )
    query, passage = pair[0], pair[1]
    for role, text in (("query", query), ("passage", passage)):
        if not isinstance(text, str):
            raise TypeError(f"{name}: expected the {role} to be a string, got {text!r:.80}.")
        if not text.strip():
            raise ValueError(f"{name}: the {role} is empty.")
    if len(pair) == 2 or pair[2] is None:
        return query, passage, None
    if pair[2] not in (0, 1):
        raise ValueError(f"{name}: expected label 0 or 1, got {pair[2]!r}.")
    return query, passage, int(pair[2])


@dataclass(frozen=True)
class LabelledPairs:
    """Index pairs with labels: positives, given negatives and mined ones.

    Attributes
    ----------
    query_index, passage_index : int array, shape (n,)
    labels : float array, shape (n,)
    """

    query_index: NDArray[np.int64]
    passage_index: NDArray[np.int64]
    labels: FloatArray

    def __len__(self) -> int:
        return len(self.labels)


def split_queries(pairs: Pairs, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split query indices into those that fit a posterior and those held out to tune it.

    A fifth of the queries with an answer is held out; queries with none tell what is wrong, not
    how far down it belongs, and always fit.
    """
    answered = np.unique(pairs.query_index[pairs.labels == 1])
    order = np.random.default_rng(seed).permutation(answered)
    held_out = np.sort(order[: round(len(answered) * _HELD_OUT)])
    return np.setdiff1d(np.arange(len(pairs.queries)), held_out), held_out


@dataclass(frozen=True, eq=False)
class OfVectors:
    """The inner products of unit embeddings, shapes (n_q, d) and (n_p, d)."""

    queries: FloatArray
    passages: FloatArray

    def of(self, query: NDArray[np.int64], passage: NDArray[np.int64]) -> FloatArray:
        """Return similarities of queries (n,) to passages (n, p), given by index, shape (n, p)."""
        out = np.empty(passage.shape, dtype=np.float32)
        for part in _slices(len(query), passage.shape[1] * self.passages.shape[1]):
            asked = self.queries[query[part], :, None]
            out[part] = (self.passages[passage[part]] @ asked)[..., 0]
        return out

    def of_pairs(self, pairs: LabelledPairs) -> FloatArray:
        """Return the similarity of each pair, shape (n,)."""
        sides = self.queries[pairs.query_index], self.passages[pairs.passage_index]
        product: FloatArray = np.einsum("nd,nd->n", *sides)
        return product

    def to_all(self, query: NDArray[np.int64]) -> FloatArray:
        """Return similarities of each query to every passage, shape (n, n_p), as a new array."""
        product: FloatArray = self.queries[query] @ self.passages.T
        return product


class OfTerms:
    """The similarities of terms; the passages are the corpus that tells how rare a term is."""

    def __init__(self, queries: Terms, passages: Terms) -> None:
        self._queries, self._corpus = queries, Corpus(len(passages))
        self._postings = Postings.of(passages)

    def of(self, query: NDArray[np.int64], passage: NDArray[np.int64]) -> FloatArray:
        """See `OfVectors`."""
        out = np.empty(passage.shape, dtype=np.float32)
        order = np.argsort(query, kind="stable")  # a query's similarities are found once
        for part in _slices(len(query), self._corpus.rows):
            rows, place = np.unique(query[order[part]], return_inverse=True)
            out[order[part]] = self.to_all(rows)[place[:, None], passage[order[part]]]
        return out

    def of_pairs(self, pairs: LabelledPairs) -> FloatArray:
        """See `OfVectors`."""
        return self.of(pairs.query_index, pairs.passage_index[:, None])[:, 0]

    def to_all(self, query: NDArray[np.int64]) -> FloatArray:
        """See `OfVectors`."""
        return self._postings.similarities(self._queries[query], self._corpus)


Similarities: TypeAlias = OfVectors | OfTerms
"""The similarity of queries and passages, by vectors or by words."""


def training_pairs(
    pairs: Pairs,
    rows: NDArray[np.int64],
    similar: Similarities,
    seed: int,
    negatives: Negatives = "hard",
) -> LabelledPairs:
    """Label pairs of the given queries: their positives, given negatives, and mined ones.

    For each query one random passage, and the most similar of a random batch (a hard negative
    that is rarely an unmarked answer: the hardest of the whole collection often is one).

    `rows`: queries to use. `similar`: of `pairs.queries` and `pairs.passages`. `negatives`, "hard",
    "random": "random" leaves the hard ones out, as the paper does.
    """
    rng = np.random.default_rng(seed)
    batch = rng.integers(0, len(pairs.passages), (len(rows), BATCH))
    known = known_pairs(pairs, rows[:, None], batch)
    line, first = np.arange(len(rows)), np.zeros(len(rows), dtype=np.int64)
    places = [first]
    if negatives == "hard":
        similarity = similar.of(rows, batch)
        similarity[known] = -np.inf
        places = [similarity.argmax(axis=1), first]
    mined = [(rows, batch[line, place], ~known[line, place]) for place in places]
    query, passage, fresh = (np.concatenate(part) for part in zip(*mined, strict=True))
    return with_given(pairs, rows, query[fresh], passage[fresh])


def held_out_pairs(
    pairs: Pairs, rows: NDArray[np.int64], similar: Similarities, hits: int = 4
) -> LabelledPairs:
    """Label what a search would show the given queries: their positives and their best wrong hits.

    Users see hits, not random pairs; a variance tuned here says how wrong a model is when it
    matters.
    """
    place = np.full(len(pairs.queries), -1)
    place[rows] = np.arange(len(rows))
    own = place[pairs.query_index]
    top = np.empty((len(rows), min(hits, len(pairs.passages))), dtype=np.int64)
    wrong = np.empty(top.shape, dtype=bool)
    for part in _slices(len(rows), len(pairs.passages)):
        similarity = similar.to_all(rows[part])
        given = (own >= part.start) & (own < part.stop)
        similarity[own[given] - part.start, pairs.passage_index[given]] = -np.inf
        line = np.arange(len(similarity))
        # A few maxima in turn are quicker than one partition of every row.
        for hit in range(top.shape[1]):
            top[part, hit] = best = similarity.argmax(axis=1)
            wrong[part, hit] = np.isfinite(similarity[line, best])
            similarity[line, best] = -np.inf
    mined_q = np.repeat(rows, wrong.sum(axis=1))
    return with_given(pairs, rows, mined_q, top[wrong])


def _slices(rows: int, numbers: int) -> Iterator[slice]:
    """Cut rows of so many numbers each into slices, to bound the memory."""
    step = max(1, _AT_ONCE // max(1, numbers))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def known_pairs(
    pairs: Pairs, query: NDArray[np.int64], passage: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Tell which pairs of a query and a passage have a label; the shapes broadcast."""
    count = len(pairs.passages)
    keys = np.sort(pairs.query_index * count + pairs.passage_index)
    wanted = query * count + passage
    found = keys[np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)]
    known: NDArray[np.bool_] = found == wanted
    return known


def with_given(
    pairs: Pairs, rows: NDArray[np.int64], query: NDArray[np.int64], passage: NDArray[np.int64]
) -> LabelledPairs:
    """Join all labelled pairs of some queries with mined ones that are no answers."""
    own = np.isin(pairs.query_index, rows)
    return LabelledPairs(
        np.concatenate([pairs.query_index[own], query]),
        np.concatenate([pairs.passage_index[own], passage]),
        np.concatenate([pairs.labels[own], np.zeros(len(query), np.float32)]),
    )
