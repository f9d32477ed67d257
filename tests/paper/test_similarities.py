"""Every similarity against a slow reference that shares no code with it."""

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch.distributions import Independent, Normal
from torch.distributions import kl_divergence as torch_kl

from benchmarks.paper.analyses.similarities import (
    SIMILARITIES,
    csd,
    jeffreys,
    kl_divergence,
    wasserstein1,
    wasserstein1_by_coordinate,
    wasserstein2,
)
from tests.base.test_similarity import SHAPES, of_each_pair
from tests.helpers import random_gaussian
from uec_rag import Gaussian
from uec_rag.base.similarity import score


def as_torch(moments):
    mean, variance = (torch.tensor(part, dtype=torch.float64) for part in moments)
    return Independent(Normal(mean, variance.sqrt()), 1)


def draws(gaussian, rng, count):
    """(count, n, d) samples."""
    noise = rng.standard_normal((count, *gaussian.mean.shape), dtype=np.float32)
    return gaussian.mean + np.sqrt(gaussian.variance) * noise


@SHAPES
def test_kl_and_jeffreys_equal_torch_distributions(rng, query_factors, candidate_factors):
    q, c = random_gaussian(rng, 3, 6, query_factors), random_gaussian(rng, 4, 6, candidate_factors)
    forward = of_each_pair(q, c, lambda a, b: float(torch_kl(as_torch(a), as_torch(b))))
    backward = of_each_pair(q, c, lambda a, b: float(torch_kl(as_torch(b), as_torch(a))))
    np.testing.assert_allclose(-kl_divergence(q, c), forward, rtol=1e-5)
    np.testing.assert_allclose(-jeffreys(q, c), forward + backward, rtol=1e-5)


def test_wasserstein2_equals_the_general_formula_for_gaussians(rng):
    from scipy.linalg import sqrtm

    q, c = random_gaussian(rng, 3, 5), random_gaussian(rng, 4, 5)

    def gelbrich(a, b):
        root = np.real(sqrtm(np.diag(a[1])))
        middle = np.real(sqrtm(root @ np.diag(b[1]) @ root))
        return ((a[0] - b[0]) ** 2).sum() + np.trace(np.diag(a[1]) + np.diag(b[1]) - 2 * middle)

    np.testing.assert_allclose(-wasserstein2(q, c), of_each_pair(q, c, gelbrich), rtol=1e-4)


def test_wasserstein1_by_coordinate_equals_the_area_between_the_quantile_functions(rng):
    q, c = random_gaussian(rng, 3, 5), random_gaussian(rng, 4, 5)
    levels = (np.arange(200_000) + 0.5) / 200_000

    def area(a, b):
        sd_a, sd_b = np.sqrt(a[1]), np.sqrt(b[1])
        return sum(
            np.abs(norm.ppf(levels, a[0][i], sd_a[i]) - norm.ppf(levels, b[0][i], sd_b[i])).mean()
            for i in range(len(sd_a))
        )

    np.testing.assert_allclose(
        -wasserstein1_by_coordinate(q, c), of_each_pair(q, c, area), rtol=1e-3
    )


def test_wasserstein1_is_equation_28(rng):
    q, c = random_gaussian(rng, 3, 5), random_gaussian(rng, 4, 5)

    def reference(a, b):
        return np.linalg.norm(a[0] - b[0]) + abs(np.sqrt(a[1]).sum() - np.sqrt(b[1]).sum())

    np.testing.assert_allclose(-wasserstein1(q, c), of_each_pair(q, c, reference), rtol=1e-4)


def test_wasserstein1_by_coordinate_does_not_depend_on_how_the_queries_are_cut_into_blocks(rng):
    q, c = random_gaussian(rng, 17, 300), random_gaussian(rng, 900, 300)  # 15 queries a block
    alone = np.concatenate([wasserstein1_by_coordinate(q[[i]], c) for i in range(len(q))])
    np.testing.assert_allclose(wasserstein1_by_coordinate(q, c), alone, rtol=1e-6)


def test_csd_equals_the_mean_squared_distance_of_samples(rng):
    q, c = random_gaussian(rng, 2, 5, factors=2), random_gaussian(rng, 3, 5)
    x, y = draws(q, rng, 100_000), draws(c, rng, 100_000)
    sampled = ((x[:, :, None] - y[:, None]) ** 2).sum(axis=3).mean(axis=0)
    np.testing.assert_allclose(-csd(q, c), sampled, rtol=0.02)


@pytest.mark.parametrize(
    "name", ["kl", "jeffreys", "wasserstein1", "wasserstein1_by_coordinate", "wasserstein2"]
)
def test_a_gaussian_is_at_distance_0_from_itself_and_from_no_other(rng, name):
    q = random_gaussian(rng, 5, 6)
    values = SIMILARITIES[name](q, q)
    # The root of a rounded zero is a little off.
    tolerance = 2e-3 if name == "wasserstein1" else 1e-4
    np.testing.assert_allclose(np.diagonal(values), 0, atol=tolerance)
    assert (values[~np.eye(5, dtype=bool)] < -0.05).all()


@pytest.mark.parametrize("similarity", SIMILARITIES.values(), ids=SIMILARITIES)
def test_every_similarity_takes_batches_and_returns_float32(rng, similarity):
    q, c = random_gaussian(rng, 3, 6, factors=2), random_gaussian(rng, 4, 6)
    values = similarity(q, c)
    assert values.shape == (3, 4)
    assert values.dtype == np.float32
    np.testing.assert_allclose(values[1:], similarity(q[1:], c), rtol=1e-5)


def test_without_variance_the_ranking_is_that_of_the_cosine(rng):
    zero = np.zeros((30, 8))
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in rng.standard_normal((2, 30, 8))]
    q, c = Gaussian(unit[0], zero), Gaussian(unit[1], zero)
    np.testing.assert_array_equal(score(q, c, beta=3.0), q.mean @ c.mean.T)
    cosine_order = np.argsort(-(q.mean @ c.mean.T), axis=1)
    for distance in SIMILARITIES.values():
        values = distance(q, c)
        if (
            distance is not wasserstein1_by_coordinate
        ):  # of unit vectors all but W1 depend on the cosine alone
            np.testing.assert_array_equal(np.argsort(-values, axis=1), cosine_order)
        assert np.isfinite(values).all()
