"""Take the parts of UEC away one by one (paper table 7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from uec_rag.ensemble import UEC
from uec_rag.paper.analyses.base import METRICS, Result, looked_into, quality
from uec_rag.paper.analyses.outcome import Outcome, outcome
from uec_rag.paper.collections import Collection
from uec_rag.paper.groups import Group
from uec_rag.paper.results import Json
from uec_rag.paper.systems import variation
from uec_rag.paper.tables import markdown


def run(groups: Sequence[Group], *, paper: bool = False) -> Json:
    """Measure UEC, or UEC.paper, without its parts."""
    uec, collections = looked_into(groups, paper=paper)
    rows = ablation(uec, collections, calibrated=not paper)
    return {"collections": [c.name for c in collections], "rows": [asdict(row) for row in rows]}


def section(result: Result, path: Path) -> Iterator[str]:
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
