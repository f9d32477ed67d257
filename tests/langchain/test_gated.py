"""Questions in their conversation: turns, follow-ups, and the reply to a question back."""

import pytest
from langchain_classic.chains import create_history_aware_retriever
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate

from examples import chat
from uec_rag.langchain import UECGate, UECVectorStore, retrieval_node
from uec_rag.langchain.conversion import turns

ASKED, FOLLOW_UP = "Who repairs the door opener?", "And how long does it take?"
HISTORY = [SystemMessage("Be brief."), HumanMessage(ASKED), AIMessage("The caretaker.")]
VAGUE = "What is the force option?"


@pytest.fixture
def retriever(chat_index):
    return UECVectorStore(chat_index).as_retriever()


@pytest.fixture
def gate(retriever):
    return UECGate(retriever=retriever)


def test_turns_are_the_texts_of_the_user_in_whatever_form_langchain_takes_messages():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    given = [
        SystemMessage("Be brief."),
        ("human", "one"),
        AIMessage("An answer."),
        ToolMessage("passages", tool_call_id="1"),
        {"role": "user", "content": "two"},
        HumanMessage([{"type": "text", "text": "three"}, image]),
        "four",
    ]
    assert turns(given) == ["one", "two", "three", "four"]
    assert turns(None) == turns([]) == []


@pytest.mark.parametrize("wrong", ["hello", 3, HumanMessage("hello")])
def test_what_is_no_history_is_refused(wrong):
    with pytest.raises(TypeError, match=r"history.*: expected a list of messages or strings"):
        turns(wrong)


async def test_a_follow_up_is_answered_in_its_conversation(retriever, gate):
    in_mapping = {"input": FOLLOW_UP, "chat_history": HISTORY}
    expected = retriever.index.search([FOLLOW_UP], history=[[ASKED]])[0]
    for found in (gate.invoke(in_mapping), *gate.batch([in_mapping])):
        assert found["decision"] == expected.decision.action == "answer"
        assert [document.id for document in found["documents"]] == expected.ids
    for found in (await retriever.ainvoke(in_mapping), *await retriever.abatch([in_mapping])):
        assert [document.id for document in found] == expected.ids


async def test_langchains_history_aware_retriever_finds_by_what_its_model_rewrote(retriever):
    model = FakeListChatModel(responses=["How long does the door opener's repair take?"])
    prompt = ChatPromptTemplate.from_messages(
        [("placeholder", "{chat_history}"), ("human", "{input}"), ("human", "Rewrite it.")]
    )
    gate = UECGate(retriever=create_history_aware_retriever(model, retriever, prompt))
    given = {"input": FOLLOW_UP, "chat_history": HISTORY}
    for found in (gate.invoke(given), await gate.ainvoke(given)):
        assert (found["decision"], found["documents"][0].id) == ("answer", "door opener")
    assert gate.invoke({"input": FOLLOW_UP, "chat_history": []})["decision"] == "abstain"


def test_a_node_takes_the_turns_from_the_graphs_messages(gate):
    messages = [*HISTORY, HumanMessage(FOLLOW_UP)]
    node = retrieval_node(gate)
    assert node.invoke({"messages": messages[-1:]})["decision"] == "abstain"
    assert node.invoke({"messages": messages})["decision"] == "answer"


def test_a_reading_in_a_state_restricts_one_search(gate):
    state = {"question": VAGUE, "within": ["rsync"]}
    found = retrieval_node(gate).invoke(state)
    assert [document.id for document in found["documents"]] == ["rsync"]
    assert found["within"] is None


def test_the_example_follows_asks_back_and_abstains():
    app = chat.build_chat()
    said = [
        [chat.say(app, turn, str(thread)) for turn in conversation]
        for thread, conversation in enumerate(chat.CONVERSATIONS)
    ]
    assert "within three working days" in said[0][1]
    assert said[1][0] == said[2][0] == "Do you mean git add, git push or rsync?"
    assert said[1][1] == chat.PASSAGES["git push"]
    assert said[2][1] == chat.PASSAGES["rsync"]
    assert said[3][0].startswith("I do not know.")
