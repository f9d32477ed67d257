"""Where a text's first sentence ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uec_rag.corpora.questions import split_first_sentence


@pytest.mark.parametrize(
    ("text", "first", "rest"),
    [
        ("One. Two. Three.", "One.", "Two. Three."),
        ("Is it? It is!", "Is it?", "It is!"),
        ('He said "no." Then he left.', 'He said "no."', "Then he left."),
        ("Python 3.11 is out. Use it.", "Python 3.11 is out.", "Use it."),
        ("A heading\n\nand a text. More.", "A heading", "and a text. More."),
        ("Over two\nlines.  Then more.", "Over two lines.", "Then more."),
        ("你好。再见。", "你好。", "再见。"),
        ("No end at all", "No end at all", ""),
        ("The end.", "The end.", ""),
        ("", "", ""),
    ],
)
def test_the_first_sentence_or_paragraph_is_split_off(text, first, rest):
    assert split_first_sentence(text) == (first, rest)


@given(st.text(alphabet="ab .!?。\n\"')", max_size=60))
def test_no_word_is_lost_and_none_is_added(text):
    first, rest = split_first_sentence(text)
    assert "".join((first + rest).split()) == "".join(text.split())
