"""A chat model in whichever way LangChain wraps it, turns as a graph has them, and small talk."""

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from langchain_core.runnables import ConfigurableField
from pydantic import BaseModel

from tests.helpers import SUBJECTS, index_of, namesakes
from uec_rag import UEC, Gate
from uec_rag.langchain import UECGate, UECRetriever, UECVectorStore, chat_advisor

ANSWER = '{"verdict": "answer", "passage": 1}'
NO = '{"verdict": "no"}'


class Verdict(BaseModel):
    verdict: str


class Model(FakeListChatModel):
    """A chat model that counts its calls, of which the first may fail."""

    failures: int = 0
    calls: int = 0

    def _call(self, *args, **kwargs):
        self.calls += 1
        if self.calls <= self.failures:
            raise ConnectionError("503")
        return super()._call(*args, **kwargs)


WAYS = {
    "bare": lambda model: model,
    "with_retry": lambda model: model.with_retry(wait_exponential_jitter=False),
    "with_fallbacks": lambda model: model.with_fallbacks([model]),
    "bind": lambda model: model.bind(stop=["!"]),
    "with_config": lambda model: model.with_config(tags=["advice"]),
    "a text": lambda model: model | StrOutputParser(),
    "a dict": lambda model: model | JsonOutputParser(),
    "an object": lambda model: model | JsonOutputParser() | (lambda reply: Verdict(**reply)),
    "several": lambda model: (model.bind(stop=["!"]) | StrOutputParser()).with_retry(),
    "configurable": lambda model: model.configurable_fields(
        responses=ConfigurableField(id="responses")
    ),
}


@pytest.fixture(scope="module")
def retriever():
    texts, metadatas = namesakes()
    index = index_of(UEC(["bm25"]), texts, metadatas=metadatas)
    return UECRetriever(vectorstore=UECVectorStore(index), k=6)


ALWAYS = Gate(doubt=(0.0, 1.0))
AMBIGUOUS = "repay a loan"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("reply", "decision"), [(ANSWER, "answer"), (NO, "abstain")])
def test_a_wrapped_model_advises_as_a_bare_one(retriever, way, reply, decision):
    model = Model(responses=[reply])
    gate = UECGate(retriever=retriever, gate=ALWAYS, advisor=WAYS[way](model))
    found = gate.invoke("repay a boat")
    assert (found["decision"], model.calls) == (decision, 1)
    asked = Model(responses=[reply])
    same = Gate(doubt=(0.0, 1.0), advisor=chat_advisor(WAYS[way](asked)))
    assert UECGate(retriever=retriever, gate=same).invoke("repay a boat")["decision"] == decision
    assert asked.calls == 1


async def test_it_is_also_awaited(retriever):
    model = Model(responses=[ANSWER], failures=1)
    advisor = model.with_retry(wait_exponential_jitter=False)
    gate = UECGate(retriever=retriever, gate=ALWAYS, advisor=advisor)
    assert (await gate.ainvoke("repay a boat"))["decision"] == "answer"
    assert model.calls == 2


@pytest.mark.parametrize("way", [way for way in WAYS if way != "an object"])
def test_a_wrapped_model_rewrites(retriever, way):
    model = Model(responses=['{"verdict": "no", "rewrite": "How is a boat loan repaid?"}'])
    gate = UECGate(
        retriever=retriever, gate=ALWAYS, advisor=lambda *_: False, rewriter=WAYS[way](model)
    )
    [document, *_] = gate.invoke("repay a vessel")["documents"]
    assert (model.calls, document.metadata["uec_advice_calls"]) == (1, 2)


@pytest.mark.parametrize("way", WAYS)
def test_an_outcome_may_go_to_a_wrapped_model(retriever, way):
    model = Model(responses=['{"verdict": "said"}'])
    chain = UECGate(retriever=retriever, gate=Gate(1.0)).route(
        answer="yes", clarify="which?", abstain=WAYS[way](model)
    )
    assert "said" in str(chain.invoke("repay a boat"))


def test_what_is_no_model_is_refused(retriever):
    with pytest.raises(TypeError, match=r"advisor: expected a callable\(question, texts\)"):
        UECGate(retriever=retriever, advisor=StrOutputParser())


# Small talk, and answers without words


@pytest.mark.parametrize("text", ["thanks!", "ok", "bye", "Hello", "Danke!", "merci beaucoup", " "])
@pytest.mark.parametrize("ask", ["borderline", "always", "shadow"])
def test_small_talk_is_sent_to_no_advisor(retriever, text, ask):
    model = Model(responses=[ANSWER])
    gate = UECGate(retriever=retriever, gate=Gate(doubt=(0.0, 1.0), ask=ask), advisor=model)
    found = gate.invoke({"question": text, "chat_history": ["How do I repay a boat loan?"]})
    assert (found["decision"], found["reason_code"], model.calls) == ("abstain", "no_question", 0)


@pytest.mark.parametrize("opinion", [0.9, True, 0.2, 0.5, False])
def test_a_probability_leaves_what_is_asked_back(retriever, opinion):
    assert UECGate(retriever=retriever).invoke(AMBIGUOUS)["decision"] == "clarify"
    gate = UECGate(retriever=retriever, advisor=lambda *_: opinion)
    found = gate.invoke(AMBIGUOUS)
    assert (found["decision"], found["documents"][0].metadata["uec_advice_calls"]) == ("clarify", 1)


# The turns of a graph


TURNS = [HumanMessage("How do I repay a home loan?"), AIMessage("In 5 instalments.")]
FOLLOW = "And a boat loan?"


@pytest.mark.parametrize(
    "messages",
    [
        TURNS,
        [*TURNS, HumanMessage(FOLLOW)],
        [("user", TURNS[0].text), ("assistant", TURNS[1].text)],
        [{"role": "user", "content": TURNS[0].text}],
    ],
    ids=["before it", "with it", "pairs", "dicts"],
)
def test_turns_under_messages_are_those_of_chat_history(retriever, messages):
    gate = UECGate(retriever=retriever)
    expected = gate.invoke({"question": FOLLOW, "chat_history": TURNS})
    alone = gate.invoke(FOLLOW)
    found = gate.invoke({"question": FOLLOW, "messages": messages})
    assert found["documents"][0].metadata["title"] == "Boat loan" in SUBJECTS
    assert found["confidence"] == pytest.approx(expected["confidence"], rel=0.2)
    assert found["confidence"] != alone["confidence"]
    documents = retriever.invoke({"question": FOLLOW, "messages": messages})
    assert documents[0].metadata["title"] == "Boat loan"


@pytest.mark.parametrize("messages", ["How do I repay it?", 3, HumanMessage("a")])
def test_messages_that_are_none_are_refused(retriever, messages):
    with pytest.raises(TypeError, match="messages: expected a list of messages"):
        UECGate(retriever=retriever).invoke({"question": FOLLOW, "messages": messages})
