"""Documents of another store that were found before, and what has changed of them since."""

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

from tests.helpers import data_of
from tests.test_costs import steps
from uec_rag import UEC
from uec_rag.langchain import UECRetriever

LINES = [f"The ferry {n} leaves from quay {n % 5} at dawn." for n in range(40)]
QUESTION = "which ferry leaves from quay 3?"

CHANGES = data_of("converted.json")


def filled(metadatas):
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=12))
    store.add_texts(LINES, metadatas, ids=[f"l{n}" for n in range(len(LINES))])
    return store


def over(store):
    return UECRetriever.over(store, UEC([store.embedding, "bm25"]), k=40, fit=False)


def seen(documents):
    """Everything of the documents, the order and the kinds of their metadata among it."""
    return repr([(d.id, d.page_content, dict(d.metadata)) for d in documents])


@pytest.mark.parametrize(("text", "metadata"), CHANGES.values(), ids=CHANGES)
def test_what_has_changed_in_a_store_is_read_again(text, metadata):
    store = filled([{"pier": 1, "sea": "calm"} for _ in LINES])
    retriever = over(store)
    before = seen(retriever.invoke(QUESTION))
    entry = store.store["l3"]
    entry["metadata"], entry["text"] = metadata, text or entry["text"]
    after = retriever.invoke(QUESTION)
    [changed] = [document for document in after if document.id == "l3"]
    assert changed.page_content == entry["text"]
    assert repr({k: changed.metadata[k] for k in metadata}) == repr(metadata)
    assert seen(after) != before
    assert seen(after) == seen(over(store).invoke(QUESTION))


def test_a_zero_that_changed_its_sign_is_read_again():
    store = filled([{"depth": 0.0} for _ in LINES])
    retriever = over(store)
    retriever.invoke(QUESTION)
    store.store["l3"]["metadata"] = {"depth": -0.0}
    [changed] = [d for d in retriever.invoke(QUESTION) if d.id == "l3"]
    assert str(changed.metadata["depth"]) == "-0.0"


@pytest.mark.parametrize("extra", [{}, {"tags": ["sea", {"by": "night"}]}], ids=["flat", "nested"])
def test_what_a_caller_changes_in_hits_is_changed_nowhere_else(extra):
    retriever = over(filled([{"pier": 1} | extra for _ in LINES]))
    first = retriever.invoke(QUESTION)
    before = seen(first)
    for passage in [*first, *retriever.index.get([d.id for d in first])]:
        passage.metadata["pier"] = "mine"
        passage.metadata.get("tags", []).clear()
    assert seen(retriever.invoke(QUESTION)) == before
    assert {p.metadata["pier"] for p in retriever.index.get([d.id for d in first])} == {1}


def test_metadata_are_converted_once():
    counts = []
    for keys in (1, 60):
        retriever = over(filled([{f"k{n}": n for n in range(keys)} for _ in LINES]))
        retriever.k = 1  # what is returned is copied
        retriever.invoke(QUESTION)
        counts.append(steps(lambda retriever=retriever: retriever.invoke(QUESTION)))
    assert counts[1] < counts[0] + 60 * len(LINES)
