import pytest
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.schema import NodeWithScore, TextNode

from uec_rag.llama_index import (
    UECGateEvent,
    UECGatePostprocessor,
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
    (event,) = [one for one in events if isinstance(one, UECGateEvent)]
    assert UECGateEvent.model_validate_json(event.model_dump_json()) == event
    assert (event.query, event.decision) == ("How do I clean it?", "clarify")
    assert event.candidates == ["a", "b", "c"]
    assert (event.confidence, event.in_corpus) == (0.6, 0.7)
