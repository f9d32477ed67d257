"""Fitting a posterior: pairs of one encoder -> MAP, curvature, prior precision, scale."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from uec_rag.environment import missing_extra, shield_from_broken_torchvision
from uec_rag.gaussian import FloatArray, Gaussian
from uec_rag.laplace.likelihood import (
    Likelihood,
    bernoulli_map,
    in_batch_map,
    predictive_nll,
    variance_scale,
)
from uec_rag.laplace.pairs import (
    LabelledPairs,
    Pairs,
    held_out_pairs,
    split_queries,
    training_pairs,
)
from uec_rag.laplace.posterior import Posterior, PosteriorSummary, Structure

if TYPE_CHECKING:
    from laplace import ParametricLaplace
    from torch import Tensor
    from torch.utils.data import DataLoader

_PAIR_BATCH = 2048
_SOFTMAX_BATCH = 64
# sqrt(delta) over the mean eigenvalue of a factor (kron), delta over the mean of H (diag).
_KRON_DAMPING = np.logspace(-2, 2, 9)
_DIAG_DAMPING = np.logspace(-4, 4, 9)


class _Encoded(Protocol):
    @property
    def embedding(self) -> FloatArray: ...
    @property
    def features(self) -> FloatArray: ...


@dataclass(frozen=True)
class _Batches:
    """What laplace-torch asks of a data loader: batches, and a data set with a length."""

    queries: _Encoded
    passages: _Encoded
    pairs: LabelledPairs
    size: int

    @property
    def dataset(self) -> range:
        return range(len(self.pairs))

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        import torch

        for start in range(0, len(self.pairs), self.size):
            part = slice(start, start + self.size)
            sides = [
                np.concatenate([side.features[index], side.embedding[index]], axis=1)
                for side, index in (
                    (self.queries, self.pairs.query_index[part]),
                    (self.passages, self.pairs.passage_index[part]),
                )
            ]
            labels = torch.from_numpy(self.pairs.labels[part]).long()
            yield torch.from_numpy(np.stack(sides, axis=1)), labels


def require_laplace() -> None:
    """Raise ImportError, naming the extra to install, unless laplace-torch can be imported."""
    shield_from_broken_torchvision()
    try:
        import laplace  # noqa: F401
    except ModuleNotFoundError as error:
        raise ImportError(missing_extra("laplace-torch", "fit")) from error


def fit_posterior(
    pairs: Pairs,
    queries: _Encoded,
    passages: _Encoded,
    gain: FloatArray,
    *,
    structure: Structure = "kron",
    likelihood: Likelihood = "pairs",
    seed: int = 0,
) -> Posterior:
    """Fit the Laplace posterior over one encoder's last layer.

    A fifth of the queries is held out. On the others: negatives are mined, the slope and the
    intercept are put at their MAP, and the closed-form GGN is accumulated by laplace-torch. On the
    held-out ones, shown their best wrong hits as a user would be: the scale of the variance
    minimises the negative log-likelihood of the probit predictive for every prior precision on a
    grid, and the smallest precision within one standard error of the best is taken (the
    one-standard-error rule of Breiman et al., 1984): the posterior that says the most about what
    it has not seen, among those the data do not contradict.

    Parameters
    ----------
    pairs : Pairs
    queries, passages : Encoded
        Embeddings and last-layer features of `pairs.queries` and `pairs.passages`.
    gain : array, shape (d,)
        See `uec_rag.encoders.Encoder`.
    structure : {"kron", "diag"}
    likelihood : {"pairs", "in_batch"}
    seed : int
        Of the split and the mining.

    Raises
    ------
    ImportError
        If laplace-torch is not installed.
    """
    fitting, held_out = split_queries(pairs, seed)
    train = training_pairs(pairs, fitting, queries.embedding, passages.embedding, seed)
    similarity = _cosine(queries, passages, train)
    if likelihood == "pairs":
        slope, intercept = bernoulli_map(similarity, train.labels)
        batches = _Batches(queries, passages, train, _PAIR_BATCH)
    else:
        batches = _Batches(queries, passages, _positive_batches(train, seed), _SOFTMAX_BATCH)
        slope = in_batch_map(_batch_similarities(batches))
        slope, intercept = bernoulli_map(similarity, train.labels, slope)

    curvature = _laplace(batches, gain, slope, intercept, structure, likelihood)
    candidates = _kron(curvature, gain) if structure == "kron" else _diag(curvature, gain)
    test = held_out_pairs(pairs, held_out, queries.embedding, passages.embedding)
    best = _tune(candidates, queries, passages, test, slope)
    unit, prior_precision, scale, nll = best

    log_trace = np.log(
        np.maximum(
            scale * unit.gaussian(queries.embedding[held_out], queries.features[held_out]).trace,
            1e-30,
        )
    )
    similarity, nothing = _cosine(queries, passages, test), np.zeros(len(test))
    _, free = bernoulli_map(similarity, test.labels, slope)
    deterministic = predictive_nll(similarity, nothing, test.labels, slope, free)
    summary = PosteriorSummary(
        slope=slope,
        intercept=intercept,
        prior_precision=prior_precision,
        scale=scale,
        log_trace_mean=float(log_trace.mean()),
        log_trace_sd=max(float(log_trace.std()), 1e-4),
        pairs=len(batches.pairs),
        held_out=len(test),
        nll=nll,
        nll_deterministic=float(deterministic.mean()),
        log_marginal_likelihood=float(curvature.log_marginal_likelihood(_tensor(prior_precision))),
    )
    return Posterior(structure, unit.covariance, unit.profile, summary)


def _laplace(
    batches: _Batches,
    gain: FloatArray,
    slope: float,
    intercept: float,
    structure: Structure,
    likelihood: Likelihood,
) -> ParametricLaplace:
    """Accumulate the curvature over the batches with laplace-torch."""
    require_laplace()
    import torch
    from laplace import Laplace

    from uec_rag.laplace.curvature import InBatchGGN, InBatchModel, PairGGN, PairModel

    model_class, backend = (
        (PairModel, PairGGN) if likelihood == "pairs" else (InBatchModel, InBatchGGN)
    )
    model = model_class(
        len(gain), batches.queries.features.shape[1], slope, intercept, torch.from_numpy(gain)
    )
    laplace = Laplace(
        model,
        "classification",
        subset_of_weights="all",
        hessian_structure=structure,
        backend=backend,
    )
    laplace.fit(cast("DataLoader[Any]", batches))
    return cast("ParametricLaplace", laplace)


def _kron(laplace: ParametricLaplace, gain: FloatArray) -> Iterator[tuple[Posterior, float]]:
    """Unit-scale posteriors over the grid of prior precisions, smallest first.

    The factors are rescaled to one mean eigenvalue before sqrt(delta) is added to both (the pi
    correction of Martens and Grosse, 2015), which leaves their product as it is.
    """
    (eigenvalues_g, eigenvalues_a), (basis_g, basis_a) = (
        [part.double().numpy() for part in laplace.H.eigenvalues[0]],
        [part.double().numpy() for part in laplace.H.eigenvectors[0]],
    )
    size = float(np.sqrt(eigenvalues_g.mean() * eigenvalues_a.mean()))
    size = max(size, 1e-12)
    unit_g = np.maximum(eigenvalues_g, 0) * (size / max(eigenvalues_g.mean(), 1e-24))
    unit_a = np.maximum(eigenvalues_a, 0) * (size / max(eigenvalues_a.mean(), 1e-24))
    for damping in _KRON_DAMPING * size:
        root = (basis_a / np.sqrt(unit_a + damping)).astype(np.float32)
        profile = gain**2 * (basis_g**2 @ (1 / (unit_g + damping)))
        yield _unit("kron", root, profile[None].astype(np.float32)), float(damping**2)


def _diag(laplace: ParametricLaplace, gain: FloatArray) -> Iterator[tuple[Posterior, float]]:
    """Unit-scale posteriors over the grid of prior precisions, smallest first."""
    curvature = laplace.H.reshape(len(gain), -1).double().numpy()
    for prior_precision in _DIAG_DAMPING * max(float(curvature.mean()), 1e-12):
        variance = gain[:, None] ** 2 / (curvature + prior_precision)
        covariance = np.ascontiguousarray(variance.T, dtype=np.float32)
        yield _unit("diag", covariance, np.zeros((0, 0), np.float32)), float(prior_precision)


def _unit(structure: Structure, covariance: FloatArray, profile: FloatArray) -> Posterior:
    blank = PosteriorSummary(1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0, 0, 0.0, 0.0, 0.0)
    return Posterior(structure, covariance, profile, blank)


def _tune(
    candidates: Iterator[tuple[Posterior, float]],
    queries: _Encoded,
    passages: _Encoded,
    test: LabelledPairs,
    slope: float,
) -> tuple[Posterior, float, float, float]:
    """Posterior, prior precision, scale and held-out NLL by the one-standard-error rule."""
    similarity = _cosine(queries, passages, test)
    trials = []
    for posterior, prior_precision in candidates:
        single, double = _pair_variance(posterior, queries, passages, test)
        scale, intercept = variance_scale(similarity, single, double, test.labels, slope)
        variance = scale * single + scale**2 * double
        nll = predictive_nll(similarity, variance, test.labels, slope, intercept)
        trials.append((posterior, prior_precision, scale, nll))
    best = min(trials, key=lambda trial: float(trial[3].mean()))[3]
    posterior, prior_precision, scale, nll = next(t for t in trials if _as_good(t[3], best))
    return posterior, prior_precision, scale, float(nll.mean())


def _as_good(nll: NDArray[np.floating], best: NDArray[np.floating]) -> bool:
    """Whether pairs are worse off by no more than one standard error of the paired difference."""
    worse = nll - best
    return float(worse.mean()) <= float(worse.std()) / math.sqrt(len(worse))


def _pair_variance(
    posterior: Posterior, queries: _Encoded, passages: _Encoded, test: LabelledPairs
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """sigma_s^2 of each pair at scale s is ``s * first + s^2 * second``."""

    def gather(side: _Encoded, index: NDArray[np.int64]) -> Gaussian:
        texts, place = np.unique(index, return_inverse=True)
        return posterior.gaussian(side.embedding[texts], side.features[texts])[place]

    q, c = gather(queries, test.query_index), gather(passages, test.passage_index)
    first = (c.variance * q.mean**2 + q.variance * c.mean**2).sum(axis=1, dtype=np.float64)
    second = (q.variance.astype(np.float64) * c.variance).sum(axis=1)
    return first, second


def _cosine(queries: _Encoded, passages: _Encoded, pairs: LabelledPairs) -> NDArray[np.float32]:
    product: NDArray[np.float32] = np.einsum(
        "nd,nd->n", queries.embedding[pairs.query_index], passages.embedding[pairs.passage_index]
    )
    return product


def _positive_batches(train: LabelledPairs, seed: int) -> LabelledPairs:
    """The positives alone, shuffled; in a batch each answers its own query only."""
    keep = np.random.default_rng(seed).permutation(np.flatnonzero(train.labels == 1))
    full = keep[: len(keep) - len(keep) % _SOFTMAX_BATCH] if len(keep) > _SOFTMAX_BATCH else keep
    return LabelledPairs(
        train.query_index[full],
        train.passage_index[full],
        # laplace-torch's loss wants the class: the row of the answer within its batch.
        (np.arange(len(full)) % _SOFTMAX_BATCH).astype(np.float32),
    )


def _batch_similarities(batches: _Batches) -> FloatArray:
    pairs, size = batches.pairs, min(batches.size, len(batches.pairs))
    q = batches.queries.embedding[pairs.query_index].reshape(
        -1, size, batches.queries.embedding.shape[1]
    )
    p = batches.passages.embedding[pairs.passage_index].reshape(q.shape)
    return q @ p.transpose(0, 2, 1)


def _tensor(value: float) -> Tensor:
    import torch

    return torch.tensor(value)
