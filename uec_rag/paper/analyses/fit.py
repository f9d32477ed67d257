"""What fitting found for each group's UEC."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from uec_rag.paper.analyses.base import Result
from uec_rag.paper.groups import Group
from uec_rag.paper.results import Json
from uec_rag.paper.tables import markdown


def run(groups: Sequence[Group]) -> Json:
    """Collect the reports of fitting."""
    return {group.name: _fit(group) for group in groups}


def _fit(group: Group) -> Json:
    report = group.lineup.fitted().report
    assert report is not None
    return asdict(report)


def section(result: Result, path: Path) -> Iterator[str]:
    """Write a table for each group."""
    yield "What fitting found for UEC; NLL is that of the probit predictive on held-out pairs."
    for group, report in result.items():
        if not isinstance(report, dict):
            continue
        yield f"{group}: {report['structure']} posterior, {report['likelihood']} likelihood"
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
