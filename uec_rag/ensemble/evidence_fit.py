"""Learn evidence weights that rank the relevant passages of the fit queries first."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.ensemble.convolution import FEATURES, EvidenceWeights, corpus_evidence, standardise

# The bounds of the weights. More evidence of failure must never increase an encoder's coefficient,
# even if a small or biased fit set suggests it.
#
# The trace is left out: learned from made-up languages, it mistakes a new domain for one, which
# cost .02 to .04 nDCG@10 on questions about finance (docs/measurements). The deviation gains .002
# with made-up languages; learned only on texts that all encoders were fitted on, it costs .01 to
# .02, so that without other corpora it is left out, too.
_OUT, _POSITIVE, _NEGATIVE = (0.0, 0.0), (0.0, None), (None, 0.0)
_BOUNDS: dict[str, tuple[float | None, float | None]] = {
    "trace": _OUT,
    "entropy": _NEGATIVE,
    "gap": _POSITIVE,
    "top": _POSITIVE,
    "base": _NEGATIVE,
    "deviation": _NEGATIVE,
}
_PENALTY = 0.03  # factor of the ridge penalty


@dataclass(frozen=True, eq=False)
class CorpusView:
    """A subset of the fit passages as a smaller corpus, with queries.

    Weights must generalise to corpora of any size, so they are learned on several sizes.

    Attributes
    ----------
    queries : array of int, shape (n,)
        Indices of the fit queries.
    passages : array of int, shape (N,)
        Indices of the fit passages.
    relevant : array of bool, shape (n, N)
        Whether a passage answers a query; a row without any True is an unanswerable query.
    """

    queries: NDArray[np.intp]
    passages: NDArray[np.intp]
    relevant: NDArray[np.bool_]

    def cut(self, matrix: FloatArray) -> FloatArray:
        """Select the view's rows and columns of a (queries, passages) matrix."""
        return matrix[np.ix_(self.queries, self.passages)]


def corpus_views(
    relevant: Sequence[Collection[int]],
    passages: int,
    *,
    sizes: Sequence[int] = (150, 600),
    queries: int = 300,
    unanswerable: float = 0.0,
    seed: int = 0,
) -> list[CorpusView]:
    """Draw corpora of several sizes from the fit passages.

    Parameters
    ----------
    relevant : sequence of n collections of int
        Indices of each fit query's relevant passages, at least one each.
    passages : int
        Number of fit passages.
    sizes : sequence of int
        Number of passages of each view in addition to the relevant ones, if there are enough.
    queries : int
        Largest number of queries in a view.
    unanswerable : float
        Share of a view's queries whose relevant passages are removed from it.
    """
    rng = np.random.default_rng(seed)
    views = []
    for size in sizes:
        rows = rng.permutation(len(relevant))[:queries]
        wanted = np.unique([p for row in rows for p in relevant[row]])
        hidden = _choose_hidden([{*relevant[row]} for row in rows], round(unanswerable * len(rows)))
        others = np.setdiff1d(rng.permutation(passages)[: size + len(wanted)], wanted)
        columns = np.setdiff1d(
            np.concatenate([rng.permutation(others)[:size], wanted]), np.array([*hidden], np.intp)
        )
        mask = np.zeros((len(rows), passages), dtype=bool)
        for position, row in enumerate(rows):
            mask[position, [*relevant[row]]] = True
        if len(columns):
            views.append(CorpusView(rows, columns.astype(np.intp), mask[:, columns]))
    return views


def _choose_hidden(answers: Sequence[Set[int]], most: int) -> Set[int]:
    """Choose passages to remove until `most` queries have lost all of their answers.

    Queries that share answers may lose some or all of theirs as well.
    """
    hidden = set[int]()
    for own in answers:
        if sum(map(hidden.issuperset, answers)) >= most:
            break
        hidden |= own
    return hidden


@dataclass(frozen=True, eq=False)
class FitCorpus:
    """Queries and passages to learn evidence weights from.

    Attributes
    ----------
    similarities : sequence of K arrays, shape (n, N)
        Similarities of the queries to the passages for each encoder.
    relevant : sequence of n collections of int
        Indices of each query's relevant passages.
    trace : array, shape (n, K)
        As in `corpus_evidence`.
    """

    similarities: Sequence[FloatArray]
    relevant: Sequence[Collection[int]]
    trace: FloatArray


def fit_evidence_weights(
    own: FitCorpus,
    slopes: Sequence[float],
    intercepts: Sequence[float],
    *,
    seed: int = 0,
    others: Sequence[FitCorpus] = (),
) -> EvidenceWeights:
    """Learn the weights that maximise the relevant passages' share of the fused posterior.

    Minimises the listwise negative log-likelihood of the relevant passages in
    ``softmax_c(sum_k pi_k l_k(c) / T)`` over small and larger views of the fit passages, with a
    ridge penalty towards equal weights, by L-BFGS with bounds. This takes a few seconds. A prior
    per encoder is learned: the penalty makes it irrelevant for pairs of one domain, and it
    distinguishes languages if there are several.

    Parameters
    ----------
    own : FitCorpus
        The fit queries and passages; a few hundred queries are enough.
    slopes, intercepts
        As in `corpus_evidence`.
    seed : int
        Random seed of the views.
    others : sequence of FitCorpus
        Queries over other corpora, to learn from in addition.
    """
    from scipy.optimize import minimize

    drawn, encoders = [], len(slopes)
    for corpus in (own, *others):
        size = corpus.similarities[0].shape[1]
        views = partial(corpus_views, corpus.relevant, size)
        for view in views(seed=seed) if corpus is own else views(sizes=(size,)):
            cut = np.stack([view.cut(values) for values in corpus.similarities])
            seen = corpus_evidence([*cut], slopes, intercepts, corpus.trace[view.queries])
            drawn.append((cut, seen, view.relevant))
    pooled = np.concatenate([seen.reshape(-1, len(FEATURES)) for _, seen, _ in drawn])
    location = pooled.mean(axis=0)
    # A feature that hardly varies over the fit queries must not be huge for others.
    spread = np.maximum(pooled.std(axis=0), 0.05)
    # The intercept is the same for all passages of a query, so the softmax ignores it.
    factor = np.reshape(np.array(slopes, np.float32), (encoders, 1, 1))
    problems = [
        (factor * cut, standardise(seen, location, spread).astype(np.float64), relevant)
        for cut, seen, relevant in drawn
    ]
    loss = partial(_penalised_loss, problems=problems, encoders=encoders)
    of_features = _BOUNDS if others else {**_BOUNDS, "deviation": _OUT}
    bounds = [*(of_features[name] for name in FEATURES), (-4.0, 6.0)]
    bounds += [(None, None)] * encoders
    start = np.zeros(len(bounds))
    solution = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return EvidenceWeights(
        weights=tuple(solution[: len(FEATURES)].tolist()),
        location=tuple(location.tolist()),
        spread=tuple(spread.tolist()),
        prior=tuple(solution[-encoders:].tolist()),
    )


def _penalised_loss(
    parameters: NDArray[np.float64],
    problems: Sequence[tuple[FloatArray, NDArray[np.float64], NDArray[np.bool_]]],
    encoders: int,
) -> tuple[float, NDArray[np.float64]]:
    """Compute the mean loss of all views' queries with its ridge penalty, and the gradient.

    `problems`: logits, standardised evidence and relevant passages of each view, as in `_loss`.
    The scale is not penalised.
    """
    count = sum(len(relevant) for *_, relevant in problems)
    shrunk = np.concatenate([parameters[: len(FEATURES)], [0.0], parameters[-encoders:]])
    total = _PENALTY * float(shrunk @ shrunk)
    gradient = 2 * _PENALTY * shrunk
    for problem in problems:
        value, slope = _loss(parameters, *problem)
        total += value / count
        gradient += slope / count
    return total, gradient


def _loss(
    parameters: NDArray[np.float64],
    logits: FloatArray,
    evidence: NDArray[np.float64],
    relevant: NDArray[np.bool_],
) -> tuple[float, NDArray[np.float64]]:
    """Compute the negative log-likelihood of one view and its gradient.

    `parameters`: weights, log scale and prior. `logits`: array, shape (K, n, N). `evidence`:
    standardised, shape (n, K, F). `relevant`: shape (n, N).
    """
    features = evidence.shape[2]
    scale = np.exp(parameters[features])
    scores = evidence @ parameters[:features] + parameters[features + 1 :]
    pi = np.exp(scores - scores.max(axis=1, keepdims=True))
    pi /= pi.sum(axis=1, keepdims=True)
    fused = np.einsum("nk,knc->nc", (scale * pi).astype(np.float32), logits)
    mass = np.exp(fused - fused.max(axis=1, keepdims=True))
    posterior = mass / mass.sum(axis=1, keepdims=True)
    right = np.maximum(np.where(relevant, posterior, 0).sum(axis=1), 1e-30)
    target = np.where(relevant, posterior, 0) / right[:, None]
    pull = np.einsum("nc,knc->nk", posterior - target, logits).astype(np.float64)
    drift = scale * pi * (pull - (pi * pull).sum(axis=1, keepdims=True))
    gradient = np.concatenate(
        [np.einsum("nk,nkf->f", drift, evidence), [scale * (pi * pull).sum()], drift.sum(axis=0)]
    )
    return -float(np.log(right).sum()), gradient
