"""Chunks of a text: those of LangChain's splitter, which needs its libraries."""

from hypothesis import given
from hypothesis import strategies as st
from langchain_text_splitters import RecursiveCharacterTextSplitter

from uec_rag.documents.passages import split_text

TEXTS = st.lists(st.sampled_from(["\n\n", "\n", " ", "\t", "a", "bread and salt", "x" * 25])).map(
    "".join
)


def tokens(text):
    return len(text.split()) + text.count("x") // 4


@given(TEXTS, st.integers(5, 40), st.integers(0, 20), st.sampled_from([len, tokens]))
def test_they_are_those_of_langchain(text, size, overlap, length):
    overlap = min(overlap, size // 2)
    theirs = RecursiveCharacterTextSplitter(
        chunk_size=size, chunk_overlap=overlap, length_function=length
    )
    assert split_text(text, size, overlap, length) == theirs.split_text(text)
