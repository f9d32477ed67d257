"""Searching the store in every way that LangChain knows."""

from datetime import datetime

import numpy as np
import pytest
from langchain_classic.retrievers import ParentDocumentRetriever, TimeWeightedVectorStoreRetriever
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import CharacterTextSplitter

from tests.helpers import passages
from uec_rag import Gate
from uec_rag.langchain import UECGate, UECVectorStore

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
        vector = ours.embeddings.embed_query(query)
        assert ours.similarity_search_by_vector(vector, **options) == [d for d, _ in expected]


@pytest.mark.parametrize("lambda_mult", [0.0, 0.3, 0.5, 1.0])
async def test_the_same_maximal_marginal_relevance(both, lambda_mult):
    ours, theirs = both
    options = {"k": 6, "fetch_k": 25, "lambda_mult": lambda_mult}
    diverse = ours.as_retriever(search_type="mmr", search_kwargs=options)
    for query in passages(5, seed=3):
        expected = [d.id for d in theirs.max_marginal_relevance_search(query, **options)]
        vector = ours.embeddings.embed_query(query)
        for found in (
            diverse.invoke(query),
            await diverse.ainvoke(query),
            ours.max_marginal_relevance_search(query, **options),
            ours.max_marginal_relevance_search_by_vector(vector, **options),
            ours.search(query, "mmr", **options),
        ):
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
    scored = store.similarity_search_with_relevance_scores
    for pairs in (
        scored(QUERY, 10, score_threshold=threshold),
        await store.asimilarity_search_with_relevance_scores(
            QUERY, k=10, score_threshold=threshold
        ),
    ):
        assert [(document.id, relevance) for document, relevance in pairs] == [
            (document.id, document.metadata["uec_relevance"]) for document in found
        ]
        assert [document.metadata.keys() for document, _ in pairs] == [{"parity"}] * len(kept)
    assert len(scored(QUERY, 10, filter={"parity": 1})) == 10


async def test_langchains_time_weighted_retriever_weighs_relevance(fitted):
    retriever = TimeWeightedVectorStoreRetriever(vectorstore=UECVectorStore(fitted), k=1)
    now = datetime.now()
    retriever.add_documents([document.model_copy(deep=True) for document in DOCUMENTS[:9]])
    await retriever.aadd_documents([DOCUMENTS[9].model_copy(deep=True)], current_time=now)
    for found in (
        retriever.invoke(DOCUMENTS[3].page_content),
        await retriever.ainvoke(DOCUMENTS[3].page_content),
    ):
        assert [document.id for document in found] == ["3"]


def test_a_gate_decides_on_the_whole_of_what_was_found_a_part(fitted):
    splitter = CharacterTextSplitter(separator=". ", chunk_size=100, chunk_overlap=0)
    store = UECVectorStore(fitted)
    whole = ParentDocumentRetriever(
        vectorstore=store, docstore=InMemoryStore(), child_splitter=splitter
    )
    pages = [". ".join(d.page_content for d in DOCUMENTS[at : at + 3]) for at in range(0, 60, 3)]
    whole.add_documents([Document(page, metadata={"page": at}) for at, page in enumerate(pages)])
    query = DOCUMENTS[4].page_content
    found = UECGate(retriever=whole, gate=Gate(0.1)).invoke(query)
    best = store.as_retriever().invoke(query)[0].metadata
    assert (found["decision"], found["confidence"]) == ("answer", best["uec_confidence"])
    assert found["documents"][0].metadata["page"] == 1
    assert found["documents"][0].metadata["uec_relevance"] == best["uec_relevance"]


def test_diverse_documents_end_with_those_of_equal_texts():
    texts = ["foo", "foo", "fou", "foy"]
    store = UECVectorStore.from_texts(texts, DeterministicFakeEmbedding(size=6), fit=False)
    vector = store.embeddings.embed_query("foo")
    for found in (
        store.max_marginal_relevance_search("foo", k=10, lambda_mult=0.1),
        store.max_marginal_relevance_search_by_vector(vector, k=10, lambda_mult=0.1),
    ):
        said = [document.page_content for document in found]
        assert (sorted(said), said[0], said[-1]) == (sorted(texts), "foo", "foo")
    assert len(store.max_marginal_relevance_search("foo", k=2)) == 2
