"""Searching the store in every way that LangChain knows."""

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from tests.helpers import passages
from uec_rag.langchain import UECVectorStore

QUERY = "bafima degopi lumane"
DOCUMENTS = [
    Document(text, id=str(i), metadata={"parity": i % 2})
    for i, text in enumerate(dict.fromkeys(passages(60)))
]


@pytest.fixture
def store(fitted):
    return UECVectorStore.from_documents(DOCUMENTS, fitted)


@pytest.fixture
def both(plain):
    """With one embedding and no variance the two must agree, whatever is asked."""
    stores = UECVectorStore(plain, words=False, fit=False), InMemoryVectorStore(plain)
    for store in stores:
        store.add_documents(DOCUMENTS)
    return stores


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"k": 1000},
        {"k": 5, "filter": lambda document: document.metadata["parity"] == 1},
        {"k": 5, "filter": lambda document: int(document.id) > 50},
        {"k": 5, "filter": lambda document: False},
    ],
    ids=["4", "all", "metadata", "id", "nothing"],
)
def test_the_same_documents_and_scores(both, options):
    ours, theirs = both
    for query in passages(5, seed=3):
        expected = theirs.similarity_search_with_score(query, **options)
        found = ours.similarity_search_with_score(query, **options)
        assert [document for document, _ in found] == [d for d, _ in expected]
        scores = [[score for _, score in pairs] for pairs in (found, expected)]
        np.testing.assert_allclose(*scores, rtol=1e-4, atol=1e-6)
        assert all(type(score) is float for _, score in found)
        assert ours.similarity_search(query, **options) == [d for d, _ in expected]


@pytest.mark.parametrize("lambda_mult", [0.0, 0.3, 0.5, 1.0])
async def test_the_same_maximal_marginal_relevance(both, lambda_mult):
    ours, theirs = both
    options = {"k": 6, "fetch_k": 25, "lambda_mult": lambda_mult}
    diverse = ours.as_retriever(search_type="mmr", search_kwargs=options)
    for query in passages(5, seed=3):
        expected = [d.id for d in theirs.max_marginal_relevance_search(query, **options)]
        for found in (diverse.invoke(query), await diverse.ainvoke(query)):
            assert [document.id for document in found] == expected


async def test_a_threshold_keeps_what_reaches_it(store):
    hits = store.as_retriever().invoke(QUERY, k=10)
    pairs = [(document, document.metadata["uec_relevance"]) for document in hits]
    threshold = sorted((value for _, value in pairs), reverse=True)[2]
    retriever = store.as_retriever(
        search_type="similarity_score_threshold",
        search_kwargs={"k": 10, "score_threshold": threshold},
    )
    kept = [document.id for document, value in pairs if value >= threshold]
    assert 3 <= len(kept) < 10
    for found in (retriever.invoke(QUERY), await retriever.ainvoke(QUERY)):
        assert [document.id for document in found] == kept
