from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from tests.helpers import WORDS, LinearHead, bag_of_words, noise, pairs
from uec_rag.base.similarity import moments as similarity_moments
from uec_rag.encoders import BlackBoxEncoder, Encoded
from uec_rag.laplace.fit_posterior import fit_posterior
from uec_rag.laplace.likelihood import fitting_intercept, predictive_nll
from uec_rag.laplace.pairs import check_pairs, held_out_pairs, similarities, split_queries

STRUCTURES = pytest.mark.parametrize("structure", ["kron", "diag"])


def fit(encoder, given, **options):
    checked = check_pairs(given)
    queries = encoder.encode(checked.queries, "query")
    passages = encoder.encode(checked.passages, "passage")
    return fit_posterior(checked, queries, passages, encoder.gain, **options)


def gaussian(posterior, encoder, texts):
    encoded = encoder.encode(texts, "query")
    return posterior.gaussian(encoded)


def standardise_log_trace(posterior, gaussian):
    usual = posterior.summary
    return (np.log(gaussian.trace) - usual.log_trace_mean) / usual.log_trace_sd


@pytest.fixture(scope="module")
def given():
    return pairs(200)


@pytest.fixture(scope="module")
def words():
    return BlackBoxEncoder(bag_of_words(64, "words"))


@STRUCTURES
def test_unscaled_the_variance_is_what_laplace_gives(words, given, structure):
    posterior = fit(words, given, structure=structure, scaled=False)
    assert posterior.summary.scale == 1
    assert np.isfinite(posterior.summary.nll)
    # Scaling is what held-out pairs gain by.
    assert fit(words, given, structure=structure).summary.nll <= posterior.summary.nll + 0.02


def test_random_negatives_alone_are_half_as_many(words, given):
    hard, random = (fit(words, given, negatives=kind).summary for kind in ("hard", "random"))
    assert random.pairs < hard.pairs
    assert 300 < random.pairs <= 320  # 160 fitting queries, each with one answer and one negative


@STRUCTURES
def test_the_scale_is_the_likeliest_after_held_out_pairs_and_what_is_usual(words, given, structure):
    """Recomputed from the posterior's Gaussians alone: held-out NLL, and at other scales; a logit's
    variance is 3 or so before any pair is seen."""
    posterior = fit(words, given, structure=structure)
    checked = check_pairs(given)
    sides = [words.encode(texts, "query") for texts in (checked.queries, checked.passages)]
    held_out = held_out_pairs(checked, split_queries(checked, seed=0)[1], similarities(*sides))

    def nll(factor):
        summary = replace(posterior.summary, scale=factor * posterior.summary.scale)
        wider = replace(posterior, summary=summary)
        mu, sigma2 = (
            moments[held_out.query_index, held_out.passage_index]
            for moments in similarity_moments(*map(wider.gaussian, sides))
        )

        def at(intercept):
            return predictive_nll(mu, sigma2, held_out.labels, summary.slope, intercept).mean()

        far = np.log(summary.slope**2 * sigma2[held_out.labels == 1].mean() / 3)
        found = minimize_scalar(at, bounds=(-1e3, 1e3), method="bounded").fun
        return found, found + far**2 / 2 / len(held_out)

    plain, with_prior = nll(1.0)
    assert plain == pytest.approx(posterior.summary.nll, abs=1e-4)
    assert with_prior <= min(nll(factor)[1] for factor in (0.25, 0.5, 2.0, 4.0)) + 1e-5
    assert nll(1e-9)[0] == pytest.approx(posterior.summary.nll_deterministic, abs=1e-4)


@STRUCTURES
def test_a_weaker_encoder_gets_a_smaller_slope_and_a_larger_variance_and_noise_hardly_any_slope(
    words, given, structure
):
    others = [bag_of_words(16, "middle"), bag_of_words(6, "worst"), noise]
    best, middle, worst, useless = (
        fit(encoder, given, structure=structure).summary
        for encoder in (words, *map(BlackBoxEncoder, others))
    )
    assert useless.slope < 0.05 * best.slope
    assert useless.nll == pytest.approx(useless.nll_deterministic, abs=0.01)
    assert best.slope > 1.5 * middle.slope > 3 * worst.slope
    assert best.log_trace_mean < middle.log_trace_mean < worst.log_trace_mean


@STRUCTURES
def test_held_out_queries_are_usual(words, given, structure):
    checked, posterior = check_pairs(given), fit(words, given, structure=structure)
    held_out = [checked.queries[row] for row in split_queries(checked, seed=0)[1]]
    standard = standardise_log_trace(posterior, gaussian(posterior, words, held_out))
    assert (standard.mean(), standard.std()) == (
        pytest.approx(0, abs=1e-3),
        pytest.approx(1, abs=1e-3),
    )


@STRUCTURES
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
    own = standardise_log_trace(posterior, gaussian(posterior, encoder, queries))
    foreign = standardise_log_trace(
        posterior, gaussian(posterior, encoder, [query.upper() for query in queries])
    )
    assert foreign.min() > own.max()
    assert foreign.mean() > own.mean() + 3


def templated(half):
    """Forty pairs of one mould: each question names one thing, and so does its passage."""
    things = [f"{a} {b}" for a in WORDS[:9] for b in WORDS[20:29]][half::2]
    return [(f"how do i mend the {t}", f"to mend the {t} open the {t} and look") for t in things]


FEW = {
    "templated": (templated(0), templated(1)),
    "150 pairs": (pairs(150, seed=3), pairs(120, seed=9)),
    "300 pairs": (pairs(300, seed=4), pairs(120, seed=9)),
}


@pytest.mark.slow
@pytest.mark.parametrize("some", FEW)
@STRUCTURES
def test_over_many_small_fits_variance_slope_and_fresh_pairs_stay_sane(some, structure):
    """Without priors a third of such variances vanished, and slopes rose to a thousand."""
    own, others = FEW[some]
    asked = check_pairs(others)
    everything = np.arange(len(asked.queries))
    surprise = []
    encoders = [BlackBoxEncoder(bag_of_words(d, f"words-{d}")) for d in (16, 64, 200)]
    for encoder in [*encoders, LinearHead()]:
        for seed in range(2):
            posterior = fit(encoder, own, structure=structure, seed=seed)
            a = posterior.summary.slope
            assert 0 < a < 200
            q, p = (gaussian(posterior, encoder, t) for t in (asked.queries, asked.passages))
            fresh = held_out_pairs(
                asked, everything, similarities(*(Encoded(z.mean, z.mean) for z in (q, p)))
            )
            mu, sigma2 = (
                moments[fresh.query_index, fresh.passage_index]
                for moments in similarity_moments(q, p)
            )
            assert 0.05 < a**2 * sigma2.mean() < 30
            nll = [
                predictive_nll(
                    mu, v, fresh.labels, a, fitting_intercept(mu, v, fresh.labels, a)
                ).mean()
                for v in (sigma2, 0 * sigma2)
            ]
            surprise.append(nll)
    with_variance, without = np.mean(surprise, axis=0)
    assert with_variance < without + 0.01
