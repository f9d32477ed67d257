import re
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.helpers import LinearHead, Remembering, bag_of_words, noise, pairs, refused, unit
from uec_rag import UEC
from uec_rag.confidence.model import shipped_model
from uec_rag.ensemble.convolution import Rule
from uec_rag.ensemble.fitted import PAPER, FitOptions

QUERIES = ["badero fimafi", "golugo", "nepine tamano sufigo"]


@pytest.fixture
def recording():
    return Remembering(16, "recorded")


# What embeddings are


def test_the_direct_sum_stacks_the_encoders_weighted_unit_vectors(fitted, encoders):
    z = fitted.embed(QUERIES, role="passage")
    own = [unit(encoders[0](QUERIES)), unit(encoders[1](QUERIES))]
    own.append(encoders[2].encode(QUERIES, "passage").embedding)
    slopes = [summary.slope for summary in fitted.report.encoders.values()]
    blocks = [
        np.sqrt(3 * slope / np.mean(slopes)) / 3 * x for slope, x in zip(slopes, own, strict=True)
    ]
    np.testing.assert_allclose(z.mean, np.concatenate(blocks, axis=1), atol=1e-6)
    assert z.dimension == fitted.dimension == 64 + 16 + 10
    np.testing.assert_allclose(np.linalg.norm(z.mean, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(z.coefficients, 1 / 3)
    assert (z.variance > 0).all()


def test_an_ensemble_that_is_not_fitted_is_a_plain_one_and_warns_once(encoders):
    uec = UEC(encoders)
    with pytest.warns(UserWarning, match=r"unreliable.*call Retriever.fit_from") as said:
        z = uec.embed(QUERIES, role="query")
    assert len(said) == 1
    assert said[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        uec.embed(QUERIES, role="passage")
    assert (z.variance == 0).all()
    np.testing.assert_allclose(z.coefficients, 1 / 3)
    assert not uec.is_fitted
    assert "not fitted" in repr(uec)


def test_encoders_that_wait_for_a_service_wait_side_by_side():
    together = threading.Barrier(2, timeout=600)  # who is alone breaks it

    def service(texts):
        together.wait()
        return noise(texts)

    UEC([service, service], coefficients="uniform").embed(["a"])


# The paper's preset


@pytest.fixture(scope="module")
def paper(fit_pairs):
    encoders = [bag_of_words(24, "a"), bag_of_words(24, "b", seed=1), noise]
    return UEC.paper(encoders).fit(fit_pairs)


def test_the_preset_makes_the_papers_choices(paper):
    fitted = paper.fitted
    assert (fitted.options, fitted.rule) == (FitOptions(**PAPER), Rule("trace", 1.5))
    for posterior in fitted.posteriors:
        assert (posterior.structure, posterior.summary.scale) == ("diag", 1.0)
    other = UEC.paper([noise], beta=2.0, coefficients="uniform", negatives="hard")
    changed = FitOptions(**PAPER | {"beta": 2.0, "negatives": "hard"})
    assert (other.fitted.options, other.fitted.rule) == (changed, Rule("uniform"))


@pytest.mark.parametrize("role", ["query", "passage"])
def test_the_preset_convolves_as_equations_1_and_4_say(paper, role):
    pairs = zip(paper.fitted.posteriors, paper.encoders, strict=True)
    parts = [posterior.gaussian(encoder.encode(QUERIES, role)) for posterior, encoder in pairs]
    weights = np.exp(-np.stack([p.variance.sum(axis=1) for p in parts], axis=1) / 1.5)
    pi = weights / weights.sum(axis=1, keepdims=True)
    mean = sum(w[:, None] * p.mean for w, p in zip(pi.T, parts, strict=True))
    variance = sum(w[:, None] ** 2 * p.variance for w, p in zip(pi.T, parts, strict=True))
    length = np.linalg.norm(mean, axis=1, keepdims=True)
    z = paper.embed(QUERIES, role)
    np.testing.assert_allclose(z.coefficients, pi, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(z.mean, mean / length, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(z.variance, variance / length**2, rtol=1e-3, atol=1e-7)


def test_the_preset_leaves_out_an_encoder_that_knows_nothing(paper):
    assert paper.embed(QUERIES).coefficients[:, 2].max() < 0.01


# Fitting


def test_fit_returns_a_report_with_a_line_for_every_encoder(fitted):
    report = fitted.report
    assert list(report.encoders) == fitted.names == ["fine", "coarse", "head"]
    for line, (name, summary) in zip(
        str(report).splitlines(), report.encoders.items(), strict=False
    ):
        assert min(summary.slope, summary.prior_precision, summary.scale) > 0
        assert summary.pairs > 400
        assert summary.held_out == 200
        assert line.startswith(f"{name}: slope {summary.slope:.1f}")
        assert f"{summary.nll:.4f} ({summary.nll_deterministic:.4f}" in line


def test_the_level_of_confidence_is_that_of_the_shipped_model(fitted):
    model = fitted.fitted.confidence_model
    told = {"temperature": model.temperature, "profile": model.profile}
    assert model == replace(shipped_model("fitted"), **told)


def test_a_fit_learns_which_logits_its_hits_usually_have(fitted):
    profile = fitted.fitted.confidence_model.profile
    assert len(profile) == 30
    assert [*profile] == sorted(profile, reverse=True)
    assert profile != shipped_model("fitted").profile


def test_each_encoder_may_be_fitted_on_pairs_of_its_own(encoders, fit_pairs):
    others = pairs(150, seed=5)
    given = {"fine": fit_pairs, "coarse": others}
    both = UEC(encoders[:2], coefficients="uniform").fit(given)
    alone = [
        UEC([encoder]).fit(own).fitted.posteriors[0]
        for encoder, own in zip(encoders, given.values(), strict=False)
    ]
    for posterior, expected in zip(both.fitted.posteriors, alone, strict=True):
        assert posterior.summary == expected.summary
        np.testing.assert_array_equal(posterior.covariance, expected.covariance)
    assert both.report.encoders["coarse"].held_out == 150


def test_a_fitted_ensemble_is_the_same_for_the_same_seed(encoders, fitted, fit_pairs):
    assert UEC(encoders).fit(fit_pairs).fingerprint == fitted.fingerprint
    assert UEC(encoders, seed=1).fit(fit_pairs).fingerprint != fitted.fingerprint


def test_the_order_of_the_pairs_does_not_matter(encoders, fitted, fit_pairs):
    turned = UEC(encoders).fit(fit_pairs[::-1])
    assert turned.fingerprint == fitted.fingerprint
    assert turned.fitted.rule == fitted.fitted.rule
    assert turned.fitted.confidence_model == fitted.fitted.confidence_model


@given(st.data())
def test_an_offset_of_a_member_is_no_disagreement(fitted, data):
    """A question may be easy to one member and hard to another: only differences count."""

    def draw(low, high, *shape):
        numbers = st.floats(low, high, width=32)
        return data.draw(arrays(np.float32, shape, elements=numbers))

    own, offset, pi = draw(-1, 1, 2, 3, 4), draw(-1, 1, 2, 3), draw(0.125, 1, 2, 3)
    pi /= pi.sum(axis=1, keepdims=True)
    slopes = np.float32(fitted.fitted.slopes)
    plain, moved = (
        fitted.fitted.disagreement(of, of.max(axis=2), pi) for of in (own, own + offset[:, :, None])
    )
    np.testing.assert_allclose(moved, plain, rtol=1e-3, atol=1e-3)
    assert (plain >= 0).all()
    alike = np.broadcast_to(own[:, :1] * slopes[0] / slopes[:, None], own.shape)
    of_all = fitted.fitted.disagreement(alike, alike.max(axis=2), pi)
    np.testing.assert_allclose(of_all, np.zeros_like(of_all), atol=1e-5)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([("q", "p")] * 99, ValueError, "pairs: expected at least 32 distinct pairs"),
        ({"other": []}, ValueError, "pairs: expected a list for each of the encoders ['recorded']"),
        ({"recorded": []}, ValueError, "pairs['recorded']: expected at least 32"),
    ],
)
def test_pairs_are_checked_before_anything_is_encoded(recording, given, error, message):
    uec = UEC([recording])
    with pytest.raises(error, match=re.escape(message)):
        uec.fit(given)
    assert recording.texts == []
    assert not uec.is_fitted


def test_a_space_that_cannot_be_shared_is_said_before_pairs_are_encoded(recording, fit_pairs):
    uec = UEC([recording, bag_of_words(8, "narrow")], space="shared")
    with pytest.raises(ValueError, match=r"got \[16, 8\]; use space='direct'"):
        uec.fit(fit_pairs)
    assert len(recording.texts) <= 1  # to learn its width


@pytest.mark.usefixtures("no_waits")
def test_a_fit_that_fails_leaves_the_ensemble_as_it_was(encoders, fit_pairs):
    failing = False

    def moody(texts):
        if failing:
            raise ConnectionError("the service is down")
        return encoders[0](texts)

    uec = UEC([encoders[1], moody]).fit(fit_pairs)
    before, failing = uec.fingerprint, True
    with pytest.raises(ConnectionError):
        uec.fit(pairs(50, seed=9))
    assert uec.fingerprint == before
    assert uec.report.encoders["moody"].held_out == 200


# Names and fingerprints


def test_names_are_made_unique():
    embed = bag_of_words(4, "a")
    assert UEC([embed, embed, bag_of_words(4, "a-2")]).names == ["a", "a-2", "a-2-2"]


def test_the_fingerprint_follows_what_stored_vectors_depend_on(encoders, fitted):
    unfitted = UEC(encoders)
    different = [
        fitted,
        unfitted,
        UEC(encoders[:2]),
        UEC(encoders[1::-1]),
        UEC(encoders[1:2], space="shared"),
        UEC(encoders[1:2], space="shared", temperature=2.0),
        UEC([LinearHead(seed=0)]),
        UEC([LinearHead(seed=1)]),
    ]
    assert len({uec.fingerprint for uec in different}) == len(different)
    for same in (UEC(encoders, beta=9.0), UEC(encoders, coefficients="uniform"), UEC(encoders)):
        assert same.fingerprint == unfitted.fingerprint


# Bad input


@pytest.mark.parametrize(
    ("encoders", "error", "message"),
    [
        ([], ValueError, "encoders: expected at least one, got none"),
        ("some/model", ValueError, "a list of encoders, got 'some/model'; write ['some/model']"),
        ("englisch", ValueError, "got 'englisch'; did you mean 'english'?; write ['englisch']"),
        (noise, TypeError, "encoders: expected a list of encoders, got function"),
        ([3], TypeError, "cannot make an encoder from int 3"),
        ([""], ValueError, "an encoder's name must not be empty"),
        (["pypi:unheard-of"], ValueError, "unheard-of"),
    ],
)
def test_what_is_no_list_of_encoders_is_refused(encoders, error, message):
    with pytest.raises(error, match=re.escape(message)):
        UEC(encoders)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [*refused("UEC"), ({"beta": 10**400}, ValueError, "beta: expected")],
)
def test_options_that_do_not_exist_are_refused_by_name(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        UEC([noise], **options)


@pytest.mark.parametrize(
    ("texts", "role", "message"),
    [
        ("one text", "query", "texts: expected a list of strings, got one string 'one text'"),
        (["a"], "document", "role must be one of"),
    ],
)
def test_texts_and_role_are_checked_before_an_encoder_runs(recording, texts, role, message):
    with pytest.raises((TypeError, ValueError), match=message):
        UEC([recording]).embed(texts, role)
    assert recording.texts == []
