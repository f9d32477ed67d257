"""Latency of one query against the number of passages, drawn from what `search.py` measured.

    python benchmarks/search.py --json latency.json
    python benchmarks/latency.py latency.json [more.json ...] [--out docs/images/latency.png]

A panel per width, both axes logarithmic. Of a case that is in several files the last one counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from uec_rag.paper import plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# What the plain search is compared with is drawn over its broad grey line, not beside it.
PLAIN = "plain"
SYSTEMS = ("UEC search", "UEC score", "faiss", "LangChain", "LlamaIndex")
_NAMES = {
    PLAIN: "plain product, NumPy",
    "UEC search": "UEC, whole search",
    "UEC score": "UEC, top 10 by score",
    "faiss": "faiss IndexFlatIP",
    "LangChain": "LangChain InMemory",
    "LlamaIndex": "LlamaIndex Simple",
}
_DPI = 130
_ROOM = 0.055  # between two labels, of a panel's height

Curve = NDArray[np.float64]
"""Numbers of passages and seconds, (2, n), the smallest corpus first."""


def curves(rows: Sequence[Mapping[str, object]], batch: int = 1) -> dict[int, dict[str, Curve]]:
    """Each system's curve, by width.

    Parameters
    ----------
    rows : sequence of mapping
        "search" of `search.py --json`.
    batch : int
        Queries at a time.

    Raises
    ------
    ValueError
        If no row is of that batch.
    """
    found: dict[int, dict[str, dict[float, float]]] = {}
    for row in rows:
        if row["batch"] == batch and row["system"] in (PLAIN, *SYSTEMS):
            systems = found.setdefault(int(str(row["width"])), {})
            curve = systems.setdefault(str(row["system"]), {})
            curve[float(str(row["passages"]))] = float(str(row["seconds"]))
    if not found:
        raise ValueError(f"batch: no row is of {batch} queries at a time; measure some.")
    return {
        width: {name: np.array(sorted(points.items())).T for name, points in systems.items()}
        for width, systems in sorted(found.items())
    }


def latency(by_width: Mapping[int, Mapping[str, Curve]]) -> Figure:
    """Draw a panel per width, a line per system.

    Parameters
    ----------
    by_width : mapping
        What `curves` returns.
    """
    from matplotlib.ticker import StrMethodFormatter

    figure, _ = plots._figure(7.0, 4.2 * len(by_width), (1,) * len(by_width))
    for axes, (width, systems) in zip(figure.axes, by_width.items(), strict=True):
        axes.set(xscale="log", yscale="log", ylabel="milliseconds a query")
        axes.set_title(f"{width} dimensions, one query", loc="left", weight="bold", size=11)
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        lines = [
            _line(axes, systems[name], name, plots._COLOURS[i])
            for i, name in enumerate(SYSTEMS)
            if name in systems
        ]
        if PLAIN in systems:
            lines.append(_line(axes, systems[PLAIN], PLAIN, plots._GREY))
            lines[-1].set(linewidth=8, markersize=8, alpha=0.3, zorder=1)
        _label_ends(axes, lines)
    figure.axes[-1].set_xlabel("passages")
    return figure


def _line(axes: Axes, curve: Curve, name: str, colour: str) -> Line2D:
    passages, seconds = curve
    (line,) = axes.plot(
        passages, 1e3 * seconds, marker="o", markersize=4, linewidth=2, color=colour
    )
    line.set_label(_NAMES[name])
    return line


def _label_ends(axes: Axes, lines: Sequence[Line2D]) -> None:
    """Write each line's name to the right of its end, moved up where one below leaves no room."""
    low, high = np.log(axes.get_ylim())
    lowest: dict[float, float] = {}
    for line in sorted(lines, key=lambda line: float(np.asarray(line.get_ydata())[-1])):
        x, y = (float(np.asarray(values)[-1]) for values in line.get_data())
        at = max(np.log(y), lowest.get(x, -np.inf) + _ROOM * (high - low))
        lowest[x] = at
        label = axes.annotate(
            str(line.get_label()), (x, float(np.exp(at))), (9, 0), textcoords="offset points"
        )
        label.set(color=line.get_color(), va="center", size=9, annotation_clip=False)


def main(
    measured: Annotated[list[Path], typer.Argument(help="What search.py wrote with --json.")],
    out: Annotated[Path, typer.Option(help="The picture.")] = Path("docs/images/latency.png"),
) -> None:
    """Draw the picture."""
    rows = [row for file in measured for row in json.loads(file.read_text())["search"]]
    figure = latency(curves(rows))
    out.parent.mkdir(parents=True, exist_ok=True)
    # Without matplotlib's version in it, the same picture is the same file.
    figure.savefig(out, dpi=_DPI, metadata={"Software": None})
    print(out)


if __name__ == "__main__":
    typer.run(main)
