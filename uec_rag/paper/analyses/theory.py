"""How the residuals of theorems 1 and 2 shrink with the variances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from uec_rag.paper import figures
from uec_rag.paper.analyses.base import Result, image, number
from uec_rag.paper.analyses.theorems import Scaling, theorem_1, theorem_2
from uec_rag.paper.groups import Group
from uec_rag.paper.results import Json
from uec_rag.paper.tables import markdown


def run(groups: Sequence[Group]) -> Json:
    """Check both theorems; no encoder takes part."""
    return {
        name: [_scaling(regime) for regime in theorem()]
        for name, theorem in (("theorem 1", theorem_1), ("theorem 2", theorem_2))
    }


def _scaling(found: Scaling) -> Json:
    row = asdict(found)
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in row.items()}


def section(result: Result, path: Path) -> Iterator[str]:
    """Write a table and a figure for each theorem."""
    yield (
        "How the residual of s_hat against W2 (theorem 1) and Jeffreys (theorem 2) falls with eps, "
        "the largest variance: order 2 is what the paper states. The corrected residual has the "
        "two first-order terms taken off that the paper's proof takes for second-order ones. Rank "
        "agreement is of s_hat with the distance, from the largest eps to the smallest."
    )
    for name in ("theorem 1", "theorem 2"):
        rows = result[name]
        own = path.with_name(f"{name.replace(' ', '_')}.png")
        series, corrected = (
            {row["name"]: [number(value) for value in row[key]] for row in rows}
            for key in ("residual", "corrected")
        )
        figures.curves(
            own,
            rows[0]["epsilons"],
            series,
            ("eps", "residual (dashed: corrected)"),
            log=(True, True),
            dashed=corrected,
        )
        yield f"**{name[0].upper()}{name[1:]}**"
        yield markdown(
            ["Regime", "assumptions", "order", "order, corrected", "rank agreement"],
            [
                [
                    row["name"],
                    "hold" if row["holds"] else "broken",
                    f"{number(row['slope']):.2f}",
                    f"{number(row['corrected_slope']):.2f}",
                    f"{number(row['agreement'][-1]):.3f} – {number(row['agreement'][0]):.3f}",
                ]
                for row in rows
            ],
        )
        yield image(name, own)
