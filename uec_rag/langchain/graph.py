"""Components of graphs: a retrieval node and a routing function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from uec_rag.confidence.advice import Advisor
from uec_rag.confidence.decision import Action
from uec_rag.langchain.documents import messages_of, place_of_question, state_value
from uec_rag.langchain.gate import UECGate, as_advisor
from uec_rag.langchain.gated import Gated, in_context, is_gated, read_decision


def retrieval_node(
    retriever: Runnable[Any, Any], advisor: BaseChatModel | Advisor | None = None
) -> Runnable[Any, Gated]:
    """Create a node that retrieves and writes the keys of `Gated` into a graph's state.

    The question is the state's "question" or, if there is none or it was left by an earlier turn,
    the last human message. A `UECGate` or a `UECRetriever` searches with the turns before it in the
    state's "messages", and within the chosen reading in the state's "within", which applies to one
    question.

    Parameters
    ----------
    retriever : Runnable
        A `UECGate`, a `UECRetriever`, or a LangChain retriever built on one.
    advisor : BaseChatModel or callable, optional
        As in `UECGate`; the retriever is then not a gate itself.

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
    if advisor is not None:
        retriever = UECGate(retriever=retriever, advisor=as_advisor(advisor))

    def node(state: object, config: RunnableConfig) -> Gated:
        question, before = _question_and_messages(state)
        asked, within = in_context(retriever, question, before), _chosen_reading(state)
        found = retriever.invoke(asked, config, **within)
        return _updates(question, found, within)

    async def anode(state: object, config: RunnableConfig) -> Gated:
        question, before = _question_and_messages(state)
        asked, within = in_context(retriever, question, before), _chosen_reading(state)
        found = await retriever.ainvoke(asked, config, **within)
        return _updates(question, found, within)

    return RunnableLambda(node, anode, name="retrieve")


def _updates(
    question: str, found: Mapping[str, Any] | Sequence[Document], within: Mapping[str, Any]
) -> Gated:
    """Return what the node writes; the chosen reading applies to this search only."""
    return cast(Gated, {**read_decision(question, found), **dict.fromkeys(within)})


def route_on_decision(state: object) -> Action:
    """Return "answer", "clarify" or "abstain"; for `add_conditional_edges`.

    Read the state's "decision" from `retrieval_node`, or the messages of `retriever_tool` since the
    last human message; of several searches, the best outcome is used.

    Raises
    ------
    ValueError
        If the state has neither.
    """
    match state_value(state, "decision"):
        case "answer" | "clarify" | "abstain" as action:
            return action
    outputs = searches(messages_of(state))
    if not outputs:
        raise ValueError(
            "state: has no decision; expected one from retrieval_node, or a message of a "
            "retriever_tool after the last human message."
        )
    return best(outputs)["decision"]


def searches(messages: Sequence[AnyMessage]) -> list[Gated]:
    """Return the results of `retriever_tool` since the last human message, oldest first."""
    outputs: list[Gated] = []
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            break
        if isinstance(message, ToolMessage) and is_gated(message.artifact):
            outputs.append(message.artifact)
    return outputs[::-1]


def best(found: Sequence[Gated]) -> Gated:
    """Return the search with the best decision and, among these, the highest confidence."""
    order: list[Action] = ["abstain", "clarify", "answer"]
    return max(found, key=lambda one: (order.index(one["decision"]), one["confidence"]))


def _question_and_messages(state: object) -> tuple[str, Sequence[AnyMessage]]:
    """Return the question, and the messages before it."""
    question, messages = state_value(state, "question"), messages_of(state)
    position = place_of_question(messages)
    if not isinstance(question, str) or not question or _is_earlier(question, state):
        if position == len(messages):
            raise ValueError('state: expected a "question", or a human message in its "messages".')
        question = messages[position].text
    # The state's question may be among the messages, or come after all of them.
    asked = position < len(messages) and messages[position].text == question
    return question, messages[:position] if asked else messages


def _is_earlier(question: str, state: object) -> bool:
    """Return whether a state's question was left by the search of an earlier turn.

    A checkpointer keeps it for the next turn. If a reading is chosen, the question is asked again.
    """
    if not state_value(state, "decision") or _chosen_reading(state):
        return False
    said = [message.text for message in messages_of(state) if isinstance(message, HumanMessage)]
    return question in said[:-1] and question != said[-1]


def _chosen_reading(state: object) -> dict[str, Any]:
    chosen = state_value(state, "within")
    return {} if chosen is None else {"within": chosen}
