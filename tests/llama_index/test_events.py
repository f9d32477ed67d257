import pytest
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery

from uec_rag.llama_index import (
    UECEmbedding,
    UECGateEvent,
    UECGatePostprocessor,
    UECRetrievalEvent,
    UECRetriever,
    UECVectorStore,
)


class Recorder(BaseEventHandler):
    events: list

    def handle(self, event, **kwargs):
        self.events.append(event)


@pytest.fixture
def events():
    """Everything that LlamaIndex's root dispatcher hears."""
    recorder = Recorder(events=[])
    root = get_dispatcher()
    root.add_event_handler(recorder)
    yield recorder.events
    root.event_handlers.remove(recorder)


def ours(events, kind=UECRetrievalEvent):
    return [event for event in events if isinstance(event, kind)]


def test_a_retrieval_tells_the_scores_and_the_decision(events, fitted, nodes, question):
    retriever = UECRetriever.from_nodes(nodes, fitted, 3)
    retriever.retrieve(question)
    result = retriever.retriever.search([question], 3)
    (event,) = ours(events)
    assert event.query == question
    assert event.node_ids == result.ids[0]
    for name in ("scores", "mu", "sigma2", "relevance"):
        assert getattr(event, name) == getattr(result, name)[0].tolist()
    assert list(event.coefficients) == ["small", "large"]
    assert list(event.coefficients.values()) == result.shares[0].tolist()
    assert event.confidence == pytest.approx(float(result.confidence[0]))
    assert event.in_corpus == pytest.approx(float(result.in_corpus[0]))
    assert (event.decision, event.reason) == (
        result.decisions[0].action,
        result.decisions[0].reason,
    )


async def test_it_comes_between_llama_index_own_events_of_the_retrieval(
    events, fitted, nodes, question
):
    await UECRetriever.from_nodes(nodes, fitted, 3).aretrieve(question)
    names = [event.class_name() for event in events]
    assert names == ["RetrievalStartEvent", "UECRetrievalEvent", "RetrievalEndEvent"]
    assert events[1].span_id == events[0].span_id


def test_a_retrieval_without_hits_tells_that_too(events, fitted, question):
    UECRetriever.from_texts([], fitted).retrieve(question)
    (event,) = ours(events)
    assert event.node_ids == event.scores == []
    assert event.decision == "abstain"


def test_the_store_tells_what_it_knows(events, fitted, nodes, question):
    store = UECVectorStore(fitted)
    store.add(nodes)
    found = store.query(VectorStoreQuery(query_str=question, similarity_top_k=2))
    vector = UECEmbedding(uec=fitted).get_query_embedding(question)
    store.query(VectorStoreQuery(query_embedding=vector, similarity_top_k=2))
    by_text, by_vector = ours(events)
    assert by_text.node_ids == by_vector.node_ids == found.ids
    assert by_text.scores == found.similarities
    assert by_text.confidence is not None
    assert by_vector.confidence is None


def test_a_gate_tells_its_verdict(events):
    known = {
        "uec_decision": "answer",
        "uec_reason": "The documents seem to answer this.",
        "uec_confidence": 0.6,
        "uec_in_corpus": 0.7,
        "uec_readings": [
            {"label": "The printer", "ids": ["a", "b"], "probability": 0.5},
            {"label": "The scanner", "ids": ["c"], "probability": 0.4},
        ],
    }
    found = [
        NodeWithScore(node=TextNode(id_=name, text=name, metadata=known), score=0.5)
        for name in "abcd"
    ]
    UECGatePostprocessor(gate=lambda confidence, decision: "clarify").postprocess_nodes(
        found, query_str="How do I clean it?"
    )
    (event,) = ours(events, UECGateEvent)
    assert (event.query, event.decision) == ("How do I clean it?", "clarify")
    assert event.candidates == ["a", "b", "c"]
    assert (event.confidence, event.in_corpus) == (0.6, 0.7)


def test_events_can_be_written_as_json(events, fitted, nodes, question):
    UECRetriever.from_nodes(nodes, fitted, 3).retrieve(question)
    (event,) = ours(events)
    assert UECRetrievalEvent.model_validate_json(event.model_dump_json()) == event
    assert event.model_dump()["class_name"] == "UECRetrievalEvent"
