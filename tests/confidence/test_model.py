import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from uec_rag.confidence.calibrator import Calibrator
from uec_rag.confidence.features import relevance_features, summarise
from uec_rag.confidence.model import ConfidenceModel, HitExamples, shifted


def model(slope=1.0):
    plain = Calibrator((1.0, 1.0), (0.0, 0.0), (1.0, 1.0), bias=0.0, slope=slope)
    of_query = Calibrator((1.0, 1.0, 0.1), (0.0,) * 3, (1.0,) * 3, bias=0.0, slope=slope)
    return ConfidenceModel(2.0, plain, in_corpus=of_query, found=plain, unanswerable=0.2)


def test_the_summary_by_hand():
    logits = np.random.default_rng(0).normal(0, 5, (4, 30)).astype(np.float32)
    summary = summarise(logits, temperature=2.0)
    p = softmax(logits / 2, axis=1)
    np.testing.assert_allclose(summary.top, logits.max(axis=1) / 2)
    np.testing.assert_allclose(summary.log_normaliser, logsumexp(logits / 2, axis=1), rtol=1e-5)
    np.testing.assert_allclose(summary.soft_normaliser, logsumexp(logits / 4, axis=1), rtol=1e-5)
    np.testing.assert_allclose(summary.entropy, -(p * np.log(p)).sum(axis=1), rtol=1e-3)


def test_summarising_leaves_the_logits_as_they_are():
    logits = np.ones((2, 3), np.float32)
    summarise(logits)
    assert (logits == 1).all()


def test_an_empty_corpus_has_no_summary():
    with pytest.raises(ValueError, match="N >= 1"):
        summarise(np.zeros((2, 0), np.float32))


def test_a_clear_winner_is_more_confident_than_a_crowd():
    clear, crowd = np.full((1, 50), -5.0, np.float32), np.full((1, 50), 3.0, np.float32)
    clear[0, 3] = 5
    found = []
    for logits in (clear, crowd):
        hits = -np.sort(-logits, axis=1)[:, :3]
        found.append(model().certainty(summarise(logits), hits))
    assert found[0].in_corpus[0] > found[1].in_corpus[0]
    assert found[0].confidence[0] > found[1].confidence[0]


def test_confidence_is_at_most_that_the_corpus_answers():
    logits = np.random.default_rng(0).normal(0, 3, (20, 9)).astype(np.float32)
    sure = model().certainty(summarise(logits, 2.0), logits[:, :4])
    assert (sure.confidence <= sure.in_corpus).all()


def test_the_first_hits_share_rises_with_every_hit():
    logits = -np.sort(-np.random.default_rng(0).normal(0, 3, (5, 9)), axis=1).astype(np.float32)
    features = summarise(logits).found_features(logits)
    assert features.shape == (5, 9, 2)
    assert (np.diff(features[..., 1], axis=1) >= 0).all()
    assert (features[..., 0] == logits[:, :1]).all()
    share = np.exp(logits[:, 0] / 2) / np.exp(logits / 2).sum(axis=1)
    np.testing.assert_allclose(features[:, 0, 1], np.log(share / (1 - share)), rtol=1e-4)


def test_of_the_nearest_a_crowd_of_far_ones_takes_no_share():
    hits = np.float32([[4, 3, 1]])
    far = np.full((1, 5000), -9, np.float32)
    alone, crowded = summarise(hits), summarise(np.concatenate([hits, far], axis=1))
    found = [s.found_features(hits, nearest=True)[0, :2, 1] for s in (alone, crowded)]
    of_all = crowded.found_features(hits)[0, :2, 1]
    assert (found[0] - found[1] < 0.5).all()
    assert (found[0] - of_all > 2).all()
    assert (np.diff(found[1]) > 0).all()


def test_a_model_says_whose_share_it_rests_on():
    hits = np.float32([[4, 3, 1]])
    summary = summarise(np.concatenate([hits, np.full((1, 5000), -4, np.float32)], axis=1), 2.0)
    nearest = replace(model(), nearest=True)
    assert not model().nearest
    assert ConfidenceModel.restore(nearest.metadata()) == nearest
    assert nearest.certainty(summary, hits).confidence > model().certainty(summary, hits).confidence


def by_member():
    with_count = Calibrator((1.0, 1.0, 1.0), (0.0,) * 3, (1.0,) * 3, bias=0.0)
    return replace(model(), found=with_count, by_member=True)


def test_how_many_hits_there_are_counts_where_words_are_a_member():
    logits = np.zeros((1, 4), np.float32)
    features = by_member().found_features(summarise(logits, 2.0), logits)
    np.testing.assert_allclose(features[0, :, 2], np.log([1, 2, 3, 4]), rtol=1e-6)
    assert model().found_features(summarise(logits, 2.0), logits).shape == (1, 4, 2)


def test_the_member_that_thinks_most_of_the_first_hit_raises_confidence():
    logits = np.float32([[1.0, 0.0, -3.0]] * 2)
    summary, best = summarise(logits, 2.0), np.float32([1, 6])
    sure = by_member().certainty(summary, logits, best=best)
    assert sure.in_corpus[1] > sure.in_corpus[0]
    assert sure.confidence[1] > sure.confidence[0]
    plain = model().certainty(summary, logits, best=best)
    assert plain.in_corpus[1] == plain.in_corpus[0]
    with pytest.raises(ValueError, match="best: expected the members' highest logit"):
        by_member().certainty(summary, logits)


def test_a_model_saved_before_members_were_asked_says_what_it_said():
    saved = model().metadata()
    assert not saved.pop("by_member")
    assert ConfidenceModel.restore(saved) == model()


def test_a_shift_by_the_same_share_changes_nothing():
    p = np.float32([0.0, 0.1, 0.5, 1.0])
    np.testing.assert_allclose(shifted(p, 0.2, 0.2), p)


def test_more_questions_without_an_answer_lower_every_probability():
    p = np.float32([0.1, 0.5, 0.9])
    assert (shifted(p, 0.2, 0.4) < p).all()
    assert (shifted(p, 0.2, 0.0) > p).all()


def test_relevance_falls_with_the_variance_of_a_promising_hit():
    logits = np.array([[3.0, 3.0]], np.float32)
    features = relevance_features(logits, np.array([[0.0, 9.0]], np.float32), np.array([4.0]))
    assert features[0, 0, 0] == pytest.approx(3)
    assert features[0, 1, 0] == pytest.approx(3 / np.sqrt(1 + np.pi / 8 * 9))
    np.testing.assert_allclose(features[0, :, 1], -1)


def test_better_hits_are_more_relevant():
    logits = np.array([[4.0, 2.0, -3.0]], np.float32)
    found = model().hit_relevance(logits, np.zeros_like(logits), summarise(logits, 2.0))
    assert (np.diff(found[0]) < 0).all()
    assert (found >= 0).all()
    assert (found <= 1).all()


def test_the_model_recalibrates_all_its_parts():
    rng = np.random.default_rng(0)
    hits, queries = rng.normal(0, 1, (40, 5, 2)), rng.normal(0, 1, (40, 3))
    fresh = model().recalibrated(
        HitExamples(
            relevance=hits.astype("f4"),
            query=queries.astype("f4"),
            found=hits.astype("f4"),
            relevant=hits[..., 0] > 0,
            answerable=queries[:, 0] > 0.5,
            weight=np.ones(40, "f4"),
        )
    )
    assert fresh.temperature == 2.0
    for part in ("relevance", "presence", "level", "first"):
        assert getattr(fresh, part) != getattr(model(), part)
    for part in ("in_corpus", "found"):
        assert getattr(fresh, part) == getattr(model(), part)
    assert fresh.unanswerable == pytest.approx((queries[:, 0] <= 0.5).mean())


def test_a_model_of_0_1_is_read_and_says_what_it_said():
    old = {
        "temperature": 2.0,
        "relevance": model().relevance.metadata(),
        "confidence": model().in_corpus.metadata(),
    }
    logits = np.float32([[2.0, 1.0, 0.0]])
    summary = summarise(logits, 2.0)
    sure = ConfidenceModel.restore(json.loads(json.dumps(old))).certainty(summary, logits[:, :1])
    np.testing.assert_allclose(sure.confidence, model().in_corpus.predict(summary.features()))


def test_a_calibration_of_one_line_is_read_and_says_what_it_said():
    """As saved before: no line for the first hit, no weight of the number of hits."""
    lined = Calibrator((3.0,), (0.0,), (3.0,), bias=0.0, slope=0.5, offset=-1.0)
    state = replace(model(slope=0.7), level=lined).metadata()
    assert "first" not in state  # a gate knows by the hash of it what it was made with
    old = ConfidenceModel.restore(json.loads(json.dumps(state)))
    logits = np.float32([[2.0, 1.0, 0.0]])
    summary = summarise(logits, 2.0)
    product = model(slope=0.7).certainty(summary, logits).by_cutoff.astype(np.float64)
    odds = 0.5 * np.log(product / (1 - product)) - 1
    told = old.certainty(summary, logits)
    np.testing.assert_allclose(told.by_cutoff, 1 / (1 + np.exp(-odds)), rtol=1e-4)
    told = old.hit_relevance(logits, np.zeros_like(logits), summary)
    same = model(slope=0.7).hit_relevance(logits, np.zeros_like(logits), summary)
    np.testing.assert_array_equal(told, same)


def test_one_hit_and_labels_that_it_alone_meets_recalibrate_too():
    rng = np.random.default_rng(0)
    for k in (1, 3):
        hits, queries = rng.normal(0, 1, (40, k, 2)), rng.normal(0, 1, (40, 3))
        relevant = np.zeros((40, k), bool)
        relevant[::2, 0] = True
        fresh = model().recalibrated(
            HitExamples(
                relevance=hits.astype("f4"),
                query=queries.astype("f4"),
                found=hits.astype("f4"),
                relevant=relevant,
                answerable=relevant.any(axis=1),
                weight=np.ones(40, "f4"),
            )
        )
        told = fresh.told_relevance(hits.astype("f4"))
        assert 0.3 < told[:, 0].mean() < 0.7
        assert (told[:, 1:] < 0.3).all()


def test_saved_and_restored():
    counted = Calibrator((3.0, 0.5), (0.0, 0.0), (3.0, 1.0), bias=0.1)
    told = replace(model(), first=model(slope=0.4).relevance, level=counted)
    for original in (model(slope=0.7), by_member(), told):
        assert ConfidenceModel.restore(json.loads(json.dumps(original.metadata()))) == original


def test_a_broken_file_is_refused():
    with pytest.raises(ValueError, match="ConfidenceModel: no saved one looks like"):
        ConfidenceModel.restore({"temperature": 1.0})
