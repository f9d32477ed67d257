import pytest
from llama_index.core.base.response.schema import Response
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine, TransformQueryEngine

from tests.llama_index.conftest import always
from uec_rag import Advice
from uec_rag.llama_index import UECQueryBundle, UECQueryEngine
from uec_rag.retrieval.gate import Gate

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
