"""Every similarity against a slow reference that shares no code with it."""

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm
from scipy.stats import norm
from torch.distributions import Independent, Normal
from torch.distributions import kl_divergence as torch_kl

from benchmarks.paper.analyses.similarities import SIMILARITIES, wasserstein1_by_coordinate
from tests.base.test_similarity import of_each_pair
from tests.helpers import random_gaussian, unit
from uec_rag import Gaussian

LEVELS = (np.arange(200_000) + 0.5) / 200_000


def as_torch(moments):
    mean, variance = (torch.tensor(part, dtype=torch.float64) for part in moments)
    return Independent(Normal(mean, variance.sqrt()), 1)


def kl(a, b):
    return float(torch_kl(as_torch(a), as_torch(b)))


def gelbrich(a, b):
    """The general formula of W2 for Gaussians."""
    root = np.real(sqrtm(np.diag(a[1])))
    middle = np.real(sqrtm(root @ np.diag(b[1]) @ root))
    return ((a[0] - b[0]) ** 2).sum() + np.trace(np.diag(a[1]) + np.diag(b[1]) - 2 * middle)


def area(a, b):
    """Between the quantile functions of each coordinate."""
    quantiles = (
        [norm.ppf(LEVELS, *of) for of in zip(mean, np.sqrt(variance), strict=True)]
        for mean, variance in (a, b)
    )
    return sum(np.abs(one - other).mean() for one, other in zip(*quantiles, strict=True))


def equation_28(a, b):
    return np.linalg.norm(a[0] - b[0]) + abs(np.sqrt(a[1]).sum() - np.sqrt(b[1]).sum())


def sampled(a, b):
    """The mean squared distance of samples."""
    rng = np.random.default_rng(0)
    x, y = (mean + np.sqrt(var) * rng.standard_normal((100_000, len(mean))) for mean, var in (a, b))
    return ((x - y) ** 2).sum(axis=1).mean()


@pytest.mark.parametrize(
    ("name", "reference", "rtol"),
    [
        ("kl", kl, 1e-5),
        ("jeffreys", lambda a, b: kl(a, b) + kl(b, a), 1e-5),
        ("wasserstein1", equation_28, 1e-4),
        ("wasserstein1_by_coordinate", area, 1e-3),
        ("wasserstein2", gelbrich, 1e-4),
        ("csd", sampled, 0.02),
    ],
)
@pytest.mark.parametrize("factors", [(None, None), (2, 2), (None, 2), (2, None)])
def test_a_similarity_equals_its_reference(rng, name, reference, rtol, factors):
    q, c = random_gaussian(rng, 2, 5, factors[0]), random_gaussian(rng, 3, 5, factors[1])
    values = SIMILARITIES[name](q, c)
    np.testing.assert_allclose(-values, of_each_pair(q, c, reference), rtol=rtol)
    np.testing.assert_allclose(values[1:], SIMILARITIES[name](q[1:], c), rtol=1e-5)
    assert values.dtype == np.float32


def test_wasserstein1_by_coordinate_does_not_depend_on_how_the_queries_are_cut_into_blocks(rng):
    q, c = random_gaussian(rng, 17, 300), random_gaussian(rng, 900, 300)  # 15 queries a block
    alone = np.concatenate([wasserstein1_by_coordinate(q[[i]], c) for i in range(len(q))])
    np.testing.assert_allclose(wasserstein1_by_coordinate(q, c), alone, rtol=1e-6)


def test_without_variance_the_ranking_is_that_of_the_cosine(rng):
    means = unit(rng.standard_normal((60, 8)))
    q, c = (Gaussian(some, np.zeros((30, 8))) for some in (means[:30], means[30:]))
    expected = np.argsort(-(q.mean @ c.mean.T), axis=1)
    for name, similarity in SIMILARITIES.items():
        values = similarity(q, c)
        assert np.isfinite(values).all()
        if name != "wasserstein1_by_coordinate":  # of unit vectors all others depend on it alone
            np.testing.assert_array_equal(np.argsort(-values, axis=1), expected)
