import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uec_rag.confidence.model import (
    JUDGED,
    VERSION,
    Calibrator,
    ConfidenceModel,
    Examples,
    Features,
    features,
    shift_prior,
)


def model(slope=1.0):
    plain = Calibrator((1.0, 1.0), (0.0, 0.0), (1.0, 1.0), bias=0.0, slope=slope)
    of_query = Calibrator((1.0, 1.0, 0.1), (0.0,) * 3, (1.0,) * 3, bias=0.0, slope=slope)
    return ConfidenceModel(2.0, plain, in_corpus=of_query, found=plain, unanswerable=0.2)


def observed(logits, members=None, variance=None, temperature=2.0):
    """The features of hits, best first; of one member that says what the ensemble does."""
    logits = np.asarray(logits, np.float32)
    variance = np.zeros_like(logits) if variance is None else variance
    members = logits[:, :1] if members is None else np.asarray(members, np.float32)
    return features(logits, variance, members, temperature)


def test_a_clear_winner_is_more_confident_than_a_crowd():
    clear, crowd = np.full((1, 30), -5.0), np.full((1, 30), 3.0)
    clear[0, 0] = 5
    sure, unsure = (model().probabilities(observed(logits)) for logits in (clear, crowd))
    assert sure.in_corpus[0] > unsure.in_corpus[0]
    assert sure.confidence[0] > unsure.confidence[0]


@pytest.mark.parametrize("members", [[[1.0, -2.0], [6.0, -2.0]], [[1.0, -2.0], [1.0, 0.5]]])
def test_every_member_that_thinks_more_of_the_first_hit_raises_confidence(members):
    sure = model().probabilities(observed([[1.0, 0.0, -3.0]] * 2, members))
    assert sure.in_corpus[1] > sure.in_corpus[0]
    assert sure.confidence[1] > sure.confidence[0]


@pytest.mark.parametrize("k", [1, 3, 4, 5, 12])
def test_confidence_is_that_of_the_first_hits_that_are_judged(k):
    sure = model().probabilities(observed([np.linspace(3, -3, 12)]).first(k))
    assert sure.confidence == sure.by_cutoff[:, min(k, JUDGED) - 1]


@pytest.mark.parametrize("name", ["wording_penalty", "foreign_script_penalty"])
def test_a_penalty_lowers_confidence(name):
    seen = observed([[4.0, 0.0, -3.0]] * 3)
    sure = model().probabilities(replace(seen, **{name: np.float32([0, 0.5, 1])}))
    assert (np.diff(sure.in_corpus) < 0).all()
    assert (np.diff(sure.confidence) < 0).all()


def test_a_shift_by_the_same_share_changes_nothing():
    p = np.float32([0.0, 0.1, 0.5, 1.0])
    np.testing.assert_allclose(shift_prior(p, 0.2, 0.2), p)


def test_more_questions_without_an_answer_lower_every_probability():
    p = np.float32([0.1, 0.5, 0.9])
    assert (shift_prior(p, 0.2, 0.4) < p).all()
    assert (shift_prior(p, 0.2, 0.0) > p).all()


def test_relevance_falls_with_the_variance_of_a_promising_hit():
    logits = np.float32([[3.0, 3.0]])
    seen = observed(logits, variance=np.float32([[0.0, 9.0]]))
    sure, doubtful = model().relevance.predict(seen.relevance)[0]
    assert doubtful < sure


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
    return ConfidenceModel(
        draw(st.floats(0.1, 5)),
        relevance=draw(calibrators(2)),
        in_corpus=draw(calibrators(3)),
        found=draw(calibrators(2)),
        unanswerable=draw(st.floats(0, 1)),
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
    hits = -np.sort(-rng.normal(0, spread, (4, 30)), axis=1).astype(np.float32)
    variance = rng.exponential(spread + 1e-3, hits.shape).astype(np.float32)
    members = rng.normal(0, spread, (4, 3)).astype(np.float32)
    seen = observed(hits, members, variance, model.temperature)
    if foreign:
        seen = replace(seen, foreign_script_penalty=rng.random(4).astype(np.float32))
    sure = model.probabilities(seen.first(k), unanswerable)
    coherent(sure)
    other = sure.in_corpus[::-1]
    mixed = sure.mixed(other, 0.7)
    coherent(mixed)
    assert (mixed.in_corpus >= np.minimum(sure.in_corpus, other) - 1e-6).all()
    assert (mixed.in_corpus <= np.maximum(sure.in_corpus, other) + 1e-6).all()
    first = model.probabilities(seen.first(1), unanswerable)
    np.testing.assert_array_equal(first.in_corpus, sure.in_corpus)
    np.testing.assert_allclose(first.confidence, sure.by_cutoff[:, 0], rtol=1e-5)
    np.testing.assert_allclose(sure.relevance[:, 0], sure.by_cutoff[:, 0], rtol=1e-5)


@given(models(), st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(0, 20))
def test_asking_for_more_hits_changes_nothing_of_the_first(model, seed, k, more):
    hits = -np.sort(-np.random.default_rng(seed).normal(0, 5, (4, 40)), axis=1)
    seen = observed(hits, temperature=model.temperature)
    few, many = (model.probabilities(seen.first(count)) for count in (k, k + more))
    np.testing.assert_array_equal(few.in_corpus, many.in_corpus)
    np.testing.assert_array_equal(few.by_cutoff, many.by_cutoff[:, :k])
    np.testing.assert_array_equal(few.relevance, many.relevance[:, :k])


def examples(k, seed=0):
    rng = np.random.default_rng(seed)
    hits, queries = rng.normal(0, 1, (40, k, 2)), rng.normal(0, 1, (40, 3))
    relevant = hits[..., 0] > 0.5
    relevant[queries[:, 0] < -1] = False
    return Examples(
        Features(
            in_corpus=queries.astype("f4"),
            found=np.cumsum(np.abs(hits), axis=1).astype("f4"),
            relevance=hits.astype("f4"),
            wording_penalty=(queries[:, 1] > 1).astype("f4"),
            foreign_script_penalty=np.zeros(40, "f4"),
        ),
        relevant=relevant,
        answerable=queries[:, 0] >= -1,
        weight=np.ones(40, "f4"),
    )


@given(models(), st.integers(1, 12), st.integers(0, 99))
def test_they_agree_after_labels_of_a_corpus_too(model, k, seed):
    labelled = examples(k, seed)
    fresh = model.recalibrated(labelled)
    for one in (fresh, model.moved(labelled), model.relearned(labelled)):
        coherent(one.probabilities(labelled.features, 0.3))
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


@pytest.mark.parametrize("k", [1, 3])
def test_one_hit_and_labels_that_it_alone_meets_recalibrate_too(k):
    labelled = examples(k)
    labelled.relevant[:] = False
    labelled.relevant[::2, 0] = True
    labelled = replace(labelled, answerable=labelled.relevant.any(axis=1))
    told = model().recalibrated(labelled)
    relevance = told.probabilities(labelled.features).relevance
    assert 0.3 < relevance[:, 0].mean() < 0.7
    assert (relevance[:, 1:] < 0.3).all()


def test_saved_and_restored():
    for original in (model(slope=0.7), replace(model(), per_count=0.5)):
        assert ConfidenceModel.restore(json.loads(json.dumps(original.metadata()))) == original


def test_a_broken_file_is_refused():
    with pytest.raises(ValueError, match="ConfidenceModel: expected the fields of a saved"):
        ConfidenceModel.restore({"temperature": 1.0, "features": VERSION})
