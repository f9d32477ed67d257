import copy
import json
import pickle

import numpy as np
import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.types import VectorStoreQuery

from tests.helpers import noise
from uec_rag import UEC
from uec_rag.llama_index import UECEmbedding, UECVectorStore
from uec_rag.retrieval.diversity import Diversity

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


def test_filters_nodes_and_documents_restrict_a_query(store, question):
    assert ask(store, question, filters=GERMAN).ids[0] == "n3"
    assert set(ask(store, question, k=9, node_ids=["n5", "n6"]).ids) == {"n5", "n6"}
    assert set(ask(store, question, k=9, doc_ids=["doc2"]).ids) == {"n8", "n9", "n10", "n11"}
    both = ask(store, question, k=9, doc_ids=["doc2"], filters=GERMAN)
    assert set(both.ids) == {"n9", "n11"}
    # As LlamaIndex means an empty list.
    assert ask(store, question, node_ids=[]) == ask(store, question)


async def test_a_query_is_of_a_tenant_and_drops_no_option(store, question):
    one = VectorStoreQuery(query_str=question, similarity_top_k=9)
    vector = UECEmbedding(uec=store.index.uec).get_query_embedding(question)
    for query in (one, VectorStoreQuery(query_embedding=vector, similarity_top_k=9)):
        for found in (store.query(query, tenant=GERMAN), await store.aquery(query, tenant=GERMAN)):
            assert {node.metadata["lang"] for node in found.nodes} == {"de"}
    retriever = VectorStoreIndex.from_vector_store(
        store, UECEmbedding(uec=store.index.uec)
    ).as_retriever(vector_store_kwargs={"tenant": GERMAN})
    assert {hit.metadata["lang"] for hit in retriever.retrieve(question)} == {"de"}
    for wrong in ("tenants", "filter", "where", "within"):
        with pytest.raises(TypeError, match=f"{wrong}: expected no such argument"):
            store.query(one, **{wrong: GERMAN})
        with pytest.raises(TypeError, match=f"{wrong}: expected no such argument"):
            await store.aquery(one, **{wrong: GERMAN})


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


async def test_a_vector_alone_is_searched_and_diverse_nodes_are_those_of_the_index(
    store, fitted, texts
):
    index, german = store.index, {"lang": "de"}
    vector = fitted.embed([texts[3]], "query").mean[0].tolist()
    asked = {"query_embedding": vector, "similarity_top_k": 3, "filters": GERMAN}
    expected = index.search_vector(vector, 3, filter=german)
    for found in (
        store.query(VectorStoreQuery(**asked)),
        await store.aquery(VectorStoreQuery(query_str=" ", **asked)),
    ):
        assert found.ids == expected.ids[0]
        assert found.similarities == pytest.approx(expected.scores[0].tolist())
        assert not [key for key in found.nodes[0].metadata if key == "uec_decision"]
    for given in ({"query_str": texts[3]}, {"query_embedding": vector}):
        query = VectorStoreQuery(**given, mode="mmr", similarity_top_k=3, mmr_threshold=0.2)
        diversity = Diversity(12, 0.2)
        search = index.search_vector if "query_embedding" in given else index.search
        [one] = given.values()
        one = one if "query_embedding" in given else [one]
        assert store.query(query).ids == search(one, 3, diversity=diversity).ids[0]


NONSENSE = {
    "expected query_str or query_embedding": lambda store: store.query(VectorStoreQuery()),
    r"clear\(\) removes all": UECVectorStore.delete_nodes,
    "mode: .*; for other weights of words": lambda store: ask(store, "badefi", mode="hybrid"),
}


@pytest.mark.parametrize("message", NONSENSE)
def test_what_makes_no_sense_is_refused_and_changes_nothing(store, nodes, message):
    with pytest.raises(ValueError, match=message):
        NONSENSE[message](store)
    assert store.get_nodes() == nodes


# The embedding


@pytest.fixture
def embedding(fitted):
    return UECEmbedding(uec=fitted)


def test_passages_and_queries_get_the_means_of_their_role(embedding, fitted, texts):
    passages = np.array(embedding.get_text_embedding_batch(texts), dtype=np.float32)
    query = np.array(embedding.get_query_embedding(texts[0]), dtype=np.float32)
    np.testing.assert_allclose(passages, fitted.embed(texts, "passage").mean, atol=1e-6)
    np.testing.assert_allclose(query, fitted.embed(texts[:1], "query").mean[0], atol=1e-6)
    assert not np.allclose(passages[0], query)
    assert {type(number) for number in embedding.get_query_embedding("lumane")} == {float}


def test_it_is_made_again_from_its_dict_and_its_ensemble(fitted):
    data = json.loads(json.dumps(UECEmbedding(uec=fitted, embed_batch_size=3).to_dict()))
    assert data["uec"] == fitted.fingerprint
    back = UECEmbedding.from_dict(data, uec=fitted)
    assert back.uec is fitted
    assert back.embed_batch_size == 3
    with pytest.raises(ValueError, match=r"uec: .* as in from_dict\(data, uec=\.\.\.\)"):
        UECEmbedding.from_dict(data)


def test_what_is_pickled_or_copied_is_whole_or_refused(nodes, texts):
    uec = UEC([noise])  # pickle finds its encoder by name
    embedding, store = UECEmbedding(uec=uec, embed_batch_size=7), UECVectorStore(uec)
    store.add(nodes)
    back = pickle.loads(pickle.dumps(embedding))
    assert back.get_text_embedding(texts[0]) == embedding.get_text_embedding(texts[0])
    assert (back.embed_batch_size, back.model_name) == (7, embedding.model_name)
    assert ask(copy.deepcopy(store), texts[3]) == ask(store, texts[3])
    assert ask(pickle.loads(pickle.dumps(store)), texts[3]) == ask(store, texts[3])
