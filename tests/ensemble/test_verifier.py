import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cross_encoders import folder_of
from tests.helpers import bag_of_words, by_name, resaved, shared_words
from uec_rag import UEC, FingerprintMismatch, IndexCorrupted, Retriever
from uec_rag.base.saved.files import read_json, write_json
from uec_rag.encoders.verifier import FunctionVerifier, bounded
from uec_rag.ensemble.fit_queries import fit_pair_scores
from uec_rag.ensemble.save import KIND
from uec_rag.ensemble.verifier import Verified


def chance(query, passages):
    return np.random.default_rng(len(query)).standard_normal(len(passages))


@pytest.fixture(scope="module")
def members():
    return [bag_of_words(64, "fine"), bag_of_words(16, "coarse", seed=1)]


@pytest.fixture(scope="module")
def plain(members, fit_pairs):
    return UEC(members).fit(fit_pairs)


@pytest.fixture(scope="module")
def verified(members, fit_pairs):
    return UEC(members, verifier=shared_words, verify_k=5).fit(fit_pairs)


@pytest.fixture(scope="module")
def summary():
    rng = np.random.default_rng(0)
    scores = rng.standard_normal(500).astype(np.float32)
    labels = (scores > rng.standard_normal(500)).astype(np.float32)
    return fit_pair_scores(scores, labels, np.arange(500) // 5, seed=0)


@given(st.integers(0, 2**32 - 1))
def test_hits_gain_what_they_have_more_than_the_worst(summary, seed):
    scores = np.random.default_rng(seed).standard_normal(12).astype(np.float32)
    read = Verified.of(summary, 0.5, scores, (3, 4))
    logits = 0.5 * (summary.slope * read.scores + summary.intercept)
    np.testing.assert_array_equal(read.gain.min(axis=1), 0)
    np.testing.assert_allclose(read.gain + read.floor[:, None], logits, atol=1e-5)


def test_what_it_says_is_cut_off_at_a_hundred_log_odds(summary):
    scores = bounded(np.float32([1e38, -1e38, 0]))
    assert scores.tolist() == [1e6, -1e6, 0]
    read = Verified.of(summary, 0.5, scores, (1, 3))
    assert read.floor.tolist() == [-50]
    assert read.gain[0, :2].tolist() == [100, 0]
    with pytest.raises(ValueError, match="scores: expected finite numbers"):
        bounded(np.float32([np.nan]))


COUNT = 4000


def drawn(slope=2.0, intercept=-3.0):
    """Scores, labels drawn at a slope and an intercept, and which query each is of."""
    rng = np.random.default_rng(0)
    scores = (rng.standard_normal(COUNT) * 2).astype(np.float32)
    yes = 1 / (1 + np.exp(-(slope * scores + intercept)))
    return scores, (rng.random(COUNT) < yes).astype(np.float32), np.arange(COUNT) // 10


def test_slope_and_intercept_are_those_that_the_labels_were_drawn_at():
    summary = fit_pair_scores(*drawn(), seed=0)
    assert summary.slope == pytest.approx(2, rel=0.1)
    assert summary.intercept == pytest.approx(-3, rel=0.1)
    assert (summary.pairs, summary.held_out) == (3200, 800)


@pytest.mark.parametrize(("unit", "zero"), [(0.01, 0.0), (1000.0, 500.0)])
def test_the_scale_of_the_scores_does_not_matter(unit, zero):
    scores, *rest = drawn()
    plain = fit_pair_scores(scores, *rest, seed=0)
    other = fit_pair_scores(np.float32(unit) * scores + np.float32(zero), *rest, seed=0)
    assert other.slope * unit == pytest.approx(plain.slope, rel=1e-3)
    assert other.nll == pytest.approx(plain.nll, rel=1e-3)


def test_scores_that_tell_nothing_or_the_wrong_way_round_are_worth_nothing():
    scores, labels, query = drawn()
    chance = np.random.default_rng(5).permutation(scores)
    for useless in (chance, -scores):
        slope = fit_pair_scores(useless, labels, query, seed=0).slope
        assert 0 <= slope * scores.std() < 0.1
    assert fit_pair_scores(np.ones_like(scores), labels, query, 0).slope == 0


def test_fit_learns_what_its_score_is_worth_and_reports_it(verified):
    summary = verified.report.encoders["shared_words"]
    assert summary.slope > 1
    assert "shared_words" in str(verified.report)


def test_the_encoders_are_fitted_as_they_are_without_it(plain, verified):
    assert verified.fingerprint == plain.fingerprint  # stored vectors serve both
    assert verified.fitted.confidence_model == plain.fitted.confidence_model
    assert verified.confidence_model != plain.confidence_model


def test_fitting_reads_each_pair_once_in_one_call(members, fit_pairs):
    calls = []

    class Counting(FunctionVerifier):
        def score(self, queries, passages):
            calls.append([(q, p) for q, own in zip(queries, passages, strict=True) for p in own])
            return super().score(queries, passages)

    UEC(members, verifier=Counting(shared_words)).fit(fit_pairs)
    (pairs,) = calls
    assert len(pairs) == len(set(pairs)) > 1000


def test_before_fit_it_is_not_asked(members):
    def never(query, passages):
        raise AssertionError

    uec = UEC(members, verifier=never)
    with pytest.warns(UserWarning, match="The verifier is not used"):
        result = Retriever(uec).search(["bagofi"])
    assert uec.verification is None
    assert result.ids == [[]]


def test_a_fitted_ensemble_that_is_given_one_says_that_it_is_not_asked(plain, members):
    uec = UEC(members, verifier=shared_words)
    uec.fitted = plain.fitted
    with pytest.warns(UserWarning, match="^The verifier is not used"):
        uec.embed(["bagofi"])


def test_the_fingerprint_of_a_verification_changes_with_what_its_logits_rest_on(
    members, fit_pairs, verified
):
    others = [
        UEC(members, verifier=shared_words, verify_k=6).fit(fit_pairs),
        UEC(members, verifier=shared_words, verify_k=5).fit(fit_pairs[:150]),
        UEC(members, verifier=chance, verify_k=5).fit(fit_pairs),
    ]
    again = UEC(members, verifier=shared_words, verify_k=5).fit(fit_pairs)
    assert again.verification.fingerprint == verified.verification.fingerprint
    known = {uec.verification.fingerprint for uec in [*others, verified]}
    assert len(known) == 4


def test_a_name_that_an_encoder_has_is_numbered(members, fit_pairs):
    def fine(query, passages):
        return shared_words(query, passages)

    uec = UEC(members, verifier=fine).fit(fit_pairs)
    assert uec.fitted.verifier.name == "fine-2"


@pytest.mark.parametrize("wrong", [0, -1])
def test_a_number_of_hits_below_one_is_refused(members, wrong):
    with pytest.raises(ValueError, match="verify_k: expected an integer >= 1"):
        UEC(members, verifier=shared_words, verify_k=wrong)


class TestSaving:
    def test_a_callable_is_given_again_and_the_error_says_how(self, verified, tmp_path):
        verified.save(tmp_path / "uec")
        given = by_name(verified)
        with pytest.raises(ValueError, match=r"\['shared_words'\] cannot be loaded by name"):
            UEC.load(tmp_path / "uec", encoders=given)
        with pytest.raises(ValueError, match=r"among \['fine', .*'shared_words'\], got \['x'\]"):
            UEC.load(tmp_path / "uec", encoders=given | {"x": shared_words})
        back = UEC.load(tmp_path / "uec", encoders=given | {"shared_words": shared_words})
        assert str(back.report) == str(verified.report)
        assert back.verify_k == 5
        assert back.verification.fingerprint == verified.verification.fingerprint
        assert back.confidence_model == verified.confidence_model

    def test_one_that_was_never_fitted_is_saved_too(self, members, tmp_path):
        UEC(members, verifier=shared_words, verify_k=7).save(tmp_path / "uec")
        given = by_name(UEC(members))
        back = UEC.load(tmp_path / "uec", encoders=given | {"shared_words": shared_words})
        assert (back.verifier.name, back.verify_k, back.verification) == ("shared_words", 7, None)

    def test_a_cross_encoder_is_loaded_by_the_folder_it_came_from(
        self, members, fit_pairs, tmp_path
    ):
        folder = folder_of(tmp_path / "tiny")
        uec = UEC(members, verifier=folder, verify_k=2).fit(fit_pairs[:60])
        uec.save(tmp_path / "uec")
        given = by_name(UEC(members))
        back = UEC.load(tmp_path / "uec", encoders=given)
        assert back.verification.fingerprint == uec.verification.fingerprint
        texts = [[text for _, text in fit_pairs[:3]]]
        one, other = (u.verification.verify(["bagofi"], texts) for u in (uec, back))
        np.testing.assert_array_equal(one.gain, other.gain)

        folder_of(tmp_path / "tiny", seed=1)
        with pytest.raises(FingerprintMismatch, match="'tiny' is not the model"):
            UEC.load(tmp_path / "uec", encoders=given)

    def test_a_hub_name_is_not_fetched_unasked(self, verified, tmp_path):
        verified.save(tmp_path / "uec")
        given = by_name(verified)
        path = rewritten(tmp_path / "uec", spec="someone/reranker")
        with pytest.raises(ValueError, match="'someone/reranker', which is not on this machine"):
            UEC.load(path, encoders=given)

    @pytest.mark.parametrize("change", [{"k": "many"}, {"spec": 3}, {"fitted": {"weight": 1}}])
    def test_a_damaged_file_is_refused(self, verified, tmp_path, change):
        verified.save(tmp_path / "uec")
        given = by_name(verified)
        path = rewritten(tmp_path / "uec", **change)
        with pytest.raises(IndexCorrupted, match=r"verifier\.json"):
            UEC.load(path, encoders=given | {"shared_words": shared_words})


def rewritten(path, **change):
    """Where it is saved with a change of the verifier's file."""
    with resaved(path, KIND) as folder:
        write_json(folder / "verifier.json", read_json(folder / "verifier.json") | change)
    return path.with_name("made up")
