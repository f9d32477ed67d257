import inspect

import pytest
from llama_index.core import Settings
from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload, LlamaDebugHandler
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine, TransformQueryEngine
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

from tests.llama_index.conftest import always, said_by
from uec_rag import Advice
from uec_rag.gates.gate import Gate
from uec_rag.llama_index import UECQueryBundle, UECQueryEngine, UECRetriever, retriever_tool

ANSWER = "text text text"


class CountingLLM(MockLLM):
    """Says "text text text" and counts how often it was asked."""

    calls: int = 0

    def __init__(self, **kwargs):
        super().__init__(max_tokens=3, **kwargs)

    def complete(self, *args, **kwargs):
        self.calls += 1
        return super().complete(*args, **kwargs)


@pytest.fixture
def llm():
    return CountingLLM()


@pytest.mark.parametrize("action", ["answer", "clarify", "abstain"])
async def test_the_decision_is_said_in_every_way_of_asking_and_only_an_answer_asks_the_llm(
    retriever, llm, question, action
):
    engine = UECQueryEngine.from_args(retriever, llm, gate=always(action))
    said, later = engine.query(question), await engine.aquery(question)
    known = said.metadata
    assert isinstance(later, Response)
    assert (str(later), later.metadata) == (str(said), known)
    assert known["uec_decision"] == action
    assert action != "answer" or known["n3"]["lang"] == "de"  # as without us
    texts = {"answer": ANSWER, "abstain": known["uec_reason"]}
    assert str(said) == texts.get(action, known["uec_clarifying_question"])
    assert all(reading["title"] in str(said) for reading in known["uec_readings"])
    shown = [] if action == "abstain" else [hit.node_id for hit in retriever.retrieve(question)]
    assert [node.node_id for node in said.source_nodes] == shown
    assert llm.calls == (2 if action == "answer" else 0)


def test_an_abstention_has_the_nodes_that_are_near_and_no_others(retriever, llm, question):
    gates = (Gate(0.9999), always("abstain"))
    engines = [UECQueryEngine.from_args(retriever, llm, gate=gate) for gate in gates]
    near, far = (engine.query(question) for engine in engines)
    told = [one.metadata["uec_reason_code"] for one in (near, far)]
    assert told == ["uncertain", "no_answer"]
    found = [[hit.node_id for hit in one.source_nodes] for one in (near, far)]
    assert found == [[hit.node_id for hit in retriever.retrieve(question)], []]
    assert llm.calls == 0


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
async def test_a_blank_question_is_none_and_not_one_that_nothing_is_found_for(
    retriever, llm, blank
):
    engine, tool = UECQueryEngine.from_args(retriever, llm), retriever_tool(retriever)
    told = [engine.query(blank), await engine.aquery(blank)]
    assert {one.metadata["uec_reason_code"] for one in told} == {"no_question"}
    assert tool.call(blank).raw_output["reason_code"] == "no_question"
    retriever.filters = MetadataFilters(filters=[MetadataFilter(key="lang", value="none")])
    assert engine.query("Is it?").metadata["uec_reason_code"] == "nothing_found"
    assert tool.call("Is it?").raw_output["reason_code"] == "nothing_found"


def test_in_a_chosen_reading_no_rewrite_is_retrieved(retriever, llm, question):
    gate = Gate(
        doubt=(0.0, 1.0), rewritten=0.0, advisor=lambda *_: Advice("no", rewrite=f"{question}!!")
    )
    engine = UECQueryEngine.from_args(retriever, llm, gate=gate)
    free, chosen = (
        engine.query(UECQueryBundle(question, within=within)).metadata for within in (None, ["n5"])
    )
    assert (free["uec_decision"], free["uec_searched_as"]) == ("answer", f"{question}!!")
    assert (chosen["uec_decision"], chosen.get("uec_searched_as")) == ("abstain", None)


async def test_an_engine_that_transforms_the_question_is_gated(retriever, llm, question):
    inner = RetrieverQueryEngine.from_args(retriever, llm=llm)
    hyde = HyDEQueryTransform(llm=MockLLM(), include_original=True)
    engine = UECQueryEngine(TransformQueryEngine(inner, hyde))
    for response in (engine.query(question), await engine.aquery(question)):
        assert response.metadata["uec_decision"] in {"answer", "clarify", "abstain"}
        assert 0 < response.metadata["uec_confidence"] <= 1


def test_a_retriever_in_place_of_an_engine_is_refused_with_a_hint(retriever):
    with pytest.raises(TypeError, match=r"got UECRetriever; for a retriever: UECQueryEngine.from_"):
        UECQueryEngine(retriever)


@pytest.mark.parametrize("action", ["answer", "clarify", "abstain"])
@pytest.mark.parametrize("is_wrapped", [False, True])
async def test_where_answers_are_streams_so_is_what_is_said_instead(
    retriever, question, action, is_wrapped
):
    inner = RetrieverQueryEngine.from_args(retriever, llm=MockLLM(max_tokens=3), streaming=True)
    if is_wrapped:
        inner = TransformQueryEngine(inner, HyDEQueryTransform(llm=MockLLM()))
    engine = UECQueryEngine(inner, always(action))
    plain = UECQueryEngine.from_args(retriever, llm=MockLLM(max_tokens=3), gate=always(action))
    for response in (engine.query(question), await engine.aquery(question)):
        assert response.metadata["uec_decision"] == action
        assert bool(response.source_nodes) == (action != "abstain")
        assert isinstance(response, AsyncStreamingResponse | StreamingResponse)
        assert await said_by(response) == str(plain.query(question))


@pytest.mark.parametrize("action", ["answer", "clarify", "abstain"])
async def test_callbacks_get_the_events_of_llama_index(retriever, question, action, monkeypatch):
    seen = LlamaDebugHandler(print_trace_on_end=False)
    monkeypatch.setattr(Settings, "_callback_manager", CallbackManager([seen]))
    under = UECRetriever(retriever.index)
    theirs = RetrieverQueryEngine.from_args(under, llm=MockLLM())
    for ask in ("query", "aquery"):
        sent = []
        for engine in (theirs, UECQueryEngine(theirs, always(action))):
            seen.flush_event_logs()
            response = getattr(engine, ask)(question)
            response = await response if inspect.isawaitable(response) else response
            pairs = seen.get_event_pairs()
            sent.append([start.event_type for start, _ in pairs])
        last = {start.event_type: end.payload for start, end in pairs}[CBEventType.QUERY]
        assert last[EventPayload.RESPONSE] is response
        expected, ours = sent
        assert expected[:2] == [CBEventType.QUERY, CBEventType.RETRIEVE]
        assert ours == (expected if action == "answer" else expected[:2])
