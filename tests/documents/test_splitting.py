"""Chunks of a text end where it pauses, and hold all of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uec_rag.documents.text import split_text

TEXTS = st.lists(
    st.sampled_from(["\n\n", "\n", " ", ". ", "。", "\t", "a", "bread and salt", "x" * 25])
).map("".join)


@given(TEXTS, st.integers(5, 40))
def test_they_are_no_longer_than_allowed_and_lose_no_character(text, size):
    chunks = split_text(text, size)
    assert all(len(chunk) <= size for chunk in chunks)
    assert "".join("".join(chunks).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        ("Locks turn.\n\nKeys do not.", ["Locks turn.", "Keys do not."]),
        ("Locks turn\nand keys do.", ["Locks turn", "and keys do."]),
        ("It rests. It is baked.", ["It rests.", "It is baked."]),
        ("九点关门。罚款两欧元，每周一次。", ["九点关门。", "罚款两欧元，每周一次。"]),
        ("bread and salt and rye", ["bread and", "salt and rye"]),
        ("abcdefghijklmnopqrstu", ["abcdefghijklm", "nopqrstu"]),
    ],
)
def test_they_end_at_a_paragraph_a_line_a_sentence_or_a_word(text, chunks):
    assert split_text(text, 13) == chunks
