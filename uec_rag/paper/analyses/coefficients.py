"""Mean coefficient of each encoder over each collection's queries (paper figure 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from uec_rag.paper import figures
from uec_rag.paper.analyses.base import Result, image, searched, subset
from uec_rag.paper.groups import Group
from uec_rag.paper.results import Json
from uec_rag.paper.systems import Ensemble
from uec_rag.paper.tables import markdown


def run(groups: Sequence[Group]) -> Json:
    """Search the subset's collections with UEC and average what each encoder counted."""
    group = subset(groups)
    rows: Json = {}
    for collection in searched(group):
        system = Ensemble("UEC", "UEC", group.lineup.fitted())
        found = system.retrieve(list(collection.queries.values()), collection.passages, 10)
        rows[collection.name] = found.coefficients.mean(axis=0).tolist()
    return {"encoders": list(group.lineup.fitted().names), "rows": rows}


def section(result: Result, path: Path) -> Iterator[str]:
    """Write a table and a heatmap."""
    yield "Mean coefficient of each encoder over a collection's queries, by UEC (paper figure 4)."
    rows = result["rows"]
    figures.heatmap(path, list(rows.values()), list(rows), result["encoders"])
    yield markdown(
        ["Queries of", *result["encoders"]],
        [[name, *(f"{value:.3f}" for value in values)] for name, values in rows.items()],
    )
    yield image("coefficients", path)
