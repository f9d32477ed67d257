"""Fitting a member without a layer of weights, such as words: its slope and intercept alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.postings import Corpus, Postings
from uec_rag.base.terms import Terms
from uec_rag.laplace.likelihood import bernoulli_map, decided_by_prior, predictive_nll
from uec_rag.laplace.pairs import (
    BATCH,
    LabelledPairs,
    Pairs,
    known_pairs,
    split_queries,
    with_given,
)
from uec_rag.laplace.posterior import Posterior, PosteriorSummary, Structure

_HITS = 4
_AT_ONCE = 2**24  # similarities held at a time


def fit_terms(
    pairs: Pairs, queries: Terms, passages: Terms, *, structure: Structure = "kron", seed: int = 0
) -> Posterior:
    """Fit how much a similarity of terms says: as `fit_posterior`, with variance 0.

    The passages of the pairs are the corpus that tells how rare a term is.

    Parameters
    ----------
    pairs : Pairs
    queries, passages : Terms
        Of `pairs.queries` and `pairs.passages`.
    structure : {"kron", "diag"}
        For the posterior to say.
    seed : int
        Of the split and the mining.
    """
    fitting, held_out = split_queries(pairs, seed)
    rng = np.random.default_rng(seed)
    batch = rng.integers(0, len(passages), (len(fitting), BATCH))
    known = known_pairs(pairs, fitting[:, None], batch)
    postings, corpus = Postings.of(passages), Corpus(len(passages))
    hardest = np.empty(len(fitting), dtype=np.int64)
    for part, similarity in _blocks(postings, corpus, queries, fitting):
        some = np.take_along_axis(similarity, batch[part], axis=1)
        some[known[part]] = -np.inf
        hardest[part] = some.argmax(axis=1)
    line = np.arange(len(fitting))
    mined = [(fitting, batch[line, at], ~known[line, at]) for at in (hardest, 0 * hardest)]
    query, passage, fresh = (np.concatenate(part) for part in zip(*mined, strict=True))
    train = with_given(pairs, fitting, query[fresh], passage[fresh])
    similarity = _of_pairs(postings, corpus, queries, train)
    slope, intercept = bernoulli_map(similarity, train.labels)
    plain, _ = bernoulli_map(similarity, train.labels, prior=False)

    test = _held_out(pairs, held_out, postings, corpus, queries)
    similarity = _of_pairs(postings, corpus, queries, test)
    _, free = bernoulli_map(similarity, test.labels, slope)
    nll = predictive_nll(similarity, np.zeros(len(test)), test.labels, slope, free)
    summary = PosteriorSummary(
        slope=slope,
        intercept=intercept,
        prior_precision=0.0,
        scale=0.0,
        log_trace_mean=0.0,
        log_trace_sd=1.0,
        pairs=len(train),
        held_out=len(test),
        nll=float(nll.mean()),
        nll_deterministic=float(nll.mean()),
        log_marginal_likelihood=0.0,
        by_prior=("slope",) if decided_by_prior(slope, plain) else (),
    )
    nothing = np.zeros((0, 0), dtype=np.float32)
    profile = np.zeros((1 if structure == "kron" else 0, 0), dtype=np.float32)
    return Posterior(structure, nothing, profile, summary)


def _blocks(
    postings: Postings, corpus: Corpus, queries: Terms, rows: NDArray[np.int64]
) -> Iterator[tuple[slice, FloatArray]]:
    """Similarities of some queries to all passages, as many at a time as memory allows."""
    step = max(1, _AT_ONCE // max(1, corpus.rows))
    for start in range(0, len(rows), step):
        part = slice(start, min(start + step, len(rows)))
        yield part, postings.similarities(queries[rows[part]], corpus)


def _of_pairs(
    postings: Postings, corpus: Corpus, queries: Terms, pairs: LabelledPairs
) -> FloatArray:
    """Similarity of each pair, shape (n,)."""
    out = np.empty(len(pairs), dtype=np.float32)
    order = np.argsort(pairs.query_index, kind="stable")
    rows, place = np.unique(pairs.query_index[order], return_inverse=True)
    for part, similarity in _blocks(postings, corpus, queries, rows):
        mine = order[np.searchsorted(place, part.start) : np.searchsorted(place, part.stop)]
        at = np.searchsorted(rows, pairs.query_index[mine]) - part.start
        out[mine] = similarity[at, pairs.passage_index[mine]]
    return out


def _held_out(
    pairs: Pairs, rows: NDArray[np.int64], postings: Postings, corpus: Corpus, queries: Terms
) -> LabelledPairs:
    """Positives and the best wrong hits, as `held_out_pairs`."""
    asked, found = [], []
    every = np.arange(corpus.rows)[None]
    for part, similarity in _blocks(postings, corpus, queries, rows):
        similarity[known_pairs(pairs, rows[part][:, None], every)] = -np.inf
        hits = min(_HITS, corpus.rows)
        best = np.argpartition(-similarity, hits - 1, axis=1)[:, :hits]
        wrong = np.isfinite(np.take_along_axis(similarity, best, axis=1))
        asked.append(np.repeat(rows[part], wrong.sum(axis=1)))
        found.append(best[wrong])
    return with_given(pairs, rows, np.concatenate(asked), np.concatenate(found))
