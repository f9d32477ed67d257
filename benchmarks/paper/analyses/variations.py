"""UEC varied: its parts taken away (paper table 7), beta and temperature turned (section D)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper import plots
from benchmarks.paper.analyses.base import METRICS, Result, image, looked_into, number, quality
from benchmarks.paper.data import Collection
from benchmarks.paper.plan import Group
from benchmarks.paper.results import Json, markdown
from benchmarks.paper.systems import Ensemble, variation
from benchmarks.paper.tasks import Retrieval
from uec_rag.ensemble import UEC


def outcome(
    name: str, uec: UEC, collections: Sequence[Collection], *, calibrated: bool = False
) -> Json:
    """Measure one ensemble on collections: means of its metrics."""
    tasks = [Retrieval(collection) for collection in collections]
    found = [task.evaluate(Ensemble(name, "UEC", uec, calibrated=calibrated)) for task in tasks]
    return {"name": name, **{key: float(np.mean([row[key] for row in found])) for key in METRICS}}


def run_ablation(groups: Sequence[Group], *, paper: bool = False) -> Json:
    """Measure UEC, or UEC.paper, whole, without s_hat, without its coefficients, and without both.

    Where confidence is the retriever's, leaving that out is a row of its own.
    """
    uec, collections = looked_into(groups, paper=paper)
    plain: dict[str, Any] = {"coefficients": "uniform"}
    kinds = {
        "- similarity": variation(uec, beta=0.0),
        "- coefficients": variation(uec, **plain),
        "- similarity, coefficients": variation(uec, beta=0.0, **plain),
    }
    rows = [outcome("UEC", uec, collections, calibrated=not paper)]
    rows += [outcome("- confidence", uec, collections)] * (not paper)
    rows += [outcome(name, other, collections) for name, other in kinds.items()]
    return {"collections": [c.name for c in collections], "rows": rows}


def section_ablation(result: Result, path: Path) -> Iterator[str]:
    """Write a table."""
    yield (
        f"Parts taken away (paper table 7); means over {', '.join(result['collections'])}. "
        '"- confidence" abstains by the top score, and so do the rows below it.'
    )
    yield markdown(
        ["", *METRICS.values()], [[row["name"], *quality(row)] for row in result["rows"]]
    )


BETAS = (0.0, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
TEMPERATURES = (0.01, 0.05, 0.1, 0.5, 1.0, 1.5, 1.8, 3.0, 10.0)


def run_sensitivity(groups: Sequence[Group], *, paper: bool = False) -> Json:
    """Measure UEC, or UEC.paper, over a range of beta, and of the trace rule's temperature T.

    The top score is the confidence.
    """
    uec, collections = looked_into(groups, paper=paper)
    trace: dict[str, Any] = {"coefficients": "trace"}
    curves = {
        "beta": {beta: variation(uec, beta=beta) for beta in BETAS},
        "temperature": {t: variation(uec, **trace, temperature=t) for t in TEMPERATURES},
    }
    return {
        "collections": [collection.name for collection in collections],
        "curves": {
            knob: [outcome(f"{value:g}", other, collections) for value, other in kinds.items()]
            for knob, kinds in curves.items()
        },
    }


def section_sensitivity(result: Result, path: Path) -> Iterator[str]:
    """Write a table and a figure for each knob."""
    yield (
        f"Means over {', '.join(result['collections'])}; abstention by the top score. T is that of "
        "the trace rule."
    )
    for knob, rows in result["curves"].items():
        x = [float(row["name"]) for row in rows]
        own = path.with_name(f"{path.stem}_{knob}.png")
        series = {label: [number(row[metric]) for row in rows] for metric, label in METRICS.items()}
        plots.curves(own, x, series, (knob, ""))
        yield markdown([knob, *METRICS.values()], [[row["name"], *quality(row)] for row in rows])
        yield image(f"sensitivity to {knob}", own)
