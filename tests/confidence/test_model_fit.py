from dataclasses import replace

import numpy as np
import pytest

from uec_rag.confidence.model import (
    Examples,
    FitView,
    fit_confidence,
    fit_temperature,
    shipped_model,
    view_examples,
)
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


def sureness(model, view, k=10, **told):
    return model.probabilities(view_examples(view, model, k).features, **told)


def test_confidence_tells_answered_from_unanswered_queries():
    model = fit_confidence(views())
    for view in views(seed=1):
        sure = sureness(model, view).confidence
        right = answered(view)
        assert np.median(sure[right]) > np.median(sure[~right]) + 0.1


@pytest.mark.parametrize("k", [1, 4, 10])
def test_confidence_is_about_as_often_right_as_it_says(k):
    model = fit_confidence(views())
    fresh = views(seed=1)
    sure = np.concatenate([sureness(model, view, k).by_cutoff[:, -1] for view in fresh])
    assert abs(sure.mean() - np.concatenate([answered(v, k) for v in fresh]).mean()) < 0.08


def test_a_fit_moves_the_level_a_part_of_the_way_to_its_pairs(monkeypatch):
    monkeypatch.setattr("uec_rag.confidence.model._CLEAR_GAIN", np.inf)
    hard = views(unanswerable=0.4)
    model, known = fit_confidence(hard), shipped_model("fitted")
    known = replace(known, temperature=model.temperature, relevance=model.relevance)
    examples = Examples.joined([view_examples(view, model, 10) for view in hard])
    held = [m.in_corpus.predict(examples.features.in_corpus).mean() for m in (known, model)]
    assert examples.answerable.mean() + 0.02 < held[1] < held[0] - 0.02
    np.testing.assert_array_equal(model.in_corpus.weights, known.in_corpus.weights)


def test_whether_the_corpus_answers_is_as_often_so_as_it_says():
    model = fit_confidence(views(unanswerable=0.3))
    fresh = views(seed=1, unanswerable=0.3)
    held = np.concatenate([sureness(model, view).in_corpus for view in fresh])
    there = np.concatenate([view.relevant.any(axis=1) for view in fresh])
    assert abs(held.mean() - there.mean()) < 0.07
    assert held[there].mean() > held[~there].mean() + 0.15


def test_a_told_share_without_an_answer_moves_the_level():
    model = fit_confidence(views(unanswerable=0.2))
    fresh = views(seed=1, unanswerable=0.6)
    there = np.concatenate([view.relevant.any(axis=1) for view in fresh])
    blind = np.concatenate([sureness(model, view).in_corpus for view in fresh])
    told = np.concatenate([sureness(model, view, unanswerable=0.6).in_corpus for view in fresh])
    assert abs(told.mean() - there.mean()) < abs(blind.mean() - there.mean()) / 2
    assert (np.argsort(told) == np.argsort(blind)).mean() > 0.9


def test_what_members_say_of_the_first_hit_is_evidence_of_an_answer():
    def with_members(seed):
        """Two members: one says what the ensemble does, the other nothing."""
        for view in views(seed):
            members = np.stack([view.logits, np.full_like(view.logits, -6)])
            yield replace(view, members=members, words=True)

    model, fresh = fit_confidence([*with_members(0)]), [*with_members(1)]
    examples = Examples.joined([view_examples(view, model, 10) for view in fresh])
    first = np.concatenate([view.logits.max(axis=1) for view in fresh]) / model.temperature
    np.testing.assert_allclose(
        examples.features.in_corpus[:, 1], np.maximum(first, -6 / model.temperature), rtol=1e-5
    )
    np.testing.assert_allclose(
        examples.features.in_corpus[:, 2], (first - 6 / model.temperature) / 2, rtol=1e-4, atol=1e-4
    )


def test_examples_of_corpora_of_different_sizes_join():
    view, known = views()[0], shipped_model("fitted")
    small = FitView(view.logits[:, :3], view.variance[:, :3], view.relevant[:, :3])
    joined = Examples.joined([view_examples(small, known, 10), view_examples(view, known, 10)])
    assert joined.relevant.shape == (400, 10)
    last = view_examples(small, known, 10).features.found[:, -1]
    np.testing.assert_array_equal(joined.features.found[:200, -1], last)


def test_relevance_is_about_as_often_right_as_it_says():
    model = fit_confidence(views(), k=5)
    for view in views(seed=1):
        best = np.argsort(-view.logits, axis=1)[:, :5]
        found = sureness(model, view, 5).relevance
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
