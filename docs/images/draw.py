"""The picture of what a search and a passage cost, by store and size.

It was measured once, which takes hours: benchmarks/results/scale, by `engines.py` and
`ten_million.py --json`.

    python docs/images/draw.py [--out docs/images]
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, StrMethodFormatter

_MEASURED = Path(__file__).parents[2] / "benchmarks" / "results" / "scale"
# Okabe and Ito's colours, which the colour-blind can tell apart.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")


def cost(measured: Sequence[Mapping[str, Any]]) -> Figure:
    """Milliseconds a query and bytes on the disk against the number of passages, by store.

    Of an engine those with the fewest candidates; the lower one where kinds of questions differ.

    Parameters
    ----------
    measured : sequence of mapping
        What `benchmarks/engines.py --json` writes, of one encoder.
    """
    times: dict[str, dict[int, float]] = {}
    sizes: dict[str, dict[int, float]] = {}
    for run in sorted(measured, key=lambda run: run["passages"]):
        for row in run["filled"]:
            whole = row["bytes"] + row.get("of its index", 0)
            sizes.setdefault(row["store"], {})[run["passages"]] = whole / 1e9
        given = [row["candidates"] for row in run["found"] if row.get("candidates")]
        for row in run["found"]:
            if row.get("candidates", 0) in (0, min(given, default=0)):
                points = times.setdefault(row["store"], {})
                known = points.get(run["passages"], np.inf)
                points[run["passages"]] = min(known, row["ms a query"])
    figure = Figure(figsize=(7.0, 8.4), layout="constrained")
    figure.subplots(2)
    titles = ("A search of one question, milliseconds", "On the disk, GB")
    for axes, title, by_store in zip(figure.axes, titles, (times, sizes), strict=True):
        axes.set(xscale="log", yscale="log")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(title, loc="left", weight="bold", size=11)
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        for colour, store in zip(_COLOURS, sizes, strict=False):
            points = by_store[store]
            axes.plot([*points], [*points.values()], "o-", color=colour, linewidth=2, label=store)
        axes.legend(frameon=False)
    figure.axes[-1].set_xlabel("passages")
    return figure


def main(
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("docs/images"),
) -> None:
    """Draw it."""
    runs = [json.loads(file.read_text()) for file in sorted(_MEASURED.glob("*.json"))]
    # Without matplotlib's version in it, the same picture is the same file.
    cost(runs).savefig(out / "cost.png", dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    typer.run(main)
