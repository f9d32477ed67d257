import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uec_rag.ensemble.evidence import (
    FEATURES,
    EvidenceWeights,
    corpus_evidence,
)


def evidence_of(*similarities, trace=None, slopes=None, intercepts=None):
    encoders = len(similarities)
    return corpus_evidence(
        [np.atleast_2d(np.asarray(s, np.float32)) for s in similarities],
        slopes or [1.0] * encoders,
        intercepts or [0.0] * encoders,
        np.zeros((1, encoders)) if trace is None else trace,
    )


def weights(given, prior=(0.0, 0.0)):
    return EvidenceWeights(tuple(given), (0.0,) * len(FEATURES), (1.0,) * len(FEATURES), prior)


def feature(evidence, name):
    return evidence[..., FEATURES.index(name)]


def test_features_by_hand():
    logits = np.array([4.0, 1.0, 1.0, 0.0])
    found = evidence_of(logits / 2 - 1, trace=[[0.7]], slopes=[2.0], intercepts=[2.0])[0, 0]
    p = np.exp(logits) / np.exp(logits).sum()
    expected = [
        0.7,
        -(p * np.log(p)).sum() / np.log(4),
        np.log1p(4 - 2 / 3),
        np.log((4 - 1.5) / logits.std()),
        1.5,
        np.log(logits.std()),
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_an_encoder_that_finds_all_passages_alike_has_entropy_one_and_no_gap():
    found = evidence_of(np.full(50, 0.8))
    assert feature(found, "entropy")[0, 0] == pytest.approx(1)
    assert feature(found, "gap")[0, 0] == pytest.approx(0, abs=1e-6)
    assert np.isfinite(found).all()


def test_one_passage_is_a_corpus():
    assert np.isfinite(evidence_of([0.3])).all()


def test_extreme_traces_are_clipped():
    found = evidence_of([0.1, 0.2], [0.1, 0.2], trace=[[50.0, -50.0]])
    assert feature(found, "trace").tolist() == [[4.0, -3.0]]


@pytest.mark.parametrize(
    ("similarities", "trace", "message"),
    [
        (np.zeros((1, 2, 3)), np.zeros((2, 2)), r"expected 2 arrays of .*, got \[\(2, 3\)\]"),
        (np.zeros((3, 2, 3)), np.zeros((2, 2)), r"expected 2 arrays of shape \(2, N\)"),
        (np.zeros((2, 5, 3)), np.zeros((2, 2)), r"got \[\(5, 3\), \(5, 3\)\]"),
        (np.zeros((2, 2, 0)), np.zeros((2, 2)), "corpus is empty"),
        (np.zeros((2, 2, 3)), np.zeros((2, 3)), r"trace: expected shape \(n, 2\)"),
    ],
)
def test_shapes_that_disagree_are_refused(similarities, trace, message):
    with pytest.raises(ValueError, match=message):
        corpus_evidence(similarities.astype(np.float32), [1, 1], [0, 0], trace)


def test_without_weights_all_encoders_count_alike():
    found = weights([0.0] * len(FEATURES)).coefficients(evidence_of([0.1, 0.9], [0.5, 0.5]))
    np.testing.assert_allclose(found, [[0.5, 0.5]])


def test_weight_goes_to_the_encoder_with_the_better_evidence():
    evidence = evidence_of([0.1, 0.9], [0.5, 0.5], slopes=[9.0, 9.0], intercepts=[-5.0, -5.0])
    found = weights([0, -1, 0, 0, 0, 0]).coefficients(evidence)
    assert found[0, 0] > 0.55


def test_the_prior_counts_whatever_the_query():
    found = weights([0.0] * len(FEATURES), prior=(np.log(3.0), 0.0)).coefficients(
        evidence_of([0.1], [0.2])
    )
    np.testing.assert_allclose(found, [[0.75, 0.25]], rtol=1e-6)


@given(st.lists(st.floats(-5, 5), min_size=6, max_size=6), st.integers(0, 2**32 - 1))
def test_coefficients_are_convex_and_follow_the_encoders_order(given, seed):
    evidence = np.random.default_rng(seed).normal(0, 20, (4, 2, 6)).astype(np.float32)
    found = weights(given).coefficients(evidence)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    swapped = weights(given).coefficients(evidence[:, ::-1])
    np.testing.assert_allclose(swapped[:, ::-1], found, rtol=1e-5)


def test_a_single_encoder_has_all_the_weight():
    found = weights([0, -1, 0, 0, 0, 0], prior=(0.0,)).coefficients(evidence_of([0.1, 0.2]))
    assert found.tolist() == [[1.0]]


def test_evidence_of_other_encoders_is_refused():
    with pytest.raises(ValueError, match=r"evidence: expected shape \(n, 2, 6\)"):
        weights([0.0] * len(FEATURES)).coefficients(np.zeros((1, 3, 6), np.float32))


def test_saved_and_restored():
    original = EvidenceWeights((-0.1, 0.2, 0.3, 0.4, -0.5, 0.6), (1.0,) * 6, (2.0,) * 6, (0.0, 0.1))
    assert EvidenceWeights.restore(json.loads(json.dumps(original.metadata()))) == original


def test_weights_of_other_features_are_refused():
    state = weights([0.0] * len(FEATURES)).metadata() | {"features": ["trace"]}
    with pytest.raises(ValueError, match="evidence weights: expected some over"):
        EvidenceWeights.restore(state)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"weights": (1.0,)}, "weights: expected 6"), ({"spread": (1.0,)}, "spread: expected 6")],
)
def test_weights_that_cannot_be_are_refused(change, message):
    given = {
        "weights": (0.0,) * 6,
        "location": (0.0,) * 6,
        "spread": (1.0,) * 6,
        "prior": (0.0,),
    }
    with pytest.raises(ValueError, match=message):
        EvidenceWeights(**(given | change))
