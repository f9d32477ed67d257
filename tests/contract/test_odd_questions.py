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


def action_of(reply):
    return reply.removeprefix("Decision: ").partition(".")[0]


ASK = {
    "gate": lambda chain, _, q: langchain.UECGate(retriever=chain).invoke(q)["decision"],
    "tool": lambda chain, _, q: action_of(langchain.retriever_tool(chain).invoke({"query": q})),
    "engine": lambda _, nodes, q: (
        llama_index.UECQueryEngine.from_args(nodes, MockLLM()).query(q).metadata["uec_decision"]
    ),
    "tool of nodes": lambda _, nodes, q: action_of(retriever_tool(nodes).call(q).content),
}


@pytest.mark.parametrize("question", ODD, ids=[json.dumps(text[:10]) for text in ODD])
@pytest.mark.parametrize("ask", ASK.values(), ids=ASK)
def test_an_odd_question_gets_a_decision(theirs, ask, question):
    actions = ("answer", "clarify", "abstain") if question.strip() else ("abstain",)
    assert ask(*theirs, question) in actions
