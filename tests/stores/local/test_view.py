"""The format of segments' files."""

import numpy as np
import pytest
from safetensors.numpy import save

from tests.helpers import random_gaussian, with_terms
from uec_rag import IndexCorrupted
from uec_rag.base.gaussian import Terms
from uec_rag.stores.encodings import check_encodings
from uec_rag.stores.local.view import Segment


def as_bytes(content):
    return np.frombuffer(content, np.uint8)


def segment():
    gaussian = random_gaussian(np.random.default_rng(0), 5, 3)
    terms = Terms.from_keys([[1, 1, 2], [2], [], [7], [1]])
    encodings = check_encodings(with_terms(gaussian, [terms]), 5)
    return Segment.from_encodings(encodings, np.arange(5, dtype=np.uint64))


def test_a_segment_is_read_as_it_was_written(tmp_path):
    arrays = segment().arrays()
    back = Segment.read(as_bytes(save(arrays)), tmp_path).arrays()
    assert back.keys() == arrays.keys()
    for name, array in back.items():
        np.testing.assert_array_equal(array, arrays[name])
        assert array.dtype == arrays[name].dtype


CHANGES = {
    "rows": [lambda rows: rows[::-1].copy(), lambda rows: rows + 1, lambda rows: rows[:-1]],
    "texts": [lambda texts: texts[:-1], lambda texts: texts.astype("i8")],
    "features.0": [lambda features: features.astype("f8"), lambda features: features[:-1]],
    "vectors.0": [lambda vectors: vectors.astype("f8"), lambda vectors: vectors[:-1]],
    "words.0.rows": [lambda rows: rows + 60_000, lambda rows: rows[::-1].copy()],
    "words.0.starts": [
        lambda starts: starts + 1,
        lambda starts: np.array([0, 2**40, *starts[2:]]),
        lambda starts: starts[:-1],
    ],
    "words.0.keys": [lambda keys: keys[::-1].copy()],
    "words.0.counts": [lambda counts: counts * 0, lambda counts: counts[:-1]],
    "words.0.lengths": [lambda lengths: lengths - 10, lambda lengths: lengths[:-1]],
}


@pytest.mark.parametrize(
    ("name", "number"), [(name, i) for name in CHANGES for i in range(len(CHANGES[name]))]
)
def test_arrays_that_lead_elsewhere_are_refused_before_they_are_used(tmp_path, name, number):
    arrays = segment().arrays()
    arrays[name] = CHANGES[name][number](arrays[name])
    with pytest.raises(IndexCorrupted, match="index file"):
        _ = Segment.read(as_bytes(save(arrays)), tmp_path / "index file").checked_words


@pytest.mark.parametrize("change", [8, 9, 40, -1, None])
def test_a_file_that_is_cut_or_changed_is_refused(tmp_path, change):
    content = save(segment().arrays())
    for damaged in (content[:change], content[:8] + b"[" + content[9:], b"", b"\xff" * 100):
        if damaged != content:
            with pytest.raises(IndexCorrupted, match="index file"):
                Segment.read(as_bytes(damaged), tmp_path / "index file")
