"""Nodes of another index that were found before, and what has changed of them since."""

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

from uec_rag.llama_index import UECRetriever, nodes

QUESTION = "which tram stops at platform 3?"


def index_of_trams():
    texts = [f"Tram {n} stops at platform {n % 5}." for n in range(40)]
    trams = [TextNode(text=t, id_=f"t{n}", metadata={"line": 1}) for n, t in enumerate(texts)]
    return VectorStoreIndex(trams, embed_model=MockEmbedding(embed_dim=8))


def over(index):
    return UECRetriever.over(index, similarity_top_k=40, fit=False)


def contents(retriever):
    hits = retriever.retrieve(QUESTION)
    return {hit.node.node_id: repr(hit.node.to_dict()) for hit in hits}


def another_text(node):
    node.text = "Tram 3 waits at platform 3 today."


def another_kind_of_value(node):
    node.metadata["line"] = True


def nested_value(node):
    node.metadata["stops"] = ["harbour"]


def hidden_key(node):
    node.excluded_embed_metadata_keys = ["line"]


def another_source(node):
    node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="timetable")


@pytest.mark.parametrize(
    "change", [another_text, another_kind_of_value, nested_value, hidden_key, another_source]
)
def test_what_has_changed_in_an_index_is_read_again(change):
    index = index_of_trams()
    retriever = over(index)
    before = contents(retriever)
    node = index.docstore.get_node("t3")
    change(node)
    index.docstore.add_documents([node])
    after = contents(retriever)
    assert after["t3"] != before["t3"]
    assert after == contents(over(index))


def test_what_a_caller_changes_in_hits_is_changed_nowhere_else():
    retriever = over(index_of_trams())
    before = contents(retriever)
    for hit in retriever.retrieve(QUESTION):
        hit.node.metadata["line"] = "mine"
        hit.node.text = "Nothing."
    assert contents(retriever) == before


def test_nodes_are_converted_once(monkeypatch):
    retriever, conversions = over(index_of_trams()), []
    retriever.retrieve(QUESTION)
    convert = nodes.node_to_metadata_dict
    monkeypatch.setattr(
        nodes, "node_to_metadata_dict", lambda node: (conversions.append(node), convert(node))[1]
    )
    assert len(retriever.retrieve(QUESTION)) == 40
    assert not conversions
