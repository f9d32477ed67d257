"""Turn the knobs of UEC: beta and the temperature of its coefficients (paper section D)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from uec_rag.ensemble import UEC
from uec_rag.paper import figures
from uec_rag.paper.analyses.base import METRICS, Result, image, looked_into, number, quality
from uec_rag.paper.analyses.outcome import Outcome, outcome
from uec_rag.paper.collections import Collection
from uec_rag.paper.groups import Group
from uec_rag.paper.results import Json
from uec_rag.paper.systems import variation
from uec_rag.paper.tables import markdown

BETAS = (0.0, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
TEMPERATURES = (0.01, 0.05, 0.1, 0.5, 1.0, 1.5, 1.8, 3.0, 10.0)


def run(groups: Sequence[Group], *, paper: bool = False) -> Json:
    """Measure UEC, or UEC.paper, over a range of each knob."""
    uec, collections = looked_into(groups, paper=paper)
    curves = sensitivity(uec, collections)
    return {
        "collections": [collection.name for collection in collections],
        "curves": {knob: [asdict(row) for row in rows] for knob, rows in curves.items()},
    }


def section(result: Result, path: Path) -> Iterator[str]:
    """Write a table and a figure for each knob."""
    yield (
        f"Means over {', '.join(result['collections'])}; abstention by the top score. T is that of "
        "the trace rule."
    )
    for knob, rows in result["curves"].items():
        x = [float(row["name"]) for row in rows]
        own = path.with_name(f"{path.stem}_{knob}.png")
        series = {label: [number(row[metric]) for row in rows] for metric, label in METRICS.items()}
        figures.curves(own, x, series, (knob, ""))
        yield markdown(
            [knob, *METRICS.values()],
            [[row["name"], *quality(row)] for row in rows],
        )
        yield image(f"sensitivity to {knob}", own)


def sensitivity(uec: UEC, collections: Sequence[Collection]) -> dict[str, list[Outcome]]:
    """Measure an ensemble over a range of beta, and of the trace rule's temperature T.

    The top score is the confidence.

    Parameters
    ----------
    uec : UEC
        Fitted.
    collections : sequence of Collection
    """
    return {
        "beta": [outcome(f"{beta:g}", variation(uec, beta=beta), collections) for beta in BETAS],
        "temperature": [
            outcome(
                f"{value:g}", variation(uec, coefficients="trace", temperature=value), collections
            )
            for value in TEMPERATURES
        ],
    }
