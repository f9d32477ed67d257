import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from uec_rag.confidence.model import NEAREST, features


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


@given(seed=st.integers(0, 99), count=st.integers(1, 50))
def test_evidence_of_being_found_never_falls_with_more_hits(seed, count):
    assert (np.diff(of(hits(seed, 3, count)).found, axis=1) >= 0).all()


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


@given(seed=st.integers(0, 99), offset=st.floats(-30, 30))
def test_shares_do_not_depend_on_an_offset_of_all_logits(seed, offset):
    logits = hits(seed, 2, NEAREST)
    plain, moved = of(logits), of(logits + np.float32(offset))
    np.testing.assert_allclose(plain.in_corpus[:, 0], moved.in_corpus[:, 0], atol=1e-4)
    np.testing.assert_allclose(plain.found, moved.found, atol=1e-3)


def test_a_corpus_of_one_passage_leaves_no_doubt_about_which():
    seen = of(np.float32([[3.0]]))
    assert seen.in_corpus[0, 0] == 0
    assert seen.relevance[0, 0, 1] == 0
