"""A decision is the same after its hits were written and read again."""

import json
import pickle

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from llama_index.core.schema import NodeWithScore, TextNode

from tests.helpers import VAGUE, namesakes
from uec_rag import UEC, Advice, Gate
from uec_rag.advice.decision_models import Case
from uec_rag.advice.opinion import apply_opinion, shipped_opinion_model
from uec_rag.confidence.decision import decide_one
from uec_rag.confidence.readings import Reading
from uec_rag.langchain import UECGate, UECRetriever, retrieval_node
from uec_rag.llama_index import UECGatePostprocessor
from uec_rag.llama_index import UECRetriever as LlamaIndexRetriever
from uec_rag.retrieval.metadata import surest_decision

CHECKPOINT = JsonPlusSerializer()
WAYS = {
    "JSON": lambda value: json.loads(json.dumps(value, allow_nan=False)),
    "msgpack": lambda value: msgpack.unpackb(msgpack.packb(value)),
    "checkpoint": lambda value: CHECKPOINT.loads_typed(CHECKPOINT.dumps_typed(value)),
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
}
LOANS = [
    "The car loan lasts five years. Its interest is fixed.",
    "The boat loan lasts seven years.",
    "The home loan lasts thirty years.",
    "The student loan lasts ten years.",
    "Apply at the counter with a passport.",
]
SOURCES = [{"source": f"{name}.txt"} for name in ("car", "boat", "home", "student", "apply")]
QUESTIONS = ["How long does the loan last?", "How long does the boat loan last?", VAGUE, "Hamlet?"]
GATES = [Gate(0.5), Gate(0.01), Gate(0.99), Gate(0.5, advisor=lambda *_: Advice("clarify"))]


@pytest.fixture(scope="module")
def loans():
    texts, titled = namesakes()
    return UECRetriever.from_texts([*LOANS, *texts], UEC(["bm25"]), [*SOURCES, *titled], k=6)


def through(way, documents):
    """Documents after their metadata, or they themselves, went a way."""
    if way in ("checkpoint", "pickle"):
        return WAYS[way](documents)
    kept = [(document.id, document.page_content, document.metadata) for document in documents]
    return [Document(id=id_, page_content=text, metadata=m) for id_, text, m in WAYS[way](kept)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("gate", GATES, ids=["0.5", "0.01", "0.99", "advised"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_gate_decides_the_same_on_hits_that_were_stored(loans, question, gate, way):
    documents = loans.invoke(question)
    asked = [
        UECGate(retriever=RunnableLambda(lambda _, found=found: found), gate=gate).invoke(question)
        for found in (documents, through(way, loans.invoke(question)))
    ]
    for name in ("decision", "reason", "reason_code", "readings", "confidence"):
        assert asked[0][name] == asked[1][name], name
    here, there = ([document.id for document in one["candidates"]] for one in asked)
    assert here == there
    handed_on = through(way, asked[0]["documents"])  # the gate's decision goes on, too
    node = retrieval_node(RunnableLambda(lambda _: handed_on))
    assert node.invoke({"question": question})["readings"] == asked[0]["readings"]


def test_these_questions_get_all_decisions_and_readings(loans):
    results = loans.index.search(QUESTIONS)
    assert {decision.action for decision in results.decisions} == {"answer", "clarify", "abstain"}
    assert {1, 3} <= {len(decision.readings) for decision in results.decisions}


def test_a_postprocessor_decides_the_same_on_nodes_that_were_stored(loans):
    for question in QUESTIONS:
        nodes = LlamaIndexRetriever(loans.index, 5).retrieve(question)
        stored = [NodeWithScore(node=TextNode.from_json(hit.node.to_json())) for hit in nodes]
        for gate in GATES:
            gated = UECGatePostprocessor(gate=gate)
            here, there = (
                [
                    (node.node_id, node.text, node.metadata)
                    for node in gated.postprocess_nodes(found, query_str=question)
                ]
                for found in (nodes, stored)
            )
            assert here == there


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
shares = st.floats(0, 1)
labels = texts.map(lambda text: " ".join(text.split()) or "a").filter(str.isprintable)
readings = st.lists(st.builds(Reading, labels, st.lists(texts).map(tuple), shares), max_size=4)
decisions = st.builds(
    decide_one,
    shares,
    shares,
    readings.map(tuple),
    threshold=shares | st.just(float("inf")),
    in_corpus=shares,
    language=st.sampled_from(["en", "de", "ja", "ar"]),
)
advice = st.builds(Advice, st.sampled_from(["answer", "clarify", "no"]), st.tuples(labels, labels))


@given(decisions, advice | st.none(), st.sampled_from([*WAYS]), shares)
def test_any_decision_is_read_as_it_was_told(decision, said, way, threshold):
    if said is not None:
        opinion = said.as_opinion(Case("which?", []))
        decision = apply_opinion(decision, opinion, shipped_opinion_model(), 0.5)
    told = {f"uec_{key}": value for key, value in decision.findings().items()} | {"page": 7}
    back = surest_decision([WAYS[way](told)])
    assert back.findings() == decision.findings()
    gate = Gate(threshold)
    assert gate.decide_again(back) == gate.decide_again(decision)
    assert back == decision
