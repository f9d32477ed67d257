"""Whether it is the query that the paper's coefficients adapt to.

Coefficients that follow the query must do better than the same ones dealt out to other queries, and
better than their mean for all queries: what is left without either is a fixed weight per model,
which a weighted ensemble has as well. As the paper has it: one shared space, diagonal posteriors
over the last block's output layer, a variance that nothing scales, coefficients on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.analyses.base import (
    Result,
    fitted_posterior,
    gaussians,
    mean_within,
    searched,
    standardise_log_trace,
    within,
)
from benchmarks.paper.data import Collection, sample_collection
from benchmarks.paper.plan import Group
from benchmarks.paper.results import Json, markdown
from benchmarks.paper.systems import NotApplicable
from benchmarks.paper.systems.baselines import Relevance, simplex_grid
from benchmarks.paper.systems.lineup import Lineup
from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.similarity import softmax
from uec_rag.encoders import Encoder
from uec_rag.ensemble.convolution import Rule, convolve_shared
from uec_rag.laplace.posterior import Posterior

_PAIRS, _SHARE = 300, 0.8  # fitted on: so many, of which each seed draws a share
_QUERIES, _PASSAGES = 100, 250
_FEWEST = 50  # queries of a collection: fewer say nothing of differences between them
_SEEDS, _SHUFFLES = 3, 10
_SCALES = (0.0, 0.3, 1.0, 3.0, 10.0)  # of the authors' scores, whose mean over queries is 1
KINDS: dict[str, dict[str, Any]] = {
    "pairs": {"likelihood": "pairs", "negatives": "random", "scaled": False},
    "in_batch": {"likelihood": "in_batch", "negatives": "random", "scaled": False},
    "scaled": {"likelihood": "pairs", "negatives": "hard", "scaled": True},
}
"""As the paper has it, as the authors' code has it, and as `UEC` fits posteriors."""

_COMPARED = ("shuffled", "mean", "uniform", "tuned")


@dataclass(frozen=True, eq=False)
class Asked:
    """A collection as the members have it.

    Attributes
    ----------
    queries, passages : list of Gaussian
        One batch per member.
    standard : array, shape (n, K)
        Log traces of the queries, in standard deviations from what is usual.
    relevance : Relevance
    """

    queries: list[Gaussian]
    passages: list[Gaussian]
    standard: FloatArray
    relevance: Relevance

    def ndcg(self, query: FloatArray, passage: FloatArray) -> NDArray[np.float64]:
        """nDCG@10 of each query with given coefficients of both sides."""
        q, c = convolve_shared(self.queries, query), convolve_shared(self.passages, passage)
        return self.relevance.ndcg(q.mean @ c.mean.T)


def run(groups: Sequence[Group]) -> Json:
    """Compare the main group's coefficients with the same ones dealt out anew."""
    lineup = groups[0].lineup
    if len({encoder.dimension for encoder in lineup.encoders}) > 1 or len(lineup.encoders) < 2:
        raise NotApplicable("a shared space needs several encoders of one dimension")
    collections = [
        sample_collection(collection, _QUERIES, _PASSAGES)
        for collection in searched(groups[0])
        if len(collection.queries) >= _FEWEST
    ]
    if not collections:
        raise NotApplicable(f"needs a collection of {_FEWEST} queries")
    return {
        "encoders": [encoder.name for encoder in lineup.encoders],
        "collections": [collection.name for collection in collections],
        "queries": sum(len(collection.queries) for collection in collections),
        "seeds": _SEEDS,
        "posteriors": {kind: _of_kind(lineup, collections, kind) for kind in KINDS},
    }


def section(result: Result, path: Path) -> Iterator[str]:
    """Write a table of differences, and one of what the coefficients are."""
    yield (
        "Coefficients of the last block's output layer, diagonal posteriors (on pairs as the paper "
        "has them, in batches as its authors' code, or scaled as UEC does), shared space; "
        f"{result['queries']} queries of {', '.join(result['collections'])}, {result['seeds']} "
        "fits on other parts of the pairs. nDCG@10, and its difference to: the same coefficients "
        "shuffled over the queries of a collection; their mean for all of its queries; uniform "
        "ones; fixed weights tuned on each collection's own queries. ± standard error over fits "
        'and queries. "trace" is the paper\'s rule, T = 1.5 on raw traces; "z" has T = 1 on log '
        'traces in standard deviations; "authors" is the softmax of summed inverse variances of '
        "the authors' code, with and without its division by the variances' squared norm, its "
        "scales tuned on these very queries."
    )
    rows = [
        [
            kind,
            rule,
            f"{100 * row['ndcg10']:.2f}",
            *(within(row[key], row[f"{key}_se"], 100, 2) for key in _COMPARED),
            f"{row['spread']:.4f}",
            " / ".join(f"{value:.2f}" for value in row["coefficients"]),
        ]
        for kind, found in result["posteriors"].items()
        for rule, row in found["rules"].items()
    ]
    head = ["Posterior", "rule", "nDCG@10", "- shuffled", "- mean", "- uniform", "- tuned on test"]
    yield markdown([*head, "sd over queries", "mean of " + " / ".join(result["encoders"])], rows)
    yield "Traces of queries as they are, and their coefficient of variation over queries:"
    yield markdown(
        ["Posterior", *result["encoders"]],
        [
            [kind, *(f"{m:.3g} (± {100 * cv:.1f} %)" for m, cv in found["traces"])]
            for kind, found in result["posteriors"].items()
        ],
    )


def _of_kind(lineup: Lineup, collections: Sequence[Collection], kind: str) -> Json:
    encoders = lineup.inside()
    fits = [_posteriors(lineup, encoders, KINDS[kind], seed) for seed in range(_SEEDS)]
    runs = [
        [ask(encoders, posteriors, collection) for collection in collections] for posteriors in fits
    ]
    tuned = np.concatenate([_tuned(asked) for asked in runs[0]])
    uniform = np.concatenate([_uniform(asked) for asked in runs[0]])
    rules: Json = {}
    for rule in ("trace", "z", "authors", "authors, undivided"):
        found = [_measure(asked, rule) for asked in runs]
        rows = {key: np.stack([one[key] for one in found]) for key in ("own", "shuffled", "mean")}
        own = rows.pop("own")
        row: Json = {"ndcg10": float(own.mean())}
        for key, other in {**rows, "uniform": uniform[None], "tuned": tuned[None]}.items():
            row[key], row[f"{key}_se"] = mean_within(own - other)
        row["spread"] = float(np.mean([one["spread"] for one in found]))
        row["coefficients"] = np.mean([one["coefficients"] for one in found], axis=0).tolist()
        rules[rule] = row
    traces = np.array([_traces(asked) for asked in runs])
    return {"rules": rules, "traces": traces.mean(axis=0).tolist()}


def _posteriors(
    lineup: Lineup, encoders: Sequence[Encoder], kind: dict[str, Any], seed: int
) -> list[Posterior]:
    order = np.random.default_rng(0).permutation(len(lineup.pairs))[:_PAIRS]
    kept = np.random.default_rng(seed).permutation(order)[: round(_SHARE * len(order))]
    pairs = [lineup.pairs[index] for index in kept]
    return [
        fitted_posterior(encoder, pairs, structure="diag", **kind, seed=seed)
        for encoder in encoders
    ]


def ask(
    encoders: Sequence[Encoder], posteriors: Sequence[Posterior], collection: Collection
) -> Asked:
    """Ask a collection's queries of its passages.

    Parameters
    ----------
    encoders : sequence of Encoder
    posteriors : sequence of Posterior
        One per encoder.
    collection : Collection
    """
    queries = gaussians(encoders, posteriors, [*collection.queries.values()], "query")
    passages = gaussians(encoders, posteriors, [*collection.passages.values()], "passage")
    standard = [*map(standardise_log_trace, posteriors, queries)]
    relevance = Relevance.of_collection(collection)
    return Asked(queries, passages, np.stack(standard, axis=1), relevance)


def _measure(run: Sequence[Asked], rule: str) -> dict[str, NDArray[np.float64]]:
    """nDCG@10 of all queries with their own coefficients, with others', and with their mean."""
    weights = _authors_scales(run, rule) if rule.startswith("authors") else np.ones(1)
    rng = np.random.default_rng(0)
    own, shuffled, mean, coefficients = [], [], [], []
    for asked in run:
        query, passage = _coefficients(asked, rule, weights)
        own.append(asked.ndcg(query, passage))
        shuffled.append(
            np.mean([asked.ndcg(rng.permutation(query), passage) for _ in range(_SHUFFLES)], axis=0)
        )
        mean.append(asked.ndcg(np.tile(query.mean(axis=0), (len(query), 1)), passage))
        coefficients.append(query)
    return {
        "own": np.concatenate(own),
        "shuffled": np.concatenate(shuffled),
        "mean": np.concatenate(mean),
        "spread": np.mean([query.std(axis=0).mean() for query in coefficients]),
        "coefficients": np.concatenate(coefficients).mean(axis=0),
    }


def _coefficients(
    asked: Asked, rule: str, weights: NDArray[np.float64]
) -> tuple[FloatArray, FloatArray]:
    """Coefficients of queries and passages by a rule."""
    if rule == "trace":
        trace = Rule("trace")
        return trace(asked.queries), trace(asked.passages)
    if rule == "z":
        return softmax(-asked.standard), Rule("uniform")(asked.passages)
    scores = [
        np.stack([_inverse_variances(part, rule) for part in side], axis=1)
        for side in (asked.queries, asked.passages)
    ]
    unit = scores[0].mean(axis=0)
    query, passage = (softmax((weights * side / unit).astype(np.float32)) for side in scores)
    return query, passage


def _inverse_variances(part: Gaussian, rule: str) -> NDArray[np.float64]:
    """Summed inverse variances of each text, of variances over their own squared norm or not."""
    variance = np.maximum(part.variance.astype(np.float64), 1e-16)
    total: NDArray[np.float64] = (1 / variance).sum(axis=1)
    return total if rule.endswith("undivided") else total * (variance**2).sum(axis=1)


def _authors_scales(run: Sequence[Asked], rule: str) -> NDArray[np.float64]:
    """Scales that put the right passages of these very queries first."""
    grid = [np.array(scales) for scales in product(_SCALES, repeat=len(run[0].queries))]

    def quality(scales: NDArray[np.float64]) -> float:
        return float(
            np.mean([asked.ndcg(*_coefficients(asked, rule, scales)).mean() for asked in run])
        )

    return max(grid, key=quality)


def _tuned(asked: Asked) -> NDArray[np.float64]:
    """nDCG@10 with the fixed weights that do best on these very queries."""
    trials = [_fixed(asked, weights) for weights in simplex_grid(len(asked.queries))]
    return max(trials, key=lambda ndcg: float(ndcg.mean()))


def _uniform(asked: Asked) -> NDArray[np.float64]:
    return _fixed(asked, np.full(len(asked.queries), 1 / len(asked.queries)))


def _fixed(asked: Asked, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    own = weights.astype(np.float32)
    return asked.ndcg(
        np.tile(own, (len(asked.queries[0]), 1)), np.tile(own, (len(asked.passages[0]), 1))
    )


def _traces(run: Sequence[Asked]) -> list[tuple[float, float]]:
    """Mean trace of each member's queries, and its coefficient of variation within a collection."""
    found = []
    for k in range(len(run[0].queries)):
        traces = [asked.queries[k].trace.astype(np.float64) for asked in run]
        varies = np.mean([trace.std() / trace.mean() for trace in traces])
        found.append((float(np.concatenate(traces).mean()), float(varies)))
    return found
