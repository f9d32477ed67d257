"""Predictive variance against Monte Carlo over weights drawn from the Laplace posterior.

The posterior's covariance is rebuilt here from the definitions, pair by pair, so that curvature,
prior precision, scale and prediction are all checked at once.
"""

import numpy as np
import pytest

from tests.helpers import LinearHead, pairs
from uec_rag.base.similarity import moments
from uec_rag.encoders import Encoded
from uec_rag.laplace.fit import fit_posterior
from uec_rag.laplace.pairs import VectorSimilarities, check_pairs, split_queries, training_pairs

DRAWS = 20_000


@pytest.fixture(scope="module")
def head():
    return LinearHead(dimension=5, feature_dimension=7)


@pytest.fixture(scope="module")
def encoded(head):
    """Pairs, and the encoder's features and embeddings of their texts."""
    checked = check_pairs(pairs(120))
    return checked, head.encode(checked.queries, "query"), head.encode(checked.passages, "passage")


@pytest.fixture(scope="module", params=["kron", "diag"])
def posterior(request, head, encoded):
    return fit_posterior(*encoded, head.gain, structure=request.param)


def pair_by_pair(posterior, head, encoded):
    """Jacobian of the similarity in the weights, and p (1 - p) a^2, of every training pair."""
    checked, queries, passages = encoded
    fitting, _ = split_queries(checked, seed=0)
    train = training_pairs(
        checked, fitting, VectorSimilarities(queries.embedding, passages.embedding), seed=0
    )
    for q, p in zip(train.query_index, train.passage_index, strict=True):
        z, h = queries.embedding[q].astype(float), queries.features[q].astype(float)
        z2, h2 = passages.embedding[p].astype(float), passages.features[p].astype(float)
        slope, intercept = posterior.summary.slope, posterior.summary.intercept
        yes = 1 / (1 + np.exp(-(slope * z @ z2 + intercept)))
        yield (head.gain * z2, h), (head.gain * z, h2), yes * (1 - yes) * slope**2


def draw_weights(posterior, head, encoded, rng):
    """Changes dW of the last layer's weights, (DRAWS, d, m), from the posterior by definition."""
    d, m = head.dimension, head.feature_dimension
    noise = rng.standard_normal((DRAWS, d, m))
    scale, precision = posterior.summary.scale, posterior.summary.prior_precision
    if posterior.structure == "diag":
        curvature = np.zeros((d, m))
        for (g, h), (g2, h2), weight in pair_by_pair(posterior, head, encoded):
            curvature += weight * (np.outer(g, h) + np.outer(g2, h2)) ** 2
        return np.sqrt(scale / (curvature + precision)) * noise
    factor_g, factor_a, count = np.zeros((d, d)), np.zeros((m, m)), 0
    for (g, h), (g2, h2), weight in pair_by_pair(posterior, head, encoded):
        factor_g += weight * (np.outer(g, g) + np.outer(g2, g2))
        factor_a += np.outer(h, h) + np.outer(h2, h2)
        count += 2
    factor_a /= count
    # The damped Kronecker posterior: (G + sqrt(delta) I) x (A + sqrt(delta) I), the factors of
    # one mean eigenvalue.
    size = np.sqrt(np.trace(factor_g) / d * np.trace(factor_a) / m)
    root_g, root_a = (
        np.linalg.cholesky(
            np.linalg.inv(
                factor * size / (np.trace(factor) / len(factor))
                + np.sqrt(precision) * np.eye(len(factor))
            )
        )
        for factor in (factor_g, factor_a)
    )
    return np.sqrt(scale) * root_g @ noise @ root_a.T


def test_the_predictive_variance_equals_monte_carlo_over_weights(posterior, head, encoded):
    _, queries, _ = encoded
    gaussian = posterior.gaussian(queries[:6])
    weights = draw_weights(posterior, head, encoded, np.random.default_rng(0))
    change = np.einsum("sdm,nm->snd", weights, queries.features[:6])
    samples = queries.embedding[:6] + head.gain * change
    error = np.sqrt(gaussian.variance / DRAWS)
    assert (np.abs(samples.mean(axis=0) - gaussian.mean) < 5 * error).all()
    np.testing.assert_allclose(samples.var(axis=0), gaussian.variance, rtol=0.06)


def test_the_variance_of_a_similarity_follows_from_it(posterior, head, encoded):
    """sigma_s^2 against Monte Carlo where query and passage vary independently, as eq. 5 has it."""
    _, queries, passages = encoded
    rng = np.random.default_rng(1)
    sides = [
        side.embedding[:3]
        + head.gain
        * np.einsum("sdm,nm->snd", draw_weights(posterior, head, encoded, rng), side.features[:3])
        for side in (queries, passages)
    ]
    gaussians = [posterior.gaussian(s[:3]) for s in (queries, passages)]
    if posterior.structure == "kron":
        # Coordinates of a draw are correlated; a Gaussian of the house keeps their variances.
        sides = [
            g.mean + np.sqrt(g.variance) * rng.standard_normal((DRAWS, 3, head.dimension))
            for g in gaussians
        ]
    sampled = (sides[0] @ sides[1].transpose(0, 2, 1)).var(axis=0)
    np.testing.assert_allclose(sampled, moments(*gaussians)[1], rtol=0.08)


def test_held_out_queries_are_usual_and_unseen_features_unusual(posterior, head, encoded):
    checked, queries, _ = encoded
    _, held_out = split_queries(checked, seed=0)
    own = posterior.gaussian(queries[held_out])
    standard = posterior.standardise_log_trace(own)
    assert standard.mean() == pytest.approx(0, abs=1e-3)
    assert standard.std() == pytest.approx(1, abs=1e-3)
    longer = posterior.gaussian(Encoded(queries.embedding, 100 * queries.features))
    assert (posterior.standardise_log_trace(longer) > 3).all()
