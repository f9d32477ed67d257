import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from uec_rag.confidence.model import (
    Calibrator,
    ConfidenceModel,
    HitExamples,
    relevance_features,
    shifted,
    summarise,
)


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
    found = model().certainty(summarise(logits, 2.0), logits).relevance
    assert (np.diff(found[0]) < 0).all()
    assert (found >= 0).all()
    assert (found <= 1).all()


def coherent(sure):
    """max r <= C(k) <= min(H, sum r) over the first k, for every k; C rises, r does not."""
    most = np.maximum.accumulate(sure.relevance, axis=1)
    assert (most <= sure.by_cutoff).all()
    assert (sure.by_cutoff <= sure.in_corpus[:, None]).all()
    assert (sure.by_cutoff <= np.cumsum(sure.relevance, axis=1) * (1 + 1e-5) + 1e-7).all()
    assert (np.diff(sure.by_cutoff, axis=1) >= 0).all()
    assert (np.diff(sure.relevance, axis=1) <= 0).all()
    assert (sure.relevance >= 0).all()
    assert (sure.in_corpus <= 1).all()


weights = st.floats(0, 10)
numbers = st.floats(-20, 20)


@st.composite
def calibrators(draw, count):
    return Calibrator(
        tuple(draw(weights) for _ in range(count)),
        tuple(draw(numbers) for _ in range(count)),
        tuple(draw(st.floats(0.01, 10)) for _ in range(count)),
        draw(numbers),
        slope=draw(weights),
        offset=draw(numbers),
    )


@st.composite
def models(draw):
    words = draw(st.booleans())
    return ConfidenceModel(
        draw(st.floats(0.1, 5)),
        relevance=draw(calibrators(2)),
        in_corpus=draw(calibrators(3)),
        found=draw(calibrators(3 if words else 2)),
        unanswerable=draw(st.floats(0, 1)),
        by_member=words,
        nearest=draw(st.booleans()),
        per_count=draw(weights),
    )


@given(
    models(),
    st.integers(0, 2**32 - 1),
    st.floats(0, 30),
    st.integers(1, 20),
    st.none() | st.floats(0, 0.999),
    st.booleans(),
)
def test_relevance_confidence_and_in_corpus_agree_whatever_was_learned(
    model, seed, spread, k, unanswerable, foreign
):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, spread, (4, 30)).astype(np.float32)
    hits = -np.sort(-logits, axis=1)[:, :k]
    told = (
        unanswerable,
        rng.random(4).astype(np.float32) if foreign else None,
        rng.normal(0, spread, 4).astype(np.float32),
        rng.exponential(spread + 1e-3, hits.shape).astype(np.float32),
    )
    summary = summarise(logits, model.temperature)
    sure = model.certainty(summary, hits, *told)
    coherent(sure)
    told = (*told[:3], told[3][:, :1])
    first = model.certainty(summary, hits[:, :1], *told)
    np.testing.assert_array_equal(first.in_corpus, sure.in_corpus)
    np.testing.assert_allclose(first.confidence, sure.by_cutoff[:, 0], rtol=1e-5)
    np.testing.assert_allclose(sure.relevance[:, 0], sure.by_cutoff[:, 0], rtol=1e-5)


def examples(k, seed=0):
    rng = np.random.default_rng(seed)
    hits, queries = rng.normal(0, 1, (40, k, 2)), rng.normal(0, 1, (40, 3))
    relevant = hits[..., 0] > 0.5
    relevant[queries[:, 0] < -1] = False
    return HitExamples(
        relevance=hits.astype("f4"),
        query=queries.astype("f4"),
        found=np.cumsum(np.abs(hits), axis=1).astype("f4"),
        relevant=relevant,
        answerable=queries[:, 0] >= -1,
        weight=np.ones(40, "f4"),
    )


@given(models().filter(lambda model: not model.by_member), st.integers(1, 12), st.integers(0, 99))
def test_they_agree_after_labels_of_a_corpus_too(model, k, seed):
    labelled = examples(k, seed)
    fresh = model.recalibrated(labelled)
    for one in (fresh, model.moved(labelled), model.relearned(labelled)):
        coherent(one.judged(labelled.query, labelled.found, labelled.relevance, 0.3))
    assert fresh.unanswerable == pytest.approx(1 - labelled.answerable.mean())


def test_the_model_recalibrates_all_its_parts():
    labelled = examples(5)
    fresh = model().recalibrated(labelled)
    assert fresh.temperature == 2.0
    for part in ("relevance", "in_corpus", "found"):
        assert getattr(fresh, part) != getattr(model(), part)
        assert getattr(fresh, part).weights == getattr(model(), part).weights
    with pytest.raises(ValueError, match="none of the hits is relevant"):
        model().recalibrated(replace(labelled, relevant=np.zeros((40, 5), bool)))


def old(slope, offset, *per_count):
    """A line as earlier versions saved it, on top of log odds and the log of a number of hits."""
    beside = [0.0] * len(per_count)
    return Calibrator(
        (3.0, *per_count), (0.0, *beside), (3.0, *(1.0 for _ in beside)), 0.5, slope, offset
    )


def test_a_calibration_of_an_earlier_version_is_read_and_says_nearly_the_same():
    state = model().metadata()
    del state["per_count"]
    state |= {
        "presence": old(0.5, 9.0).metadata(),
        "level": old(0.7, -1.0, 0.4).metadata(),
        "first": old(1.0, 0.0).metadata(),
    }
    read = ConfidenceModel.restore(json.loads(json.dumps(state)))
    logits = -np.sort(-np.random.default_rng(0).normal(0, 3, (9, 6)), axis=1).astype(np.float32)
    sure, before = (m.certainty(summarise(logits, 2.0), logits) for m in (read, model()))
    odds = np.log(before.in_corpus / (1 - before.in_corpus))
    held = 1 / (1 + np.exp(-(0.5 * (odds + 0.5) + 9)))
    np.testing.assert_allclose(sure.in_corpus, held, rtol=1e-3)
    among = before.by_cutoff / before.in_corpus[:, None]
    odds = 0.7 * (np.log(among / (1 - among)) + 0.5) - 1 + 0.7 * 0.4 * np.log(np.arange(1, 7))
    assert np.median(np.abs(sure.by_cutoff - 1 / (1 + np.exp(-odds)))) < 0.01
    coherent(sure)
    without = {key: value for key, value in state.items() if key != "first"}
    assert ConfidenceModel.restore(without) == read
    with pytest.raises(ValueError, match="no saved one looks like"):
        ConfidenceModel.restore(state | {"level": 3})


@pytest.mark.parametrize("k", [1, 3])
def test_one_hit_and_labels_that_it_alone_meets_recalibrate_too(k):
    labelled = examples(k)
    labelled.relevant[:] = False
    labelled.relevant[::2, 0] = True
    labelled = replace(labelled, answerable=labelled.relevant.any(axis=1))
    told = model().recalibrated(labelled)
    relevance = told.judged(labelled.query, labelled.found, labelled.relevance).relevance
    assert 0.3 < relevance[:, 0].mean() < 0.7
    assert (relevance[:, 1:] < 0.3).all()


def test_saved_and_restored():
    for original in (
        model(slope=0.7),
        by_member(),
        replace(model(), per_count=0.5),
    ):
        assert ConfidenceModel.restore(json.loads(json.dumps(original.metadata()))) == original


def test_a_broken_file_is_refused():
    with pytest.raises(ValueError, match="ConfidenceModel: no saved one looks like"):
        ConfidenceModel.restore({"temperature": 1.0})
