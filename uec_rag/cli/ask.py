"""`uec-rag ask`: questions to an index."""

from __future__ import annotations

import importlib
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from uec_rag.base.checks import six_digits, visible
from uec_rag.cli.console import (
    GatePath,
    Index,
    Json,
    NoGate,
    StoreUrl,
    Threshold,
    Trust,
    check_deciding,
    note,
    open_index,
    out,
    plain,
    print_json,
    say,
)
from uec_rag.confidence.readings import Reading
from uec_rag.confidence.replies import UnknownReading, clarifying_question, find_readings
from uec_rag.documents.document import body_of

if TYPE_CHECKING:
    from uec_rag.confidence.decision import Decision
    from uec_rag.retrieval import Retriever, SearchResult
    from uec_rag.stores.base import Passage


_COLOURS = {"answer": "green", "clarify": "yellow", "abstain": "red"}

_NEW = "/new"  # starts a new conversation
_COMMAND = re.compile(r"/\w+")
_PLACES = ("page", "slide", "sheet")
# Fences of code, underlines and borders of tables.
_MARKS = re.compile(r"^[^\S\n]*(?:`{3}|~{3}).*$|([-=_~^*+|] ?)\1{2,}", re.MULTILINE)

LEGEND = (
    "score: the similarity, reduced if it is uncertain; variance: of the similarity; relevant: "
    "probability that the passage answers the question; weights: how much each model counts for "
    "this question."
)


def answer_record(result: SearchResult, row: int) -> dict[str, object]:
    """Return everything known about the answer to one question, for JSON."""
    outcome = result[row]
    names = (
        "score",
        "mu",
        "sigma2",
        "model_variance",
        "disagreement",
        "relevance",
        "encoders",
        "matched_terms",
    )
    passages = []
    for rank, passage in enumerate(outcome.passages):
        fields = outcome.metadata(rank, details=True)
        numbers = {n: fields[f"uec_{n}"] for n in names if f"uec_{n}" in fields}
        own = {"id": passage.id, "text": passage.text, "metadata": passage.metadata}
        passages.append(own | six_digits(numbers))
    return {
        "question": outcome.query,
        **six_digits(outcome.decision.metadata()),
        "weights": six_digits(_weights(result, row)),
        "exact": result.exact,
        "passages": passages,
    }


def print_answer(result: SearchResult, row: int, *, first: int, others: int) -> None:
    """Print the answer to one question: the decision, the passages, each with its numbers, weights.

    `first`, `others`: number of characters to show of the first passage, and of each other.
    """
    decision = result.decisions[row]
    colour = _COLOURS[decision.action]
    out.print(f"[bold]{plain(result.queries[row])}[/]")
    out.print(f"=> [bold {colour}]{decision.action}[/]: {plain(decision.reason)}\n")
    for rank, passage in enumerate(result.passages[row]):
        out.print(_beginning(passage, others if rank else first))
        out.print(
            f"[dim]relevant {result.relevance[row, rank]:.0%}, score "
            f"{result.scores[row, rank]:.3f}, variance {result.sigma2[row, rank]:.2g}[/]\n"
        )
    weights = ", ".join(f"{name} {weight:.2f}" for name, weight in _weights(result, row).items())
    out.print(f"[dim]{decision.figures}; weights: {plain(weights)}[/]\n")


def _weights(result: SearchResult, row: int) -> dict[str, float]:
    """Return the weight of each model: its share of the scores, as in `uec_weights`."""
    return dict(zip(result.names, result.shares[row].tolist(), strict=True))


def _beginning(passage: Passage, characters: int) -> Text:
    """Format the source and the beginning of a passage."""
    fields = passage.metadata
    source = visible(str(fields.get("source", passage.id)))
    location = [visible(f"{name} {fields[name]}") for name in _PLACES if name in fields]
    title = visible(str(fields.get("title", source)))
    body = _MARKS.sub(" ", visible(body_of(passage)))
    text = Text().append(", ".join([source, *location]), style="bold")
    if title not in (source, *location, fields.get("sheet")):
        text.append(f" - {title}")
    return text.append("\n" + textwrap.shorten(body, characters, placeholder=" ..."))


def ask(
    index: Index,
    question: Annotated[
        str | None, typer.Argument(help="In quotes; without it, prompts for questions.")
    ] = None,
    history: Annotated[
        list[str],
        typer.Option(metavar="TURN", help="What was asked before, oldest first; repeatable."),
    ] = [],  # noqa: B006
    chat: Annotated[
        bool,
        typer.Option("--chat", help="Treat the questions as a conversation, as on a terminal."),
    ] = False,
    k: Annotated[int, typer.Option("-k", min=1, help="Passages to show.")] = 4,
    gate: GatePath = None,
    no_gate: NoGate = False,
    threshold: Threshold = None,
    store: StoreUrl = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Print the decision, confidence and best passages for a question.

    Without a question, prompts for questions until an empty line or the end of the input. On a
    terminal, this is a conversation: follow-ups are searched with the questions before them. If you
    are asked what you mean, reply with its number or name, or in other words. /new begins another
    subject. With --json, each answer is one line.

    Example: uec-rag ask idx "How do I reset my password?"
    """
    check_deciding(index, gate, no_gate=no_gate, threshold=threshold)
    from uec_rag.retrieval.gate import OUTDATED

    retriever = open_index(index, store, trust, gate, no_gate=no_gate, threshold=threshold)
    decides = retriever.gate
    if decides is not None and decides.threshold >= 1:
        raise ValueError(
            f"--gate: the gate in {str(gate or index)!r} abstains on every question; make another "
            "with 'uec-rag gate', from more questions or with a higher --max-wrong or --max-risk"
        )
    if decides is not None and gate is None and threshold is None:
        say(f"The index's gate decides (use --no-gate to turn it off). {decides.report}")
    if decides is not None:
        compared = replace(decides, corpus="")  # a search would compare, and warn, again
        if not decides.fits(retriever):
            note(OUTDATED)
            compared = replace(compared, basis="", size=0)
        retriever.gate = compared
    first = [] if question is None else [question]
    several = chat or not first
    answer = partial(_answer, retriever, k, json, several)
    if chat or (not first and sys.stdin.isatty()):
        say(
            f"Ask a question, then follow-up questions. {_NEW} starts a new subject, an empty "
            "line quits."
        )
        _converse(answer, chain(first, _questions()), history)
    else:
        if not first:
            say(
                "Each line is a question of its own; no conversation is kept, as --chat would. An "
                "empty line quits."
            )
        for asked in first or _questions():
            answer(asked, history)
    if not json:
        say(LEGEND)


def _answer(
    retriever: Retriever,
    k: int,
    json: bool,
    on_one_line: bool,
    question: str,
    history: Sequence[str],
    within: Reading | None = None,
) -> Decision:
    """Search for a question, print the result and return the decision."""
    result = retriever.search([question], k=k, history=[history], within=within)
    if json:
        print_json(answer_record(result, 0), on_one_line=on_one_line)
    else:
        print_answer(result, 0, first=1000, others=240)
    return result.decisions[0]


def _converse(
    search: Callable[[str, Sequence[str], Reading | None], Decision],
    lines: Iterable[str],
    history: Sequence[str],
) -> None:
    """Answer lines of input as a conversation.

    `search`: function of a question, the turns before it, and its chosen reading or None.
    """
    turns, before, asked, meant = [*history], [*history], "", list[Reading]()
    for line in lines:
        if line == _NEW:
            turns, meant = [], []
            continue
        if _COMMAND.fullmatch(line):
            say(f"Unknown command {line}. {_NEW} starts a new subject, an empty line quits.")
            continue
        if line.isdecimal() and meant and not 0 < int(line) <= len(meant):
            say(f"Choose a number from 1 to {len(meant)}, or say which is meant.")
            continue
        chosen = _choose(line, meant)
        if chosen is None:
            # A reply in other words is only understood with the question that it replies to.
            turns += [clarifying_question(meant)] if meant else []
            asked, before = line, [*turns]
        decision = search(asked, before, chosen)
        turns.append(line if chosen is None else chosen.title)
        meant = [*decision.readings] if decision.action == "clarify" else []
        for number, reading in enumerate(meant, start=1):
            say(f"{number}: {reading.title}")


def _choose(line: str, meant: Sequence[Reading]) -> Reading | None:
    """Return the single reading that a line chooses, by number or label; None if it does not."""
    try:
        named = find_readings(line, meant)
    except UnknownReading:
        return None
    return named[0] if len(named) == 1 else None


def _questions() -> Iterator[str]:
    """Yield lines of input until an empty one or the end."""
    with suppress(ImportError):  # if available, it adds line editing to input()
        importlib.import_module("readline")
    with suppress(EOFError, KeyboardInterrupt):
        while question := input("? " if sys.stdin.isatty() else "").strip():
            yield question
