import numpy as np
import pytest

from uec_rag.ensemble.evidence import Rest, SimilaritySummary, normal_mass


def similarities():
    rng = np.random.default_rng(3)
    values = rng.normal(0.1, 0.08, (20, 5000)).astype(np.float32)
    values[np.arange(20), rng.integers(0, 5000, 20)] += rng.uniform(0.1, 0.5, 20)
    return values


def of_the_best(values, count):
    best = -np.sort(-values, axis=1)[:, :count]
    rest = Rest(values.mean(axis=1), values.std(axis=1), values.shape[1])
    return SimilaritySummary.of_candidates(best, rest, 25.0)


def test_normal_mass_equals_a_large_sample():
    sample = np.random.default_rng(0).normal(-3, 1.5, 400_000)
    below = sample[sample < 0]
    log_mass, mean_logit = normal_mass(
        np.array([-3.0]), np.array([1.5]), np.array([0.0]), len(sample)
    )
    mass = np.exp(below)
    assert log_mass[0] == pytest.approx(np.log(mass.sum()), abs=0.01)
    assert mean_logit[0] == pytest.approx((mass * below).sum() / mass.sum(), abs=0.02)


@pytest.mark.parametrize(("count", "tolerance"), [(100, 0.5), (5000, 1e-4)])
def test_candidates_stand_in_for_the_corpus(count, tolerance):
    values = similarities()
    whole, near = SimilaritySummary.of(values, 25.0), of_the_best(values, count)
    assert near.size == whole.size == 5000
    np.testing.assert_allclose(near.sums.top, whole.sums.top, rtol=1e-6)
    np.testing.assert_allclose(near.mean, whole.mean, rtol=1e-4)
    for name in ("log_normaliser", "soft_normaliser", "near_normaliser", "mean_logit"):
        found, expected = getattr(near.sums, name), getattr(whole.sums, name)
        np.testing.assert_allclose(found, expected, atol=tolerance, err_msg=name)


def test_the_leaders_are_the_highest():
    values = similarities()
    best = np.sort(values, axis=1)[:, -100:]
    np.testing.assert_array_equal(np.sort(SimilaritySummary.of(values, 25.0).leaders, axis=1), best)


def test_ranks_are_places_by_similarity_as_far_as_they_are_kept():
    values = similarities()
    order = np.argsort(-values, axis=1)
    chosen = np.take_along_axis(values, order[:, [0, 7, 99, 100, 4000]], axis=1)
    ranks = SimilaritySummary.of(values, 25.0).ranks(chosen)
    np.testing.assert_array_equal(ranks, np.tile([1, 8, 100, 0, 0], (20, 1)))


def test_a_corpus_of_three_has_three_leaders():
    assert SimilaritySummary.of(similarities()[:, :3], 25.0).leaders.shape == (20, 3)
