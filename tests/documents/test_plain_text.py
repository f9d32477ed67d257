"""Chunks of a text end where it pauses, and hold all of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import data_of
from uec_rag.documents.plain_text import split_text

TEXTS = st.lists(
    st.sampled_from(["\n\n", "\n", " ", ". ", "。", "\t", "a", "bread and salt", "x" * 25])
).map("".join)


@given(TEXTS, st.integers(5, 40))
def test_they_are_no_longer_than_allowed_and_lose_no_character(text, size):
    chunks = split_text(text, size)
    assert all(len(chunk) <= size for chunk in chunks)
    assert "".join("".join(chunks).split()) == "".join(text.split())


@pytest.mark.parametrize(("text", "chunks"), data_of("splits.json"))
def test_they_end_at_a_paragraph_a_line_a_sentence_or_a_word(text, chunks):
    assert split_text(text, 13) == chunks
