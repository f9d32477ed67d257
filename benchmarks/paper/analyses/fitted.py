"""What fitting found for each group's UEC, and how much each encoder then counts (figure 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.paper import plots
from benchmarks.paper.analyses.base import Result, image, searched, subset
from benchmarks.paper.plan import Group
from benchmarks.paper.results import Json, markdown
from benchmarks.paper.systems import Ensemble


def run_fit(groups: Sequence[Group]) -> Json:
    """Collect the reports of fitting."""
    fitted = {group.name: group.lineup.fitted() for group in groups}
    return {
        name: {"structure": uec.fitted.options.structure, **asdict(uec.report)}
        for name, uec in fitted.items()
        if uec.report
    }


def section_fit(result: Result, path: Path) -> Iterator[str]:
    """Write a table for each group."""
    yield "What fitting found for UEC; NLL is that of the probit predictive on held-out pairs."
    for group, report in result.items():
        if not isinstance(report, dict):
            continue
        yield f"{group}: {report['structure']} posterior"
        yield markdown(
            ["Encoder", "pairs", "slope", "prior precision", "scale", "NLL", "without variance"],
            [
                [
                    name,
                    str(row["pairs"]),
                    f"{row['slope']:.1f}",
                    f"{row['prior_precision']:.2g}",
                    f"{row['scale']:.2g}",
                    f"{row['nll']:.4f}",
                    f"{row['nll_deterministic']:.4f}",
                ]
                for name, row in report["encoders"].items()
            ],
        )


def run_coefficients(groups: Sequence[Group]) -> Json:
    """Search the subset's collections with UEC and average what each encoder counted."""
    group = subset(groups)
    rows: Json = {}
    for collection in searched(group):
        system = Ensemble("UEC", "UEC", group.lineup.fitted())
        found = system.retrieve(list(collection.queries.values()), collection.passages, 10)
        rows[collection.name] = found.coefficients.mean(axis=0).tolist()
    return {"encoders": list(group.lineup.fitted().names), "rows": rows}


def section_coefficients(result: Result, path: Path) -> Iterator[str]:
    """Write a table and a heatmap."""
    yield "Mean coefficient of each encoder over a collection's queries, by UEC (paper figure 4)."
    rows = result["rows"]
    plots.heatmap(path, list(rows.values()), list(rows), result["encoders"])
    yield markdown(
        ["Queries of", *result["encoders"]],
        [[name, *(f"{value:.3f}" for value in values)] for name, values in rows.items()],
    )
    yield image("coefficients", path)
