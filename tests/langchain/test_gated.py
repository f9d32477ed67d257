"""Questions in their conversation: turns, follow-ups, and the reply to a question back."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated

import pytest
from langchain_classic.chains import create_history_aware_retriever
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from pydantic import BaseModel

from uec_rag.langchain import Gated, UECGate, UECVectorStore, retrieval_node
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


BLOCKS = [{"type": "text", "text": "I am at the door."}, {"type": "text", "text": ASKED}]


@pytest.mark.parametrize(
    ("messages", "question"),
    [
        (ASKED, ASKED),
        ([("user", ASKED)], ASKED),
        ([{"role": "user", "content": ASKED}], ASKED),
        ([HumanMessage(BLOCKS)], f"I am at the door.\n{ASKED}"),
    ],
)
def test_a_node_takes_messages_in_all_forms(gate, messages, question):
    found = retrieval_node(gate).invoke({"messages": messages})
    assert (found["question"], found["decision"]) == (question, "answer")


def test_a_reading_in_a_state_restricts_one_search(gate):
    state = {"question": VAGUE, "within": ["rsync"]}
    found = retrieval_node(gate).invoke(state)
    assert [document.id for document in found["documents"]] == ["rsync"]
    assert found["within"] is None


FIRST, SECOND = "Who repairs the door opener?", "How do I sync a folder?"


class State(Gated):
    messages: Annotated[list[AnyMessage], add_messages]


class Model(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages] = []
    question: str = ""
    documents: list[Document] = []
    decision: str = ""
    within: object = None


@dataclass
class Data:
    messages: Annotated[list[AnyMessage], add_messages] = field(default_factory=list)
    question: str = ""
    documents: list[Document] = field(default_factory=list)
    decision: str = ""
    searched: list[str] = field(default_factory=list)


def graph_of(schema, gate, *, after=None, before=None):
    """A graph that searches, and then changes its messages."""
    graph = StateGraph(schema)
    graph.add_node("before", before or (lambda state: None))
    graph.add_node("retrieve", retrieval_node(gate))
    graph.add_node("after", after or (lambda state: None))
    for way in pairwise([START, "before", "retrieve", "after", END]):
        graph.add_edge(*way)
    return graph.compile(checkpointer=InMemorySaver())


def questions(app, *given):
    """What is searched for each input of one thread."""
    thread = {"configurable": {"thread_id": "1"}}
    return [app.invoke(one, thread)["question"] for one in given]


def says(text):
    return {"messages": [HumanMessage(text)]}


SAID = [*map(says, (FIRST, SECOND, FIRST))]


def messages_of(state):
    return state["messages"] if isinstance(state, dict) else state.messages


TRIMMED = {
    "nothing": lambda state: None,
    "an answer": lambda state: {"messages": [AIMessage("The caretaker.")]},
    "RemoveMessage": lambda state: {
        "messages": [RemoveMessage(message.id) for message in messages_of(state)]
    },
    "the first is removed": lambda state: {
        "messages": [AIMessage("Yes."), RemoveMessage(messages_of(state)[0].id)]
    },
    "a summary": lambda state: {
        "messages": [RemoveMessage(REMOVE_ALL_MESSAGES), SystemMessage("They spoke of doors.")]
    },
    "REMOVE_ALL_MESSAGES": lambda state: {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES)]},
}


@pytest.mark.parametrize("after", TRIMMED.values(), ids=TRIMMED)
@pytest.mark.parametrize("schema", [State, Model, Data])
def test_the_newest_human_message_counts_whatever_became_of_the_others(gate, schema, after):
    assert questions(graph_of(schema, gate, after=after), *SAID) == [FIRST, SECOND, FIRST]


def test_messages_that_take_the_place_of_an_old_threads_are_searched(gate):
    class Replaced(Gated):
        messages: list[AnyMessage]

    assert questions(graph_of(Replaced, gate), *SAID) == [FIRST, SECOND, FIRST]


@pytest.mark.parametrize("schema", [State, Data])
def test_a_question_that_another_node_writes_is_searched_beside_the_messages(gate, schema):
    def rewritten(state):
        last = messages_of(state)[-1].text
        return {"question": SECOND if last == "And folders?" else FIRST}

    app = graph_of(schema, gate, before=rewritten)
    assert questions(app, says("The opener?"), says("And folders?")) == [FIRST, SECOND]
    state = app.invoke(says("And folders?"), {"configurable": {"thread_id": "2"}})
    found = retrieval_node(gate).invoke(state)
    assert found["question"] == SECOND  # since no message is newer


def test_a_question_of_the_input_alone_is_searched_in_an_old_thread(gate):
    given = says(FIRST), {"question": SECOND}, says(FIRST)
    assert questions(graph_of(State, gate), *given) == [FIRST, SECOND, FIRST]


def chosen(gate):
    return gate.configurable_alternatives(ConfigurableField("which"), other=RunnableLambda(str))


FORMS = {
    "with_config": lambda gate: gate.with_config(tags=["a"]),
    "with_retry": lambda gate: gate.with_retry(),
    "with_fallbacks": lambda gate: gate.with_fallbacks([RunnableLambda(str)]),
    "fallbacks of a binding": lambda gate: (
        gate.with_config(tags=["a"]).with_fallbacks([gate]).with_config(tags=["b"])
    ),
    "configurable_fields": lambda gate: gate.configurable_fields(
        gate=ConfigurableField("threshold")
    ),
    "configurable_alternatives": chosen,
    "alternatives with a retry": lambda gate: chosen(gate).with_retry(),
    "a sequence": lambda gate: gate | RunnableLambda(dict),
    "a longer one": lambda gate: gate.with_retry() | RunnableLambda(dict) | RunnableLambda(dict),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_what_langchain_makes_of_a_gate_keeps_the_turns(gate, form):
    node = retrieval_node(form(gate))
    messages = [*HISTORY, HumanMessage(FOLLOW_UP)]
    for found in (node.invoke({"messages": messages}), await node.ainvoke({"messages": messages})):
        assert (found["decision"], found["documents"][0].id) == ("answer", "door opener")


def test_a_fallback_of_another_kind_gets_the_question_alone(gate, retriever):
    def fails(_):
        raise ConnectionError

    asked = []
    plain = RunnableLambda(lambda question: asked.append(question) or gate.invoke(question))
    broken = gate.model_copy(update={"retriever": RunnableLambda(fails)})
    node = retrieval_node(broken.with_fallbacks([plain]))
    node.invoke({"messages": [*HISTORY, HumanMessage(FOLLOW_UP)]})
    assert asked == [FOLLOW_UP]
    other = retrieval_node(chosen(gate)).with_config(configurable={"which": "other"})
    with pytest.raises(AttributeError):  # a text has no decision: it got no mapping
        other.invoke({"messages": [*HISTORY, HumanMessage(FOLLOW_UP)]})
