import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.paper.analyses import similarities as float32
from benchmarks.paper.analyses import theorems
from uec_rag import Gaussian


def gaussian(count, dimension, seed, variance=0.01):
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=(count, dimension))
    mean /= np.linalg.norm(mean, axis=1, keepdims=True)
    return Gaussian(mean, variance * rng.uniform(0.1, 1, mean.shape))


def pairs_of(queries, candidates):
    """Every query with every candidate, with means of unit length in double precision."""
    shape = (len(queries), len(candidates), queries.dimension)
    sides = []
    for side, axis in ((queries, 1), (candidates, 0)):
        mean = side.mean / np.linalg.norm(side.mean.astype(np.float64), axis=1, keepdims=True)
        for part in (mean, side.variance.astype(np.float64)):
            sides.append(np.broadcast_to(np.expand_dims(part, axis), shape))
    return theorems.GaussianPairs(*sides)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_the_formulas_are_those_the_retriever_uses(seed):
    q, c = gaussian(3, 8, [seed, 0]), gaussian(4, 8, [seed, 1])
    pairs = pairs_of(q, c)
    assert np.allclose(pairs.score, float32.score(q, c), atol=1e-5)
    assert np.allclose(-pairs.wasserstein, float32.wasserstein2(q, c), atol=1e-4)
    assert np.allclose(-pairs.jeffreys, float32.jeffreys(q, c), rtol=1e-3)


@pytest.fixture(scope="module")
def first():
    return {s.name: s for s in theorems.theorem_1(dimension=64, queries=4, candidates=20)}


@pytest.fixture(scope="module")
def second():
    return {s.name: s for s in theorems.theorem_2(dimension=64, queries=4, candidates=20)}


def test_theorem_1_holds_to_first_order_under_its_own_assumptions(first):
    slopes = [s.slope for s in first.values() if s.holds]
    assert len(slopes) == 3
    assert np.allclose(slopes, 1, atol=0.05)


def test_without_its_first_order_terms_the_residual_is_of_second_order(first):
    for name in ("dispersed: variances up to eps / d", "all variances eps / d"):
        assert first[name].corrected_slope == pytest.approx(2, abs=0.1)
    assert all((s.corrected_slope > 1.8) for s in first.values() if s.slope > 0.5)


def test_theorem_1_fails_without_unit_means_or_small_variances(first):
    broken = first["means not normalised (0.8 to 1.2)"]
    assert broken.slope == pytest.approx(0, abs=0.02)
    assert broken.residual[0] > 1e-3
    assert broken.agreement[0] < 0.99
    assert first["dispersed: variances up to eps / d"].agreement[0] > 0.9999
    stated = first["as stated: variances up to eps"]
    assert stated.epsilons[-1] >= 1
    assert stated.agreement[-1] < 0.5


def test_theorem_2_is_of_first_order_at_best_and_fails_where_scales_do_not_vanish(second):
    assert second["tau = eps / d, all variances alike"].slope == pytest.approx(1, abs=0.05)
    assert max(s.slope for s in second.values()) < 1.1
    fixed = second["tau fixed, differences up to eps tau"]
    assert fixed.residual[0] == pytest.approx(fixed.residual[2], rel=0.05)
    assert fixed.slope < 0.5
    assert second["tau = eps / d, differences up to tau / 2"].slope == pytest.approx(0, abs=0.1)
