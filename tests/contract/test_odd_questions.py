"""Blank, overlong and half-cut questions end nothing: gates, tools and chains get a decision."""

import json

import pytest
from llama_index.core.llms import MockLLM

from tests.helpers import bag_of_words, pairs
from uec_rag import UEC, langchain, llama_index
from uec_rag.llama_index import retriever_tool

ODD = ["", "  ", "\n", "error " * 2000, "kolumi \ud83d"]


@pytest.fixture(scope="module")
def uec():
    return UEC([bag_of_words(64, "fine"), "bm25"]).fit(pairs(60))


@pytest.fixture(scope="module")
def theirs(uec):
    texts = [passage for _, passage in pairs(60)]
    of_chain = langchain.UECRetriever.from_texts(texts, uec, k=4)
    return of_chain, llama_index.UECRetriever.from_texts(texts, uec, similarity_top_k=4)


def ask_gate(of_chain, _, question):
    return langchain.UECGate(retriever=of_chain).invoke(question)["decision"]


def ask_route(of_chain, _, question):
    given = {name: (lambda _, name=name: name) for name in ("answer", "clarify", "abstain")}
    return langchain.UECGate(retriever=of_chain).route(**given).invoke(question)


def ask_tool(of_chain, _, question):
    reply = langchain.retriever_tool(of_chain).invoke({"query": question})
    return reply.removeprefix("Decision: ").partition(".")[0]


def ask_engine(_, of_nodes, question):
    engine = llama_index.UECQueryEngine.from_args(of_nodes, llm=MockLLM())
    return engine.query(question).metadata["uec_decision"]


def ask_tool_of_nodes(_, of_nodes, question):
    reply = retriever_tool(of_nodes).call(question).content
    return reply.removeprefix("Decision: ").partition(".")[0]


@pytest.mark.parametrize("question", ODD, ids=[json.dumps(text[:10]) for text in ODD])
@pytest.mark.parametrize("ask", [ask_gate, ask_route, ask_tool, ask_engine, ask_tool_of_nodes])
def test_an_odd_question_gets_a_decision(theirs, ask, question):
    decided = ask(*theirs, question)
    action = decided if isinstance(decided, str) else decided.action
    assert action in ("answer", "clarify", "abstain")
    if not question.strip():
        assert action == "abstain"
