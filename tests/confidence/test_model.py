from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from uec_rag.base.logistic import Calibrator, fit_logistic, sigmoid
from uec_rag.confidence.fit_view import FitView, fit_temperature, level_of, with_level
from uec_rag.confidence.model import (
    JUDGED,
    NEAREST,
    WORDS,
    ConfidenceModel,
    Examples,
    Features,
    features,
    shift_prior,
    shipped_model,
)
from uec_rag.confidence.risk import reliability
from uec_rag.ensemble.fit import corpus_views


def model(slope=1.0):
    plain = Calibrator((1.0, 1.0), (0.0, 0.0), (1.0, 1.0), bias=0.0, slope=slope)
    of_query = Calibrator((1.0, 1.0, 0.1, 1.0, 1.0), (0.0,) * 5, (1.0,) * 5, bias=0.0, slope=slope)
    return ConfidenceModel(2.0, plain, in_corpus=of_query, found=plain, unanswerable=0.2)


def observed(logits, members=None, variance=None, temperature=2.0):
    """The features of hits, best first; of one member that says what the ensemble does."""
    logits = np.asarray(logits, np.float32)
    variance = np.zeros_like(logits) if variance is None else variance
    members = logits[:, :1] if members is None else np.asarray(members, np.float32)
    return features(logits, variance, members, temperature)


@pytest.mark.parametrize("k", [1, 3, 4, 5, 12])
def test_confidence_is_that_of_the_first_hits_that_are_judged(k):
    sure = model().probabilities(observed([np.linspace(3, -3, 12)]).first(k))
    assert sure.confidence == sure.confidence_at_k[:, min(k, JUDGED) - 1]


@pytest.mark.parametrize("position", range(len(WORDS)))
def test_words_that_are_missing_lower_confidence_and_force_nothing(position):
    words = np.zeros((3, len(WORDS)), np.float32)
    words[:, position] = [1, 0.5, 0]
    hits = np.float32([[4.0, 0.0, -3.0]] * 3)
    sure = model().probabilities(features(hits, np.zeros_like(hits), hits[:, :1], 2.0, words))
    assert (np.diff(sure.in_corpus) < 0).all()
    assert (np.diff(sure.confidence) < 0).all()
    assert (sure.confidence > 0.01).all()


def test_words_of_which_nothing_is_known_count_as_the_mean():
    known = replace(model().in_corpus, location=(0.0, 0.0, 0.0, 0.3, 0.8))
    of_query = np.float32([[1, 2, 3, np.nan, np.nan], [1, 2, 3, 0.3, 0.8]])
    assert np.diff(known.logits(of_query)) == 0


def test_more_questions_without_an_answer_lower_every_probability():
    p = np.float32([0.1, 0.5, 0.9])
    np.testing.assert_allclose(shift_prior(p, 0.2, 0.2), p)
    assert (shift_prior(p, 0.2, 0.4) < p).all()
    assert (shift_prior(p, 0.2, 0.0) > p).all()
    np.testing.assert_array_equal(shift_prior(np.float32([0, 1]), 0.2, 0.4), [0, 1])


def coherent(sure):
    """max r <= C(k) <= min(H, sum r) over the first k, for every k; C rises, r does not."""
    most = np.maximum.accumulate(sure.relevance, axis=1)
    assert (most <= sure.confidence_at_k).all()
    assert (sure.confidence_at_k <= sure.in_corpus[:, None]).all()
    assert (sure.confidence_at_k <= np.cumsum(sure.relevance, axis=1) * (1 + 1e-5) + 1e-7).all()
    assert (np.diff(sure.confidence_at_k, axis=1) >= 0).all()
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
        in_corpus=draw(calibrators(5)),
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
    model, seed, spread, k, unanswerable, words
):
    rng = np.random.default_rng(seed)
    hits = -np.sort(-rng.normal(0, spread, (4, 30)), axis=1).astype(np.float32)
    variance = rng.exponential(spread + 1e-3, hits.shape).astype(np.float32)
    members = rng.normal(0, spread, (4, 3)).astype(np.float32)
    known = rng.random((4, len(WORDS))).astype(np.float32) if words else None
    seen = features(hits, variance, members, model.temperature, known)
    sure = model.probabilities(seen.first(k), unanswerable)
    coherent(sure)
    first = model.probabilities(seen.first(1), unanswerable)
    np.testing.assert_array_equal(first.in_corpus, sure.in_corpus)
    np.testing.assert_allclose(first.confidence, sure.confidence_at_k[:, 0], rtol=1e-5)
    np.testing.assert_allclose(sure.relevance[:, 0], sure.confidence_at_k[:, 0], rtol=1e-5)


def examples(k, seed=0):
    rng = np.random.default_rng(seed)
    hits, queries = rng.normal(0, 1, (40, k, 2)), rng.normal(0, 1, (40, 5))
    relevant = hits[..., 0] > 0.5
    relevant[queries[:, 0] < -1] = False
    return Examples(
        Features(
            in_corpus=queries.astype("f4"),
            found=np.cumsum(np.abs(hits), axis=1).astype("f4"),
            relevance=hits.astype("f4"),
            against=np.zeros(40, "f4"),
            meant=np.ones(40, "f4"),
        ),
        relevant=relevant,
        answerable=queries[:, 0] >= -1,
        weight=np.ones(40, "f4"),
    )


@given(models(), st.integers(1, 12), st.integers(0, 99))
def test_they_agree_after_labels_of_a_corpus_too(model, k, seed):
    labelled = examples(k, seed)
    fresh = model.recalibrate(labelled)
    coherent(fresh.probabilities(labelled.features, 0.3))
    assert fresh.unanswerable == pytest.approx(1 - labelled.answerable.mean())


def test_the_model_recalibrates_all_its_parts():
    labelled = examples(5)
    fresh = model().recalibrate(labelled)
    assert fresh.temperature == 2.0
    for part in ("relevance", "in_corpus", "found"):
        assert getattr(fresh, part) != getattr(model(), part)
        assert getattr(fresh, part).weights == getattr(model(), part).weights
    with pytest.raises(ValueError, match="none of the hits is relevant"):
        model().recalibrate(replace(labelled, relevant=np.zeros((40, 5), bool)))


@pytest.mark.parametrize("k", [1, 3])
def test_one_hit_and_labels_that_it_alone_meets_recalibrate_too(k):
    labelled = examples(k)
    labelled.relevant[:] = False
    labelled.relevant[::2, 0] = True
    labelled = replace(labelled, answerable=labelled.relevant.any(axis=1))
    told = model().recalibrate(labelled)
    relevance = told.probabilities(labelled.features).relevance
    assert 0.3 < relevance[:, 0].mean() < 0.7
    assert (relevance[:, 1:] < 0.3).all()


LINE = Calibrator((2.0, 1.0), (0.0, 0.0), (1.0, 1.0), bias=-1.0)


def sample(count, seed):
    """Two features, and labels of a corpus that answers less than `LINE` says."""
    rng = np.random.default_rng(seed)
    features = rng.normal(0, 1, (count, 2)).astype(np.float32)
    return features, rng.random(count) < sigmoid(0.5 * LINE.logits(features) - 2)


def test_a_shifted_corpus_is_wrong_before_and_right_after_recalibration():
    fresh, (features, labels) = LINE.recalibrate(*sample(400, seed=2)), sample(4000, seed=3)
    before, after = (
        [one["confidence"] - one["right"] for one in reliability(each.predict(features), labels)]
        for each in (LINE, fresh)
    )
    assert np.abs(before).mean() > 0.1
    assert np.abs(after).mean() < 0.04


def test_a_logistic_fit_is_the_best_of_its_penalised_loss():
    features, labels = sample(200, seed=4)
    counts, start = np.linspace(0.5, 2, 200), np.float64([1, 0])

    def loss(weights, offset):
        logits = features @ weights + offset
        moved = ((weights - start) ** 2).sum() + 0.5 * offset**2
        return counts @ (np.logaddexp(0, logits) - logits * labels) + moved / 2

    weights, offset = fit_logistic(
        features.astype(float), labels, counts, start, strength=1.0, offset_strength=0.5
    )
    assert (weights > 0).all()
    for step in ([0.02, 0, 0], [0, 0.02, 0], [0, 0, 0.02]):
        for near in (np.array(step), -np.array(step)):
            assert loss(weights + near[:2], offset + near[2]) > loss(weights, offset)


def test_recalibration_to_labels_of_one_kind_goes_a_part_of_the_way():
    features, _ = sample(20, seed=0)
    before = LINE.predict(features)
    for label in (False, True):
        after = LINE.recalibrate(features, [label] * 20).predict(features)
        assert (after.mean() > before.mean()) == label
        assert 0.05 < after.mean() < 0.95


def hits(seed: int, rows: int, count: int) -> np.ndarray:
    logits = np.random.default_rng(seed).normal(0, 4, (rows, count)).astype(np.float32)
    return -np.sort(-logits, axis=1)


def of(logits: np.ndarray, temperature: float = 1.0):
    members = np.stack([logits[:, 0] + 1, logits[:, 0] - 3], axis=1)
    return features(logits, np.ones_like(logits), members, temperature)


def test_the_features_by_hand():
    logits = hits(0, 4, NEAREST)
    seen = of(logits, temperature=2.0)
    soft, softest = softmax(logits / 4, axis=1), softmax(logits / 6, axis=1)
    np.testing.assert_allclose(seen.in_corpus[:, 0], np.log(softest[:, 0]), rtol=1e-4)
    np.testing.assert_allclose(seen.in_corpus[:, 1], (logits[:, 0] + 1) / 2, rtol=1e-6)
    np.testing.assert_allclose(seen.in_corpus[:, 2], (logits[:, 0] - 1) / 2, rtol=1e-6)
    among = np.clip(soft[:, :5].cumsum(axis=1), 1e-4, 1 - 1e-4)
    np.testing.assert_allclose(seen.found[:, :5, 0], np.log(among / (1 - among)), rtol=1e-3)
    np.testing.assert_allclose(seen.found[0, :, 1], np.log(np.arange(1, NEAREST + 1)), rtol=1e-6)
    share = logits / 2 - logsumexp(logits / 2, axis=1, keepdims=True)
    np.testing.assert_allclose(seen.relevance[..., 1], share, rtol=1e-4, atol=1e-5)
    probit = logits / np.sqrt(1 + np.pi / 8)
    np.testing.assert_allclose(seen.relevance[..., 0], probit, rtol=1e-4)


@given(seed=st.integers(0, 99), more=st.integers(0, 40))
def test_what_lies_behind_the_nearest_changes_nothing(seed, more):
    near = hits(seed, 2, NEAREST)
    behind = np.minimum(hits(seed + 1, 2, max(more, 1))[:, :more], near[:, -1:])
    narrow, wide = of(near), of(np.concatenate([near, behind], axis=1))
    np.testing.assert_array_equal(narrow.in_corpus, wide.in_corpus)
    np.testing.assert_array_equal(narrow.found, wide.found[:, :NEAREST])
    np.testing.assert_array_equal(narrow.relevance, wide.relevance[:, :NEAREST])


@given(seed=st.integers(0, 99), count=st.integers(1, 40), missing=st.integers(1, 20))
def test_passages_that_are_not_there_count_for_nothing(seed, count, missing):
    logits = hits(seed, 2, count)
    padded = np.concatenate([logits, np.full((2, missing), -np.inf, np.float32)], axis=1)
    plain, seen = of(logits), of(padded)
    np.testing.assert_array_equal(plain.in_corpus, seen.in_corpus)
    np.testing.assert_array_equal(plain.relevance, seen.relevance[:, :count])
    # All that there is has been seen: more hits say no more.
    for last, more in ((plain.found, seen.found), (plain.relevance, seen.relevance)):
        np.testing.assert_array_equal(more[:, count:], np.repeat(last[:, -1:], missing, axis=1))


def view_of(logits, relevant):
    """A view of one block, whose logits are the ensemble's."""
    return FitView(logits, relevant, logits[..., None])


def views(seed=0, sharpness=1.0, unanswerable=0.2):
    """Logits of queries over passages, of which one each is relevant and mostly found."""
    rng = np.random.default_rng(seed)
    relevant = [[int(p)] for p in rng.permutation(600)[:200]]
    logits = rng.normal(-6, 2, (200, 600))
    logits[np.arange(200), [r[0] for r in relevant]] += rng.normal(7, 3, 200)
    logits = (sharpness * logits).astype(np.float32)
    cuts = corpus_views(relevant, 600, sizes=(50, 400), unanswerable=unanswerable, seed=seed)
    return [view_of(view.cut(logits), view.relevant) for view in cuts]


def shipped():
    """The shipped model at the temperature of the views."""
    return replace(shipped_model("fitted"), temperature=fit_temperature(views()))


def in_corpus(model, view):
    return model.in_corpus.predict(view.in_corpus(model.temperature))


def test_the_temperature_undoes_overconfidence():
    plain, sharp = fit_temperature(views()), fit_temperature(views(sharpness=3.0))
    assert sharp == pytest.approx(3 * plain, rel=0.02)


@pytest.mark.parametrize("unanswerable", [0.1, 0.5])
@pytest.mark.parametrize("sharpness", [0.4, 3.0])
def test_a_fit_changes_the_order_and_not_the_level(sharpness, unanswerable):
    """However many of the queries are answered, and however sure the new logits look."""
    known, before = shipped(), views(unanswerable=unanswerable)
    after = [view_of(sharpness * view.logits - 5, view.relevant) for view in before]
    after[0].logits[:, 3] += 4  # the order of some
    model = with_level(known, after, *level_of(known, before))
    old, new, unmoved = (
        np.concatenate([in_corpus(each, view) for view in seen]).mean()
        for each, seen in ((known, before), (model, after), (known, after))
    )
    assert new == pytest.approx(old, abs=0.01)
    assert abs(unmoved - old) > 0.05
    assert model.in_corpus.weights == known.in_corpus.weights
    assert (model.found, model.relevance) == (known.found, known.relevance)


# What comes with the package for ensembles that know no better.


@pytest.mark.parametrize("kind", ["fitted", "words", "unfitted"])
def test_it_knows_a_clear_answer_from_none(kind):
    model = shipped_model(kind)
    rng = np.random.default_rng(0)
    crowd = -np.sort(-rng.normal(0 if kind == "unfitted" else -6, 1, (1, 30)), axis=1)
    clear = crowd.copy()
    clear[0, 0] = 6.0
    sure = []
    for logits in (clear.astype(np.float32), crowd.astype(np.float32)):
        seen = features(logits, np.zeros_like(logits), logits[:, :1], model.temperature)
        sure.append(model.probabilities(seen))
    assert sure[0].confidence[0] > 0.7
    assert sure[1].confidence[0] < 0.4
