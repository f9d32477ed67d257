from dataclasses import asdict

import pytest
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, TextNode

from tests.llama_index.conftest import Saying
from tests.llama_index.decisions import judge
from uec_rag.confidence.decision import SENTENCES, Decision
from uec_rag.confidence.readings import Reading
from uec_rag.llama_index import UECGateEvent, UECGatePostprocessor
from uec_rag.llama_index.gate import NOTICE
from uec_rag.retrieval.gate import Gate

TWO = (Reading("the printer", ("a",), 0.5), Reading("the scanner", ("c",), 0.4))


def found(decision, confidence, *names, readings=()):
    """Nodes as a retriever delivers them."""
    metadata = {
        "uec_decision": decision,
        "uec_confidence": confidence,
        "uec_reason": f"because of {confidence}",
        "uec_readings": [asdict(reading) for reading in readings],
    }
    return [
        NodeWithScore(node=TextNode(id_=name, text=name, metadata=dict(metadata)), score=0.5)
        for name in names
    ]


def passed(gate, nodes):
    """Names of the nodes that come through, a notice first unless it is to be answered."""
    return [node.node_id for node in gate.postprocess_nodes(nodes)]


def test_nodes_come_through_where_the_decision_is_to_answer():
    nodes = found("answer", 0.9, "a", "b")
    assert UECGatePostprocessor().postprocess_nodes(nodes) == nodes


def test_nothing_comes_through_where_it_is_to_abstain():
    assert passed(UECGatePostprocessor(), found("abstain", 0.1, "a", "b")) == [NOTICE]


def test_the_nodes_of_the_readings_come_through_where_it_is_to_clarify():
    nodes = found("clarify", 0.4, "a", "b", "c", readings=TWO)
    assert passed(UECGatePostprocessor(), nodes) == [NOTICE, "a", "c"]


def test_all_come_through_where_none_of_the_readings_is_left():
    nodes = found("clarify", 0.4, "b", readings=TWO)
    assert passed(UECGatePostprocessor(), nodes) == [NOTICE, "b"]


def test_a_threshold_has_the_last_word():
    assert passed(UECGatePostprocessor(gate=0.95), found("answer", 0.9, "a")) == [NOTICE]
    sure = found("abstain", 0.99, "a", "b")
    assert UECGatePostprocessor(gate=0.95).postprocess_nodes(sure) == sure


def test_of_several_queries_the_surest_counts():
    nodes = [*found("abstain", 0.1, "a"), *found("answer", 0.8, "b"), *found("clarify", 0.4, "c")]
    assert judge(nodes) == Decision("answer", "because of 0.8", ())
    assert judge(nodes).confidence == 0.8


def test_nodes_of_other_retrievers_come_along_but_have_no_say():
    other = NodeWithScore(node=TextNode(text="found by words"), score=9.0)
    nodes = [other, *found("answer", 0.8, "a")]
    assert UECGatePostprocessor().postprocess_nodes(nodes) == nodes
    assert passed(UECGatePostprocessor(), [other, *found("abstain", 0.1, "a")]) == [NOTICE]


def test_nodes_without_any_confidence_are_refused_rather_than_let_through():
    with pytest.raises(ValueError, match=r"none has uec_decision.*embed_model=UECEmbedding"):
        UECGatePostprocessor().postprocess_nodes([NodeWithScore(node=TextNode(text="a"))])


def test_no_nodes_are_nothing_to_answer_from():
    [told] = UECGatePostprocessor().postprocess_nodes([])
    assert told.text.endswith(f'Reply with this alone: "{SENTENCES["nothing_found"]}"')
    assert judge([]) == Decision("abstain", SENTENCES["nothing_found"])
    assert judge([]).in_corpus == 0


def test_it_is_a_llama_index_component():
    assert isinstance(UECGatePostprocessor(), BaseNodePostprocessor)
    assert UECGatePostprocessor().to_dict()["class_name"] == "UECGatePostprocessor"


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ('{"verdict": "answer"}', "answer"),
        ('{"verdict": "no"}', "abstain"),
        ("Well ...", "abstain"),
    ],
)
def test_a_language_model_says_if_the_passages_suffice(reply, action):
    nodes = found("abstain", 0.4, "a", "b")
    processor = UECGatePostprocessor(advisor=Saying(reply))
    left = [one.node_id for one in processor.postprocess_nodes(nodes, query_str="?")]
    assert left == (["a", "b"] if action == "answer" else [NOTICE])
    restored = UECGatePostprocessor(**processor.model_dump())
    assert (restored.gate, restored.advisor) == (Gate(), None)


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
    nodes = found("clarify", 0.6, *"abcd", readings=TWO)
    UECGatePostprocessor().postprocess_nodes(nodes, query_str="How do I clean it?")
    (event,) = [one for one in events if isinstance(one, UECGateEvent)]
    assert UECGateEvent.model_validate_json(event.model_dump_json()) == event
    assert (event.query, event.decision) == ("How do I clean it?", "clarify")
    assert event.candidates == ["a", "c"]
    assert event.confidence == 0.6
