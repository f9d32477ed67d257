"""A search result as people and as machines read it."""

import re
import textwrap
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from uec_rag.base.visible import visible
from uec_rag.cli.console import out, plain

if TYPE_CHECKING:
    from uec_rag.retrieval import SearchResult
    from uec_rag.stores.base import Passage

_WIDTH = 80
_COLOURS = {"answer": "green", "clarify": "yellow", "abstain": "red"}

LEGEND = (
    "s_hat: score, the similarity lowered where it is uncertain; sigma_s^2: variance of the "
    "similarity; relevant: probability that the passage answers the question; weights: how much "
    "each model counts for this question."
)


def answer_record(result: "SearchResult", row: int) -> dict[str, object]:
    """One question's answer as a JSON object."""
    decision = result.decisions[row]
    return {
        "question": result.queries[row],
        "decision": decision.action,
        "reason": decision.reason,
        "confidence": float(result.confidence[row]),
        "coefficients": _weights(result, row),
        "passages": [
            {
                "id": passage.id,
                "text": passage.text,
                "metadata": passage.metadata,
                "s_hat": float(result.scores[row, rank]),
                "mu": float(result.mu[row, rank]),
                "sigma2": float(result.sigma2[row, rank]),
                "relevance": float(result.relevance[row, rank]),
            }
            for rank, passage in enumerate(result.passages[row])
        ],
    }


def print_answer(result: "SearchResult", row: int, *, snippet: int) -> None:
    """Print one question's answer: decision, weights, a table with the beginning of each passage.

    The snippet is a number of characters; some 50 fill a line.
    """
    decision = result.decisions[row]
    width = min(out.width, _WIDTH)
    colour = _COLOURS[decision.action]
    weights = ", ".join(f"{name} {weight:.2f}" for name, weight in _weights(result, row).items())
    out.print(f"[bold]{plain(result.queries[row])}[/]", width=width)
    out.print(f"=> [bold {colour}]{decision.action}[/]: {plain(decision.reason)}", width=width)
    out.print(f"[dim]weights: {plain(weights)}[/]", width=width)
    out.print(_table(result, row, snippet), width=width)
    out.print()


def _weights(result: "SearchResult", row: int) -> dict[str, float]:
    return dict(zip(result.names, result.coefficients[row].tolist(), strict=True))


def _table(result: "SearchResult", row: int, snippet: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("s_hat", "sigma_s^2", "relevant"):
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


def _beginning(passage: "Passage", characters: int) -> Text:
    """Where it comes from, and how it begins."""
    source = visible(str(passage.metadata.get("source", passage.id)))
    title = visible(str(passage.metadata.get("title", source)))
    body = visible(passage.text).removeprefix(title)
    body = re.sub(r"(\W ?)\1{2,}", " ", body)  # underlines and borders of tables
    text = Text().append(source, style="bold")
    if title != source:
        text.append(f" - {title}")
    return text.append("\n" + textwrap.shorten(body, characters, placeholder=" ..."))
