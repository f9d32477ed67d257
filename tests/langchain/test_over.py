"""A retriever over LangChain's own store, in every way that LangChain asks."""

import pytest
from langchain_core.vectorstores import InMemoryVectorStore

from tests.helpers import passages
from uec_rag.langchain import UECEmbeddings, UECRetriever, UECVectorStore

TEXTS = list(dict.fromkeys(passages(60)))
QUERIES = [" ".join(text.split()[4:8]) for text in TEXTS[:6]]


@pytest.fixture
def theirs(plain):
    store = InMemoryVectorStore(plain)
    store.add_texts(TEXTS, [{"place": i} for i in range(len(TEXTS))])
    return store


async def test_filters_are_the_stores_own_in_every_way_to_ask(theirs, fitted):
    over = UECRetriever.over(theirs, fitted)
    odd = lambda document: document.metadata["place"] % 2  # noqa: E731
    own = UECRetriever.over(theirs, fitted, search_kwargs={"filter": odd})
    for found in (
        over.invoke(QUERIES[0], filter=odd),
        await over.ainvoke(QUERIES[0], filter=odd),
        *over.batch(QUERIES[:2], filter=odd),
        own.invoke(QUERIES[0]),
    ):
        assert len(found) == 4
        assert all(d.metadata["place"] % 2 for d in found)


def test_a_batch_is_each_question_alone(theirs, fitted):
    over = UECRetriever.over(theirs, fitted, candidates=8)
    alone, together = [over.invoke(query) for query in QUERIES], over.batch(QUERIES)
    for one, other in zip(alone, together, strict=True):
        assert [d.page_content for d in one] == [d.page_content for d in other]
        assert [d.metadata["uec_confidence"] for d in one] == pytest.approx(
            [d.metadata["uec_confidence"] for d in other]
        )
    assert over.batch([]) == []


def test_it_writes_nothing_there_and_a_store_of_ours_needs_none(theirs, fitted):
    store = UECRetriever.over(theirs, fitted).vectorstore
    for write in (lambda: store.add_texts(["a"]), lambda: store.delete([*theirs.store])):
        with pytest.raises(ValueError, match="in another package's vector store"):
            write()
    assert len(theirs.store) == len(TEXTS)
    for ours in (UECVectorStore(fitted), UECVectorStore(UECEmbeddings(fitted))):
        with pytest.raises(TypeError, match="for which there is from_store"):
            UECRetriever.over(ours, fitted)
