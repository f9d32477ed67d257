import json

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.schema import NodeWithScore, TextNode

from tests.llama_index.decisions import judge
from uec_rag.confidence.decision import Decision
from uec_rag.gates.gate import Gate
from uec_rag.llama_index import UECGatePostprocessor, UECQueryBundle, UECQueryEngine
from uec_rag.llama_index.gate import NOTICE, retriever_tool
from uec_rag.questions.languages import SENTENCES
from uec_rag.questions.replies import Reading
from uec_rag.retrieval.results import tell

TWO = (Reading("the printer", ("a",), 0.5), Reading("the scanner", ("c",), 0.4))


def found(decision, confidence, *names, readings=()):
    """Nodes as a retriever delivers them."""
    evidence = {"readings": tuple(readings), "confidence": confidence}
    known = Decision(decision, f"because of {confidence}", **evidence)
    nodes = [TextNode(id_=name, text=name) for name in names]
    for node in nodes:
        tell(node.metadata, known)
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


def test_an_advisor_of_a_postprocessor_sees_the_turns_as_that_of_an_engine_does():
    asked, nodes = [], found("abstain", 0.4, "a")
    gate = Gate(advisor=lambda question, texts: asked.append(question))
    bundle = UECQueryBundle("And the scanner?", history=["How is the printer cleaned?"])
    UECGatePostprocessor(gate=gate).postprocess_nodes(nodes, bundle)
    UECQueryEngine.from_args(Told(nodes), MockLLM(), gate).query(bundle)
    assert asked == ["How is the printer cleaned?\nAnd the scanner?"] * 2


def test_no_nodes_are_nothing_to_answer_from():
    [told] = UECGatePostprocessor().postprocess_nodes([])
    assert told.text.endswith(f'Reply with this alone: "{SENTENCES["nothing_found"]}"')
    assert judge([]) == Decision("abstain", SENTENCES["nothing_found"])
    assert judge([]).in_corpus == 0


class Told(BaseRetriever):
    """Finds nodes with a decision, whatever it is asked."""

    def __init__(self, nodes):
        super().__init__()
        self.nodes = nodes

    def _retrieve(self, query_bundle):
        return self.nodes


@pytest.mark.parametrize("action", ["answer", "clarify", "abstain"])
async def test_the_tool_says_the_decision_first_and_hands_a_program_the_rest(action):
    nodes = found(action, 0.7, "a", "b", readings=TWO)
    for node in nodes:
        node.metadata["file_path"] = "docs/a.md"
    tool = retriever_tool(Told(nodes))
    output, again = tool.call(query="How?"), await tool.acall(query="How?")
    assert output.content == again.content
    assert output.content.startswith(f"Decision: {action}. Reason: ")
    search = output.raw_output
    told = [search[key] for key in ("query", "decision", "confidence", "nodes")]
    assert told == ["How?", action, 0.7, nodes]
    assert bool(search["candidates"]) == (action == "clarify")
    shown = '[1] ("docs/a.md") "a"' in output.content
    assert shown == (action != "clarify")
    assert ('- "the printer"' in output.content) == (action == "clarify")


def test_no_gate_is_lost_on_the_way_through_json():
    data = json.loads(UECGatePostprocessor(gate=Gate(0.9)).to_json())
    with pytest.raises(ValueError, match=r"gate: .* as in from_dict\(data, gate=\.\.\.\)"):
        UECGatePostprocessor.from_dict(data)
    assert UECGatePostprocessor.from_dict(data, gate=Gate(0.8)).gate.threshold == 0.8
    plain = UECGatePostprocessor.from_json(UECGatePostprocessor().to_json())
    assert plain.gate is plain.embedding is None
