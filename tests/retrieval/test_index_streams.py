"""Adding from an iterator: bounded memory, and what an error midway leaves."""

import re

import numpy as np
import pytest

from tests.helpers import bag_of_words
from uec_rag import UEC, Retriever
from uec_rag.encoders import BlackBoxEncoder


@pytest.fixture(autouse=True)
def chunk(monkeypatch):
    """Ten texts at a time."""
    monkeypatch.setattr("uec_rag.retrieval.index._CHUNK", 10)


def ids(count):
    return (f"p{i}" for i in range(count))


def assert_finds_the_same(one, other, queries):
    got, expected = one.search(queries, k=5), other.search(queries, k=5)
    assert got.ids == expected.ids
    # Sums of other lengths round in other ways.
    np.testing.assert_allclose(got.scores, expected.scores, atol=1e-6)


def test_an_iterator_gives_the_index_that_a_list_gives(fitted, texts, queries):
    listed, streamed = Retriever(fitted), Retriever(fitted)
    numbers = [{"number": i} for i in range(35)]
    expected = listed.add(texts[:35], ids=list(ids(35)), metadatas=numbers)
    assert streamed.add(iter(texts[:35]), ids=ids(35), metadatas=iter(numbers)) == expected
    assert [p.metadata for p in streamed.passages()] == numbers
    assert_finds_the_same(streamed, listed, queries)


def test_texts_are_read_as_they_are_stored(fitted):
    retriever, ahead = Retriever(fitted), []

    def source():
        for i in range(45):
            ahead.append(i - len(retriever))
            yield f"text {i}"

    assert len(set(retriever.add(source()))) == len(retriever) == 45
    assert max(ahead) == 9


def test_an_empty_iterator_adds_nothing(fitted):
    retriever = Retriever(fitted)
    assert retriever.add(iter([])) == []
    assert len(retriever) == 0


def broken(texts):
    yield from texts
    raise OSError("the disk is gone")


def test_an_error_midway_says_how_far_it_came_and_keeps_that(small, texts):
    with pytest.raises(OSError, match="the disk is gone") as caught:
        small.add(broken(texts[10:35]), ids=(f"new{i}" for i in range(25)))
    (note,) = caught.value.__notes__
    assert note == "20 texts of the iterator were indexed before this, and stay."
    assert len(small) == 30
    assert [p.text for p in small.get(["p3", "new0", "new19"])] == [texts[3], texts[10], texts[29]]
    assert small.get(["new20"]) == []


def test_an_encoder_that_fails_midway_does_so_too(texts):
    words = bag_of_words(8, "words")

    def failing(some):
        if "fails" in some:
            raise RuntimeError("out of memory")
        return words(some)

    retriever = Retriever(UEC([BlackBoxEncoder(failing)], coefficients="uniform"))
    with pytest.raises(RuntimeError, match="out of memory") as caught:
        retriever.add(iter([*texts[:12], "fails"]))
    assert caught.value.__notes__[0].startswith("10 texts")
    assert len(retriever) == 10


def test_a_list_is_added_whole_or_not_at_all(small, texts):
    with pytest.raises(ValueError, match=re.escape("texts[15] is empty")) as caught:
        small.add([*texts[:15], " "])
    assert not hasattr(caught.value, "__notes__")
    assert len(small) == 10


@pytest.mark.parametrize(
    ("others", "error", "message", "stored"),
    [
        ({"ids": ids(15)}, ValueError, "ids: expected 10, one per text, got 5", 10),
        ({"ids": ids(26)}, ValueError, "ids: expected one per text, got more", 25),
        ({"ids": "abc"}, TypeError, "ids: expected an iterable of strings, got one string", 0),
        ({"metadatas": [{}] * 12}, ValueError, "metadatas: expected 10, one per text, got 2", 10),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is_reached(
    fitted, texts, others, error, message, stored
):
    retriever = Retriever(fitted)
    with pytest.raises(error, match=message):
        retriever.add(iter(texts[:25]), **others)
    assert len(retriever) == stored
