"""The demo's corpus: real documentation, the same on every call."""

import pytest

from uec_rag.corpora import fitting_pairs, passages_of
from uec_rag.corpora.python_docs import CHUNK_SIZE, OFF_TOPIC, draw_questions, gather_corpus


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


def test_questions_ask_for_drawn_names_then_for_the_most_shared_ones_then_for_something_else(
    corpus,
):
    *names, one, other, last = draw_questions(corpus)
    sources = {document.source for document in corpus}
    assert {name.removeprefix("What does ").removesuffix(" do?") for name in names} < sources
    for question in (one, other):
        name = question.removeprefix("What does ").removesuffix(" do?")
        assert sum(source.endswith(f".{name}") for source in sources) > 5
    assert last == OFF_TOPIC


def test_no_passages_are_refused():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        gather_corpus(0)
