"""The demo's corpus: real documentation, the same on every call."""

import pytest

from uec_rag.documents import fitting_pairs, passages_of
from uec_rag.documents.python_docs import CHUNK_SIZE, gather_corpus


@pytest.fixture(scope="module")
def corpus():
    return gather_corpus(2500)


def test_a_corpus_reaches_the_number_of_passages_asked_for(corpus):
    assert 2500 <= len(passages_of(corpus, size=CHUNK_SIZE)) < 2700


def test_a_smaller_corpus_is_a_part_of_a_larger_one(corpus):
    assert {document.source for document in gather_corpus(300)} < {
        document.source for document in corpus
    }


def test_the_corpus_is_the_same_on_every_call(corpus):
    assert gather_corpus(2500) == corpus


def test_it_holds_docstrings_and_the_language_reference(corpus):
    texts = {document.source: document.sections[0].text for document in corpus}
    assert "common leading whitespace" in texts["textwrap.dedent"]
    assert "keep it sorted" in texts["bisect.insort_right"]
    assert "context manager" in texts["topics/with"]


def test_no_text_comes_twice(corpus):
    texts = [section.text for document in corpus for section in document.sections]
    assert len(set(texts)) == len(texts)


def test_it_gives_hundreds_of_pairs_to_fit_on(corpus):
    assert len(fitting_pairs(corpus, size=CHUNK_SIZE)) > 500


def test_no_passages_are_refused():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        gather_corpus(0)
