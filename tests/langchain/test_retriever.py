import pickle

import pytest
from langchain_classic.retrievers import MultiQueryRetriever
from langchain_core.documents import Document
from langchain_core.load import dumps, loads
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from langchain_core.vectorstores import VectorStoreRetriever
from pydantic import ValidationError

from tests.helpers import labelled, passages, titled
from tests.langchain.conftest import Listener
from uec_rag.langchain import UECRetriever, UECVectorStore
from uec_rag.langchain.documents import with_uncertainty
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


class TestMaking:
    def test_from_a_store_that_goes_on_to_be_shared(self, plain):
        store = UECVectorStore(plain)
        retriever = UECRetriever.from_store(store, k=1)
        store.add_texts(["lumane"], ids=["late"])
        assert [document.id for document in retriever.invoke("lumane")] == ["late"]

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


class TestWhatComesBack:
    async def test_of_several_questions_in_one_search(self, retriever, monkeypatch):
        queries = passages(3, seed=9)
        one_by_one = [retriever.invoke(query) for query in queries]
        searched, search = [], Retriever.search

        def noted(self, queries, **options):
            searched.append(queries)
            return search(self, queries, **options)

        monkeypatch.setattr(Retriever, "search", noted)
        for rows in (retriever.batch(queries), await retriever.abatch(queries)):
            assert rows == one_by_one
            for row, expected in zip(rows, one_by_one, strict=True):
                told = [document.metadata["uec_confidence"] for document in row]
                assert told == pytest.approx([d.metadata["uec_confidence"] for d in expected])
        assert searched == [queries, queries]

    async def test_of_several_questions_each_is_a_run_with_its_own_callbacks(self, retriever):
        queries = passages(3, seed=9)
        for ask in (retriever.batch, retriever.abatch):
            heard = [Listener() for _ in queries]
            found = ask(queries, [{"callbacks": [one]} for one in heard], k=2)
            found = await found if ask == retriever.abatch else found
            assert [one.starts[0]["query"] for one in heard] == queries
            assert [one.ends for one in heard] == [[row] for row in found]

    async def test_of_several_questions_all_runs_end_with_the_error_of_one(self, retriever):
        heard = Listener(), Listener()
        with pytest.raises(ValueError, match="query"):
            retriever.batch(["lumane", ""], {"callbacks": [heard[0]]})
        with pytest.raises(ValueError, match="query"):
            await retriever.abatch(["lumane", ""], {"callbacks": [heard[1]]})
        for one in heard:
            assert [type(error) for error in one.errors] == [ValueError] * 2

    async def test_a_bad_question_is_an_error_in_its_place_where_that_is_asked_for(self, retriever):
        for answers in (
            retriever.batch(["lumane", ""], return_exceptions=True),
            await retriever.abatch(["lumane", ""], return_exceptions=True),
        ):
            assert len(answers[0]) == 4
            assert isinstance(answers[1], ValueError)

    async def test_filtered_at_construction_and_at_call(self, store):
        retriever = UECRetriever.from_store(store, k=10, filter={"parity": 1})
        assert {document.metadata["parity"] for document in retriever.invoke(QUERY)} == {1}
        even = lambda document: document.metadata["parity"] == 0  # noqa: E731
        assert {d.metadata["parity"] for d in retriever.invoke(QUERY, filter=even)} == {0}
        assert {d.metadata["parity"] for d in await retriever.ainvoke(QUERY, filter=even)} == {0}

    def test_an_unknown_keyword_is_refused(self, retriever):
        with pytest.raises(TypeError, match="unexpected keyword argument 'top_k'"):
            retriever.invoke(QUERY, top_k=2)


class TestInsideAChain:
    async def test_callbacks_hear_of_the_run_with_tags_metadata_and_provider(self, store):
        retriever = UECRetriever.from_store(store, k=2, tags=["own"], metadata={"team": "search"})
        heard, aheard = Listener(), Listener()
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

    async def test_a_run_s_metadata_say_what_was_decided(self, retriever):
        queries, chain = passages(3, seed=9), retriever | RunnableLambda(len)
        runs = RunCollectorCallbackHandler()
        config = {"callbacks": [runs], "metadata": {"user": 1}}
        found = retriever.batch(queries)
        retriever.invoke(queries[0], config)
        retriever.batch(queries, config)
        await retriever.ainvoke(queries[0], config)
        await retriever.abatch(queries, config)
        names = ("uec_decision", "uec_confidence", "uec_in_corpus")
        assert len(runs.traced_runs) == 8
        for run in runs.traced_runs:  # in the order in which they ended
            assert run.metadata["user"] == 1
            hit = found[queries.index(run.inputs["query"])][0]
            told, expected = ([of[name] for name in names] for of in (run.metadata, hit.metadata))
            assert told == pytest.approx(expected)
        chain.invoke(queries[0], config)
        whole = runs.traced_runs[-1]
        assert names[0] not in whole.metadata
        assert names[0] in whole.child_runs[0].metadata


class TestAsLangChainsStoresGiveIt:
    def test_a_store_gives_one_with_langchains_own_options(self, store):
        retriever = store.as_retriever(search_kwargs={"k": 2, "filter": {"parity": 1}}, tags=["t"])
        assert isinstance(retriever, UECRetriever)
        assert isinstance(retriever, VectorStoreRetriever)
        assert retriever.tags == ["t"]
        found = retriever.invoke(QUERY)
        assert [document.metadata["parity"] for document in found] == [1, 1]
        assert found == UECRetriever.from_store(store, k=2, filter={"parity": 1}).invoke(QUERY)
        retriever.search_kwargs = {"k": 3}  # as people do
        assert len(retriever.invoke(QUERY)) == 3
        assert len(retriever.invoke(QUERY, k=1)) == 1

    async def test_diverse(self, store):
        options = {"k": 5, "fetch_k": 12, "lambda_mult": 0.2}
        retriever = store.as_retriever(search_type="mmr", search_kwargs=options)
        expected = [d.id for d in store.max_marginal_relevance_search(QUERY, **options)]
        for found in (retriever.invoke(QUERY), await retriever.ainvoke(QUERY)):
            assert [document.id for document in found] == expected
            assert all("uec_relevance" in document.metadata for document in found)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"search_type": "nearest"}, "search_type of nearest not allowed"),
            ({"search_type": "similarity_score_threshold"}, "score_threshold"),
            ({"search_type": "mmr", "search_kwargs": {"fetch_k": 0}}, "fetch_k: expected"),
        ],
    )
    def test_what_langchain_refuses_is_refused(self, store, options, message):
        with pytest.raises(ValueError, match=message):
            store.as_retriever(**options)

    def test_an_option_that_the_kind_of_search_does_not_have_is_refused(self, store):
        with pytest.raises(TypeError, match="unexpected keyword argument 'lambda_mult'"):
            store.as_retriever(search_kwargs={"lambda_mult": 0.2})

    def test_a_subclass_of_the_store_may_say_more_in_every_search(self, fitted):
        class Telling(UECVectorStore):
            def documents(self, result):
                return with_uncertainty(result)

        store = Telling.from_texts(TEXTS, fitted)
        assert "uec_confidence" in store.similarity_search(QUERY)[0].metadata
        assert "uec_confidence" in store.similarity_search_with_score(QUERY)[0][0].metadata


class TestInsideLangChainsOtherRetrievers:
    """What is built on a store or a retriever keeps what is known of a hit."""

    def test_one_document_found_by_two_questions_is_one_to_a_multi_query_retriever(self, store):
        queries = [" ".join(TEXTS[3].split()[:6]), " ".join(TEXTS[3].split()[4:])]
        several = MultiQueryRetriever(
            retriever=store.as_retriever(search_kwargs={"k": 5}),
            llm_chain=RunnableLambda(lambda _: queries),
        )
        found = [document.id for document in several.invoke(TEXTS[3])]
        assert found.count("3") == 1
        assert len(found) == len(set(found)) < 10
        assert "uec_score" in several.invoke(TEXTS[3])[0].metadata

    def test_hits_of_two_questions_are_equal_and_other_documents_are_not(self, store):
        one, other = store.as_retriever().batch([TEXTS[3], " ".join(TEXTS[3].split()[:5])], k=1)
        assert one == other
        assert one[0].metadata["uec_score"] != other[0].metadata["uec_score"]
        assert (one != other) is False
        assert one[0] != store.get_by_ids(["3"])[0]
        assert one[0].metadata != store.as_retriever().invoke(TEXTS[4])[0].metadata

    @pytest.mark.filterwarnings("ignore:The function `loads` is in beta")
    def test_a_hit_is_serialised_as_any_document(self, store):
        [hit] = store.as_retriever().invoke(TEXTS[3], k=1)
        back = loads(dumps(hit), allowed_objects=[Document])
        assert type(back) is Document
        assert back.metadata == dict(hit.metadata)
        assert pickle.loads(pickle.dumps(hit)) == hit


class TestDoors:
    def test_calibrated_on_labels(self, fitted):
        texts = passages(120)
        ids = [f"p{i}" for i in range(120)]
        retriever = UECRetriever.from_texts(texts, fitted, titled(texts), ids)
        assert retriever.index is retriever.vectorstore.retriever
        assert retriever.report == retriever.index.report
        assert retriever.calibrate(*labelled(texts, 40), k=4) is retriever
        assert "40 labelled queries" in retriever.report
