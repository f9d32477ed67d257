"""UEC varied: its parts taken away (paper table 7), beta and temperature turned (section D)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper import plots
from benchmarks.paper.analyses.base import METRICS, Result, image, looked_into, number, quality
from benchmarks.paper.data import Collection
from benchmarks.paper.metrics import score_retrieval
from benchmarks.paper.plan import Group
from benchmarks.paper.results import Json, markdown
from benchmarks.paper.systems import Ensemble, variation
from uec_rag.ensemble import UEC


@dataclass(frozen=True)
class Outcome:
    """One setting, means over the collections.

    Attributes
    ----------
    name : str
    ndcg10, recall10, auc10 : float
    """

    name: str
    ndcg10: float
    recall10: float
    auc10: float


def outcome(
    name: str, uec: UEC, collections: Sequence[Collection], *, calibrated: bool = False
) -> Outcome:
    """Measure one ensemble on collections."""
    system = Ensemble(name, "UEC", uec, calibrated=calibrated)
    results = []
    for collection in collections:
        found = system.search(list(collection.queries.values()), collection.passages, 100)
        scores = score_retrieval(collection, found.ids, found.confidence)
        results.append((scores.ndcg10, scores.recall10, scores.auc10))
    return Outcome(name, *np.mean(results, axis=0).tolist())


def run_ablation(groups: Sequence[Group], *, paper: bool = False) -> Json:
    """Measure UEC, or UEC.paper, without its parts."""
    uec, collections = looked_into(groups, paper=paper)
    rows = ablation(uec, collections, calibrated=not paper)
    return {"collections": [c.name for c in collections], "rows": [asdict(row) for row in rows]}


def section_ablation(result: Result, path: Path) -> Iterator[str]:
    """Write a table."""
    yield (
        f"Parts taken away (paper table 7); means over {', '.join(result['collections'])}. "
        '"- confidence" abstains by the top score, and so do the rows below it.'
    )
    yield markdown(
        ["", *METRICS.values()],
        [[row["name"], *quality(row)] for row in result["rows"]],
    )


def ablation(uec: UEC, collections: Sequence[Collection], *, calibrated: bool) -> list[Outcome]:
    """Measure an ensemble whole, without s_hat, without its coefficients, and without both.

    Parameters
    ----------
    uec : UEC
        Fitted.
    collections : sequence of Collection
    calibrated : bool
        Whether confidence is the retriever's; then leaving that out is a row of its own.
    """
    plain: dict[str, Any] = {"coefficients": "uniform"}
    rows = [outcome("UEC", uec, collections, calibrated=calibrated)]
    if calibrated:
        rows.append(outcome("- confidence", uec, collections))
    return [
        *rows,
        outcome("- similarity", variation(uec, beta=0.0), collections),
        outcome("- coefficients", variation(uec, **plain), collections),
        outcome("- similarity, coefficients", variation(uec, beta=0.0, **plain), collections),
    ]


BETAS = (0.0, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
TEMPERATURES = (0.01, 0.05, 0.1, 0.5, 1.0, 1.5, 1.8, 3.0, 10.0)


def run_sensitivity(groups: Sequence[Group], *, paper: bool = False) -> Json:
    """Measure UEC, or UEC.paper, over a range of each knob."""
    uec, collections = looked_into(groups, paper=paper)
    curves = sensitivity(uec, collections)
    return {
        "collections": [collection.name for collection in collections],
        "curves": {knob: [asdict(row) for row in rows] for knob, rows in curves.items()},
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
