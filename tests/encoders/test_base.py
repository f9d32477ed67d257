import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from uec_rag.base.checks import check_texts
from uec_rag.encoders import BlackBoxEncoder, CachedEncoder
from uec_rag.encoders.base import check_vectors, encode_texts, is_encoder


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        (["a", 3], TypeError, r"texts\[1\]: expected a string, got int"),
        *((value, TypeError, r"texts(\[0\])?: expected a") for value in (None, 3, b"bytes")),
        *((["a", b], ValueError, r"texts\[1\]: expected a text, got") for b in ("", " \t\u00a0")),
        (["ab\ud800"], ValueError, r"texts\[0\] is not valid Unicode .* character 2"),
    ],
)
def test_what_is_no_list_of_texts_is_refused_naming_the_argument_and_the_place(
    texts, error, message
):
    for name in ("texts", "queries"):
        with pytest.raises(error, match=message.replace("texts", name)):
            check_texts(texts, name)


def test_any_sequence_of_strings_is_fine_and_so_is_none_at_all():
    for texts in (("a", "b"), [], np.array(["x", "y"])):
        assert check_texts(texts) == [*texts]


def good(rows=3, width=4):
    return np.arange(1.0, rows * width + 1).reshape(rows, width)


@pytest.mark.parametrize(
    ("vectors", "error", "message"),
    [
        (good(2), ValueError, r"'api' returned .* shape \(2, 4\) for 3 texts"),
        (good()[0], ValueError, r"'api' returned an array of shape \(4,\) .* one vector per text"),
        (good()[None], ValueError, r"shape \(1, 3, 4\)"),
        (good(width=5), ValueError, r"shape \(3, 5\) .* expected \(3, 4\)"),
        (np.ones((3, 0)), ValueError, r"shape \(3, 0\)"),
        (good() * [[1], [np.nan], [1]], ValueError, "for row 1; expected"),
        (good() * [[1], [np.inf], [0]], ValueError, "for row 1 and 1 more; expected"),
        ([[1.0, 2.0], [1.0]], ValueError, "inhomogeneous shape"),
        ([["a"], ["b"], ["c"]], TypeError, "expected an array of real numbers"),
        (None, TypeError, "'api' returned NoneType"),
        (good() * 1j, TypeError, "complex"),
    ],
)
def test_bad_vectors_are_refused_naming_encoder_given_and_expected(vectors, error, message):
    with pytest.raises(error, match=message):
        check_vectors(vectors, rows=3, encoder="api", dimension=4)


@pytest.mark.parametrize("count", [9, 600])
@pytest.mark.parametrize("wrap", [lambda encoder: encoder, lambda one: CachedEncoder(one, None)])
def test_a_text_without_a_direction_is_shown_with_its_place_among_all(wrap, count):
    texts = [f"text {number}" for number in range(count)]
    texts[count - 5] = "zzz " * 30

    def static(some):
        return [[0.0 if text.startswith("zzz") else 1.0, 0.0] for text in some]

    encoder = wrap(BlackBoxEncoder(static))
    encoder.encode(texts[:3], "passage")  # which a cache does not ask for again
    with pytest.raises(ValueError, match=rf"for texts\[{count - 5}\] \('zzz zzz .{{,60}}\); exp"):
        encode_texts(encoder, texts, "passage")


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(0, 5), st.integers(1, 8)),
        elements=st.floats(-1e300, 1e300).filter(bool),
    )
)
def test_rows_of_any_size_come_out_with_unit_length_and_the_same_direction(vectors):
    unit = check_vectors(vectors, rows=len(vectors), encoder="api")
    assert unit.dtype == np.float32
    assert unit.shape == vectors.shape
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-6)
    scaled = vectors / np.abs(vectors).max(axis=1, keepdims=True)
    expected = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
    np.testing.assert_allclose(unit, expected, atol=1e-7)


def test_lists_integers_half_precision_and_tensors_are_vectors_too():
    import torch

    expected = [[0.6, 0.8]]
    for vectors in (
        [[3, 4]],
        np.array([[3, 4]], dtype=np.float16),
        torch.tensor([[3.0, 4.0]], dtype=torch.bfloat16, requires_grad=True),
    ):
        unit = check_vectors(vectors, rows=1, encoder="api")
        np.testing.assert_allclose(unit, expected, rtol=1e-6)


def test_an_encoder_is_recognised_without_computing_its_members(remote):
    encoder = BlackBoxEncoder(remote)
    assert is_encoder(encoder)
    assert remote.texts == []
    assert not is_encoder(remote)
    assert not is_encoder(BlackBoxEncoder)
