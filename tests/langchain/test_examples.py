"""The examples, run on small encoders; their branches on documents of a known decision."""

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda

from examples import agentic_rag, langchain_black_box, langchain_rag
from tests.helpers import bag_of_words, fitted_on_documentation

REPLY = "what the model says"


class Prompts(BaseCallbackHandler):
    """Keeps what a chat model is asked."""

    def __init__(self):
        self.seen = []

    def on_chat_model_start(self, serialized, messages, **kwargs):
        self.seen.append([message.content for message in messages[0]])


def retriever_that_decides(decision, confidence=0.4):
    reason = "Do you mean A or B?"
    metadata = {"uec_decision": decision, "uec_confidence": confidence, "uec_reason": reason}
    texts = {"a": "Open it with open().", "b": "Open it with Path.open()."}
    return RunnableLambda(
        lambda question: [
            Document(text, metadata={**metadata, "source": source})
            for source, text in texts.items()
        ]
    )


@pytest.fixture
def prompts():
    return Prompts()


@pytest.fixture
def ask(prompts):
    def run(decision, question="How do I open a file?"):
        chain = langchain_rag.build_chain(
            retriever_that_decides(decision), FakeListChatModel(responses=[REPLY])
        )
        return chain.invoke(question, config={"callbacks": [prompts]})

    return run


class TestRagChain:
    def test_answers_from_the_passages_where_the_decision_is_to_answer(self, ask, prompts):
        found = ask("answer")
        assert (found["decision"], found["reply"], found["confidence"]) == ("answer", REPLY, 0.4)
        [[instructions, question]] = prompts.seen
        assert instructions.startswith("Answer from the passages only")
        assert "Open it with open().\n\nOpen it with Path.open()." in instructions
        assert question == "How do I open a file?"

    def test_asks_back_where_several_passages_could_be_meant(self, ask, prompts):
        assert ask("clarify")["reply"] == REPLY
        [[instructions, _]] = prompts.seen
        asked = "Do not answer: ask one short question to find out which one is meant."
        assert asked in instructions
        assert "Path.open()" in instructions

    def test_abstains_without_asking_the_model(self, ask, prompts):
        assert ask("abstain")["reply"].startswith("I do not know")
        assert prompts.seen == []

    def test_runs_on_a_fitted_ensemble_over_real_documentation(self):
        retriever = langchain_rag.build_retriever(fitted_on_documentation(32, 48), passages=300)
        chain = langchain_rag.build_chain(retriever, FakeListChatModel(responses=[REPLY]))
        for question in langchain_rag.QUESTIONS:
            found = chain.invoke(question)
            assert len(found["documents"]) == 3
            assert all(document.metadata["source"] for document in found["documents"])
            modelled = found["decision"] in ("answer", "clarify")
            assert (found["reply"] == REPLY) == modelled
            assert found["reply"].startswith("I do not know") != modelled


def test_an_api_and_a_local_model_answer_together(monkeypatch, capsys):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    langchain_black_box.main(local=bag_of_words(48, "local"), passages=300)
    printed = capsys.readouterr().out
    assert printed.startswith("No OPENAI_API_KEY: letter counts stand in for the API.")
    assert "a cosine of letter-triples counts" in printed
    assert "a cosine of local counts" in printed
    assert printed.count("(variance") == 3


def test_an_agent_with_a_careless_model_stops_where_the_documents_do_not_tell():
    retriever = agentic_rag.build_retriever(fitted_on_documentation(32, 48), passages=300)
    known = retriever.invoke(agentic_rag.QUESTIONS[0])[0].page_content
    agent, decisions = agentic_rag.build_agent(retriever), set()
    for question in [*agentic_rag.QUESTIONS, known]:
        thread = {"configurable": {"thread_id": question}}
        messages = agent.invoke({"messages": [HumanMessage(question)]}, thread)["messages"]
        [found] = [message.artifact for message in messages if isinstance(message, ToolMessage)]
        assert messages[-1].text.startswith("Surely") == (found["decision"] == "answer")
        decisions.add(found["decision"])
    assert "abstain" in decisions
