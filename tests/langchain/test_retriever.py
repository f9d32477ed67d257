from dataclasses import replace

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField, RunnableLambda
from pydantic import ValidationError

from tests.helpers import passages
from uec_rag.confidence.decision import Decision
from uec_rag.langchain import UECEmbeddings, UECRetriever, UECVectorStore
from uec_rag.retrieval import Retriever

TEXTS = list(dict.fromkeys(passages(30)))
QUERY = "bafima degopi lumane"


@pytest.fixture(scope="module")
def store(fitted):
    metadatas = [{"parity": i % 2} for i in range(len(TEXTS))]
    return UECVectorStore.from_texts(TEXTS, fitted, metadatas, ids=[str(i) for i in range(30)])


@pytest.fixture
def retriever(store):
    return UECRetriever.from_store(store)


class Abstaining(Retriever):
    """Never sure enough."""

    def search(self, queries, k=10, *, filter=None):
        result = super().search(queries, k, filter=filter)
        return replace(result, decisions=[Decision("abstain", "never sure")] * len(queries))


class TestMaking:
    def test_from_texts(self, fitted):
        retriever = UECRetriever.from_texts(
            TEXTS[:3], fitted, [{"page": i} for i in range(3)], ["a", "b", "c"], k=2
        )
        found = retriever.invoke(TEXTS[1])
        assert isinstance(retriever, BaseRetriever)
        assert len(found) == 2
        assert (found[0].id, found[0].page_content, found[0].metadata["page"]) == ("b", TEXTS[1], 1)

    def test_from_documents(self, fitted):
        documents = [Document(text, id=str(i)) for i, text in enumerate(TEXTS[:3])]
        retriever = UECRetriever.from_documents(documents, UECEmbeddings(fitted), k=3)
        assert {document.id for document in retriever.invoke(QUERY)} == {"0", "1", "2"}
        renamed = UECRetriever.from_documents(documents, fitted, ids=["a", "b", "c"])
        assert {document.id for document in renamed.invoke(QUERY)} == {"a", "b", "c"}

    def test_from_a_store_that_goes_on_to_be_shared(self, plain):
        store = UECVectorStore(plain)
        retriever = UECRetriever.from_store(store, k=1)
        store.add_texts(["lumane"], ids=["late"])
        assert [document.id for document in retriever.invoke("lumane")] == ["late"]

    def test_from_any_langchain_embeddings(self, plain):
        assert UECRetriever.from_texts(TEXTS, plain).invoke(TEXTS[7])[0].page_content == TEXTS[7]

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"k": 0}, ValueError, "k: expected an integer >= 1, got 0"),
            ({"k": 2.5}, TypeError, "k: expected an integer, got 2.5"),
            ({"top_k": 2}, ValidationError, "top_k"),
            ({"filter": 3}, ValidationError, "filter"),
        ],
    )
    def test_bad_options_are_refused_before_anything_is_embedded(self, options, error, message):
        def never(texts):
            raise AssertionError("embedded")

        from uec_rag import UEC

        with pytest.raises(error, match=message):
            UECRetriever.from_texts(TEXTS, UEC([never]), **options)

    def test_anything_but_our_store_is_refused(self, plain):
        from langchain_core.vectorstores import InMemoryVectorStore

        with pytest.raises(ValidationError, match="UECVectorStore"):
            UECRetriever.from_store(InMemoryVectorStore(plain))


class TestHowMany:
    def test_4_unless_told(self, retriever):
        assert len(retriever.invoke(QUERY)) == 4

    async def test_at_construction_and_at_call(self, store):
        retriever = UECRetriever(vectorstore=store, k=7)
        assert len(retriever.invoke(QUERY)) == 7
        assert len(retriever.invoke(QUERY, k=2)) == 2
        assert len(await retriever.ainvoke(QUERY, k=3)) == 3
        assert len(retriever.bind(k=1).invoke(QUERY)) == 1

    def test_by_configuration(self, retriever):
        configurable = retriever.configurable_fields(k=ConfigurableField(id="k"))
        assert len(configurable.invoke(QUERY)) == 4
        assert len(configurable.invoke(QUERY, config={"configurable": {"k": 2}})) == 2
        assert len(configurable.with_config(configurable={"k": 6}).invoke(QUERY)) == 6

    def test_all_there_are_where_k_is_more(self, retriever):
        assert len(retriever.invoke(QUERY, k=1000)) == len(TEXTS)

    def test_k_documents_even_where_the_decision_is_to_abstain(self, fitted):
        store = UECVectorStore(Abstaining(fitted))
        store.add_texts(TEXTS)
        found = UECRetriever.from_store(store, k=5).invoke(QUERY)
        assert [document.metadata["uec_decision"] for document in found] == ["abstain"] * 5

    def test_a_bad_k_at_call_is_refused(self, retriever):
        with pytest.raises(ValueError, match="k: expected an integer >= 1, got 0"):
            retriever.invoke(QUERY, k=0)


class TestWhatComesBack:
    async def test_the_documents_of_the_store_with_their_uncertainty(self, retriever, store):
        expected = store.similarity_search_with_uncertainty(QUERY)
        assert retriever.invoke(QUERY) == expected
        assert await retriever.ainvoke(QUERY) == expected

    async def test_of_several_questions_at_once(self, retriever):
        queries = passages(3, seed=9)
        one_by_one = [retriever.invoke(query) for query in queries]
        assert retriever.batch(queries) == one_by_one
        assert await retriever.abatch(queries) == one_by_one

    async def test_filtered_at_construction_and_at_call(self, store):
        retriever = UECRetriever.from_store(store, k=10, filter={"parity": 1})
        assert {document.metadata["parity"] for document in retriever.invoke(QUERY)} == {1}
        even = lambda document: document.metadata["parity"] == 0  # noqa: E731
        assert {d.metadata["parity"] for d in retriever.invoke(QUERY, filter=even)} == {0}
        assert {d.metadata["parity"] for d in await retriever.ainvoke(QUERY, filter=even)} == {0}

    @pytest.mark.parametrize("query", [{"question": QUERY}, None])
    def test_a_question_that_is_no_string_is_refused(self, retriever, query):
        with pytest.raises(TypeError, match="query: expected a string, got"):
            retriever.invoke(query)

    def test_an_unknown_keyword_is_refused(self, retriever):
        with pytest.raises(TypeError, match="unexpected keyword argument 'top_k'"):
            retriever.invoke(QUERY, top_k=2)


class TestInsideAChain:
    def test_it_pipes(self, retriever):
        chain = retriever | RunnableLambda(lambda found: found[0].metadata["uec_decision"])
        assert chain.invoke(QUERY) in ("answer", "clarify", "abstain")

    async def test_callbacks_hear_of_the_run_with_tags_metadata_and_provider(self, store):
        retriever = UECRetriever.from_store(store, k=2, tags=["own"], metadata={"team": "search"})
        heard, aheard = Listener(), AsyncListener()
        config = {"tags": ["call"], "run_name": "look up"}
        found = retriever.invoke(QUERY, config={**config, "callbacks": [heard]})
        await retriever.ainvoke(QUERY, config={**config, "callbacks": [aheard]})
        for listener in (heard, aheard):
            [start], [end] = listener.starts, listener.ends
            assert start["query"] == QUERY
            assert start["name"] == "look up"
            assert {"own", "call"} <= set(start["tags"])
            assert start["metadata"]["team"] == "search"
            assert start["metadata"]["ls_vector_store_provider"] == "UECVectorStore"
            assert start["metadata"]["ls_embedding_provider"] == "UECEmbeddings"
            assert end == found

    def test_callbacks_hear_of_a_failure(self, retriever):
        heard = Listener()
        with pytest.raises(ValueError, match="query"):
            retriever.invoke("", config={"callbacks": [heard]})
        assert [type(error) for error in heard.errors] == [ValueError]


class Recorder:
    def __init__(self):
        self.starts, self.ends, self.errors = [], [], []

    def start(self, query, name, tags, metadata):
        self.starts.append({"query": query, "name": name, "tags": tags, "metadata": metadata})


class Listener(Recorder, BaseCallbackHandler):
    def on_retriever_start(self, serialized, query, *, tags, metadata, name, **kwargs):
        self.start(query, name, tags, metadata)

    def on_retriever_end(self, documents, **kwargs):
        self.ends.append(documents)

    def on_retriever_error(self, error, **kwargs):
        self.errors.append(error)


class AsyncListener(Recorder, AsyncCallbackHandler):
    async def on_retriever_start(self, serialized, query, *, tags, metadata, name, **kwargs):
        self.start(query, name, tags, metadata)

    async def on_retriever_end(self, documents, **kwargs):
        self.ends.append(documents)
