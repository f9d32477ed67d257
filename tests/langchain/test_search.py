"""Searching the store in every way that LangChain knows."""

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from tests.helpers import passages
from uec_rag.langchain import UECVectorStore

QUERY = "bafima degopi lumane"


def documents(count):
    return [
        Document(text, id=str(i), metadata={"parity": i % 2, "place": i})
        for i, text in enumerate(dict.fromkeys(passages(count)))
    ]


@pytest.fixture
def store(fitted):
    return UECVectorStore.from_documents(documents(60), fitted)


def ids(found):
    return [document.id for document in found]


class TestAgainstTheInMemoryStore:
    """With one embedding and no variance the two must agree, whatever is asked."""

    @pytest.fixture
    def both(self, plain):
        ours = UECVectorStore(plain, words=False, fit=False)
        theirs = InMemoryVectorStore(plain)
        for store in (ours, theirs):
            store.add_documents(documents(60))
        return ours, theirs

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"k": 7},
            {"k": 1000},
            {"k": 5, "filter": lambda document: document.metadata["parity"] == 1},
            {"k": 5, "filter": lambda document: int(document.id) > 50},
            {"k": 5, "filter": lambda document: False},
        ],
        ids=["4", "7", "all", "metadata", "id", "nothing"],
    )
    def test_the_same_documents_and_scores(self, both, options):
        ours, theirs = both
        for query in passages(5, seed=3):
            vector = ours.embeddings.embed_query(query)
            raw = theirs.embeddings.embed_query(query)
            expected = theirs.similarity_search_with_score(query, **options)
            for found in (
                ours.similarity_search_with_score(query, **options),
                ours.similarity_search_with_score_by_vector(vector, **options),
                ours.similarity_search_with_score_by_vector(raw, **options),
            ):
                assert [document for document, _ in found] == [d for d, _ in expected]
                scores = [[score for _, score in pairs] for pairs in (found, expected)]
                np.testing.assert_allclose(*scores, rtol=1e-4, atol=1e-6)
                assert all(type(score) is float for _, score in found)
            plain = [document for document, _ in expected]
            assert ours.similarity_search(query, **options) == plain
            assert ours.similarity_search_by_vector(vector, **options) == plain

    @pytest.mark.parametrize("lambda_mult", [0.0, 0.3, 0.5, 1.0])
    def test_the_same_maximal_marginal_relevance(self, both, lambda_mult):
        ours, theirs = both
        options = {"k": 6, "fetch_k": 25, "lambda_mult": lambda_mult}
        for query in passages(5, seed=3):
            vector = ours.embeddings.embed_query(query)
            expected = theirs.max_marginal_relevance_search(query, **options)
            assert ours.max_marginal_relevance_search(query, **options) == expected
            assert ours.max_marginal_relevance_search_by_vector(vector, **options) == expected

    async def test_a_threshold_keeps_what_reaches_it(self, store):
        pairs = store.similarity_search_with_relevance_scores(QUERY, k=10)
        threshold = sorted((value for _, value in pairs), reverse=True)[2]
        retriever = store.as_retriever(
            search_type="similarity_score_threshold",
            search_kwargs={"k": 10, "score_threshold": threshold},
        )
        kept = [document.id for document, value in pairs if value >= threshold]
        assert 3 <= len(kept) < 10
        assert ids(retriever.invoke(QUERY)) == ids(await retriever.ainvoke(QUERY)) == kept


SEARCHES = (
    "similarity_search",
    "similarity_search_with_score",
    "similarity_search_with_uncertainty",
    "max_marginal_relevance_search",
)
VECTORS = ("similarity_search_by_vector", "max_marginal_relevance_search_by_vector")


@pytest.mark.parametrize(
    ("methods", "query", "options", "error", "message"),
    [
        (SEARCHES, {"question": QUERY}, {}, TypeError, r"queries\[0\] must be a string, got dict"),
        (SEARCHES, QUERY, {"k": 0}, ValueError, "k: expected an integer >= 1, got 0"),
        (SEARCHES, QUERY, {"fliter": {}}, TypeError, "unexpected keyword argument 'fliter'"),
        (VECTORS, [1.0, 2.0], {}, ValueError, "embedding: expected 40 numbers, .* got 2"),
        (VECTORS, [float("nan")] * 40, {}, ValueError, "embedding: row 0 holds NaN"),
        (VECTORS, [0.0] * 40, {}, ValueError, "embedding: expected a vector with a direction"),
        (VECTORS, [1.0] * 40, {"fliter": {}}, TypeError, "unexpected keyword argument 'fliter'"),
    ],
)
def test_bad_queries_are_refused_by_name(store, methods, query, options, error, message):
    for method in methods:
        with pytest.raises(error, match=message):
            getattr(store, method)(query, **options)
