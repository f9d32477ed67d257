import json

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from uec_rag.confidence.calibrator import Calibrator
from uec_rag.confidence.features import relevance_features, summarise
from uec_rag.confidence.model import ConfidenceModel


def model(slope=1.0):
    plain = Calibrator((1.0, 1.0), (0.0, 0.0), (1.0, 1.0), bias=0.0, slope=slope)
    of_query = Calibrator((1.0, 1.0, 0.1), (0.0,) * 3, (1.0,) * 3, bias=0.0, slope=slope)
    return ConfidenceModel(2.0, relevance=plain, confidence=of_query)


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
    found = [model().query_confidence(summarise(logits))[0] for logits in (clear, crowd)]
    assert found[0] > found[1]


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


def test_the_model_recalibrates_both_parts():
    rng = np.random.default_rng(0)
    hits, queries = rng.normal(0, 1, (40, 5, 2)), rng.normal(0, 1, (40, 3))
    fresh = model().recalibrated(
        hits.astype("f4"),
        hits[..., 0] > 0,
        queries.astype("f4"),
        queries[:, 0] > 1,
        np.ones(40, "f4"),
    )
    assert fresh.temperature == 2.0
    assert fresh.relevance != model().relevance
    assert fresh.confidence != model().confidence


def test_saved_and_restored():
    original = model(slope=0.7)
    assert ConfidenceModel.restore(json.loads(json.dumps(original.metadata()))) == original


def test_a_broken_file_is_refused():
    with pytest.raises(ValueError, match="ConfidenceModel: no saved one looks like"):
        ConfidenceModel.restore({"temperature": 1.0})
