"""Fitting a posterior: pairs of one encoder -> MAP, curvature, prior precision, scale."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.environment import (
    missing_extra,
    shield_from_broken_torchvision,
    warn_of_usearch_before_torch,
)
from uec_rag.base.gaussian import FloatArray
from uec_rag.laplace.likelihood import (
    Likelihood,
    bernoulli_map,
    decided_by_prior,
    in_batch_map,
    predictive_nll,
    variance_scale,
)
from uec_rag.laplace.pairs import (
    LabelledPairs,
    Negatives,
    Pairs,
    held_out_pairs,
    split_queries,
    training_pairs,
)
from uec_rag.laplace.posterior import Posterior, PosteriorSummary, Structure
from uec_rag.laplace.tuning import Side, candidates, tune

if TYPE_CHECKING:
    from laplace import ParametricLaplace
    from torch import Tensor
    from torch.utils.data import DataLoader

    from uec_rag.encoders import Encoded

_PAIR_BATCH = 1024
_SOFTMAX_BATCH = 64


@dataclass(frozen=True)
class Batches:
    """What laplace-torch asks of a data loader: batches, and a data set with a length.

    Attributes
    ----------
    queries, passages : Encoded
        The texts that the pairs point to.
    pairs : LabelledPairs
    size : int
        Of a batch.
    """

    queries: Encoded
    passages: Encoded
    pairs: LabelledPairs
    size: int

    def parts(self, count: int) -> Iterator[Batches]:
        """Up to `count` parts of whole batches, each with its own texts alone."""
        batches = -(-len(self.pairs) // self.size)
        step = -(-batches // count) * self.size
        for start in range(0, len(self.pairs), step):
            part = slice(start, start + step)
            sides = []
            for side, index in (
                (self.queries, self.pairs.query_index[part]),
                (self.passages, self.pairs.passage_index[part]),
            ):
                texts, place = np.unique(index, return_inverse=True)
                sides.append((_chosen(side, texts), place))
            (queries, q), (passages, p) = sides
            labelled = LabelledPairs(q, p, self.pairs.labels[part])
            yield Batches(queries, passages, labelled, self.size)

    @property
    def dataset(self) -> range:
        """Of as many items as there are pairs."""
        return range(len(self.pairs))

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        import torch

        m, d = self.queries.features.shape[1], self.queries.embedding.shape[1]
        for start in range(0, len(self.pairs), self.size):
            part = slice(start, start + self.size)
            labels = torch.from_numpy(self.pairs.labels[part]).long()
            texts = np.empty((len(labels), 2, m + d), dtype=np.float32)
            for number, (side, index) in enumerate(
                (
                    (self.queries, self.pairs.query_index[part]),
                    (self.passages, self.pairs.passage_index[part]),
                )
            ):
                texts[:, number, :m] = side.features[index]
                texts[:, number, m:] = side.embedding[index]
            yield torch.from_numpy(texts), labels


@dataclass(frozen=True)
class Model:
    """At what, and of what, the curvature is taken.

    Attributes
    ----------
    gain : array, shape (d,)
    slope, intercept : float
        At their MAP.
    structure, likelihood
        As in `fit_posterior`.
    """

    gain: FloatArray
    slope: float
    intercept: float
    structure: Structure
    likelihood: Likelihood


Curvature: TypeAlias = "Callable[[Batches, Model], ParametricLaplace]"
"""What accumulates the curvature of labelled pairs: `accumulate`, here or in parts elsewhere."""


def require_laplace() -> None:
    """Raise ImportError, naming the extra to install, unless laplace-torch can be imported."""
    shield_from_broken_torchvision()
    warn_of_usearch_before_torch(sys.modules)
    try:
        import laplace  # noqa: F401
    except ModuleNotFoundError as error:
        raise ImportError(missing_extra("laplace-torch", "fit")) from error


def fit_posterior(
    pairs: Pairs,
    queries: Encoded,
    passages: Encoded,
    gain: FloatArray,
    *,
    structure: Structure = "kron",
    likelihood: Likelihood = "pairs",
    negatives: Negatives = "hard",
    scaled: bool = True,
    seed: int = 0,
    curvature: Curvature | None = None,
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
    negatives : {"hard", "random"}
        As in `training_pairs`.
    scaled : bool
        Whether the variance is scaled to the held-out pairs; else it is what Laplace gives, as in
        the paper, and only the prior precision is chosen.
    seed : int
        Of the split and the mining.
    curvature : callable, optional
        What accumulates the curvature, `accumulate` by default.

    Raises
    ------
    ImportError
        If laplace-torch is not installed.
    """
    fitting, held_out = split_queries(pairs, seed)
    texts = queries.embedding, passages.embedding
    train = training_pairs(pairs, fitting, *texts, seed, negatives)
    similarity = _cosine(queries, passages, train)
    if likelihood == "pairs":
        slope, intercept = bernoulli_map(similarity, train.labels)
        plain, _ = bernoulli_map(similarity, train.labels, prior=False)
        batches = Batches(queries, passages, train, _PAIR_BATCH)
    else:
        batches = Batches(queries, passages, _positive_batches(train, seed), _SOFTMAX_BATCH)
        own = _batch_similarities(batches)
        slope, plain = in_batch_map(own), in_batch_map(own, prior=False)
        slope, intercept = bernoulli_map(similarity, train.labels, slope)
    by_prior = ["slope"] if decided_by_prior(slope, plain) else []

    found = (curvature or accumulate)(batches, Model(gain, slope, intercept, structure, likelihood))
    test = held_out_pairs(pairs, held_out, *texts)
    similarity, nothing = _cosine(queries, passages, test), np.zeros(len(test))
    sides = Side.of(queries, test.query_index), Side.of(passages, test.passage_index)
    trials = candidates(found, gain, structure, *sides)
    best, scale, nll = tune(trials, similarity, test, slope, scaled=scaled)
    if scaled:
        told = similarity, best.single, best.double, test.labels, slope
        plain, _ = variance_scale(*told, prior=False)
        by_prior += ["variance"] if decided_by_prior(scale, plain) else []
    _, free = bernoulli_map(similarity, test.labels, slope)
    deterministic = predictive_nll(similarity, nothing, test.labels, slope, free)
    summary = PosteriorSummary(
        slope=slope,
        intercept=intercept,
        prior_precision=best.prior_precision,
        scale=scale,
        log_trace_mean=0.0,
        log_trace_sd=1.0,
        pairs=len(batches.pairs),
        held_out=len(test),
        nll=nll,
        nll_deterministic=float(deterministic.mean()),
        log_marginal_likelihood=float(found.log_marginal_likelihood(_tensor(best.prior_precision))),
        by_prior=tuple(by_prior),
    )
    posterior = Posterior(structure, best.covariance, best.profile, summary)
    return _standardised(posterior, queries.embedding[held_out], queries.features[held_out])


def _standardised(posterior: Posterior, embedding: FloatArray, features: FloatArray) -> Posterior:
    """The posterior, knowing what is usual for texts that it was not fitted on."""
    log_trace = np.log(np.maximum(posterior.gaussian(embedding, features).trace, 1e-30))
    summary = replace(
        posterior.summary,
        log_trace_mean=float(log_trace.mean()),
        log_trace_sd=max(float(log_trace.std()), 1e-4),
    )
    return replace(posterior, summary=summary)


def accumulate(batches: Batches, model: Model) -> ParametricLaplace:
    """Accumulate the curvature over the batches with laplace-torch."""
    require_laplace()
    import torch
    from laplace import Laplace

    from uec_rag.laplace.curvature import InBatchGGN, InBatchModel, PairGGN, PairModel

    model_class, backend = (
        (PairModel, PairGGN) if model.likelihood == "pairs" else (InBatchModel, InBatchGGN)
    )
    gain = torch.from_numpy(model.gain.copy())
    features = batches.queries.features.shape[1]
    layer = model_class(len(gain), features, model.slope, model.intercept, gain)
    laplace = Laplace(
        layer,
        "classification",
        subset_of_weights="all",
        hessian_structure=model.structure,
        backend=backend,
    )
    laplace.fit(cast("DataLoader[Any]", batches))
    return cast("ParametricLaplace", laplace)


def _chosen(encoded: Encoded, rows: NDArray[np.int64]) -> Encoded:
    embedding = encoded.embedding[rows]
    same = encoded.features is encoded.embedding
    return replace(
        encoded, embedding=embedding, features=embedding if same else encoded.features[rows]
    )


def _cosine(queries: Encoded, passages: Encoded, pairs: LabelledPairs) -> NDArray[np.float32]:
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


def _batch_similarities(batches: Batches) -> FloatArray:
    pairs, size = batches.pairs, min(batches.size, len(batches.pairs))
    q = batches.queries.embedding[pairs.query_index].reshape(
        -1, size, batches.queries.embedding.shape[1]
    )
    p = batches.passages.embedding[pairs.passage_index].reshape(q.shape)
    return q @ p.transpose(0, 2, 1)


def _tensor(value: float) -> Tensor:
    import torch

    return torch.tensor(value)
