"""A clarifying question has the same words wherever it is asked back."""

import asyncio

import pytest
from llama_index.core.llms import MockLLM

from tests.cli.conftest import call
from tests.helpers import SUBJECTS, VAGUE, namesakes
from tests.server.conftest import serving
from uec_rag import UEC, Retriever, langchain, llama_index
from uec_rag.server import create_mcp

TITLES = {
    "short": "{}",
    "long": "How those who keep the {} repay their loans in monthly instalments",
}


@pytest.fixture(scope="module", params=TITLES.values(), ids=TITLES)
def folder(request, tmp_path_factory):
    index, (texts, _) = Retriever(UEC(["bm25"])), namesakes()
    index.add(texts, metadatas=[{"title": request.param.format(one)} for one in SUBJECTS])
    index.save(to := tmp_path_factory.mktemp("asked") / "idx")
    return to


def over_http(folder):
    with serving(folder) as client:
        return client.post("/ask", json={"question": VAGUE}).json()["clarifying_question"]


def over_mcp(folder):
    told = asyncio.run(create_mcp(Retriever.load(folder)).call_tool("search", {"question": VAGUE}))
    return told.structuredContent["clarifying_question"]


def of_langchain(folder):
    retriever = langchain.UECRetriever.load(folder)
    return langchain.UECGate(retriever=retriever).invoke(VAGUE)["clarifying_question"]


def of_llama_index(folder):
    retriever = llama_index.UECRetriever.load(folder)
    return llama_index.UECQueryEngine.from_args(retriever, MockLLM()).query(VAGUE).response


def of_the_command_line(folder):
    shown = call("ask", folder, VAGUE).stdout.partition("clarify: ")[2].partition("\n\n")[0]
    return "\n".join(line.strip() for line in shown.splitlines())


ASKED = {
    "HTTP": over_http,
    "MCP": over_mcp,
    "LangChain": of_langchain,
    "LlamaIndex": of_llama_index,
    "the command line": of_the_command_line,
}


@pytest.mark.filterwarnings("ignore:.*not fitted")
@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_the_words_are_those_of_the_decision(folder, asked):
    [decision] = Retriever.load(folder).search([VAGUE]).decisions
    assert decision.action == "clarify"
    said = asked(folder)
    assert said == decision.clarifying_question
    assert all(reading.title in said for reading in decision.readings)
