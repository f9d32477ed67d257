"""A chat that knows when it does not know: follow-ups, a clarifying question, abstention.

    python examples/chat.py

A graph of LangGraph's, with a checkpointer. No model rewrites a follow-up before the search; where
the question could mean several things the graph stops and asks, and goes on with the reply. The
model is a stand-in that quotes the best passage.
"""

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import MessagesState
from langgraph.types import Command, interrupt

from uec_rag import UEC
from uec_rag.langchain import Gated, UECGate, UECRetriever, retrieval_node

PASSAGES = {
    "git add": "git add stages changes of files for the next commit. The option --force adds "
    "files that are ignored.",
    "git push": "git push sends commits to a remote repository. The option --force overwrites the "
    "remote branch even if it has commits that you have not.",
    "rsync": "rsync copies files between machines and sends only what differs. The option --force "
    "deletes directories even if they are not empty.",
    "tar": "tar writes files into one archive and reads them from it. The option --exclude leaves "
    "files out of the archive.",
    "door opener": "The door opener is repaired by the caretaker within three working days. "
    "Report it by telephone.",
    "heating": "The heating is repaired within one day in winter. Report a cold flat by telephone "
    "at any time.",
}


class State(MessagesState, Gated):
    """The conversation, and what was found for its last question."""


def answer(state: State) -> dict:
    """Quote the best passage, where your model answers from `documents`."""
    return {"messages": [AIMessage(state["documents"][0].page_content)]}


def clarify(state: State) -> Command:
    """Stop until the user has replied, and search again: a reply that is a label chooses it."""
    reply = interrupt({"ask": state["clarifying_question"], "readings": state["readings"]})
    said = [AIMessage(state["clarifying_question"]), HumanMessage(reply)]
    return Command(update={"messages": said}, goto="retrieve")


def abstain(state: State) -> dict:
    """Say that nothing was found, or nothing certain."""
    return {"messages": [AIMessage(f"I do not know. {state['reason']}")]}


def build_chat(uec: UEC | None = None):
    """The graph, under the default `UEC()` unless another is passed."""
    documents = [
        Document(text, id=title, metadata={"title": title}) for title, text in PASSAGES.items()
    ]
    gate = UECGate(retriever=UECRetriever.from_documents(documents, uec))
    graph = StateGraph(State)
    graph.add_node("retrieve", retrieval_node(gate))
    graph.add_node("answer", answer)
    graph.add_node("clarify", clarify, destinations=("retrieve",))
    graph.add_node("abstain", abstain)
    graph.add_edge(START, "retrieve")
    graph.add_conditional_edges("retrieve", lambda state: state["decision"])
    graph.add_edge("answer", END)
    graph.add_edge("abstain", END)
    return graph.compile(checkpointer=InMemorySaver())


def say(chat, text: str, thread: str) -> str:
    """Send what the user says, a question or a reply, and return what the chat says."""
    config = {"configurable": {"thread_id": thread}}
    waiting = chat.get_state(config).interrupts
    given = Command(resume=text) if waiting else {"messages": [HumanMessage(text)]}
    state = chat.invoke(given, config)
    if asked := state.get("__interrupt__"):
        return asked[0].value["ask"]
    return state["messages"][-1].text


CONVERSATIONS = [
    ["Who repairs the door opener?", "And how long does it take?"],
    ["What is the force option?", "git push"],
    ["What is the force option?", "the one of rsync"],
    ["Who wrote Hamlet?"],
]


def main() -> None:
    chat = build_chat()
    for number, turns in enumerate(CONVERSATIONS):
        for turn in turns:
            print(f"> {turn}\n{say(chat, turn, str(number))}")
        print()


if __name__ == "__main__":
    main()
