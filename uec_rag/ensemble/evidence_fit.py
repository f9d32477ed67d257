"""Learn evidence weights that rank the relevant passages of the fit queries first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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

    Raises
    ------
    ValueError
        If there are no queries, or one has no relevant passage.
    """
    if not relevant or not all(relevant):
        raise ValueError("relevant: expected at least one query, and a passage for each.")
    rng = np.random.default_rng(seed)
    views = []
    for size in sizes:
        rows = rng.permutation(len(relevant))[:queries]
        wanted = np.unique([p for row in rows for p in relevant[row]])
        hidden = _choose_hidden(rows.tolist(), relevant, round(unanswerable * len(rows)))
        others = np.setdiff1d(rng.permutation(passages)[: size + len(wanted)], wanted)
        columns = np.setdiff1d(np.concatenate([rng.permutation(others)[:size], wanted]), hidden)
        positions = np.full(passages, -1)
        positions[columns] = np.arange(len(columns))
        mask = np.zeros((len(rows), len(columns)), dtype=bool)
        for i, row in enumerate(rows):
            at = positions[list(relevant[row])]
            mask[i, at[at >= 0]] = True
        if len(columns):
            views.append(CorpusView(rows, columns.astype(np.intp), mask))
    return views


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

    @property
    def passages(self) -> int:
        """The number of passages N."""
        return int(self.similarities[0].shape[1])


def _choose_hidden(
    rows: list[int], relevant: Sequence[Collection[int]], most: int
) -> NDArray[np.intp]:
    """Choose passages to remove until `most` queries have lost all of their answers.

    Queries that share answers may lose some or all of theirs as well.
    """
    left = {row: set(relevant[row]) for row in rows}
    asking: dict[int, list[int]] = {}
    for row in rows:
        for passage in left[row]:
            asking.setdefault(passage, []).append(row)
    hidden: list[int] = []
    lost = 0
    for row in rows:
        if lost >= most:
            break
        for passage in sorted(left[row]):
            hidden.append(passage)
            for other in asking[passage]:
                left[other].discard(passage)
                lost += not left[other]
    return np.unique(hidden).astype(np.intp)


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

    Raises
    ------
    ValueError
        If `corpus_views` or `corpus_evidence` raises it.
    """
    from scipy.optimize import minimize

    drawn = [(own, view) for view in corpus_views(own.relevant, own.passages, seed=seed)]
    for other in others:
        whole = corpus_views(other.relevant, other.passages, sizes=(other.passages,))
        drawn += [(other, view) for view in whole]
    cuts = [[view.cut(values) for values in corpus.similarities] for corpus, view in drawn]
    evidence = [
        corpus_evidence(cut, slopes, intercepts, corpus.trace[view.queries])
        for (corpus, view), cut in zip(drawn, cuts, strict=True)
    ]
    pooled = np.concatenate([e.reshape(-1, len(FEATURES)) for e in evidence])
    location = pooled.mean(axis=0)
    # A feature that hardly varies over the fit queries must not be huge for others.
    spread = np.maximum(pooled.std(axis=0), 0.05)
    encoders = len(slopes)
    problems = [
        (
            # The intercept is the same for all passages of a query, so the softmax ignores it.
            np.stack([np.float32(a) * s for a, s in zip(slopes, cut, strict=True)]),
            standardise(e, location, spread).astype(np.float64),
            view.relevant,
        )
        for (_, view), cut, e in zip(drawn, cuts, evidence, strict=True)
    ]
    loss = partial(_penalised_loss, problems=problems, encoders=encoders)
    of_features = _BOUNDS if others else {**_BOUNDS, "deviation": _OUT}
    bounds = [*(of_features[name] for name in FEATURES), (-4.0, 6.0)]
    bounds += [(None, None)] * encoders
    result = minimize(loss, np.zeros(len(bounds)), jac=True, method="L-BFGS-B", bounds=bounds)
    solution = result.x
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
