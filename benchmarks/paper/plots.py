"""Pictures of the report; each writes a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DPI = 130


def bars(
    path: Path, groups: Sequence[str], series: Mapping[str, Sequence[float]], label: str
) -> None:
    """Grouped bars: one group per name, one bar per series; NaN leaves a gap.

    Parameters
    ----------
    path : path
        PNG to write.
    groups : sequence of str
    series : mapping of name -> one number per group
    label : str
        Of the vertical axis.
    """
    figure, axes = _report_figure(max(6.0, 0.55 * len(groups) * len(series) ** 0.5 + 3), 4.2)
    width = 0.8 / max(1, len(series))
    x = np.arange(len(groups))
    for index, (name, values) in enumerate(series.items()):
        heights = np.asarray(values, dtype=float)
        axes.bar(x + (index - (len(series) - 1) / 2) * width, heights, width, label=name)
    axes.set_xticks(x, groups, rotation=40, ha="right")
    axes.set_ylabel(label)
    finite = np.concatenate([np.asarray(v, dtype=float) for v in series.values()])
    finite = finite[np.isfinite(finite)]
    if len(finite):  # from a round number below the smallest: differences are what matters
        axes.set_ylim(min(0.0, float(finite.min())) if finite.min() < 0.3 else finite.min() - 0.1)
    figure.legend(fontsize=7, ncols=4, loc="outside upper center")  # not over a bar
    _save(figure, path)


def stacked(
    path: Path,
    groups: Sequence[str],
    series: Mapping[str, Sequence[float]],
    colours: Mapping[str, str],
    label: str,
) -> None:
    """Horizontal bars of parts, from left to right, with their numbers written in.

    Parameters
    ----------
    path : path
        PNG to write.
    groups : sequence of str
        The bars, from top to bottom.
    series : mapping of name -> one number per group
    colours : mapping of name -> colour
    label : str
        Of the horizontal axis.
    """
    figure, axes = _report_figure(9.0, 1.3 + 0.42 * len(groups))
    left = np.zeros(len(groups))
    for name, values in series.items():
        widths = np.asarray(values, dtype=float)
        bar = axes.barh(range(len(groups)), widths, left=left, color=colours[name], label=name)
        axes.bar_label(bar, [f"{w:g}" if w else "" for w in widths], label_type="center", size=8)
        left += widths
    axes.set_yticks(range(len(groups)), list(groups))
    axes.invert_yaxis()
    axes.set_xlabel(label)
    axes.set_xlim(0, left.max())
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(fontsize=8, ncols=4, loc="outside upper center")
    _save(figure, path)


def heatmap(path: Path, matrix: ArrayLike, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Heatmap with its numbers written in (paper figure 4).

    Parameters
    ----------
    path : path
    matrix : array_like, shape (len(rows), len(columns))
    rows, columns : sequence of str
    """
    means = np.asarray(matrix, dtype=np.float64)
    widest = max(11, *(len(name) for name in columns))
    figure, axes = _report_figure(2.4 + 0.075 * widest * len(columns), 0.9 + 0.55 * len(rows))
    top = max(float(means.max()), 1e-9)
    axes.imshow(means, cmap="Blues", vmin=0, vmax=top, aspect="auto")
    for row, column in np.ndindex(*means.shape):
        colour = "white" if means[row, column] > 0.6 * top else "black"
        axes.text(column, row, f"{means[row, column]:.2f}", ha="center", va="center", color=colour)
    axes.set_xticks(range(len(columns)), list(columns))
    axes.set_yticks(range(len(rows)), list(rows))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    _save(figure, path)


def curves(
    path: Path,
    x: Sequence[float],
    series: Mapping[str, Sequence[float]],
    labels: tuple[str, str],
    *,
    log: tuple[bool, bool] = (True, False),
    dashed: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Lines over a common axis.

    Parameters
    ----------
    path : path
    x : sequence of float
        A 0 on a logarithmic axis is drawn a decade below the smallest positive value.
    series : mapping of name -> one number per x
    labels : (str, str)
        Of the two axes.
    log : (bool, bool)
        Which axes are logarithmic.
    dashed : mapping, optional
        A second line for some of the names, dashed and in the same colour.
    """
    figure, axes = _report_figure(5.6, 3.8 + 0.12 * len(series))
    at = np.asarray(x, dtype=float)
    if log[0] and (at == 0).any():
        at = np.where(at == 0, at[at > 0].min() / 10, at)
    for name, values in series.items():
        line = axes.plot(at, np.asarray(values, dtype=float), marker="o", markersize=3, label=name)
        if dashed is not None and name in dashed:
            second = np.asarray(dashed[name], dtype=float)
            axes.plot(at, second, linestyle="--", color=line[0].get_color())
    if log[0]:
        axes.set_xscale("log")
    if log[1]:
        axes.set_yscale("log")
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.grid(alpha=0.3)
    figure.legend(fontsize=7, ncols=3 if len(series) < 4 else 2, loc="outside lower center")
    _save(figure, path)


def reliability(path: Path, rows: Mapping[str, Sequence[Sequence[float]]]) -> None:
    """Accuracy over confidence, one line per classifier; the diagonal is perfect calibration.

    Parameters
    ----------
    path : path
    rows : mapping of name -> (confidence, accuracy, share) per bin
    """
    figure, axes = _report_figure(4.6, 4.2)
    axes.plot([0.5, 1], [0.5, 1], color="grey", linestyle="--", linewidth=1)
    for name, bins in rows.items():
        if len(bins):
            confidence, accuracy, share = np.asarray(bins, dtype=float).T
            line = axes.plot(confidence, accuracy, linewidth=1, label=name)[0]
            axes.scatter(confidence, accuracy, s=150 * share + 5, color=line.get_color())
    axes.set_xlabel("confidence")
    axes.set_ylabel("accuracy")
    axes.legend(fontsize=7)
    _save(figure, path)


def _report_figure(width: float, height: float) -> tuple[Figure, Axes]:
    # Not pyplot: it would look for a screen, and keep every figure alive.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without the date and version that matplotlib writes, the same figures are the same bytes.
    figure.savefig(path, dpi=_DPI, metadata={"Software": None})
