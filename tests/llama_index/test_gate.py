import pytest
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.schema import NodeWithScore, TextNode

from tests.llama_index.conftest import Saying
from tests.llama_index.decisions import judge
from uec_rag.confidence.decision import Decision
from uec_rag.confidence.languages import SENTENCES
from uec_rag.confidence.readings import Reading
from uec_rag.llama_index import UECGateEvent, UECGatePostprocessor
from uec_rag.llama_index.gate import NOTICE
from uec_rag.retrieval.gate import Gate
from uec_rag.retrieval.result import HitMetadata

TWO = (Reading("the printer", ("a",), 0.5), Reading("the scanner", ("c",), 0.4))


def found(decision, confidence, *names, readings=()):
    """Nodes as a retriever delivers them."""
    known = Decision(decision, f"because of {confidence}", tuple(readings), confidence)
    told = {"decision": decision, "confidence": confidence, "reason": known.reason}
    nodes = [TextNode(id_=name, text=name) for name in names]
    for node in nodes:
        fields = {f"uec_{key}": value for key, value in told.items()}
        node.__dict__["metadata"] = HitMetadata(fields, known)  # as it is
    return [NodeWithScore(node=node, score=0.5) for node in nodes]


OTHER = NodeWithScore(node=TextNode(id_="other", text="found by words"), score=9.0)


@pytest.mark.parametrize(
    ("nodes", "gate", "through"),
    [
        (found("answer", 0.9, "a", "b"), None, ["a", "b"]),
        (found("abstain", 0.1, "a", "b"), None, [NOTICE]),
        (found("clarify", 0.4, "a", "b", "c", readings=TWO), None, [NOTICE, "a", "c"]),
        (found("clarify", 0.4, "b", readings=TWO), None, [NOTICE, "b"]),  # no reading is left
        (found("answer", 0.9, "a"), Gate(0.95), [NOTICE]),
        (found("abstain", 0.99, "a", "b"), Gate(0.95), ["a", "b"]),
        ([OTHER, *found("answer", 0.8, "a")], None, ["other", "a"]),
        ([OTHER, *found("abstain", 0.1, "a")], None, [NOTICE]),
    ],
)
def test_the_decision_says_which_nodes_come_through(nodes, gate, through):
    left = UECGatePostprocessor(gate=gate).postprocess_nodes(nodes)
    assert [node.node_id for node in left] == through


def test_of_several_queries_the_surest_counts():
    nodes = [*found("abstain", 0.1, "a"), *found("answer", 0.8, "b"), *found("clarify", 0.4, "c")]
    assert judge(nodes) == Decision("answer", "because of 0.8", ())
    assert judge(nodes).confidence == 0.8


def test_nodes_without_any_confidence_are_refused_rather_than_let_through():
    with pytest.raises(ValueError, match=r"none has uec_decision.*embed_model=UECEmbedding"):
        UECGatePostprocessor().postprocess_nodes([NodeWithScore(node=TextNode(text="a"))])


def test_no_nodes_are_nothing_to_answer_from():
    [told] = UECGatePostprocessor().postprocess_nodes([])
    assert told.text.endswith(f'Reply with this alone: "{SENTENCES["nothing_found"]}"')
    assert judge([]) == Decision("abstain", SENTENCES["nothing_found"])
    assert judge([]).in_corpus == 0


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
