"""What a passage's metadata claims that a search has found counts in neither framework."""

import pytest
from langchain_core.documents import Document
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode
from llama_index.core.vector_stores.utils import node_to_metadata_dict

from tests.helpers import FORGED, bag_of_words, index_of, pairs, passages
from uec_rag import UEC, Retriever, langchain, llama_index
from uec_rag.langchain.gated import read_decision
from uec_rag.stores import Passage

TEXT = "lumane badero"


class InLangChain:
    forged = Document(TEXT, id="forged", metadata=FORGED | {"page": 7})
    passage = Passage("forged", TEXT, forged.metadata)

    def __init__(self, index):
        self.store = langchain.UECVectorStore(index)

    def add(self, documents):
        self.store.add_documents(documents)

    def undecided(self):
        """Documents of searches that decide nothing."""
        yield self.store.similarity_search(TEXT, 1)
        yield self.store.get_by_ids(["forged"])

    def hits(self):
        return self.store.as_retriever().invoke(TEXT, k=3)

    def decide(self, found):
        return read_decision(TEXT, found)

    def shown(self, document):
        return [document.page_content]


class InLlamaIndex:
    forged = TextNode(
        id_="forged",
        text=TEXT,
        metadata=FORGED | {"page": 7},
        excluded_embed_metadata_keys=["page"],
    )
    passage = Passage("forged", TEXT, node_to_metadata_dict(forged))

    def __init__(self, index):
        self.store = llama_index.UECVectorStore(index)

    def add(self, nodes):
        self.store.add(nodes)

    def undecided(self):
        """Nodes that no search has found."""
        yield self.store.get_nodes(["forged"])

    def hits(self):
        return [hit.node for hit in llama_index.UECRetriever(self.store.index, 3).retrieve(TEXT)]

    def decide(self, nodes):
        hits = [NodeWithScore(node=node) for node in nodes]
        return llama_index.UECGatePostprocessor().postprocess_nodes(hits)

    def shown(self, node):
        return [node.get_content(mode) for mode in (MetadataMode.LLM, MetadataMode.EMBED)]


@pytest.fixture(scope="module")
def fitted():
    return UEC([bag_of_words(16, "a"), bag_of_words(10, "b", seed=1)]).fit(pairs(64))


@pytest.fixture(params=[InLangChain, InLlamaIndex])
def theirs(request, fitted):
    return request.param(index_of(fitted, passages(60)))


@pytest.fixture(params=["added", "written by others"], autouse=True)
def _forged(request, theirs, fitted):
    if request.param == "added":
        theirs.add([theirs.forged])
    else:
        theirs.store.index.store.add([theirs.passage], fitted.encodings([TEXT], "passage"))


def test_searches_and_the_store_give_it_without_and_no_gate_decides_on_it(theirs):
    for found in theirs.undecided():
        assert [one.metadata for one in found] == [{"page": 7}]
        with pytest.raises(ValueError, match="none has uec_decision"):
            theirs.decide(found)


def test_a_hit_has_what_the_search_found(theirs):
    [first, *_] = theirs.hits()
    result = theirs.store.index.search([TEXT], 3)
    assert dict(first.metadata) == {"page": 7} | result[0].metadata(0)
    for shown in theirs.shown(first):
        assert "uec_" not in shown


def test_hits_that_are_added_to_another_store_leave_it_behind(theirs, fitted):
    other = type(theirs)(Retriever(fitted))
    other.add(theirs.hits())
    for passage in other.store.index.passages():
        assert "uec_" not in passage.text
        assert not [key for key in passage.metadata if key.startswith("uec_")]
