"""Learning the evidence weights, which put the right passages of the fit queries first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.ensemble.convolution import FEATURES, EvidenceWeights, corpus_evidence, standardise

LEARNED = ("entropy", "gap", "top", "base")
"""The default features. Not the trace: learned from made-up languages it takes a new subject for
one, and on questions of finance that cost .02 to .04 of nDCG@10 (docs/measurements)."""

LEARNED_BESIDE = (*LEARNED, "deviation")
"""The features if other corpora say what they mean. Beside made-up languages the deviation earns
.002 of nDCG@10; learned on real ones that all encoders were fitted on, it costs .01 to .02."""

# Which way a feature may count. More evidence of trouble never earns an encoder more weight,
# whatever a small or one-sided fit set suggests; but which way a trace points depends on what the
# posteriors have seen: fitted on all languages together an encoder is surest of those it does not
# know.
_SIGN = {"trace": 0, "entropy": -1, "gap": 1, "top": 1, "base": -1, "deviation": -1}


@dataclass(frozen=True, eq=False)
class CorpusView:
    """A smaller corpus cut out of the fit passages, with queries to ask it.

    What is learned must hold for corpora of any size, so it is learned on several.

    Attributes
    ----------
    queries : array of int, shape (n,)
        Which of the fit queries.
    passages : array of int, shape (N,)
        Which of the fit passages.
    relevant : array of bool, shape (n, N)
        A row without any is a query that this corpus does not answer.
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
    """Cut corpora of several sizes out of the fit passages.

    Parameters
    ----------
    relevant : sequence of n collections of int
        Positions of each fit query's relevant passages, at least one each.
    passages : int
        How many fit passages there are.
    sizes : sequence of int
        How many other passages each view holds beside the relevant ones, if there are as many.
    queries : int
        At most so many in a view.
    unanswerable : float
        Share of a view's queries whose relevant passages are taken out of it.

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
        hidden = _hidden(rows.tolist(), relevant, round(unanswerable * len(rows)))
        others = np.setdiff1d(rng.permutation(passages)[: size + len(wanted)], wanted)
        columns = np.setdiff1d(np.concatenate([rng.permutation(others)[:size], wanted]), hidden)
        place = np.full(passages, -1)
        place[columns] = np.arange(len(columns))
        mask = np.zeros((len(rows), len(columns)), dtype=bool)
        for i, row in enumerate(rows):
            at = place[list(relevant[row])]
            mask[i, at[at >= 0]] = True
        if len(columns):
            views.append(CorpusView(rows, columns.astype(np.intp), mask))
    return views


@dataclass(frozen=True, eq=False)
class AskedElsewhere:
    """Queries asked of a corpus of their own; as in `fit_evidence_weights`."""

    similarities: Sequence[FloatArray]
    relevant: Sequence[Collection[int]]
    trace: ArrayLike


def _hidden(rows: list[int], relevant: Sequence[Collection[int]], most: int) -> NDArray[np.intp]:
    """Choose passages to remove so that about `most` rows lose every answer, and others none.

    Questions share answers: with one's answers those of others go.
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
    similarities: Sequence[FloatArray],
    relevant: Sequence[Collection[int]],
    slopes: Sequence[float],
    intercepts: Sequence[float],
    trace: ArrayLike,
    *,
    features: Collection[str] | None = None,
    learn_prior: bool = False,
    penalty: float = 0.03,
    seed: int = 0,
    beside: Sequence[AskedElsewhere] = (),
) -> EvidenceWeights:
    """Learn the weights that maximise the relevant passage's share of the fused posterior.

    Minimises the listwise negative log likelihood of the relevant passages in
    ``softmax_c(sum_k pi_k l_k(c) / T)`` over small and larger views of the fit passages, plus a
    ridge towards equal weights; L-BFGS with bounds, a few seconds.

    Parameters
    ----------
    similarities : sequence of K arrays, shape (n, N)
        Each encoder's similarities of the fit queries to the fit passages; some hundred queries
        are plenty.
    relevant : sequence of n collections of int
        Positions of each query's relevant passages.
    slopes, intercepts, trace
        As in `corpus_evidence`.
    features : collection of str, optional
        Which of `FEATURES` may count; by default `LEARNED`, with others beside `LEARNED_BESIDE`.
    learn_prior : bool
        Also learn a constant per encoder, under the same ridge.
    penalty : float
        Of the ridge.
    seed : int
        Of the views.
    beside : sequence of AskedElsewhere
        Queries asked of other corpora, to learn from as well.

    Raises
    ------
    ValueError
        If a feature is unknown, or `corpus_views` or `corpus_evidence` refuses its input.
    """
    from scipy.optimize import minimize

    if features is None:
        features = LEARNED_BESIDE if beside else LEARNED
    unknown = set(features) - set(FEATURES)
    if unknown:
        raise ValueError(f"features: expected some of {FEATURES}, got {sorted(unknown)}.")
    traces = np.asarray(trace, dtype=np.float32)
    views = corpus_views(relevant, similarities[0].shape[1], seed=seed)
    cuts = [[view.cut(similarity) for similarity in similarities] for view in views]
    evidence = [
        corpus_evidence(cut, slopes, intercepts, traces[view.queries])
        for view, cut in zip(views, cuts, strict=True)
    ]
    for other in beside:
        views += corpus_views(other.relevant, other.similarities[0].shape[1], sizes=(1 << 30,))
        cuts.append([views[-1].cut(similarity) for similarity in other.similarities])
        of_queries = np.asarray(other.trace, dtype=np.float32)[views[-1].queries]
        evidence.append(corpus_evidence(cuts[-1], slopes, intercepts, of_queries))
    pooled = np.concatenate([e.reshape(-1, len(FEATURES)) for e in evidence])
    location = pooled.mean(axis=0)
    # A feature that hardly varies over the fit queries must not explode on others.
    spread = np.maximum(pooled.std(axis=0), 0.05)
    encoders = len(slopes)
    problems = [
        (
            # Without the intercept: it is one number per query and drops out of the softmax.
            np.stack([np.float32(a) * s for a, s in zip(slopes, cut, strict=True)]),
            standardise(e, location, spread).astype(np.float64),
            view.relevant,
        )
        for view, cut, e in zip(views, cuts, evidence, strict=True)
    ]
    count = sum(len(view.queries) for view in views)

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        shrunk = np.concatenate([parameters[: len(FEATURES)], [0.0], parameters[-encoders:]])
        total = penalty * float(shrunk @ shrunk)
        gradient = 2 * penalty * shrunk
        for problem in problems:
            value, slope = _loss(parameters, *problem)
            total += value / count
            gradient += slope / count
        return total, gradient

    free = {-1: (None, 0.0), 0: (None, None), 1: (0.0, None)}
    bounds = [free[_SIGN[name]] if name in features else (0.0, 0.0) for name in FEATURES]
    bounds.append((-4.0, 6.0))
    bounds += [(None, None) if learn_prior else (0.0, 0.0)] * encoders
    result = minimize(loss, np.zeros(len(bounds)), jac=True, method="L-BFGS-B", bounds=bounds)
    solution = result.x
    return EvidenceWeights(
        weights=tuple(solution[: len(FEATURES)].tolist()),
        location=tuple(location.tolist()),
        spread=tuple(spread.tolist()),
        prior=tuple(solution[-encoders:].tolist()),
    )


def _loss(
    parameters: NDArray[np.float64],
    logits: FloatArray,
    evidence: NDArray[np.float64],
    relevant: NDArray[np.bool_],
) -> tuple[float, NDArray[np.float64]]:
    """Sum the negative log likelihood of one view; with its gradient by the parameters.

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
        [
            np.einsum("nk,nkf->f", drift, evidence),
            [scale * (pi * pull).sum()],
            drift.sum(axis=0),
        ]
    )
    return -float(np.log(right).sum()), gradient
