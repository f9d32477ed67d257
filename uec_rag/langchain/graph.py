"""Retrieval in a LangGraph graph: a node that decides, and an edge that follows the decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from uec_rag.confidence.decision import Action
from uec_rag.langchain.documents import member, messages_of, place_of_question, turns
from uec_rag.langchain.gated import Gated, in_context, told


def retrieval_node(retriever: Runnable[Any, Any]) -> Runnable[Any, Gated]:
    """Make a node that retrieves and writes the keys of `Gated` into a graph's state.

    The question is the state's "question" or, if there is none or it is an earlier human message
    that was searched for, the last human message. A `UECGate` or a `UECRetriever` searches with the
    turns before it, of the state's "messages", and within the reading that was chosen, the state's
    "within", which holds for one question.

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
        question, before = _question_and_turns(state)
        found = retriever.invoke(in_context(retriever, question, before), config, **_within(state))
        return _written(state, told(question, found))

    async def anode(state: object, config: RunnableConfig) -> Gated:
        question, before = _question_and_turns(state)
        given, options = in_context(retriever, question, before), _within(state)
        return _written(state, told(question, await retriever.ainvoke(given, config, **options)))

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
    match member(state, "decision"):
        case "answer" | "clarify" | "abstain" as action:
            return action
    found = searches(messages_of(state))
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


def _question_and_turns(state: object) -> tuple[str, list[str]]:
    question, messages = member(state, "question"), messages_of(state)
    place = place_of_question(messages)
    if not isinstance(question, str) or not question or _is_earlier(question, state):
        if place == len(messages):
            raise ValueError('state: expected a "question", or a human message in its "messages".')
        question = messages[place].text
    # A question of its own may be in the messages, too, or come after all of them.
    asked = place < len(messages) and messages[place].text == question
    return question, turns(messages[:place] if asked else messages)


def _is_earlier(question: str, state: object) -> bool:
    """Tell if a state's question is of an earlier turn, left there by a search.

    With a checkpointer it is there in the next turn. With a reading chosen it is asked once more.
    """
    if not member(state, "decision") or _within(state):
        return False
    said = [message.text for message in messages_of(state) if isinstance(message, HumanMessage)]
    return question in said[:-1] and question != said[-1]


def _within(state: object) -> dict[str, Any]:
    chosen = member(state, "within")
    return {} if chosen is None else {"within": chosen}


def _written(state: object, found: Gated) -> Gated:
    """Update a state with a search's output, and drop the reading that was chosen for it."""
    return cast(Gated, {**found, **dict.fromkeys(_within(state))})
