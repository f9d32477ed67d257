import numpy as np
import pytest

from uec_rag.laplace.pair_scores import fit_pair_scores

COUNT, WIDTH = 4000, 6


def made(seed=0, slope=2.0, intercept=-3.0):
    """Features, scores that are linear in them, and labels drawn at a slope and an intercept."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((COUNT, WIDTH)).astype(np.float32)
    scores = features @ rng.standard_normal(WIDTH).astype(np.float32)
    yes = 1 / (1 + np.exp(-(slope * scores + intercept)))
    labels = (rng.random(COUNT) < yes).astype(np.float32)
    return scores, features, labels, np.arange(COUNT) // 10


def without_features():
    scores, _, labels, query = made()
    return scores, np.zeros((COUNT, 0), np.float32), labels, query


def test_slope_and_intercept_are_those_that_the_labels_were_drawn_at():
    summary = fit_pair_scores(*without_features(), seed=0).summary
    assert summary.slope == pytest.approx(2, rel=0.1)
    assert summary.intercept == pytest.approx(-3, rel=0.1)
    assert (summary.pairs, summary.held_out) == (3200, 800)


@pytest.mark.parametrize(("unit", "zero"), [(0.01, 0.0), (1000.0, 500.0)])
def test_the_scale_of_the_scores_does_not_matter(unit, zero):
    scores, *rest = without_features()
    plain = fit_pair_scores(scores, *rest, seed=0).summary
    moved = np.float32(unit) * scores + np.float32(zero)
    other = fit_pair_scores(moved, *rest, seed=0).summary
    assert other.slope * unit == pytest.approx(plain.slope, rel=1e-3)
    assert other.nll == pytest.approx(plain.nll, rel=1e-3)


def test_scores_that_tell_nothing_or_the_wrong_way_round_are_worth_nothing():
    scores, features, labels, query = without_features()
    chance = np.random.default_rng(5).permutation(scores)
    for useless in (chance, -scores):
        slope = fit_pair_scores(useless, features, labels, query, seed=0).summary.slope
        assert 0 <= slope * scores.std() < 0.1
    assert fit_pair_scores(np.ones_like(scores), features, labels, query, 0).summary.slope == 0


def test_without_features_there_is_no_variance():
    posterior = fit_pair_scores(*without_features(), seed=0)
    gaussian = posterior.gaussian(np.ones((3, 1), np.float32), np.zeros((3, 0), np.float32))
    np.testing.assert_array_equal(gaussian.variance, np.zeros((3, 1)))


def test_the_variance_is_that_of_the_laplace_posterior_of_the_layer():
    import torch

    scores, features, labels, query = made()
    posterior = fit_pair_scores(scores, features, labels, query, seed=0)
    summary = posterior.summary
    # The posterior was fitted on the queries that were not held out.
    order = np.random.default_rng(0).permutation(np.unique(query))
    fitting = ~np.isin(query, order[: len(order) // 5])
    weight = torch.linalg.lstsq(torch.tensor(features), torch.tensor(scores)).solution

    def loss(w):
        logits = summary.slope * (torch.tensor(features[fitting]) @ w) + summary.intercept
        return torch.nn.functional.binary_cross_entropy_with_logits(
            logits, torch.tensor(labels[fitting]), reduction="sum"
        )

    precision = torch.autograd.functional.hessian(loss, weight).numpy()
    precision += summary.prior_precision * np.eye(WIDTH)
    shown = np.random.default_rng(1).standard_normal((5, WIDTH)).astype(np.float32)
    expected = summary.scale * np.einsum("nm,mk,nk->n", shown, np.linalg.inv(precision), shown)
    got = posterior.gaussian(np.zeros((5, 1), np.float32), shown).variance[:, 0]
    np.testing.assert_allclose(got, expected, rtol=1e-3)


def test_features_unlike_all_that_were_seen_are_less_certain():
    scores, features, labels, query = made()
    features[:, 0] *= 0.01
    posterior = fit_pair_scores(scores, features, labels, query, seed=0)
    new = np.eye(WIDTH, dtype=np.float32)
    variance = posterior.gaussian(np.zeros((WIDTH, 1), np.float32), new).variance[:, 0]
    assert variance[0] > 5 * variance[1:].max()
