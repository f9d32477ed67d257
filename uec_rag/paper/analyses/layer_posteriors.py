"""How many layers, and how much data, a Laplace posterior needs (the paper's ablations of both).

Laplace posteriors with a diagonal GGN over the last 1, 2, 4 and 6 linear layers of a transformer,
fitted by laplace-torch on all, a half, a tenth, a hundredth or none of the pairs, and what their
predictive says of other pairs. The GGN of a layer does not depend on which others are included, and
that of some pairs is the sum of theirs: one pass over the pairs serves every combination.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.environment import missing_extra, shield_from_broken_torchvision
from uec_rag.base.similarity import PROBIT
from uec_rag.encoders import SentenceTransformerEncoder
from uec_rag.laplace.likelihood import bernoulli_map, predictive_nll, variance_scale
from uec_rag.laplace.tuning import first_as_good

if TYPE_CHECKING:
    from laplace import DiagLaplace
    from torch import Tensor
    from torch.utils.data import DataLoader

    from uec_rag.paper.analyses.pair_gradients import PairLogits

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
    *,
    counts: Sequence[int] = COUNTS,
    fractions: Sequence[float] = FRACTIONS,
    draws: int = DRAWS,
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
    counts : sequence of int
        Numbers of layers.
    fractions : sequence of float
        Parts of the fitting pairs, from 0 to 1.
    draws : int
        How many random parts of each size there are.
    batch_size : int

    Returns
    -------
    list of LayerResult
        One per count, fraction and draw, in that order; of all pairs and of none there is one draw.

    Raises
    ------
    ValueError
        If a part of the data lacks one of the labels, a fraction is out of range, or the model has
        too few layers.
    ImportError
        If laplace-torch is not installed.
    """
    for name, pairs in (("fit", fit), ("tune", tune), ("test", test)):
        if {label for _, _, label in pairs} != {0, 1}:
            raise ValueError(f"{name}: expected pairs of both labels, 0 and 1.")
    if not all(0 <= fraction <= 1 for fraction in fractions):
        raise ValueError(f"fractions: expected numbers from 0 to 1, got {list(fractions)}.")
    shield_from_broken_torchvision()
    try:
        import laplace  # noqa: F401
    except ModuleNotFoundError as error:
        raise ImportError(missing_extra("laplace-torch", "fit")) from error
    from uec_rag.paper.analyses.pair_gradients import (
        PairLogits,
        last_linear_layers,
        only_trainable,
    )

    layers = last_linear_layers(encoder.model, max(counts))
    parts = _parts(len(fit), fractions, draws)
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
        for count in counts
        for index, part in enumerate(parts)
    ]


def _parts(count: int, fractions: Sequence[float], draws: int) -> list[_Part]:
    """Random parts of so many pairs; each draw's smaller parts lie within its larger ones."""
    orders = [np.random.default_rng(draw).permutation(count) for draw in range(draws)]
    return [
        _Part(fraction, draw, order[: round(fraction * count)])
        for fraction in fractions
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

    from uec_rag.paper.analyses.pair_gradients import PairGradientGGN

    model.queries, model.passages = [pair[0] for pair in fit], [pair[1] for pair in fit]
    posterior = cast(
        "DiagLaplace",
        Laplace(
            model,
            "classification",
            subset_of_weights="all",
            hessian_structure="diag",
            backend=PairGradientGGN,
        ),
    )
    found = [posterior.H.clone() for _ in parts]
    inside = np.stack([np.isin(np.arange(len(fit)), part.rows) for part in parts], axis=1)
    # Pairs that lie in the same parts go together, so that each is differentiated by once.
    kinds, kind = np.unique(inside, axis=0, return_inverse=True)
    for number, members in enumerate(kinds):
        if members.any():
            some = _Batches.of(fit, np.flatnonzero(kind == number), batch_size)
            posterior.fit(cast("DataLoader[Any]", some))
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
    _, free = bernoulli_map(tune.similarity, tune.labels, slope)
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
    return 0.5 * (1 + np.tanh(logit / np.sqrt(1 + PROBIT * variance) / 2))


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
