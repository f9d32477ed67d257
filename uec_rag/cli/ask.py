"""`uec-rag ask`: a question to an index."""

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uec_rag.cli.answers import LEGEND, answer_record, print_answer
from uec_rag.cli.console import note, print_json, say
from uec_rag.cli.options import Json, check_index

if TYPE_CHECKING:
    from uec_rag.retrieval import Retriever
    from uec_rag.retrieval.gate import Gate

_KEPT = 1000  # questions that are remembered


def ask(
    index: Annotated[
        Path, typer.Argument(metavar="INDEX", help="A folder that 'uec-rag index' made.")
    ],
    question: Annotated[
        str | None,
        typer.Argument(metavar="[QUESTION]", help="In quotes; without one, ask many in turn."),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Passages to show.")] = 5,
    gate: Annotated[
        Path | None, typer.Option(metavar="GATE", help="A gate that 'uec-rag gate' made.")
    ] = None,
    json: Json = False,
) -> None:
    """Answer a question from an index: the best passages, and whether to trust them.

    Without a question it asks for one after the other, until an empty line or the end of the
    input; earlier ones come back with the arrow keys, those of former times too.

    Example: uec-rag ask idx "How do I reset my password?"
    """
    if question is not None and not question.strip():
        raise ValueError("QUESTION is empty; expected some words")
    check_index(index)
    say(f"Opening {index} ...")
    from uec_rag.retrieval import Retriever
    from uec_rag.retrieval.gate import Gate

    decides = None if gate is None else Gate.load(gate)
    if decides is not None and k < decides.k:
        raise ValueError(f"-k: expected at least {decides.k}, as many as the gate is for, got {k}")
    retriever = Retriever.load(index)
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


def _answer(retriever: "Retriever", question: str, k: int, gate: "Gate | None", json: bool) -> None:
    result = retriever.search([question], k=k)
    if gate is not None:
        result = replace(result, decisions=gate.decide(result))
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
