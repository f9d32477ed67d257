"""Each outcome goes to a text, a chain or an engine, or a model, in both frameworks alike."""

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata, MockLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.query_engine import CustomQueryEngine

from tests.helpers import VAGUE, namesakes
from tests.llama_index.conftest import said_by
from uec_rag import UEC, Gate, Retriever
from uec_rag.langchain import UECGate, UECRetriever, UECVectorStore
from uec_rag.llama_index import UECQueryEngine
from uec_rag.llama_index import UECRetriever as LlamaIndexRetriever

LOANS = ["The car loan lasts five years.", "The boat loan lasts seven years."]
ANSWERED = "How long does the boat loan last?"
OUTCOMES = {
    "answer": (ANSWERED, None),
    "clarify": (VAGUE, None),
    "uncertain": (ANSWERED, Gate(1.0)),
    "abstain": ("Thanks!", None),
}
KINDS = ["text", "chain", "model"]


@pytest.fixture(scope="module")
def index():
    texts, titled = namesakes()
    index = Retriever(UEC(["bm25"]))
    index.add([*LOANS, *texts], metadatas=[{"source": "loans.txt"}] * 2 + titled)
    return index


class Heard(CustomLLM):
    """A model that repeats the start and the end of its prompt."""

    @property
    def metadata(self):
        return LLMMetadata()

    @llm_completion_callback()
    def complete(self, prompt, formatted=False, **_):
        return self._made(prompt)

    @llm_completion_callback()
    def stream_complete(self, prompt, formatted=False, **_):
        yield self._made(prompt)

    def _made(self, prompt):
        return CompletionResponse(text=f"heard {prompt}")


class Engine(CustomQueryEngine):
    def custom_query(self, query_str):
        return f"engine: {query_str}"


class Repeating(FakeListChatModel):
    def _call(self, messages, *_, **__):
        return f"heard {messages[0].content}"


OF_LANGCHAIN = {
    "text": lambda name: f"the text of {name}",
    "chain": lambda _: RunnableLambda(lambda found: f"engine: {found['question']}"),
    "model": lambda _: Repeating(responses=["unused"]),
}
OF_LLAMA_INDEX = {
    "text": OF_LANGCHAIN["text"],
    "chain": lambda _: Engine(),
    "model": lambda _: Heard(),
}


def gate_of(index, gate, **ways):
    retriever = UECRetriever(vectorstore=UECVectorStore(index))
    return UECGate(retriever=retriever, gate=gate).route(**ways)


async def by_langchain(index, gate, question, ways):
    chain = gate_of(index, gate, **ways)
    for said in (chain.invoke(question), await chain.ainvoke(question)):
        yield getattr(said, "content", said)


async def by_llama_index(index, gate, question, ways):
    for streaming in (False, True):
        engine = UECQueryEngine.from_args(
            LlamaIndexRetriever(index), MockLLM(max_tokens=2), gate, streaming=streaming
        ).route(**ways)
        for response in (engine.query(question), await engine.aquery(question)):
            assert response.metadata["uec_decision"]
            yield await said_by(response)


def expected(kind, name, question):
    if kind == "text":
        return [f"the text of {name}"]
    if kind == "chain":
        return [f"engine: {question}"]
    decision = "abstain" if name == "uncertain" else name
    return [f"heard Decision: {decision}.", f'The question: "{question}"']


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OUTCOMES)
@pytest.mark.parametrize(
    ("ask", "make"),
    [(by_langchain, OF_LANGCHAIN), (by_llama_index, OF_LLAMA_INDEX)],
    ids=["LangChain", "LlamaIndex"],
)
async def test_each_outcome_goes_where_it_is_sent(index, ask, make, name, kind):
    question, gate = OUTCOMES[name]
    ways = {each: make[kind](each) for each in OUTCOMES}
    async for said in ask(index, gate, question, ways):
        for part in expected(kind, name, question):
            assert part in said
        if kind == "model" and name == "uncertain":
            assert "Read these passages" in said
            assert LOANS[1] in said


@pytest.mark.parametrize("ask", [by_langchain, by_llama_index])
async def test_without_a_way_the_question_back_or_the_reason_is_said(index, ask):
    for name in ("clarify", "uncertain", "abstain"):
        question, gate = OUTCOMES[name]
        decision = index.with_gate(gate).search([question]).decisions[0]
        wanted = decision.clarifying_question or decision.reason
        async for said in ask(index, gate, question, {"answer": "so"}):
            assert said == wanted


@pytest.mark.parametrize("ask", [by_langchain, by_llama_index])
async def test_what_is_uncertain_goes_where_an_abstention_does(index, ask):
    question, gate = OUTCOMES["uncertain"]
    async for said in ask(index, gate, question, {"answer": "so", "abstain": "Ask the desk."}):
        assert said == "Ask the desk."


def test_what_is_neither_is_refused(index):
    with pytest.raises(TypeError, match="clarify: expected a text, an LLM or an engine, got int"):
        UECQueryEngine.from_args(LlamaIndexRetriever(index), MockLLM()).route(clarify=3)
    with pytest.raises(TypeError):
        gate_of(index, None, answer=3)
