"""A framework's own reranker in front of the gate: its order is shown, and the gate decides."""

import numpy as np
import pytest
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_classic.retrievers.document_compressors import CrossEncoderReranker
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import TextNode

from tests.helpers import bag_of_words, data_of
from uec_rag import UEC, Gate
from uec_rag.confidence.risk import conformal_threshold
from uec_rag.langchain import UECGate, UECRetriever
from uec_rag.llama_index import UECGatePostprocessor
from uec_rag.llama_index import UECRetriever as LlamaIndexRetriever
from uec_rag.llama_index.gate import NOTICE

GATES = [(0.0, "answer"), (1.0, "abstain")]


class ShortestFirst(BaseCrossEncoder):
    def score(self, text_pairs):
        return [-float(sum(map(ord, passage))) for _, passage in text_pairs]


class ShortestNodesFirst(BaseNodePostprocessor):
    def _postprocess_nodes(self, nodes, query_bundle=None):
        for hit in nodes:
            [hit.score] = ShortestFirst().score([(query_bundle.query_str, hit.text)])
        return sorted(nodes, key=lambda hit: -hit.score)[:3]


@pytest.fixture(scope="module")
def uec(fit_pairs):
    return UEC([bag_of_words(16, "a"), bag_of_words(10, "b", seed=1)]).fit(fit_pairs)


def reranked(texts):
    """The first three of some texts in the order of the rerankers."""
    scores = ShortestFirst().score([("", text) for text in texts])
    return [text for _, text in sorted(zip(scores, texts, strict=True), reverse=True)][:3]


@pytest.mark.parametrize(("threshold", "action"), GATES)
def test_a_reranker_of_langchain(uec, texts, queries, threshold, action):
    retriever = UECRetriever.from_texts(texts, uec, k=6)
    compressor = CrossEncoderReranker(model=ShortestFirst(), top_n=3)
    reranker = ContextualCompressionRetriever(base_retriever=retriever, base_compressor=compressor)
    gate = UECGate(retriever=reranker, gate=Gate(threshold, clarify_from=1.0))
    for query in queries[:3]:
        found, documents = gate.invoke(query), retriever.invoke(query)
        assert found["decision"] == action
        relevance = [document.metadata["uec_relevance"] for document in found["documents"]]
        most = documents[0].metadata["uec_confidence"]
        assert found["confidence"] == pytest.approx(min(most, sum(relevance)))
        shown = [document.page_content for document in found["documents"] or found["candidates"]]
        assert shown == reranked([document.page_content for document in documents])


@pytest.mark.parametrize(("threshold", "action"), GATES)
def test_a_reranker_of_llama_index(uec, texts, queries, threshold, action):
    retriever = LlamaIndexRetriever.from_texts(texts, uec, similarity_top_k=6)
    gate = UECGatePostprocessor(gate=Gate(threshold, clarify_from=1.0))
    for query in queries[:3]:
        nodes = retriever.retrieve(query)
        expected = reranked([node.text for node in nodes])
        nodes = ShortestNodesFirst().postprocess_nodes(nodes, query_str=query)
        shown = gate.postprocess_nodes(nodes, query_str=query)
        if action == "answer":
            assert [node.text for node in shown] == expected
        else:
            assert [node.node_id for node in shown] == [NOTICE]


@pytest.mark.parametrize("framework", ["LangChain", "LlamaIndex"])
async def test_hits_of_any_retriever_are_judged_in_its_order(uec, texts, queries, framework):
    """Asked for six, it is judged by thirty; a question about nothing is not answered."""
    if framework == "LangChain":
        store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
        theirs = store.from_texts(texts, store.embedding).as_retriever(search_kwargs={"k": 30})
        gate = UECGate(retriever=theirs, embedding=uec)
        for query in queries[:3]:
            found, again = gate.invoke(query), await gate.ainvoke(query)
            assert found["documents"] == again["documents"]
            shown = [document.page_content for document in found["documents"]]
            assert shown == [document.page_content for document in theirs.invoke(query)]
        theirs.search_kwargs = {"k": 2}
        few = UECGate(retriever=theirs, embedding=uec).invoke(query)
        assert len(few["documents"]) == 2
        assert few["confidence"] == found["confidence"]
        with pytest.raises(ValueError, match="with embedding=, any retriever is judged"):
            UECGate(retriever=theirs).invoke(query)
        return
    nodes = [TextNode(text=text, id_=f"n{at}") for at, text in enumerate(texts)]
    theirs = VectorStoreIndex(nodes, embed_model=MockEmbedding(8)).as_retriever(similarity_top_k=30)
    for threshold, action in GATES:
        gate = UECGatePostprocessor(gate=Gate(threshold), embedding=uec)
        found = theirs.retrieve(queries[0])
        shown = gate.postprocess_nodes(found, query_str=queries[0])
        again = await gate.apostprocess_nodes(found, query_str=queries[0])
        assert [node.text for node in shown] == [node.text for node in again]
        ids = [node.node_id for node in found]
        assert [node.node_id for node in shown] == (ids if action == "answer" else [NOTICE])


WARRANTY = "How long is the warranty on lamps?"


def left(hits):
    """All but what answers `WARRANTY`."""
    return [hit for hit in hits if "warranty" not in text_of(hit)]


def text_of(hit):
    return getattr(hit, "page_content", None) or hit.text


def split(hits):
    """The first two hits, each in several parts."""
    return [
        Document(part, metadata={**hit.metadata})
        for hit in hits[:2]
        for part in text_of(hit).split(" ", 3)
    ]


@pytest.mark.parametrize(
    ("step", "action"),
    [
        (left, "abstain"),
        (lambda hits: hits[::-1], "answer"),
        (lambda hits: hits[:1], "answer"),
        (split, "answer"),
        (lambda hits: [], "abstain"),
    ],
    ids=["the answer is dropped", "reversed", "the first", "in parts", "nothing is left"],
)
def test_the_decision_is_about_the_hits_that_are_left(step, action):
    retriever = UECRetriever.from_texts(data_of("shop.json")["texts"], UEC(), k=6)
    gate = UECGate(retriever=retriever | RunnableLambda(step))
    found = gate.invoke(WARRANTY)
    assert found["decision"] == action
    assert (found["confidence"] > 0.9) == (action == "answer")
    nodes = LlamaIndexRetriever(retriever.index, 6).retrieve(WARRANTY)
    if step is not split:
        [first, *_] = UECGatePostprocessor().postprocess_nodes(step(nodes)) or [None]
        assert (first is not None and first.node_id != NOTICE) == (action == "answer")


def test_parts_of_a_hit_are_no_further_hits_for_a_guarantee():
    retriever = UECRetriever.from_texts(data_of("shop.json")["texts"], UEC(), k=4)
    guarantee = conformal_threshold(np.linspace(0, 1, 200), np.arange(200) < 5, 0.1)
    promised = Gate(0.3, guarantee=guarantee)
    with pytest.warns(UserWarning, match="fewer of them are left, here 2"):
        found = UECGate(retriever=retriever | RunnableLambda(split), gate=promised).invoke(WARRANTY)
    assert found["decision"] == "abstain"
