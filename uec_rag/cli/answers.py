"""Answers as commands print them: the decision, the passages with their numbers, the weights."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from rich.text import Text

from uec_rag.base.checks import visible
from uec_rag.cli.console import out, plain
from uec_rag.documents.document import body_of

if TYPE_CHECKING:
    from uec_rag.retrieval.result import Result
    from uec_rag.stores.base import Passage

LEGEND = (
    "score: the similarity, reduced if it is uncertain; variance: of the similarity; relevant: "
    "probability that the passage answers the question; weights: how much each model counts for "
    "this question."
)

_COLOURS = {"answer": "green", "clarify": "yellow", "abstain": "red"}
_PLACES = ("page", "slide", "sheet")
# Fences of code, underlines and borders of tables.
_MARKS = re.compile(r"^[^\S\n]*(?:`{3}|~{3}).*$|([-=_~^*+|] ?)\1{2,}", re.MULTILINE)


def print_answer(result: Result, *, first: int, others: int) -> None:
    """Print the answer to a question.

    `first`, `others`: number of characters to show of the first passage, and of each other.
    """
    from uec_rag.retrieval.tool import weights_of

    decision = result.decision
    colour = _COLOURS[decision.action]
    out.print(f"[bold]{plain(result.query)}[/]")
    out.print(f"=> [bold {colour}]{decision.action}[/]: {plain(decision.reason)}\n")
    for rank, passage in enumerate(result.passages):
        out.print(beginning(passage, others if rank else first))
        out.print(
            f"[dim]relevant {result.relevance[rank]:.0%}, score {result.scores[rank]:.3f}, "
            f"variance {result.sigma2[rank]:.2g}[/]\n"
        )
    weights = ", ".join(f"{name} {weight:.2f}" for name, weight in weights_of(result).items())
    sure = f"confidence {decision.confidence:.2f}, in corpus {decision.in_corpus:.2f}"
    out.print(f"[dim]{sure}; weights: {plain(weights)}[/]\n")


def beginning(passage: Passage, characters: int) -> Text:
    """Format the source and the beginning of a passage, without fences and borders."""
    fields = passage.metadata
    source = visible(str(fields.get("source", passage.id)))
    location = [visible(f"{name} {fields[name]}") for name in _PLACES if name in fields]
    title = visible(str(fields.get("title", source)))
    body = _MARKS.sub(" ", visible(body_of(passage)))
    text = Text().append(", ".join([source, *location]), style="bold")
    if title not in (source, *location, fields.get("sheet")):
        text.append(f" - {title}")
    return text.append("\n" + textwrap.shorten(body, characters, placeholder=" ..."))
