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


def test_a_store_of_ours_needs_none(fitted):
    for ours in (UECVectorStore(fitted), UECVectorStore(UECEmbeddings(fitted))):
        with pytest.raises(TypeError, match="for which there is from_store"):
            UECRetriever.over(ours, fitted)
