"""What goes into the store and comes back as it was, and where it is kept."""

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, index

from uec_rag.langchain import UECEmbeddings, UECVectorStore

TEXTS = ["bafima degopi", "lumane bafima", "rosuta voneba"]


@pytest.fixture
def store(fitted):
    return UECVectorStore(fitted)


def ids_of(store):
    return [passage.id for passage in store.index.passages()]


class TestAdding:
    def test_ids_of_the_call_count_before_those_of_documents_and_missing_ones_are_made_up(
        self, store
    ):
        given = [Document("lumane", id="mine"), Document("bafima")]
        assert store.add_documents(given[:1], ids=["new"]) == ["new"]
        ids = [*store.add_documents(given), *store.add_texts(["rosuta"] * 2, ids=["theirs", None])]
        assert (ids[0], ids[2]) == ("mine", "theirs")
        assert {*ids_of(store)} == {"new", *ids}
        assert len({*ids}) == 4

    def test_changing_what_was_given_or_returned_changes_nothing_stored(self, store):
        given = Document("lumane", id="a", metadata={"tags": ["x"]})
        store.add_documents([given])
        given.metadata["tags"].append("given")
        store.get_by_ids(["a"])[0].metadata["tags"].append("got")
        store.similarity_search("lumane")[0].metadata["more"] = 1
        store.as_retriever().invoke("lumane")[0].metadata["tags"].append("found")
        store.similarity_search("lumane", filter=lambda d: d.metadata.pop("tags", True) is not None)
        assert store.get_by_ids(["a"]) == [Document("lumane", id="a", metadata={"tags": ["x"]})]

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({"texts": "lumane"}, TypeError, "texts: expected a list of strings, got one string"),
            ({"texts": TEXTS, "ids": []}, ValueError, "ids: expected 3, one per text, got 0"),
            ({"texts": TEXTS, "ids": "abc"}, TypeError, "ids: expected a list of strings"),
            ({"texts": TEXTS, "meta": []}, TypeError, "unexpected keyword argument 'meta'"),
            (
                {"documents": ["lumane"]},
                TypeError,
                r"\[0\]: expected a langchain_core\.documents\.Document, got str",
            ),
            ({"documents": Document("a")}, TypeError, "documents: expected a list of Documents"),
            ({"documents": [Document("a")], "id": ["1"]}, TypeError, "keyword argument 'id'"),
        ],
    )
    async def test_bad_texts_and_documents_are_refused_by_name(
        self, store, arguments, error, message
    ):
        kind = next(iter(arguments))
        with pytest.raises(error, match=message):
            getattr(store, f"add_{kind}")(**arguments)
        with pytest.raises(error, match=message):
            await getattr(store, f"aadd_{kind}")(**arguments)
        assert ids_of(store) == []


class TestBlankDocuments:
    BLANK = Document(" \n", id="b", metadata={"source": "scan.pdf", "page": 3})

    async def test_are_left_out_with_a_warning_that_names_them(self, store):
        given = [Document("lumane", id="a"), self.BLANK, Document("bafima", id="c")]
        with pytest.warns(UserWarning, match="1 without text are left out, from 'scan.pdf'"):
            assert store.add_documents(given) == ["a", "c"]
        with pytest.warns(UserWarning, match="from 'scan.pdf'"):
            assert await store.aadd_documents(given) == ["a", "c"]
        with pytest.warns(UserWarning, match="from 'scan.pdf'"):
            assert store.add_documents(given, ids=["x", "y", "z"]) == ["x", "z"]

    def test_take_the_place_of_what_they_were(self, store):
        store.add_documents([Document("lumane", id="b")])
        with pytest.warns(UserWarning, match="left out"):
            store.add_documents([self.BLANK])
        assert store.get_by_ids(["b"]) == []

    def test_do_not_end_langchains_index_in_the_middle(self, store):
        pages = [
            Document(f"lumane {i}" if i % 80 else " ", metadata={"source": f"{i}.txt"})
            for i in range(1, 251)
        ]
        records = InMemoryRecordManager("pages")
        records.create_schema()
        with pytest.warns(UserWarning, match=r"'80\.txt'"):
            index(pages, records, store, source_id_key="source", cleanup="full")
        assert len(store.index) == 247
        again = index(pages, records, store, source_id_key="source", cleanup="full")
        assert (again["num_added"], again["num_deleted"]) == (0, 0)


def test_to_delete_nothing_given_means_all_and_an_empty_list_means_none(fitted):
    store = UECVectorStore.from_texts(TEXTS, fitted, ids=["a", "b", "c"])
    for given, message in (({"ids": "abc"}, "ids: expected a list"), ({"id": ["a"]}, "'id'")):
        with pytest.raises(TypeError, match=message):
            store.delete(**given)
    store.delete([])
    assert len(ids_of(store)) == 3
    store.delete()
    assert ids_of(store) == []


def test_documents_get_the_means_of_passages_and_queries_those_of_queries(fitted):
    embeddings = UECEmbeddings(uec=fitted)
    documents = np.array(embeddings.embed_documents(TEXTS), dtype=np.float32)
    query = np.array(embeddings.embed_query(TEXTS[0]), dtype=np.float32)
    assert (documents == fitted.embed(TEXTS, "passage").mean).all()
    assert (query == fitted.embed(TEXTS[:1], "query").mean[0]).all()
    assert not np.allclose(documents[0], query)


def test_what_is_no_ensemble_no_text_or_no_list_of_texts_is_refused(fitted, plain):
    for call, message in (
        (lambda: UECEmbeddings(uec=plain), "uec: expected a UEC, got DeterministicFakeEmbedding"),
        (lambda: UECEmbeddings(fitted).embed_query(["a"]), "^text: expected a string, got"),
        (lambda: UECEmbeddings(fitted).embed_documents("a"), "texts: expected a list of strings"),
    ):
        with pytest.raises(TypeError, match=message):
            call()
