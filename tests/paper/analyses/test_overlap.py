import numpy as np
import pytest
from sklearn.cross_decomposition import CCA

from benchmarks.paper.analyses.overlap import subspace_overlap


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_a_rotation_spans_the_same_subspace():
    first = normal(400, 8)
    rotation, _ = np.linalg.qr(normal(8, 8, seed=1))
    overlap = subspace_overlap(first, first @ rotation)
    assert overlap.fitted == pytest.approx(1, abs=1e-5)
    assert overlap.held_out == pytest.approx(1, abs=1e-5)
    assert overlap.chance < 0.3
    assert (overlap.texts, overlap.components) == (400, 8)


def test_independent_embeddings_overlap_no_more_than_by_chance():
    overlap = subspace_overlap(normal(1000, 6), normal(1000, 6, seed=1))
    assert overlap.fitted == pytest.approx(overlap.chance, abs=0.05)
    assert abs(overlap.held_out) < 0.1


def test_with_fewer_texts_than_dimensions_any_two_embeddings_overlap_fully():
    overlap = subspace_overlap(normal(40, 64), normal(40, 64, seed=1))
    assert overlap.fitted == pytest.approx(1)
    assert overlap.chance == pytest.approx(1)
    assert overlap.held_out < 0.5


def test_the_correlations_are_those_of_scikit_learn():
    shared = normal(300, 3)
    first = np.concatenate([shared, normal(300, 2, seed=1)], axis=1)
    second = np.concatenate([shared + 0.5 * normal(300, 3, seed=2), normal(300, 1, seed=3)], axis=1)
    a, b = CCA(n_components=4, max_iter=5000, tol=1e-10).fit_transform(first, second)
    expected = [np.corrcoef(a[:, i], b[:, i])[0, 1] for i in range(4)]
    assert subspace_overlap(first, second).fitted == pytest.approx(np.mean(expected), abs=1e-3)


def test_other_numbers_of_texts_are_refused():
    with pytest.raises(ValueError, match="as many rows as first"):
        subspace_overlap(normal(20, 3), normal(21, 3))
