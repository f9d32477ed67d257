"""The positions of a FAISS store's ids are looked up, not read again for each question."""

from types import SimpleNamespace

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

from tests.helpers import bag_of_words
from uec_rag.base.counts import Counts, Words
from uec_rag.encoders.lexical import Lexical
from uec_rag.langchain import UECRetriever
from uec_rag.langchain.sources import _Positions
from uec_rag.stores.passage import Passage
from uec_rag.stores.stored import Listed, encode_words


class Reads(dict):
    """A dict that counts how many of its items are read."""

    count = 0

    def items(self):
        for item in super().items():
            self.count += 1
            yield item


def store_of(ids):
    return SimpleNamespace(index_to_docstore_id=Reads(enumerate(ids)))


def added(store):
    store.index_to_docstore_id.update({3: "d", 4: "e"})
    return {"a": 0, "d": 3, "e": 4}


def deleted(store):
    store.index_to_docstore_id = Reads(enumerate("bc"))
    return {"b": 0, "c": 1}


def deleted_and_added(store):
    store.index_to_docstore_id = Reads(enumerate("bcde"))
    return {"b": 0, "e": 3}


def changed_by_hand(store):
    store.index_to_docstore_id.update({0: "c", 2: "a"})
    return {"a": 2, "b": 1, "c": 0}


@pytest.mark.parametrize("change", [added, deleted, deleted_and_added, changed_by_hand])
def test_positions_follow_the_store(change):
    store = store_of("abc")
    known = _Positions(store)
    assert known.of(["c", "?", "a"]) == {"c": 2, "a": 0}
    expected = change(store)
    assert known.of([*"abcde"]).items() >= expected.items()
    assert {*known.of([*"abcde"])} == {*store.index_to_docstore_id.values()}


def test_ids_are_read_once():
    store = store_of(map(str, range(500)))
    known = _Positions(store)
    for _ in range(4):
        assert known.of(["7"]) == {"7": 7}
    assert store.index_to_docstore_id.count == 500
    assert known.of([]) == {}


@pytest.mark.parametrize("new", [[], [1], [0, 3], [0, 1, 2, 3]])
def test_only_the_words_of_new_passages_are_counted(new, monkeypatch):
    encoders = [bag_of_words(4, "few"), Lexical()]
    held = [Passage(f"p{n}", f"badero golugo number {n}", {}) for n in range(9)]
    listed, asked = Listed.count(held, encoders), held[2:6]
    for place in new:
        asked[place] = Passage(f"p{place}" if place % 2 else "new", f"sirapu {place}", {})
    [expected], texts = encode_words(encoders, asked), []
    encode = Lexical.encode
    monkeypatch.setattr(
        Lexical,
        "encode",
        lambda self, some, role: (texts.extend(some), encode(self, some, role))[1],
    )
    [found], [words] = listed.encode(encoders, asked), listed.among(encoders, asked)
    assert len(texts) == 2 * len(new)
    for name in ("starts", "keys", "weights"):
        np.testing.assert_array_equal(getattr(found.terms, name), getattr(expected.terms, name))
    question = encode(encoders[1], ["golugo number 3, or sirapu?"], "query").terms
    for block in (words, alone := Words.from_terms(expected.terms)):
        block.__dict__["frequencies"] = listed.frequencies[0]
    looked_up, rows = words.look_up(question), [np.array([3, 0, 2])]
    np.testing.assert_allclose(
        words.similarities(looked_up), alone.similarities(alone.look_up(question)), rtol=1e-6
    )
    np.testing.assert_allclose(
        words.contributions(looked_up, rows)[0],
        alone.contributions(alone.look_up(question), rows)[0],
        rtol=1e-6,
    )


def test_the_words_of_a_question_are_searched_for_once(monkeypatch):
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_documents([Document(f"badero golugo number {n}", id=f"{n}") for n in range(60)])
    retriever, searches = UECRetriever.over(store, fit=False, k=3), []
    retriever.invoke("Where is number 7?")
    add_up = Counts.add_up
    monkeypatch.setattr(
        Counts, "add_up", lambda self, *query: (searches.append(len(self)), add_up(self, *query))[1]
    )
    assert any("41" in hit.page_content for hit in retriever.invoke("41"))
    assert searches == [60]
