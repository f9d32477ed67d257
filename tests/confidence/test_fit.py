import numpy as np
import pytest

from uec_rag.confidence.features import summarise
from uec_rag.confidence.fit import FitView, fit_confidence, fit_temperature
from uec_rag.ensemble.evidence_fit import corpus_views


def views(seed=0, sharpness=1.0, unanswerable=0.2):
    """Logits of queries over passages, of which one each is relevant and mostly found."""
    rng = np.random.default_rng(seed)
    relevant = [[int(p)] for p in rng.permutation(600)[:200]]
    logits = rng.normal(-6, 2, (200, 600))
    logits[np.arange(200), [r[0] for r in relevant]] += rng.normal(7, 3, 200)
    logits = (sharpness * logits).astype(np.float32)
    cuts = corpus_views(relevant, 600, sizes=(50, 400), unanswerable=unanswerable, seed=seed)
    return [
        FitView(view.cut(logits), np.zeros_like(view.cut(logits)), view.relevant) for view in cuts
    ]


def answered(view, k=10):
    best = np.argsort(-view.logits, axis=1)[:, :k]
    return np.take_along_axis(view.relevant, best, axis=1).any(axis=1)


def test_confidence_tells_answered_from_unanswered_queries():
    model = fit_confidence(views())
    for view in views(seed=1):
        sure = model.query_confidence(summarise(view.logits, model.temperature))
        right = answered(view)
        assert np.median(sure[right]) > np.median(sure[~right]) + 0.1


def test_confidence_is_about_as_often_right_as_it_says():
    model = fit_confidence(views())
    fresh = views(seed=1)
    sure = np.concatenate(
        [model.query_confidence(summarise(v.logits, model.temperature)) for v in fresh]
    )
    assert abs(sure.mean() - np.concatenate([answered(v) for v in fresh]).mean()) < 0.05


def test_relevance_is_about_as_often_right_as_it_says():
    model = fit_confidence(views(), k=5)
    for view in views(seed=1):
        best = np.argsort(-view.logits, axis=1)[:, :5]
        hits = np.take_along_axis(view.logits, best, axis=1)
        summary = summarise(view.logits, model.temperature)
        found = model.hit_relevance(hits, np.zeros_like(hits), summary)
        right = np.take_along_axis(view.relevant, best, axis=1)
        assert abs(found.mean() - right.mean()) < 0.05
        assert found[right].mean() > found[~right].mean() + 0.3


def test_the_temperature_undoes_overconfidence():
    plain, sharp = fit_temperature(views()), fit_temperature(views(sharpness=3.0))
    assert sharp == pytest.approx(3 * plain, rel=0.02)


def test_views_without_an_answer_are_refused():
    empty = [FitView(v.logits, v.variance, np.zeros_like(v.relevant)) for v in views()]
    with pytest.raises(ValueError, match="at least one query with a relevant passage"):
        fit_confidence(empty)


def test_corpora_smaller_than_k_are_fine():
    model = fit_confidence(views(), k=5000)
    assert model.temperature > 0
