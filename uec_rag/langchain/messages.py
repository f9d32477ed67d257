"""Conversations in LangChain's messages, as the turns that a question is searched with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
)
from langchain_core.messages.utils import convert_to_messages

from uec_rag.ensemble.views import turns_of, with_turns

Question: TypeAlias = str | Mapping[str, Any]
"""The question itself, or a mapping with a "question" or an "input", and maybe "chat_history"."""

_EXPECTED = "a list of messages or strings, oldest first"


def question_and_turns(given: object, history: object = None) -> tuple[str, list[str]]:
    """Take a question and the turns before it out of what a chain was given.

    Parameters
    ----------
    given : Question
    history : sequence of messages or str, optional
        Instead of the mapping's "chat_history".

    Raises
    ------
    TypeError
        If there is no question, or the history is not one.
    """
    question: object = given
    if isinstance(given, Mapping):
        question = given.get("question", given.get("input"))
        history = given.get("chat_history") if history is None else history
    if not isinstance(question, str):
        raise TypeError(
            'input: expected a question, a string, or a mapping with a string "question" or '
            f'"input", got {given!r:.80}.'
        )
    return question, turns(history)


def joined(questions: Sequence[Question], history: Sequence[object] | None) -> list[Question]:
    """Join questions with the turns before each, as mappings.

    Raises ValueError if there are not as many lists as questions.
    """
    if history is None:
        return [*questions]
    return [
        {**(one if isinstance(one, Mapping) else {"question": one}), "chat_history": before}
        for one, before in with_turns(questions, history)
    ]


def turns(history: object) -> list[str]:
    """Extract the turns that a question is searched with: see `uec_rag.ensemble.views.turns_of`.

    Of a message its text counts. A string stays whatever it says.

    `history`: messages, what LangChain makes messages of (tuples, dicts), or strings; or None.
    Raises TypeError if it is something else.
    """
    if history is None:
        return []
    if isinstance(history, str | Mapping | BaseMessage) or not isinstance(history, Sequence):
        raise TypeError(f"history: expected {_EXPECTED}, got {history!r:.60}.")
    return turns_of(_speaker_and_text(one, place) for place, one in enumerate(history))


def _speaker_and_text(given: object, place: int) -> tuple[str, str]:
    try:
        [message] = convert_to_messages([cast(Any, given)])
    except (NotImplementedError, TypeError, ValueError) as error:
        raise TypeError(f"history[{place}]: expected {_EXPECTED}, got {given!r:.60}.") from error
    asks = isinstance(message, HumanMessage)
    if asks or (isinstance(message, ChatMessage) and message.role == "user"):
        return "user", message.text
    return "assistant" if isinstance(message, AIMessage) else message.type, message.text


def messages_of(state: object) -> Sequence[AnyMessage]:
    """Return the messages of a graph's state: its "messages", or all of it if it is a list."""
    found = state if isinstance(state, list) else member(state, "messages")
    return cast(Sequence[AnyMessage], found or [])


def member(state: object, key: str) -> object:
    """Return a value of a graph's state, a mapping or an object; None if it has none."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


def place_of_question(messages: Sequence[AnyMessage]) -> int:
    """Find the place of the last human message; behind all of them if there is none."""
    asked = [place for place, one in enumerate(messages) if isinstance(one, HumanMessage)]
    return asked[-1] if asked else len(messages)
