"""Pairs to fit on: check those of the user, and mine negatives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.counts import Words
from uec_rag.base.gaussian import FloatArray
from uec_rag.base.similarity import first_of_largest
from uec_rag.encoders.base import Encoded

Negatives = Literal["hard", "random"]
"""The negatives of a query: a random and a hard passage, or only a random one."""

MINIMUM = 32
"""The smallest number of positive pairs to fit a posterior on."""

_FEWEST_QUERIES = 5  # 20 % of them are held out

BATCH = 32
"""The number of random passages from which the hard negative is chosen: few, so that it is rarely
an unlabelled answer."""

_HELD_OUT = 0.2
_MAX_NUMBERS = 1 << 22  # size of temporary arrays, 16 MiB

Indices: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class LabelledPairs:
    """Pairs of indices with labels: positives, given negatives and mined negatives.

    Attributes
    ----------
    query_index, passage_index : int array, shape (n,)
    labels : float array, shape (n,)
    """

    query_index: Indices
    passage_index: Indices
    labels: FloatArray

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Pairs(LabelledPairs):
    """Checked (query, passage, label) triples over distinct texts, in sorted order.

    Attributes
    ----------
    query_index, passage_index : int array, shape (n,)
        Indices of each pair's texts; those of the queries ascend.
    labels : float array, shape (n,)
        1 if the passage answers the query, 0 if it does not.
    queries, passages : list of str
        The distinct texts.
    """

    queries: list[str]
    passages: list[str]

    @property
    def positives(self) -> list[Indices]:
        """The indices of the passages that answer each query."""
        answers = self.labels == 1
        counts = np.bincount(self.query_index[answers], minlength=len(self.queries))
        parts = np.split(self.passage_index[answers], np.cumsum(counts)[:-1])
        return [np.sort(part) for part in parts]


def check_pairs(pairs: Iterable[Sequence[object]], name: str = "pairs") -> Pairs:
    """Check pairs before any encoder runs.

    Parameters
    ----------
    pairs : iterable of (query, passage) or (query, passage, label)
        Without labels, every pair is an answer. Negatives are mined in either case.
    name : str
        Name of the argument, for messages.

    Raises
    ------
    TypeError
        If an item is not a tuple of two texts and an optional label.
    ValueError
        If a text is empty or none, a label is not 0 or 1, there are fewer than `MINIMUM` distinct
        positive pairs, too few queries have one, or every passage answers every query.
    """
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise TypeError(f"{name}: expected (query, passage) tuples, got {type(pairs).__name__}.")
    labels: dict[tuple[str, str], int] = {}
    for index, pair in enumerate(pairs):
        query, passage, label = _triple(pair, f"{name}[{index}]")
        labels[query, passage] = max(label, labels.get((query, passage), 0))
    # Sorted, so that random samples do not depend on the order of the pairs.
    labels = dict(sorted(labels.items()))
    queries = list(dict.fromkeys(query for query, _ in labels))
    passages = list(dict.fromkeys(passage for _, passage in labels))
    positives = sum(labels.values())
    answered = len({query for (query, _), label in labels.items() if label})
    is_complete = positives == len(queries) * len(passages)  # then no passage is wrong
    if positives < MINIMUM or answered < _FEWEST_QUERIES or is_complete:
        raise ValueError(
            f"{name}: expected at least {MINIMUM} distinct pairs of a query and its passage, of "
            f"{_FEWEST_QUERIES} queries or more, not each with every passage, got {positives} of "
            f"{answered} queries and {len(passages)} passages; give more, or use the ensemble "
            "unfitted."
        )
    q_of, p_of = ({text: i for i, text in enumerate(texts)} for texts in (queries, passages))
    return Pairs(
        np.array([q_of[query] for query, _ in labels], dtype=np.int64),
        np.array([p_of[passage] for _, passage in labels], dtype=np.int64),
        np.array([*labels.values()], dtype=np.float32),
        queries,
        passages,
    )


def _triple(pair: object, name: str) -> tuple[str, str, int]:
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) not in (2, 3):
        raise TypeError(
            f"{name}: expected (query, passage) or (query, passage, label), got {pair!r:.80}."
        )
    query, passage, label = (*pair, None)[:3]
    for role, text in (("query", query), ("passage", passage)):
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{name}: expected the {role} to be a text, got {text!r:.80}.")
    if label not in (0, 1, None):
        raise ValueError(f"{name}: expected label 0 or 1, got {label!r}.")
    return query, passage, 1 if label is None else int(label)


def split_queries(pairs: Pairs, seed: int) -> tuple[Indices, Indices]:
    """Split query indices into those to fit a posterior on and those to tune it on.

    20 % of the queries with an answer are held out. Queries without an answer, which cannot show
    whether an answer ranks above wrong passages, are always in the first part.
    """
    answered = np.unique(pairs.query_index[pairs.labels == 1])
    order = np.random.default_rng(seed).permutation(answered)
    held_out = np.sort(order[: round(len(answered) * _HELD_OUT)])
    return np.setdiff1d(np.arange(len(pairs.queries)), held_out), held_out


Similarities: TypeAlias = Callable[[Indices], FloatArray]
"""A function that computes the similarities of queries, by index, to every passage, (n, n_p)."""


def similarities(queries: Encoded, passages: Encoded) -> Similarities:
    """Return the similarities by vectors, or by words, whose frequencies are the passages'."""
    if queries.terms is None or passages.terms is None:
        return lambda rows: queries.embedding[rows] @ passages.embedding.T
    terms, words = queries.terms, Words.from_terms(passages.terms)
    return lambda rows: words.similarities(words.look_up(terms[rows]))


def pair_similarities(queries: Encoded, passages: Encoded, pairs: LabelledPairs) -> FloatArray:
    """Compute the similarity of each pair, shape (n,)."""
    query, passage = pairs.query_index, pairs.passage_index
    if queries.terms is None or passages.terms is None:
        sides = queries.embedding[query], passages.embedding[passage]
        product: FloatArray = np.einsum("nd,nd->n", *sides)
        return product
    words = Words.from_terms(passages.terms)
    lookup = words.look_up(queries.terms[query])
    parts = words.contributions(lookup, [*passage[:, None]])
    return np.array([part.sum() for part in parts], dtype=np.float32)


def training_pairs(
    pairs: Pairs, rows: Indices, similar: Similarities, seed: int, negatives: Negatives = "hard"
) -> LabelledPairs:
    """Label pairs of the given queries: positives, given negatives, and mined negatives.

    The mined negatives of a query are a random passage and the most similar of a random batch. This
    hard negative is rarely an unlabelled answer, which the hardest of all passages often is.

    `rows`: indices of the queries. `similar`: similarities of `pairs.queries` and `pairs.passages`.
    `negatives`: "hard", or "random" to leave out the hard ones, as the paper does.
    """
    count = len(pairs.passages)
    batch = np.random.default_rng(seed).integers(0, count, (len(rows), BATCH))
    mask = np.isin(rows[:, None] * count + batch, pairs.query_index * count + pairs.passage_index)
    random = np.zeros(len(rows), dtype=np.int64)
    places = [random]
    if negatives == "hard":
        hardest = np.empty(len(rows), dtype=np.int64)
        for part in _slices(len(rows), count):
            similarity = np.take_along_axis(similar(rows[part]), batch[part], axis=1)
            hardest[part] = np.where(mask[part], -np.inf, similarity).argmax(axis=1)
        places = [hardest, random]
    line = np.arange(len(rows))
    mined = [(rows, batch[line, place], ~mask[line, place]) for place in places]
    query, passage, fresh = (np.concatenate(part) for part in zip(*mined, strict=True))
    return _with_given(pairs, rows, query[fresh], passage[fresh])


def held_out_pairs(
    pairs: Pairs, rows: Indices, similar: Similarities, hits: int = 4
) -> LabelledPairs:
    """Label pairs of the given queries: positives, and the wrong hits that rank highest.

    Users see hits rather than random pairs, so the variance is tuned on hits.
    """
    top = np.empty((len(rows), min(hits, len(pairs.passages))), dtype=np.int64)
    wrong = np.empty(top.shape, dtype=bool)
    for part in _slices(len(rows), len(pairs.passages)):
        similarity = similar(rows[part])
        for row, query in enumerate(rows[part]):
            similarity[row, pairs.passage_index[pairs.query_index == query]] = -np.inf
        top[part] = [first_of_largest(of_query, top.shape[1]) for of_query in similarity]
        wrong[part] = np.isfinite(np.take_along_axis(similarity, top[part], axis=1))
    return _with_given(pairs, rows, np.repeat(rows, wrong.sum(axis=1)), top[wrong])


def _slices(rows: int, numbers: int) -> Iterator[slice]:
    """Split rows of `numbers` numbers each into slices, to bound the memory."""
    step = max(1, _MAX_NUMBERS // max(1, numbers))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _with_given(pairs: Pairs, rows: Indices, query: Indices, passage: Indices) -> LabelledPairs:
    """Join all labelled pairs of some queries with mined negatives."""
    is_given = np.isin(pairs.query_index, rows)
    return LabelledPairs(
        np.concatenate([pairs.query_index[is_given], query]),
        np.concatenate([pairs.passage_index[is_given], passage]),
        np.concatenate([pairs.labels[is_given], np.zeros(len(query), np.float32)]),
    )
