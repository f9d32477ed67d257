import fsspec
import numpy as np
import pytest
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode

from uec_rag.llama_index import UECEmbedding, UECVectorStore

GERMAN = MetadataFilters(filters=[MetadataFilter(key="lang", value="de")])


@pytest.fixture
def store(fitted, nodes):
    store = UECVectorStore(fitted)
    store.add(nodes)
    return store


def ids(nodes):
    return [node.node_id for node in nodes]


def ask(store, text, k=3, **options):
    return store.query(VectorStoreQuery(query_str=text, similarity_top_k=k, **options))


# Adding and removing


def test_added_nodes_can_be_had_back_by_id_in_the_order_asked_and_by_metadata(store, nodes):
    assert store.get_nodes(["n7", "absent", "n2"]) == [nodes[7], nodes[2]]
    assert store.get_nodes() == nodes
    assert store.get_nodes(filters=GERMAN) == nodes[1::2]
    assert store.get_nodes(["n4", "n5"], GERMAN) == [nodes[5]]


def test_the_store_knows_the_variance_of_what_it_is_given_as_vectors(store, fitted, nodes, texts):
    other = UECVectorStore(fitted)
    vectors = UECEmbedding(uec=fitted).get_text_embedding_batch(texts)
    other.add([n.model_copy(update={"embedding": v}) for n, v in zip(nodes, vectors, strict=True)])
    for index in (store.retriever, other.retriever):
        gaussian = index.vectors(ids(nodes))
        expected = fitted.embed(texts, "passage")
        np.testing.assert_allclose(gaussian.mean, expected.mean, atol=1e-6)
        np.testing.assert_allclose(gaussian.variance, expected.variance, rtol=1e-4)
        assert gaussian.variance.max() > 0


def test_delete_removes_the_nodes_of_a_document(store, nodes):
    store.delete("doc1")
    assert store.get_nodes() == [*nodes[:4], *nodes[8:]]
    store.delete("absent")
    assert len(store.get_nodes()) == 36


def test_delete_nodes_by_id_by_metadata_and_by_both(store, nodes):
    store.delete_nodes([])
    store.delete_nodes([], GERMAN)
    assert len(store.get_nodes()) == 40
    store.delete_nodes(["n0", "absent"])
    store.delete_nodes(["n2", "n3"], GERMAN)
    assert ids(store.get_nodes(["n0", "n2", "n3"])) == ["n2"]
    store.delete_nodes(filters=GERMAN)
    assert {node.metadata["lang"] for node in store.get_nodes()} == {"en"}
    store.clear()
    found = ask(store, "lumane")
    assert (found.nodes, found.similarities, found.ids) == ([], [], [])


# Searching


def test_the_vector_of_the_question_changes_nothing(store, fitted, question):
    vector = UECEmbedding(uec=fitted).get_query_embedding(question)
    for given in (vector, [0.1] * 7, [0.1] * 56):
        assert ask(store, question, query_embedding=given) == ask(store, question)


def test_a_vector_alone_is_searched_with_and_has_no_confidence(store, fitted, texts):
    vector = UECEmbedding(uec=fitted).get_query_embedding(texts[9])
    found = store.query(VectorStoreQuery(query_embedding=vector, similarity_top_k=3))
    assert found.ids[0] == "n9"
    mean = np.float32([vector])
    stored = store.retriever.vectors(found.ids)
    np.testing.assert_allclose(
        [node.metadata["uec_sigma2"] for node in found.nodes],
        (stored.variance @ (mean**2).T)[:, 0],
        rtol=1e-4,
    )
    assert "uec_confidence" not in found.nodes[0].metadata


def test_filters_nodes_and_documents_restrict_a_query(store, question):
    assert ask(store, question, filters=GERMAN).ids[0] == "n3"
    assert set(ask(store, question, k=9, node_ids=["n5", "n6"]).ids) == {"n5", "n6"}
    assert set(ask(store, question, k=9, doc_ids=["doc2"]).ids) == {"n8", "n9", "n10", "n11"}
    both = ask(store, question, k=9, doc_ids=["doc2"], filters=GERMAN)
    assert set(both.ids) == {"n9", "n11"}
    # As LlamaIndex means an empty list.
    assert ask(store, question, node_ids=[]) == ask(store, question)


def test_mmr_leaves_out_what_says_the_same(fitted, nodes, texts, question):
    store = UECVectorStore(fitted)
    store.add([*nodes, nodes[3].model_copy(update={"id_": "twin"})])
    assert set(ask(store, question, k=2).ids) == {"n3", "twin"}
    found = ask(store, question, k=2, mode=VectorStoreQueryMode.MMR)
    assert found.ids[0] == "n3"
    assert "twin" not in found.ids
    assert found.similarities[1] == pytest.approx(found.nodes[1].metadata["uec_score"])


def test_a_calls_threshold_counts_before_the_querys_as_in_llama_indexs_own_store(store, question):
    def found(given, **options):
        asked = VectorStoreQuery(query_str=question, similarity_top_k=4, mmr_threshold=given)
        asked.mode = VectorStoreQueryMode.MMR
        return store.query(asked, mmr_prefetch_factor=10, **options).ids

    varied, near, neither = found(0.1), found(1.0), found(None)
    assert varied != near
    assert found(1.0, mmr_threshold=0.1) == varied
    assert found(0.1, mmr_threshold=1.0) == near
    assert found(0.1, mmr_threshold=None) == neither


# Asynchronously


async def test_the_asynchronous_twins_do_the_same(fitted, nodes, question):
    store = UECVectorStore(fitted)
    assert await store.async_add(nodes) == ids(nodes)
    assert await store.async_add([]) == []
    query = VectorStoreQuery(query_str=question, similarity_top_k=3)
    assert (await store.aquery(query)).ids == store.query(query).ids
    assert await store.aget_nodes(["n1"]) == [nodes[1]]
    await store.adelete("doc0")
    assert await store.aget_nodes(["n1"]) == []
    await store.adelete_nodes(["n4"])
    await store.adelete_nodes(filters=GERMAN)
    assert len(await store.aget_nodes()) == 17
    await store.aclear()
    assert await store.aget_nodes() == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda store: store.query(VectorStoreQuery(query_embedding=[0.1] * 7)),
            "expected 56 numbers, the ensemble's dimension, got 7",
        ),
        (
            lambda store: store.query(VectorStoreQuery()),
            "query_str is empty and query_embedding None",
        ),
        (lambda store: store.delete_nodes(), r"clear\(\) removes all"),
        (
            lambda store: store.persist("/index", fsspec.filesystem("memory")),
            r"copy the saved folder by fs\.put",
        ),
        *(
            (
                lambda store, mode=mode: ask(store, "badefi", mode=mode),
                r"mode: expected one of .*; for other weights of words",
            )
            for mode in ("hybrid", "sparse", "svm")
        ),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(store, nodes, call, message):
    with pytest.raises(ValueError, match=message):
        call(store)
    assert store.get_nodes() == nodes
