"""Posteriors of a few kilobytes: near the whole ones, and the same everywhere."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uec_rag.laplace.posterior import Posterior, PosteriorSummary, compact

WIDTH = 24
SUMMARY = PosteriorSummary(20.0, -10.0, 1e-3, 0.01, -1.0, 0.5, 100, 40, 0.3, 0.4, -50.0)


def whole(seed=0, width=WIDTH):
    """A posterior as pairs leave it: well known directions, and many that are hardly known."""
    rng = np.random.default_rng(seed)
    directions, _ = np.linalg.qr(rng.standard_normal((width, width)))
    deviations = np.concatenate([np.geomspace(0.01, 0.5, width // 3), np.ones(width - width // 3)])
    profile = rng.uniform(0.9, 1.1, (1, width)).astype(np.float32)
    return Posterior("kron", (directions * deviations).astype(np.float32), profile, SUMMARY)


def texts(count=200, seed=1):
    vectors = np.random.default_rng(seed).standard_normal((count, WIDTH)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def traces(posterior):
    return posterior.gaussian(texts(), texts()).trace


def test_enough_directions_give_the_variances_of_the_whole_posterior():
    posterior = whole()
    for rank in (WIDTH // 3, WIDTH):
        small = traces(compact(posterior, rank).posterior())
        np.testing.assert_allclose(small, traces(posterior), rtol=0.05)


def test_more_directions_come_nearer():
    posterior = whole()
    distances = [
        np.abs(traces(compact(posterior, rank).posterior()) - traces(posterior)).mean()
        for rank in (0, 2, 4, 8)
    ]
    assert distances == sorted(distances, reverse=True)


def test_without_directions_every_text_has_the_mean_variance():
    posterior = whole()
    nothing = traces(compact(posterior, 0).posterior())
    np.testing.assert_allclose(nothing, nothing[0], rtol=1e-5)
    assert nothing[0] == pytest.approx(traces(posterior).mean(), rel=0.1)


@given(seed=st.integers(0, 100))
def test_it_is_the_same_to_the_last_bit_however_a_processor_adds(seed):
    small = compact(whole(seed), 8)
    order = np.random.default_rng(seed).permutation(8)
    other = replace(small, directions=np.asfortranarray(small.directions[:, order]))
    np.testing.assert_array_equal(
        small.posterior().covariance, other.posterior().covariance, strict=True
    )


def test_a_direction_is_a_byte_a_dimension():
    small = compact(whole(), 8)
    assert small.directions.dtype == np.int8
    assert small.directions.shape == (WIDTH, 8)
    assert np.abs(small.directions.astype(int)).max() == 127


def test_words_have_nothing_to_keep():
    nothing = np.zeros((0, 0), dtype=np.float32)
    words = Posterior("kron", nothing, np.zeros((1, 0), dtype=np.float32), SUMMARY)
    back = compact(words, 8).posterior()
    assert back.covariance.shape == (0, 0)
    assert back.profile.shape == (1, 0)
    assert back.summary == SUMMARY


def test_other_posteriors_are_refused():
    square = whole()
    diagonal = Posterior("diag", square.covariance, np.zeros((0, WIDTH), np.float32), SUMMARY)
    with pytest.raises(ValueError, match="expected a 'kron' one of a layer as wide"):
        compact(diagonal, 4)
    with pytest.raises(ValueError, match=r"shape \(24, 24\) and 10"):
        compact(replace(square, profile=np.ones((1, 10), dtype=np.float32)), 4)
