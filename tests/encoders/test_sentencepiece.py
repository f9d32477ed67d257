import pytest

from tests.encoders.sentencepiece_files import CHARACTERS, PIECES, field
from uec_rag.encoders.sentencepiece import read_sentencepiece


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


def test_a_text_is_split_into_its_likeliest_pieces(tokens):
    assert tokens("cats") == [3, 4]  # ▁cat s, rather than ▁c a t s


def test_white_space_around_and_between_words_counts_once(tokens):
    assert tokens("  cat   cat ") == [3, 3]


def test_a_run_of_unknown_letters_is_one_unknown_piece(tokens):
    assert tokens("cat猫猫a") == [3, 0, 6]


def test_a_text_cannot_write_a_control_piece(tokens):
    assert tokens("<s>") == [2, 8, 4, 9]


@pytest.mark.parametrize("damage", [b"not a model", b"", PIECES[0][:-3], PIECES[0]])
def test_another_file_is_refused_by_name(model, damage):
    with pytest.raises(ValueError, match=r"sp\.model' is not a SentencePiece model"):
        read_sentencepiece(model(damage))
