"""A conversation means the same in both frameworks and without one."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from llama_index.core.llms import ChatMessage

from tests.helpers import data_of
from tests.llama_index.decisions import judge
from uec_rag import langchain, llama_index
from uec_rag.base.errors import UnknownReading
from uec_rag.llama_index.gate import response_metadata
from uec_rag.questions.query import turns_of

VAGUE = "What is the force option?"
CONVERSATIONS = data_of("conversations.json")
MESSAGES = {"user": HumanMessage, "assistant": AIMessage, "system": SystemMessage}


@pytest.mark.parametrize(("said", "question"), CONVERSATIONS)
@pytest.mark.parametrize("within", [None, ["rsync", "git push"]])
def test_both_frameworks_decide_as_the_index_does(chat_index, said, question, within):
    turns = turns_of(said)
    [expected] = chat_index.search([question], history=[turns], within=within)
    gate = langchain.UECGate(retriever=langchain.UECVectorStore(chat_index).as_retriever())
    there = gate.invoke(question, history=[MESSAGES[who](t) for who, t in said], within=within)
    history = [ChatMessage(text, role=who) for who, text in said]
    asked = llama_index.UECQueryBundle(question, history=history, within=within)
    nodes = llama_index.UECRetriever(chat_index).retrieve(asked)
    here = response_metadata(judge(nodes, question))
    assert there["decision"] == here["uec_decision"] == expected.decision.action
    assert there["readings"] == here["uec_readings"] == expected.decision.choices
    assert (
        there["clarifying_question"]
        == here["uec_clarifying_question"]
        == expected.decision.clarifying_question
    )
    ids = [document.id for document in there["documents"]]
    assert ids == [node.node_id for node in nodes] == expected.ids
    assert there["confidence"] == pytest.approx(expected.decision.confidence, abs=1e-5)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [("tar", UnknownReading), (3, TypeError), ({"label": "git push"}, TypeError), ([], TypeError)],
)
def test_what_is_no_reading_is_refused_with_what_to_do(chat_index, wrong, error):
    store = langchain.UECVectorStore(chat_index)
    bundle = llama_index.UECQueryBundle(VAGUE, within=wrong)
    for search in (
        lambda: chat_index.search([VAGUE], within=wrong),
        lambda: store.as_retriever().invoke(VAGUE, within=wrong),
        lambda: llama_index.UECRetriever(chat_index).retrieve(bundle),
    ):
        with pytest.raises(error, match="within: expected"):
            search()


def test_a_reading_is_joined_with_the_filter(chat_index):
    found = chat_index.search([VAGUE], within=["rsync", "git push"], filter={"title": "rsync"})
    assert found.ids == [["rsync"]]
    found = chat_index.search(
        [VAGUE], within=["rsync", "tar"], filter=lambda passage: passage.id != "rsync"
    )
    assert found.ids == [["tar"]]


@pytest.mark.parametrize("filter", [None, {"title": "rsync"}])
def test_a_reading_without_a_passage_in_the_index_is_an_error(chat_index, filter):
    with pytest.raises(UnknownReading, match=r"none of the passages .* ask again without within"):
        chat_index.search([VAGUE], within=["gone" if filter is None else "tar"], filter=filter)


def test_turns_may_be_passed_on_in_both_frameworks():
    said = [("user", "Who pays?"), ("assistant", "The tenant. Shall I explain deposits?")]
    turns = turns_of(said)
    assert langchain.conversion.turns(turns) == llama_index.nodes.turns(turns) == turns
