"""Retrieval in a LangGraph graph: a node that decides, and an edge that goes where it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from uec_rag.confidence.decision import Action
from uec_rag.langchain.gated import Gated, told


def retrieval_node(retriever: Runnable[Any, Any]) -> Runnable[Any, Gated]:
    """Make a node that retrieves and writes the keys of `Gated` into a graph's state.

    The question is the state's "question" or, where there is none, its last human message.

    Parameters
    ----------
    retriever : Runnable
        A `UECGate`, a `UECRetriever`, or a LangChain retriever built on one.

    Examples
    --------
    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> from uec_rag.langchain import UECRetriever
    >>> embedding = DeterministicFakeEmbedding(size=8)
    >>> node = retrieval_node(UECRetriever.from_texts(["cats purr", "dogs bark"], embedding))
    >>> state = node.invoke({"messages": [HumanMessage("dogs bark")]})
    >>> state["documents"][0].page_content, route_on_decision(state)
    ('dogs bark', 'answer')
    """

    def node(state: object, config: RunnableConfig) -> Gated:
        question = _question(state)
        return told(question, retriever.invoke(question, config))

    async def anode(state: object, config: RunnableConfig) -> Gated:
        question = _question(state)
        return told(question, await retriever.ainvoke(question, config))

    return RunnableLambda(node, anode, name="retrieve")


def route_on_decision(state: object) -> Action:
    """Return "answer", "clarify" or "abstain"; for `add_conditional_edges`.

    Reads the state's "decision" from `retrieval_node`, or the messages of `retriever_tool` since
    the last human message; of several searches, the best outcome counts.

    Raises
    ------
    ValueError
        If the state has neither.
    """
    match _of(state, "decision"):
        case "answer" | "clarify" | "abstain" as action:
            return action
    found = searches(_messages(state))
    if not found:
        raise ValueError(
            "state: it has no decision; expected one from retrieval_node, or a message of a "
            "retriever_tool since the last human one."
        )
    return best(found)["decision"]


def searches(messages: Sequence[AnyMessage]) -> list[Gated]:
    """Return the results of `retriever_tool` since the last human message, oldest first."""
    found: list[Gated] = []
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            break
        if isinstance(message, ToolMessage) and _is_gated(message.artifact):
            found.append(message.artifact)
    return found[::-1]


def best(found: Sequence[Gated]) -> Gated:
    """Return the surest search that answers, else the surest that asks back."""
    order: list[Action] = ["abstain", "clarify", "answer"]
    return max(found, key=lambda one: (order.index(one["decision"]), one["confidence"]))


def _is_gated(artifact: object) -> bool:
    return isinstance(artifact, Mapping) and Gated.__annotations__.keys() <= artifact.keys()


def _question(state: object) -> str:
    question = _of(state, "question")
    if isinstance(question, str) and question:
        return question
    for message in reversed(_messages(state)):
        if isinstance(message, HumanMessage):
            return message.text
    raise ValueError('state: expected a "question", or a human message among its "messages".')


def _messages(state: object) -> Sequence[AnyMessage]:
    return cast(Sequence[AnyMessage], _of(state, "messages") or [])


def _of(state: object, key: str) -> object:
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)
