"""How many layers, and how much data, a Laplace posterior needs (paper tables 18 and 19).

Laplace posteriors with a diagonal GGN over the last 1, 2, 4 and 6 linear layers of a transformer,
fitted by laplace-torch on all, a half, a tenth, a hundredth or none of the pairs, and what their
predictive says of other pairs. The GGN of a layer does not depend on which others are included, and
that of some pairs is the sum of theirs: one pass over the pairs serves every combination.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks.paper.analyses.base import Result, encode_pairs, within
from benchmarks.paper.analyses.calibration import error_auroc, measure_probabilities
from benchmarks.paper.plan import Group
from benchmarks.paper.results import Json, markdown, paper_rows
from benchmarks.paper.systems import NotApplicable
from uec_rag.base.similarity import PROBIT
from uec_rag.encoders import Encoder, SentenceTransformerEncoder, load_encoder
from uec_rag.laplace.fit_posterior import first_as_good
from uec_rag.laplace.likelihood import (
    bernoulli_map,
    fitting_intercept,
    predictive_nll,
    variance_scale,
)
from uec_rag.laplace.pairs import (
    LabelledPairs,
    Pairs,
    check_pairs,
    held_out_pairs,
    similarities,
    training_pairs,
)

if TYPE_CHECKING:
    from torch import Tensor

    from benchmarks.paper.analyses.pair_gradients import PairLogits


Triple = tuple[str, str, int]

# Queries to fit, tune and test on: each of their pairs costs a backward pass through a block.
_FIT, _TUNE, _TEST = 100, 60, 110
_HITS = 2  # wrong ones of each query that tunes or tests
_RESAMPLES = 50


def run(groups: Sequence[Group]) -> Json:
    """Look into the first encoder with its weights at hand."""
    group = groups[0]
    for embedder in group.lineup.encoders:
        encoder = None if embedder.spec is None else load_encoder(embedder.spec)
        # A quantised model in ONNX has no layers to differentiate by.
        if isinstance(encoder, SentenceTransformerEncoder) and _has_linear_layers(encoder):
            rows = layers(encoder, embedder, group.lineup.pairs, group.plan.proxy)
            return {"encoder": encoder.name, "rows": rows}
    raise NotApplicable("needs a transformer with its weights at hand, which no encoder is")


def section(result: Result, path: Path) -> Iterator[str]:
    """Write a table."""
    paper = ", ".join(f"{count}: {acc} {ece}" for count, (acc, ece) in paper_rows("layers").items())
    yield (
        f"Diagonal posteriors of {result['encoder']} over its last linear layers, and over parts "
        f"of the data, by laplace-torch (paper tables 18 and 19; accuracy and ECE by layers there: "
        f"{paper}). Fitted among hard negatives, tuned and tested among hits. With 0 pairs the "
        "posterior is the prior. Means of several draws of so many pairs, ± standard error by "
        "drawing pairs and test queries anew; the gain is of the probabilistic over the "
        "deterministic NLL, where less than 0 is better."
    )
    head = ["Layers", "pairs", "Accuracy", "ECE prob.", "ECE det.", "NLL prob. - det."]
    yield markdown(
        [*head, "mean logit variance", "AUROC"],
        [
            [
                str(row["layers"]),
                str(row["pairs"]),
                f"{100 * row['accuracy']:.2f}",
                *(
                    within(row[key], row[f"{key}_se"])
                    for key in ("ece", "ece_deterministic", "nll_gain")
                ),
                f"{row['logit_variance']:.3g}",
                within(row["error_auroc"], row["error_auroc_se"], 100, 1),
            ]
            for row in result["rows"]
        ],
    )


def layers(
    encoder: SentenceTransformerEncoder,
    embedder: Encoder,
    pairs: Sequence[tuple[str, str]],
    proxy: Sequence[tuple[str, str]],
) -> list[Json]:
    """Fit over 1, 2, 4 and 6 layers on parts of the pairs, and tell answers from hits of the proxy.

    Random passages are told apart without error, which leaves nothing for a variance to explain:
    posteriors are fitted among hard negatives, tuned and tested among hits.

    Parameters
    ----------
    encoder : SentenceTransformerEncoder
    embedder : Encoder
        The same behind a cache, to look for negatives with.
    pairs : sequence of (query, passage)
        Some are fitted on, others tune prior precision and scale.
    proxy : sequence of (query, passage)
        What is tested on.

    Returns
    -------
    list of dict
        One per number of layers and size of the data: means over random parts of that size, and
        their standard errors, by drawing parts and test queries anew.
    """
    order = np.random.default_rng(0).permutation(len(pairs))[: _FIT + _TUNE]
    some = check_pairs([pairs[index] for index in order])
    answered = np.random.default_rng(0).permutation(len(some.queries))[: _FIT + _TUNE]
    share = round(len(answered) * _FIT / (_FIT + _TUNE))
    similar = similarities(*encode_pairs(embedder, some))
    test = _hits(embedder, check_pairs(proxy[:_TEST]))
    found = layer_ablation(
        encoder,
        _triples(some, training_pairs(some, np.sort(answered[:share]), similar, 0)),
        _triples(some, held_out_pairs(some, np.sort(answered[share:]), similar, _HITS)),
        test,
    )
    resamples = _resamples([query for query, _, _ in test])
    return [
        _summary(list(draws), resamples)
        for _, draws in groupby(found, key=lambda row: (row.layers, row.fraction))
    ]


def _summary(draws: list[LayerResult], resamples: Sequence[NDArray[np.int64]]) -> Json:
    """Means over draws, and standard errors over draws and resampled test queries."""
    measures: dict[str, _Measure] = {
        "ece": lambda r, i: measure_probabilities(r.probability[i], r.labels[i])["ece"],
        "ece_deterministic": lambda r, i: measure_probabilities(r.deterministic[i], r.labels[i])[
            "ece"
        ],
        "nll_gain": lambda r, i: float(
            (_nll(r.probability, r.labels) - _nll(r.deterministic, r.labels))[i].mean()
        ),
        "error_auroc": lambda r, i: error_auroc(r.variance[i], r.deterministic[i], r.labels[i]),
    }
    first = draws[0]
    everything = np.arange(len(first.labels))
    row: Json = {
        "layers": first.layers,
        "fraction": first.fraction,
        "pairs": first.pairs,
        "draws": len(draws),
        "accuracy": float(
            np.mean([measure_probabilities(d.probability, d.labels)["accuracy"] for d in draws])
        ),
        "logit_variance": float(np.mean([d.logit_variance.mean() for d in draws])),
    }
    for name, measure in measures.items():
        row[name] = float(np.mean([measure(d, everything) for d in draws]))
        row[f"{name}_se"] = float(np.nanstd([measure(d, i) for d in draws for i in resamples]))
    return row


def _nll(probability: NDArray[np.float64], labels: NDArray[np.float64]) -> NDArray[np.float64]:
    right = np.where(labels == 1, probability, 1 - probability)
    return -np.log(np.maximum(right, 1e-12))


def _resamples(queries: Sequence[str]) -> list[NDArray[np.int64]]:
    """Rows of queries drawn with replacement, all pairs of a query together."""
    _, own = np.unique(np.array(queries), return_inverse=True)
    rows = [np.flatnonzero(own == query) for query in range(own.max() + 1)]
    rng = np.random.default_rng(0)
    return [
        np.concatenate([rows[query] for query in rng.integers(0, len(rows), len(rows))])
        for _ in range(_RESAMPLES)
    ]


def _hits(encoder: Encoder, pairs: Pairs) -> list[Triple]:
    rows = np.arange(len(pairs.queries))
    return _triples(
        pairs, held_out_pairs(pairs, rows, similarities(*encode_pairs(encoder, pairs)), _HITS)
    )


def _triples(pairs: Pairs, labelled: LabelledPairs) -> list[Triple]:
    """(query, passage, label) of index pairs."""
    rows = zip(labelled.query_index, labelled.passage_index, labelled.labels, strict=True)
    return [(pairs.queries[q], pairs.passages[p], int(label)) for q, p, label in rows]


def _has_linear_layers(encoder: SentenceTransformerEncoder) -> bool:
    from torch.nn import Linear

    return any(isinstance(module, Linear) for module in encoder.model.modules())


LabelledTexts = Sequence[tuple[str, str, int]]
Floats = NDArray[np.float64]

COUNTS = (1, 2, 4, 6)
FRACTIONS = (1.0, 0.5, 0.1, 0.01, 0.0)
DRAWS = 3
_DAMPING = np.logspace(-3, 3, 5)  # prior precision over the mean of the whole GGN


@dataclass(frozen=True, eq=False)
class LayerResult:
    """Predictions of one posterior on the test pairs.

    Attributes
    ----------
    layers : int
        Linear layers with a posterior, counted from the output.
    fraction : float
        Of the fitting pairs; at 0 the posterior is the prior.
    draw : int
        Which random part of that size it is.
    pairs : int
        How many pairs that is.
    prior_precision, scale : float
        As chosen on the tuning pairs.
    slope : float
        Of the logit by the similarity.
    labels : array, shape (n,)
    probability : array, shape (n,)
        P(answer) with the variance, by the probit approximation.
    deterministic : array, shape (n,)
        P(answer) without it, at the same slope and an intercept of its own.
    variance : array, shape (n,)
        Of the similarity.
    """

    layers: int
    fraction: float
    draw: int
    pairs: int
    prior_precision: float
    scale: float
    slope: float
    labels: Floats
    probability: Floats
    deterministic: Floats
    variance: Floats

    @property
    def logit_variance(self) -> Floats:
        """Variance of the logit, shape (n,)."""
        return self.slope**2 * self.variance


_Measure = Callable[[LayerResult, NDArray[np.int64]], float]


@dataclass(frozen=True)
class _Part:
    """Some of the fitting pairs."""

    fraction: float
    draw: int
    rows: NDArray[np.int64]


@dataclass(frozen=True)
class _Pairs:
    """Cosines, labels and unit-scale variances (parts, layers, dampings, n) of some pairs."""

    similarity: Floats
    labels: Floats
    variance: Floats


def layer_ablation(
    encoder: SentenceTransformerEncoder,
    fit: LabelledTexts,
    tune: LabelledTexts,
    test: LabelledTexts,
    batch_size: int = 16,
) -> list[LayerResult]:
    """Fit posteriors over the last layers on parts of the data, and predict other pairs.

    Prior precision and scale of each are chosen on the tuning pairs as `fit_posterior` chooses
    them.

    Parameters
    ----------
    encoder : SentenceTransformerEncoder
        Its weights stay as they are.
    fit, tune, test : sequences of (query, passage, label)
    batch_size : int

    Returns
    -------
    list of LayerResult
        One per count, fraction and draw, in that order; of all pairs and of none there is one draw.

    Raises
    ------
    ValueError
        If a part of the data lacks one of the labels, or the model has too few layers.
    """
    for name, pairs in (("fit", fit), ("tune", tune), ("test", test)):
        if {label for _, _, label in pairs} != {0, 1}:
            raise ValueError(f"{name}: expected pairs of both labels, 0 and 1.")
    from benchmarks.paper.analyses.pair_gradients import (
        PairLogits,
        last_linear_layers,
        only_trainable,
    )

    layers = last_linear_layers(encoder.model, max(COUNTS))
    parts = _parts(len(fit))
    with only_trainable(encoder.model, layers):
        model = PairLogits(encoder, layers)
        slope, intercept = bernoulli_map(_cosines(model, fit, batch_size), _labels(fit))
        model.slope, model.intercept = slope, intercept
        curvatures = _curvatures(model, fit, parts, batch_size)
        unit = max(1e-12, *(float(curvature.mean()) for curvature in curvatures))
        precisions = unit * _DAMPING
        tuning, testing = (
            _measure(model, pairs, curvatures, precisions, batch_size) for pairs in (tune, test)
        )
    return [
        _predict(tuning, testing, count, index, part, precisions, slope)
        for count in COUNTS
        for index, part in enumerate(parts)
    ]


def _parts(count: int) -> list[_Part]:
    """Random parts of so many pairs; each draw's smaller parts lie within its larger ones."""
    orders = [np.random.default_rng(draw).permutation(count) for draw in range(DRAWS)]
    return [
        _Part(fraction, draw, order[: round(fraction * count)])
        for fraction in FRACTIONS
        for draw, order in enumerate(orders)
        if draw == 0 or 0 < fraction < 1
    ]


@dataclass(frozen=True)
class _Batches:
    """What laplace-torch asks of a data loader: batches, and a data set with a length."""

    labels: Floats
    dataset: NDArray[np.int64]
    size: int

    @classmethod
    def of(cls, pairs: LabelledTexts, rows: NDArray[np.int64], size: int) -> _Batches:
        """Batches of some pairs, those of similar length together: there is less to pad."""
        length = np.array([len(pairs[row][0]) + len(pairs[row][1]) for row in rows])
        return cls(_labels(pairs), rows[np.argsort(length, kind="stable")], size)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        import torch

        for start in range(0, len(self.dataset), self.size):
            rows = torch.from_numpy(self.dataset[start : start + self.size])
            yield rows[:, None].expand(-1, 2), torch.from_numpy(self.labels)[rows]


def _curvatures(
    model: PairLogits, fit: LabelledTexts, parts: Sequence[_Part], batch_size: int
) -> list[Tensor]:
    """Diagonal GGN of all layers over each part of the pairs."""
    from laplace import Laplace

    from benchmarks.paper.analyses.pair_gradients import PairGradientGGN

    model.queries, model.passages = [pair[0] for pair in fit], [pair[1] for pair in fit]
    posterior = Laplace(model, "classification", "all", "diag", backend=PairGradientGGN)
    found = [posterior.H.clone() for _ in parts]
    inside = np.stack([np.isin(np.arange(len(fit)), part.rows) for part in parts], axis=1)
    # Pairs that lie in the same parts go together, so that each is differentiated by once.
    kinds, kind = np.unique(inside, axis=0, return_inverse=True)
    for number, members in enumerate(kinds):
        if members.any():
            some = _Batches.of(fit, np.flatnonzero(kind == number), batch_size)
            posterior.fit(some)
            for index in np.flatnonzero(members):
                found[index] += posterior.H
    return found


def _measure(
    model: PairLogits,
    pairs: LabelledTexts,
    curvatures: Sequence[Tensor],
    precisions: Floats,
    batch_size: int,
) -> _Pairs:
    """Cosine of each pair and its linearised variance, layer by layer.

    The variance of a logit is ``sum_j g_j^2 / (H_j + delta)``, that of the cosine slope^2 less.
    """
    import torch

    model.queries, model.passages = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    sizes = [layer.weight.numel() for layer in model.layers]
    parts = [torch.split(curvature, sizes) for curvature in curvatures]
    posteriors = [
        torch.stack([1 / (h[index] + float(delta)) for h in parts for delta in precisions])
        for index in range(len(sizes))
    ]
    logits = torch.empty(len(pairs), dtype=torch.float64)
    variances = torch.empty(
        len(sizes), len(curvatures) * len(precisions), len(pairs), dtype=torch.float64
    )
    for rows, _ in _Batches.of(pairs, np.arange(len(pairs)), batch_size):
        logit, gradients = model.gradients(rows)
        logits[rows[:, 0]] = logit.double()
        for index, (s, g) in enumerate(zip(posteriors, gradients, strict=True)):
            variances[index][:, rows[:, 0]] = (s @ g.square_().T).double()
    shape = (len(sizes), len(curvatures), len(precisions), len(pairs))
    return _Pairs(
        (logits.numpy() - model.intercept) / model.slope,
        _labels(pairs),
        variances.numpy().reshape(shape).transpose(1, 0, 2, 3) / model.slope**2,
    )


def _predict(
    tune: _Pairs,
    test: _Pairs,
    layers: int,
    index: int,
    part: _Part,
    precisions: Floats,
    slope: float,
) -> LayerResult:
    """Choose prior precision and scale on the tuning pairs as `fit_posterior`, predict the test."""
    single = tune.variance[index, :layers].sum(axis=0)
    trials = []
    for variance in single:
        scale, intercept = variance_scale(
            tune.similarity, variance, np.zeros_like(variance), tune.labels, slope
        )
        nll = predictive_nll(tune.similarity, scale * variance, tune.labels, slope, intercept)
        trials.append((nll, scale, intercept))
    number = first_as_good([nll for nll, *_ in trials])
    _, scale, intercept = trials[number]
    variance = scale * test.variance[index, :layers, number].sum(axis=0)
    free = fitting_intercept(tune.similarity, 0.0, tune.labels, slope)
    return LayerResult(
        layers,
        part.fraction,
        part.draw,
        len(part.rows),
        float(precisions[number]),
        scale,
        slope,
        test.labels,
        _probability(slope * test.similarity + intercept, slope**2 * variance),
        _probability(slope * test.similarity + free, np.zeros_like(variance)),
        variance,
    )


def _probability(logit: Floats, variance: Floats) -> Floats:
    return expit(logit / np.sqrt(1 + PROBIT * variance))


def _labels(pairs: LabelledTexts) -> Floats:
    return np.array([label for _, _, label in pairs], dtype=np.float64)


def _cosines(model: PairLogits, pairs: LabelledTexts, batch_size: int) -> Floats:
    """Cosine of each pair, the logit of a model that has no slope and intercept yet."""
    import torch

    model.queries, model.passages = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    found = torch.empty(len(pairs), dtype=torch.float64)
    with torch.no_grad():
        for rows, _ in _Batches.of(pairs, np.arange(len(pairs)), batch_size):
            found[rows[:, 0]] = model(rows)[:, 1].double()
    return found.numpy()
