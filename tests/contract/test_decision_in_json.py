"""A decision is the same after its hits were written and read again."""

import json
import pickle
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_classic.retrievers.document_compressors import EmbeddingsFilter
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode

from tests.helpers import VAGUE, data_of, decide_on, namesakes
from uec_rag import UEC, Advice, Gate
from uec_rag.gates.decision_models import Case
from uec_rag.gates.opinion import apply_opinion
from uec_rag.langchain import UECGate, UECRetriever, retrieval_node
from uec_rag.llama_index import UECGatePostprocessor
from uec_rag.llama_index import UECRetriever as LlamaIndexRetriever
from uec_rag.questions.replies import Reading
from uec_rag.retrieval.results import surest_decision

CHECKPOINT = JsonPlusSerializer()
WAYS = {
    "JSON": lambda value: json.loads(json.dumps(value, allow_nan=False)),
    "msgpack": lambda value: msgpack.unpackb(msgpack.packb(value)),
    "checkpoint": lambda value: CHECKPOINT.loads_typed(CHECKPOINT.dumps_typed(value)),
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
}
LOANS = data_of("decision_in_json.json")
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
    decide_on,
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
        decision = apply_opinion(decision, opinion)
    told = {f"uec_{key}": value for key, value in decision.findings().items()} | {"page": 7}
    back = surest_decision([WAYS[way](told)])
    assert back.findings() == decision.findings()
    gate = Gate(threshold)
    assert gate.decide_again(back) == gate.decide_again(decision)
    assert back == decision


def reranked(hits, metadata):
    """Other hits, as a reranker hands them on, which notes its own numbers."""
    return [
        Document(hit.page_content, id=hit.id, metadata={**hit.metadata, **metadata}) for hit in hits
    ]


OF_RERANKERS = [
    ({"relevance_score": np.float32(0.5), "page": np.int64(3)}, [0.5, 3]),
    (
        {"a": np.float64(0.25), "b": [np.bool_(True), {"c": np.arange(2)}]},
        [0.25, [True, {"c": [0, 1]}]],
    ),
    ({"a": float("inf"), "b": np.float32("nan")}, [None, None]),
    ({"a": {"x"}, "b": 2**63, "c": 2**70}, [["x"], 2**63, str(2**70)]),
    ({"a": datetime(2026, 1, 31), "b": Decimal("1.5")}, ["2026-01-31T00:00:00", 1.5]),
    ({"a": Path("b.txt"), "b": [Document("part", metadata={"n": np.int8(1)})]}, None),
]


@pytest.mark.parametrize(("given", "told"), OF_RERANKERS)
@pytest.mark.parametrize("way", ["JSON", "checkpoint"])
def test_what_a_gate_hands_on_has_json_values_whatever_a_step_before_it_notes(
    loans, given, told, way
):
    step = RunnableLambda(lambda hits: reranked(hits, given))
    found = UECGate(retriever=loans | step).invoke(QUESTIONS[1])
    nodes = LlamaIndexRetriever(loans.index).retrieve(QUESTIONS[1])
    for node in nodes:
        node.node.metadata.update(given)
        node.score = np.float32(node.score)
    shown = UECGatePostprocessor().postprocess_nodes(nodes, query_str=QUESTIONS[1])
    assert type(shown[0].score) is float
    for metadata in (found["documents"][0].metadata, shown[0].metadata):
        kept = WAYS[way](metadata)
        assert kept == metadata
        assert kept["uec_decision"] == "answer"
        assert told is None or [kept[name] for name in given] == told


def over_langchain(texts, metadatas):
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_texts(texts, metadatas)
    return UECGate(retriever=UECRetriever.over(store, fit=False)).invoke(texts[0])["documents"]


def over_llama_index(texts, metadatas):
    class Theirs(BaseRetriever):  # an index of LlamaIndex refuses such numbers itself
        def _retrieve(self, query_bundle):
            nodes = (TextNode(text=t, metadata=m) for t, m in zip(texts, metadatas, strict=True))
            return [NodeWithScore(node=node, score=0.5) for node in nodes]

    return LlamaIndexRetriever.over(Theirs(), UEC(["bm25"]), fit=False).retrieve(texts[0])


@pytest.mark.parametrize("over", [over_langchain, over_llama_index])
def test_hits_of_another_store_have_python_numbers(over):
    numbers = {"year": np.int64(2026), "weight": np.float32(0.5)}
    texts = [f"Loan {number} lasts {number} years." for number in range(30)]
    first = over(texts, [numbers] * len(texts))[0]
    assert json.loads(json.dumps(first.metadata))["year"] == 2026
    assert type(first.metadata["weight"]) is float


def test_documents_of_another_class_are_handed_on_as_plain_ones(loans):
    compressor = EmbeddingsFilter(
        embeddings=DeterministicFakeEmbedding(size=8), similarity_threshold=-1.0
    )
    retriever = ContextualCompressionRetriever(base_compressor=compressor, base_retriever=loans)
    for found in (
        UECGate(retriever=retriever).invoke(QUESTIONS[1]),
        retrieval_node(retriever).invoke({"question": QUESTIONS[1]}),
    ):
        kept = WAYS["checkpoint"](found)
        assert {type(one) for one in (*found["documents"], *kept["documents"])} == {Document}
        assert kept["documents"] == found["documents"]


def test_the_artifact_of_a_tool_is_read_the_same_before_and_after_a_checkpoint(loans):
    call = {"name": "x", "args": {"query": QUESTIONS[1]}, "id": "1", "type": "tool_call"}
    message = loans.as_tool().invoke(call)
    kept = WAYS["checkpoint"](message).artifact
    here, there = (
        [Document.model_validate(one) for one in artifact["documents"]]
        for artifact in (message.artifact, kept)
    )
    assert here == there
    assert kept["decision"] == "answer"
