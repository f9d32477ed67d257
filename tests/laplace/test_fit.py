import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from tests.helpers import WORDS, LinearHead, bag_of_words, noise, pairs
from uec_rag.base.similarity import moments as similarity_moments
from uec_rag.encoders import BlackBoxEncoder
from uec_rag.laplace.fit import fit_posterior
from uec_rag.laplace.likelihood import predictive_nll
from uec_rag.laplace.pairs import check_pairs, held_out_pairs, split_queries

EVERY_KIND = pytest.mark.parametrize(
    ("structure", "likelihood"),
    [(s, y) for s in ("kron", "diag") for y in ("pairs", "in_batch")],
)


def fit(encoder, given, **options):
    checked = check_pairs(given)
    queries = encoder.encode(checked.queries, "query")
    passages = encoder.encode(checked.passages, "passage")
    return fit_posterior(checked, queries, passages, encoder.gain, **options)


def gaussian(posterior, encoder, texts):
    encoded = encoder.encode(texts, "query")
    return posterior.gaussian(encoded.embedding, encoded.features)


@pytest.fixture(scope="module")
def given():
    return pairs(200)


@pytest.fixture(scope="module")
def words():
    return BlackBoxEncoder(bag_of_words(64, "words"))


@EVERY_KIND
def test_every_structure_and_likelihood_gives_a_finite_positive_variance(
    given, structure, likelihood
):
    encoder = LinearHead()
    posterior = fit(encoder, given, structure=structure, likelihood=likelihood)
    variance = gaussian(posterior, encoder, [query for query, _ in given]).variance
    assert variance.shape == (200, encoder.dimension)
    assert np.isfinite(variance).all()
    assert (variance > 0).all()


@EVERY_KIND
def test_unscaled_the_variance_is_what_laplace_gives(words, given, structure, likelihood):
    kind = {"structure": structure, "likelihood": likelihood}
    posterior = fit(words, given, **kind, scaled=False)
    assert posterior.summary.scale == 1
    assert np.isfinite(posterior.summary.nll)
    # Scaling is what held-out pairs gain by.
    assert fit(words, given, **kind).summary.nll <= posterior.summary.nll + 0.02


def test_random_negatives_alone_are_half_as_many(words, given):
    hard, random = (fit(words, given, negatives=kind).summary for kind in ("hard", "random"))
    assert random.pairs < hard.pairs
    assert 300 < random.pairs <= 320  # 160 fitting queries, each with one answer and one negative


@EVERY_KIND
def test_the_summary_says_what_was_found(words, given, structure, likelihood):
    summary = fit(words, given, structure=structure, likelihood=likelihood).summary
    assert summary.slope > 1
    assert summary.intercept < 0
    assert summary.prior_precision > 0
    assert summary.scale > 0
    assert summary.log_trace_sd > 0
    assert summary.held_out == 5 * 40  # an answer and four wrong hits of each held-out query
    # 160 fitting queries; as a softmax in whole batches of 64, as pairs with two negatives each.
    assert summary.pairs == 128 if likelihood == "in_batch" else 460 < summary.pairs <= 480
    assert 0 < summary.nll < np.log(2)
    assert np.isfinite(summary.log_marginal_likelihood)


@EVERY_KIND
def test_the_scale_is_the_one_that_makes_held_out_pairs_most_likely(
    words, given, structure, likelihood
):
    """Recomputed from the posterior's Gaussians alone: held-out NLL, and at other scales."""
    posterior = fit(words, given, structure=structure, likelihood=likelihood)
    checked = check_pairs(given)
    q, p = (words.encode(texts, "query").embedding for texts in (checked.queries, checked.passages))
    held_out = held_out_pairs(checked, split_queries(checked, seed=0)[1], q, p)

    def nll(factor):
        summary = replace(posterior.summary, scale=factor * posterior.summary.scale)
        wider = replace(posterior, summary=summary)
        mu, sigma2 = (
            moments[held_out.query_index, held_out.passage_index]
            for moments in similarity_moments(wider.gaussian(q, q), wider.gaussian(p, p))
        )

        def at(intercept):
            return predictive_nll(mu, sigma2, held_out.labels, summary.slope, intercept).mean()

        return minimize_scalar(at, bounds=(-1e3, 1e3), method="bounded").fun

    assert nll(1.0) == pytest.approx(posterior.summary.nll, abs=1e-4)
    assert nll(1.0) <= min(nll(0.25), nll(0.5), nll(2.0), nll(4.0)) + 1e-5
    assert nll(1e-9) == pytest.approx(posterior.summary.nll_deterministic, abs=1e-4)


@EVERY_KIND
def test_the_variance_does_not_make_held_out_pairs_less_likely(given, structure, likelihood):
    """By more than the standard error that the choice of the prior precision may give away."""
    for encoder in (BlackBoxEncoder(bag_of_words(16, "coarse")), LinearHead()):
        summary = fit(encoder, given, structure=structure, likelihood=likelihood).summary
        assert summary.nll < summary.nll_deterministic + 0.03


@pytest.mark.parametrize("structure", ["kron", "diag"])
def test_an_overconfident_encoder_is_told_so(given, structure):
    """In-batch slopes are steep; against the hardest passages that is too sure."""
    encoder = BlackBoxEncoder(bag_of_words(16, "coarse"))
    summary = fit(encoder, given, structure=structure, likelihood="in_batch").summary
    assert summary.nll < summary.nll_deterministic - 0.05


@EVERY_KIND
def test_a_weaker_encoder_gets_a_smaller_slope_and_a_larger_variance(
    words, given, structure, likelihood
):
    encoders = [words, *(BlackBoxEncoder(bag_of_words(d, f"words-{d}")) for d in (16, 6))]
    best, middle, worst = (
        fit(e, given, structure=structure, likelihood=likelihood).summary for e in encoders
    )
    assert best.slope > 1.5 * middle.slope > 3 * worst.slope
    assert best.log_trace_mean < middle.log_trace_mean < worst.log_trace_mean


@EVERY_KIND
def test_an_encoder_that_knows_nothing_gets_next_to_no_slope(words, given, structure, likelihood):
    options = {"structure": structure, "likelihood": likelihood}
    useless = fit(BlackBoxEncoder(noise), given, **options).summary
    assert useless.slope < 0.05 * fit(words, given, **options).summary.slope
    assert useless.nll == pytest.approx(useless.nll_deterministic, abs=0.01)


@pytest.mark.parametrize("structure", ["kron", "diag"])
def test_texts_unlike_those_it_was_fitted_on_are_less_certain(given, structure):
    """Half of the features are never seen in fitting, as words of another language would be."""
    known = bag_of_words(16, "known")

    def two_languages(texts):
        foreign = np.array([text.isupper() for text in texts])[:, None]
        own = known([text.lower() for text in texts])
        return np.concatenate([np.where(foreign, 0, own), np.where(foreign, own, 0)], axis=1)

    encoder = BlackBoxEncoder(two_languages)
    posterior = fit(encoder, given, structure=structure)
    queries = [query for query, _ in given]
    own = posterior.standardised_log_trace(gaussian(posterior, encoder, queries))
    foreign = posterior.standardised_log_trace(
        gaussian(posterior, encoder, [query.upper() for query in queries])
    )
    assert foreign.min() > own.max()
    assert foreign.mean() > own.mean() + 3


def test_the_same_seed_gives_the_same_posterior_and_another_seed_another(words, given):
    first, again, other = (fit(words, given, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.covariance, again.covariance)
    assert first.summary == again.summary != other.summary


def test_the_same_pairs_in_another_order_give_the_same_posterior(words, given):
    first, again = fit(words, given), fit(words, given[::-1])
    np.testing.assert_array_equal(first.covariance, again.covariance)
    assert first.summary == again.summary


def test_thirty_two_pairs_are_enough(words):
    rng = np.random.default_rng(0)
    few = [(" ".join(rng.choice(WORDS, 3)), " ".join(rng.choice(WORDS, 8))) for _ in range(32)]
    for likelihood in ("pairs", "in_batch"):
        summary = fit(words, few, likelihood=likelihood).summary
        assert np.isfinite([summary.slope, summary.scale, summary.nll]).all()


def test_given_negatives_are_fitted_on(words, given):
    labelled = [(*pair, 1) for pair in given] + [
        (given[i][0], given[(i + 1) % 200][1], 0) for i in range(200)
    ]
    assert fit(words, labelled).summary.pairs > fit(words, given).summary.pairs


def test_without_laplace_torch_the_extra_to_install_is_named(words, given, monkeypatch):
    monkeypatch.setitem(sys.modules, "laplace", None)
    with pytest.raises(ImportError, match=r"uec-rag\[fit\]"):
        fit(words, given)
