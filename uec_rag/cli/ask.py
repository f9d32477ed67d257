"""`uec-rag ask`: a question to an index."""

from __future__ import annotations

import importlib
import re
import sys
import textwrap
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from uec_rag.base.checks import visible
from uec_rag.cli.console import (
    GatePath,
    Index,
    Json,
    NoGate,
    StorePlace,
    Threshold,
    Trust,
    check_index,
    note,
    open_index,
    out,
    place_of,
    plain,
    print_json,
    say,
)

if TYPE_CHECKING:
    from uec_rag.retrieval import Retriever, SearchResult
    from uec_rag.retrieval.gate import Gate
    from uec_rag.stores.base import Passage


_WIDTH = 80
_COLOURS = {"answer": "green", "clarify": "yellow", "abstain": "red"}

_PLACES = ("page", "slide", "sheet")

LEGEND = (
    "score: the similarity, lowered where it is uncertain; variance: of the similarity; relevant: "
    "probability that the passage answers the question; weights: how much each model counts for "
    "this question."
)


def answer_record(result: SearchResult, row: int) -> dict[str, object]:
    """All that is known of one question's answer, as a JSON object."""
    decision = result.decisions[row]
    return {
        "question": result.queries[row],
        "decision": decision.action,
        "reason": decision.reason,
        "confidence": decision.confidence,
        "threshold": decision.threshold,
        "in_corpus": decision.in_corpus,
        "unfamiliar": decision.unfamiliar,
        "candidates": decision.candidates,
        "coefficients": _weights(result, row),
        "exact": result.exact,
        "passages": [
            {"id": passage.id, "text": passage.text, "metadata": passage.metadata}
            | _findings(result, row, rank)
            for rank, passage in enumerate(result.passages[row])
        ],
    }


def _findings(result: SearchResult, row: int, rank: int) -> dict[str, object]:
    """What a search knows of one hit, by its plain names."""
    known = result[row].metadata(rank, details=True)
    names = ("score", "mu", "sigma2", "within", "between", "relevance", "members", "matched_terms")
    return {name: known[f"uec_{name}"] for name in names if f"uec_{name}" in known}


def print_answer(result: SearchResult, row: int, *, snippet: int) -> None:
    """Print one question's answer: decision, weights, a table with the beginning of each passage.

    The snippet is a number of characters; some 50 fill a line.
    """
    decision = result.decisions[row]
    width = min(out.width, _WIDTH)
    colour = _COLOURS[decision.action]
    weights = ", ".join(f"{name} {weight:.2f}" for name, weight in _weights(result, row).items())
    out.print(f"[bold]{plain(result.queries[row])}[/]", width=width)
    out.print(f"=> [bold {colour}]{decision.action}[/]: {plain(decision.reason)}", width=width)
    out.print(f"[dim]{decision.figures}[/]", width=width)
    out.print(f"[dim]weights: {plain(weights)}[/]", width=width)
    out.print(_table(result, row, snippet), width=width)
    out.print()


def _weights(result: SearchResult, row: int) -> dict[str, float]:
    """How much each model counts: its share of the scores, as `uec_coefficients` has it."""
    return dict(zip(result.names, result.shares[row].tolist(), strict=True))


def _table(result: SearchResult, row: int, snippet: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("score", "variance", "relevant"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("passage", ratio=1, overflow="fold")
    for rank, passage in enumerate(result.passages[row]):
        table.add_row(
            f"{result.scores[row, rank]:.3f}",
            f"{result.sigma2[row, rank]:.2g}",
            f"{result.relevance[row, rank]:.0%}",
            _beginning(passage, snippet),
        )
    return table


def _beginning(passage: Passage, characters: int) -> Text:
    """Where it comes from, and how it begins."""
    known = passage.metadata
    source = visible(str(known.get("source", passage.id)))
    place = [visible(f"{name} {known[name]}") for name in _PLACES if name in known]
    title = visible(str(known.get("title", source)))
    body = visible(passage.text).removeprefix(title)
    body = re.sub(r"(\W ?)\1{2,}", " ", body)  # underlines and borders of tables
    text = Text().append(", ".join([source, *place]), style="bold")
    if title not in (source, *place, known.get("sheet")):
        text.append(f" - {title}")
    return text.append("\n" + textwrap.shorten(body, characters, placeholder=" ..."))


_KEPT = 1000  # questions that are remembered


def ask(
    index: Index,
    question: Annotated[
        str | None,
        typer.Argument(metavar="[QUESTION]", help="In quotes; without one, ask many in turn."),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Passages to show.")] = 4,
    gate: GatePath = None,
    no_gate: NoGate = False,
    threshold: Threshold = None,
    store: StorePlace = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Answer a question from an index: the best passages, with the confidence in them.

    Without a question, prompts for questions until an empty line or the end of the input; the arrow
    keys recall earlier ones, also from previous sessions.

    Example: uec-rag ask idx "How do I reset my password?"
    """
    if question is not None and not question.strip():
        raise ValueError("QUESTION is empty; expected some words")
    check_index(index)
    place = place_of(index, store, trust, gate, no_gate, threshold)
    say(f"Opening {index} ...")
    from uec_rag.retrieval.live import gate_at

    retriever = open_index(index, store, trust)
    decides = gate_at(place, retriever)
    if decides is not None and not decides.threshold.is_controlled:
        raise ValueError(
            f"--gate: the gate in {str(gate or index)!r} abstains on every question; make another "
            "with 'uec-rag gate', from more questions or at a higher --risk"
        )
    if decides is not None and k < decides.fewest_hits:
        raise ValueError(f"-k: expected at least {decides.k}, as many as the gate is for, got {k}")
    if decides is not None and place.gate is None:
        say(f"The gate of the index decides (--no-gate: without it). {decides.report}")
    if decides is not None and not decides.fits(retriever):
        note(
            "the gate was made with another index, or before it was calibrated: what it promises "
            "is about that one. Make it again with 'uec-rag gate'"
        )
    if question is not None:
        _answer(retriever, question, k, decides, json)
    else:
        say("Ask; an empty line ends it.")
        for asked in _questions():
            _answer(retriever, asked, k, decides, json)
    if not json:
        say(LEGEND)


def _answer(retriever: Retriever, question: str, k: int, gate: Gate | None, json: bool) -> None:
    result = retriever.search([question], k=k)
    if gate is not None:
        result = result.deciding(gate.decide(result))
    if json:
        print_json(answer_record(result, 0))
    else:
        print_answer(result, 0, snippet=240)


def _questions() -> Iterator[str]:
    """Questions as they are typed, remembered from one time to the next."""
    from uec_rag.encoders.artifacts import cache_folder

    # Where somebody types, Python's input() takes the line from readline, if that is imported.
    lines = importlib.import_module("readline") if _typed() else None
    history = cache_folder() / "questions"
    if lines is not None and history.is_file():
        lines.read_history_file(history)
    try:
        while question := input("? " if _typed() else "").strip():
            yield question
    except (EOFError, KeyboardInterrupt):
        pass
    finally:
        if lines is not None:
            history.parent.mkdir(parents=True, exist_ok=True)
            lines.set_history_length(_KEPT)
            lines.write_history_file(history)


def _typed() -> bool:
    return sys.stdin.isatty() and find_spec("readline") is not None
