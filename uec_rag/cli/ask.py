"""`uec-rag ask`: questions to an index."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from uec_rag.cli.answers import LEGEND, print_answer
from uec_rag.cli.console import Json, print_json, say
from uec_rag.cli.opening import GatePath, Index, StoreUrl, Threshold, Trust, open_index
from uec_rag.confidence.readings import Reading
from uec_rag.confidence.replies import UnknownReading, clarifying_question, find_readings

if TYPE_CHECKING:
    from uec_rag.confidence.decision import Decision

_NEW = "/new"  # starts a new conversation


def ask(
    index: Index,
    question: Annotated[
        str | None, typer.Argument(help="In quotes; without it, prompts for questions.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Passages to show.")] = 4,
    gate: GatePath = None,
    threshold: Threshold = None,
    store: StoreUrl = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Print the decision, confidence and best passages for a question.

    Without a question, prompts for questions until an empty line or the end of the input. This is a
    conversation: follow-ups are searched with the questions before them. If you are asked what you
    mean, reply with its number or name, or in other words. /new begins another subject. With
    --json, each answer is one line.

    Example: uec-rag ask idx "How do I reset my password?"
    """
    from uec_rag.retrieval.tool import answer_record

    retriever = open_index(index, store, trust, gate, threshold)
    if threshold is None and retriever.gate is not None:
        say(f"The gate decides (omit it with --threshold 0.5). {retriever.gate.report}")

    def answer(asked: str, before: Sequence[str] = (), within: Reading | None = None) -> Decision:
        """Search for a question, print the result and return the decision."""
        [result] = retriever.search([asked], k=k, history=[before], within=within)
        if json:
            print_json(answer_record(result), on_one_line=question is None)
        else:
            print_answer(result, first=1000, others=240)
        return result.decision

    if question is not None:
        answer(question)
    else:
        say(f"Ask a question, then follow-up questions. {_NEW} starts a new subject.")
        _converse(answer)
    if not json:
        say(LEGEND)


def _converse(search: Callable[[str, Sequence[str], Reading | None], Decision]) -> None:
    """Answer lines of input as a conversation.

    `search`: function of a question, the turns before it, and its chosen reading or None.
    """
    turns, before, asked, meant = list[str](), list[str](), "", list[Reading]()
    for line in _questions():
        if line == _NEW:
            turns, meant = [], []
            continue
        named = list[Reading]()
        with suppress(UnknownReading):
            named = find_readings(line, meant)
        chosen = named[0] if len(named) == 1 else None
        if chosen is None:
            # A reply in other words is only understood with the question that it replies to.
            turns += [clarifying_question(meant)] if meant else []
            asked, before = line, [*turns]
        decision = search(asked, before, chosen)
        turns.append(line if chosen is None else chosen.title)
        meant = [*decision.readings] if decision.action == "clarify" else []
        for number, reading in enumerate(meant, start=1):
            say(f"{number}: {reading.title}")


def _questions() -> Iterator[str]:
    """Yield lines of input until an empty one or the end."""
    with suppress(ImportError):  # if available, it adds line editing to input()
        importlib.import_module("readline")
    with suppress(EOFError, KeyboardInterrupt):
        while question := input("? " if sys.stdin.isatty() else "").strip():
            yield question
