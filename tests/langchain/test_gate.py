"""The gate as a runnable: it composes, goes three ways, and tells the callbacks."""

import re

import pytest
from langchain_classic.retrievers import EnsembleRetriever, MultiQueryRetriever
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

from tests.helpers import VAGUE, labelled, passages
from uec_rag import Advice
from uec_rag.gates.gate import Gate
from uec_rag.langchain import UECGate, UECRetriever, UECVectorStore

TEXTS = passages(120)
LABELLED = labelled(TEXTS, 40, unanswerable_rate=0.2)
QUESTIONS = [*LABELLED[0], VAGUE]
KEYS = {
    *("question", "documents", "decision", "reason", "reason_code", "confidence"),
    *("candidates", "readings", "clarifying_question"),
}


@pytest.fixture(scope="module")
def retriever(ambiguous):
    return UECRetriever(vectorstore=UECVectorStore(ambiguous), k=4)


def decided_at(threshold, one):
    """Whether it is answered above a threshold only, and then unless it is to ask back."""
    return one["decision"] in ("clarify", "answer" if one["confidence"] > threshold else "abstain")


@pytest.fixture(scope="module")
def gate(retriever):
    """One that goes all three ways: its threshold is in the middle."""
    confidence = sorted(f["confidence"] for f in UECGate(retriever=retriever).batch(QUESTIONS))
    return UECGate(retriever=retriever, gate=Gate((confidence[19] + confidence[20]) / 2))


@pytest.fixture(scope="module")
def found(gate):
    return [gate.invoke(question) for question in QUESTIONS]


def simple(found):
    return found | {"documents": [(d.id, dict(d.metadata)) for d in found["documents"]]}


def test_it_hands_on_the_hits_the_decision_and_the_reason(gate, found):
    for question, one in zip(QUESTIONS, found, strict=True):
        assert set(one) == KEYS
        assert one["question"] == question
        most = 8 if one["reason_code"] == "uncertain" else 4
        assert 4 <= len(one["documents"]) <= most
        assert all(isinstance(document, Document) for document in one["documents"])
        assert decided_at(gate.gate.threshold, one)
        assert all(candidate in one["documents"] for candidate in one["candidates"])
        assert (len(one["candidates"]) >= 2) == (one["decision"] == "clarify")
        for document in one["documents"]:
            assert document.metadata["uec_decision"] == one["decision"]
            assert document.metadata["uec_reason"] == one["reason"]
            assert document.metadata["uec_confidence"] == one["confidence"]


def test_passages_that_are_near_but_uncertain_have_a_branch_of_their_own(retriever):
    ways = ("answer", "clarify", "abstain", "uncertain")
    named = {way: RunnableLambda(lambda _, way=way: way) for way in ways}
    at = UECGate(retriever=retriever).invoke(QUESTIONS[0])["confidence"]
    strict = UECGate(retriever=retriever, gate=Gate(min(at + 1e-3, 1)))
    found = strict.invoke(QUESTIONS[0])
    assert (found["decision"], found["reason_code"]) == ("abstain", "uncertain")
    assert len(found["documents"]) == 4
    assert strict.route(**named).invoke(QUESTIONS[0]) == "uncertain"
    assert strict.route(**named).invoke("Thanks!") == "abstain"
    del named["uncertain"]
    assert strict.route(**named).invoke(QUESTIONS[0]) == "abstain"


def test_a_filter_that_matches_nothing_is_no_question_off_the_subject(retriever):
    gate = UECGate(retriever=retriever, gate=Gate(0.3))
    found = gate.invoke(QUESTIONS[0], filter={"source": "nowhere"})
    assert (found["documents"], found["reason_code"]) == ([], "nothing_found")


async def test_what_is_said_instead_of_an_answer_is_a_stream_too(retriever):
    say = {key: RunnableLambda(lambda found: found["reason"]) for key in ("clarify", "abstain")}
    gate = UECGate(retriever=retriever)
    chain = gate.route(answer=RunnableLambda(lambda found: "so"), **say)
    for question in [VAGUE, "Who wrote Hamlet?"]:
        said = gate.invoke(question)["reason"]
        events = [event async for event in chain.astream_events(question, version="v2")]
        streamed = [e["data"]["chunk"] for e in events if e["event"] == "on_chain_stream"]
        assert streamed[-1] == said
        assert [part async for part in chain.astream(question)] == [said]


async def test_a_mapping_is_handed_on_with_all_its_keys(gate, found):
    given = {"question": QUESTIONS[0], "topic": "mills", "user": 7}
    for one in (gate.invoke(given), await gate.ainvoke(given)):
        assert simple(one) == {"topic": "mills", "user": 7} | simple(found[0])
    assert set(given) == {"question", "topic", "user"}


def test_it_is_calibrated_like_the_gate_of_the_core_with_the_retrievers_own_k_and_filter(retriever):
    asked = labelled(TEXTS, 120, seed=1)
    filtered = UECRetriever.from_store(
        retriever.vectorstore, k=7, filter=lambda document: document.metadata["even"]
    )
    gate = UECGate.from_labels(filtered, *asked, max_risk=0.7, certainty=0.9)
    assert gate.gate == Gate.from_labels(
        retriever.index,
        *asked,
        max_risk=0.7,
        certainty=0.9,
        k=7,
        filter=lambda passage: passage.metadata["even"],
    )
    assert all(d.metadata["even"] for d in gate.invoke(QUESTIONS[0])["documents"])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (7, TypeError, 'input: expected a question, a string, or a mapping with a string "quest'),
        ({"query": "badero"}, TypeError, "got {'query': 'badero'}"),
        ({"question": "badero", "filters": {}}, TypeError, "got {}; did you mean 'filter'?"),
        ({"question": ["badero"]}, TypeError, "got {'question': ['badero']}"),
    ],
)
async def test_what_is_no_question_is_refused(gate, given, error, message):
    with pytest.raises(error, match=re.escape(message)):
        gate.invoke(given)
    with pytest.raises(error, match=re.escape(message)):
        await gate.ainvoke(given)


def test_another_retriever_is_refused_with_how_to_make_one_of_ours(retriever):
    theirs = InMemoryVectorStore(DeterministicFakeEmbedding(size=8)).as_retriever()
    for given in (theirs, retriever.vectorstore, retriever.index):
        got = f"expected a UECRetriever, got {type(given).__name__};"
        with pytest.raises(TypeError, match=got):
            UECGate.from_labels(given, [], [])


class Fewer(BaseRetriever):
    """Another package's retriever over one of ours, such as one that reorders."""

    inner: BaseRetriever
    bare: bool = False

    def _get_relevant_documents(self, query, *, run_manager):
        found = self.inner.invoke(query, config={"callbacks": run_manager.get_child()})[::-1]
        return [Document(d.page_content) for d in found] if self.bare else found


async def test_it_goes_over_retrievers_whose_documents_carry_the_decision(retriever):
    plain = UECGate(retriever=retriever, gate=Gate(0.4))
    for wrapped in (
        Fewer(inner=retriever),
        EnsembleRetriever(retrievers=[retriever, retriever], weights=[0.5, 0.5]),
        MultiQueryRetriever(
            retriever=retriever, llm_chain=RunnableLambda(lambda _: []), include_original=True
        ),
    ):
        gate = UECGate(retriever=wrapped, gate=Gate(0.4))
        for question in [*QUESTIONS[:5], VAGUE]:
            given = {"question": question, "topic": "x"}
            one, other = gate.invoke(given), plain.invoke(given)
            assert (one["decision"], one["reason"]) == (other["decision"], other["reason"])
            assert one["confidence"] == pytest.approx(other["confidence"])
            assert one["topic"] == "x"
        assert (await gate.ainvoke(given))["decision"] == one["decision"]


def test_over_others_it_says_what_it_lacks(retriever):
    with pytest.raises(ValueError, match=r"none has uec_decision and .* this Fewer have none"):
        UECGate(retriever=Fewer(inner=retriever, bare=True)).invoke(QUESTIONS[0])
    gate = UECGate(retriever=Fewer(inner=retriever))
    with pytest.raises(TypeError, match=r"a UECGate over Fewer takes no options, got k; set them"):
        gate.invoke(QUESTIONS[0], k=3)
    with pytest.raises(TypeError, match="make the gate with the UECRetriever below it"):
        UECGate.from_labels(gate.retriever, *LABELLED)


class TestAdvisor:
    """A chat model says in doubt if the passages suffice."""

    def decisions(self, retriever, reply):
        advisor = FakeListChatModel(responses=[reply])
        gate = UECGate(retriever=retriever, gate=Gate(doubt=(0.0, 1.0)), advisor=advisor)
        return [found["decision"] for found in gate.batch(LABELLED[0])]

    @pytest.mark.slow
    def test_a_chat_model_decides_and_what_it_does_not_say_counts_as_not_asked(self, retriever):
        alone = [f["decision"] for f in UECGate(retriever=retriever).batch(LABELLED[0])]
        assert {*alone} >= {"answer", "abstain"}
        assert {*self.decisions(retriever, '{"verdict": "answer"}')} == {"answer"}
        assert {*self.decisions(retriever, 'Sure: {"verdict": "no"}')} == {"abstain"}
        assert self.decisions(retriever, "It depends.") == alone

    def test_the_documents_of_a_rewrite_that_is_answered_are_the_output(self, retriever):
        [best] = retriever.invoke(QUESTIONS[0], k=1)

        def advisor(question, texts):
            return Advice("no", rewrite=best.page_content)

        for searched in (retriever, RunnableLambda(lambda question: retriever.invoke(question))):
            gate = UECGate(retriever=searched, gate=Gate(doubt=(0.0, 1.0)), advisor=advisor)
            found = gate.invoke("something in other words")
            assert found["decision"] == "answer"
            assert found["documents"][0].page_content == best.page_content
            assert found["documents"][0].metadata["uec_searched_as"] == best.page_content
            assert found["question"] == "something in other words"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: UECRetriever(index="i"), r"UECVectorStore\(index\).as_retriever"),
        (lambda: UECRetriever(vectorstore="v"), r"UECRetriever.over"),
        (lambda: UECGate(threshold=0.7), r"gate=Gate\(threshold\)"),
        (lambda: UECGate(gate=None), r"UECGate\(retriever=retriever\)"),
    ],
)
def test_a_constructor_that_is_called_with_something_else_names_what_to_call(call, message):
    with pytest.raises(TypeError, match=message):
        call()
