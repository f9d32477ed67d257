"""What analyses are made of: which group they look at, and how they write what they found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.paper.data import Collection
from benchmarks.paper.plan import LANGUAGES, Group
from benchmarks.paper.results import Json
from benchmarks.paper.tasks import Retrieval
from uec_rag.encoders import Encoded, Encoder
from uec_rag.ensemble import UEC
from uec_rag.laplace.pairs import Pairs

Result = Mapping[str, Any]
"""An analysis as it is read from a run's folder."""

METRICS = {"ndcg10": "nDCG@10", "recall10": "Recall@10", "auc10": "AUC@10"}
"""What settings of one ensemble are compared by."""


@dataclass(frozen=True)
class Analysis:
    """One analysis: how it is run, and its section of the report.

    Attributes
    ----------
    name : str
        Title of the section, and of the result in the run's folder.
    run : callable(groups) -> JSON-able dict
    section : callable(result, path) -> iterator of str
        Paragraphs; `path` is where its figure goes.
    applies : callable(groups) -> bool
        Whether these groups have what it needs.
    printed : str
        The paper's own table, shown below it.
    """

    name: str
    run: Callable[[Sequence[Group]], Json]
    section: Callable[[Result, Path], Iterator[str]]
    applies: Callable[[Sequence[Group]], bool] = lambda groups: True
    printed: str = ""


def subset(groups: Sequence[Group]) -> Group:
    """Where the paper has its MIRACL subset: language-specialised models, else the main group."""
    return next((group for group in groups if group.name == LANGUAGES), groups[0])


def searched(group: Group) -> list[Collection]:
    """Collections of a group's retrieval tasks."""
    return [task.data for task in group.plan.tasks if isinstance(task, Retrieval)]


def has_collections(groups: Sequence[Group]) -> bool:
    """Whether there is anything to search."""
    return bool(searched(subset(groups)))


def has_proxy(groups: Sequence[Group]) -> bool:
    """Whether there is a pair task to be calibrated on."""
    return bool(groups[0].plan.proxy)


def looked_into(groups: Sequence[Group], *, paper: bool) -> tuple[UEC, list[Collection]]:
    """UEC.paper of the main group, or UEC of the subset; with the collections it searches."""
    group = groups[0] if paper else subset(groups)
    return group.lineup.paper() if paper else group.lineup.fitted(), searched(group)


def encode_pairs(encoder: Encoder, pairs: Pairs) -> tuple[Encoded, Encoded]:
    """Queries and passages of some pairs."""
    return encoder.encode(pairs.queries, "query"), encoder.encode(pairs.passages, "passage")


def quality(row: Result) -> list[str]:
    """The three metrics of a row, in per cent."""
    return [f"{100 * number(row[metric]):.2f}" for metric in METRICS]


def number(value: float | None) -> float:
    """Read a number: what is None in a run's folder was NaN."""
    return float("nan") if value is None else value


def within(value: float | None, error: float | None, unit: float = 1, digits: int = 4) -> str:
    """A number and how far off it may be."""
    if value is None or error is None:  # NaN in a run's results
        return "-"
    return f"{unit * value:.{digits}f} ± {unit * error:.{digits}f}"


def image(text: str, path: Path) -> str:
    """A figure beside the report."""
    return f"![{text}]({path.name})"
