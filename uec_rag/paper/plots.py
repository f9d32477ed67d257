"""Pictures of confidence, calibration and coefficients, as functions of plain arrays.

Each returns a `matplotlib.figure.Figure` of its own: ``figure.savefig("x.png", dpi=150)``. Titles
are left to the caller: ``figure.axes[0].set_title(...)``. Without matplotlib all raise ImportError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uec_rag.base.environment import missing_extra
from uec_rag.paper.metrics import ABSTENTION_RATES, abstention_curve, nauc, var_ece

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Signals: TypeAlias = "ArrayLike | Mapping[str, ArrayLike]"
"""One number per query, or several such signals by name, to compare."""

_Floats = NDArray[np.float64]

# Okabe and Ito's colours, which the colour-blind can tell apart.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_INK, _GREY, _PALE = "#333333", "#767676", "#D9D9D9"
_POINTS = 200  # of a risk-coverage curve, at most


def risk_coverage(
    confidence: Signals,
    correct: ArrayLike,
    *,
    threshold: float | None = None,
    risk: float | None = None,
) -> Figure:
    """Draw the share of wrong answers over the share of queries answered, the surest first.

    Parameters
    ----------
    confidence : array_like, shape (n,), or mapping of name to such
        The higher, the sooner answered.
    correct : array_like of bool, shape (n,)
        Whether each query's answer is right.
    threshold : float, optional
        Marks what answering above this confidence gives, by the first signal; infinity: never.
    risk : float, optional
        Marks a share of wrong answers, in (0, 1), that is aimed at.

    Returns
    -------
    matplotlib.figure.Figure
        A line per signal, then the oracle's, which answers the right ones first.

    Raises
    ------
    ValueError
        If lengths differ, a signal holds NaN or infinity, `correct` anything but 0 and 1, or
        `risk` is outside (0, 1).

    Notes
    -----
    Geifman and El-Yaniv, "Selective Classification for Deep Neural Networks",
    https://arxiv.org/abs/1705.08500.

    Examples
    --------
    >>> figure = risk_coverage([0.9, 0.6, 0.3], [True, True, False])
    >>> figure.axes[0].lines[0].get_ydata().round(2).tolist()
    [0.33, 0.0, 0.0]
    """
    right = _outcomes("correct", correct)
    signals = _signals(confidence, len(right))
    if risk is not None and not 0 < risk < 1:
        raise ValueError(f"risk: expected a number between 0 and 1, both excluded, got {risk}.")
    if threshold is not None and np.isnan(threshold):
        raise ValueError("threshold: expected a number, got NaN.")
    count = len(right)
    rates = np.unique(np.linspace(0, count - 1, min(count, _POINTS)).round()) / count
    figure, axes = _figure()
    curves = {name: 1 - abstention_curve(own, right, rates) for name, own in signals.items()}
    _lines(axes, 1 - rates, curves)
    oracle = 1 - abstention_curve(right, right, rates)
    axes.plot(1 - rates, oracle, color=_GREY, linestyle="--", label="oracle")
    if threshold is not None:
        answered = next(iter(signals.values())) > threshold
        at = float(answered.mean()), float(1 - right[answered].mean()) if answered.any() else 0.0
        label = f"gate: answers {at[0]:.0%}, {at[1]:.1%} wrong"
        axes.plot(*at, "o", color=_COLOURS[0], markersize=8, clip_on=False, label=label)
    if risk is not None:
        axes.axhline(
            risk, color=_INK, linewidth=1, linestyle=":", label=f"target: {risk:.1%} wrong"
        )
    axes.set(xlabel="queries answered", ylabel="wrong among the answered", xlim=(0, 1))
    axes.set_ylim(0, 1.12 * max(0.01, risk or 0, *(line.max() for line in curves.values())))
    _percent(axes.xaxis, axes.yaxis)
    # All lines end where every query is answered: no place there for their names.
    axes.legend(frameon=False, labelcolor="linecolor", loc="best")
    return figure


def abstention(
    confidence: Signals, quality: ArrayLike, *, rates: ArrayLike = ABSTENTION_RATES
) -> Figure:
    """Draw the mean quality of the queries left when the least confident are not answered.

    Parameters
    ----------
    confidence : array_like, shape (n,), or mapping of name to such
    quality : array_like, shape (n,)
        For instance each query's nDCG@10.
    rates : array_like, shape (r,)
        Shares of the queries to abstain on, in [0, 1]; at least two, increasing.

    Returns
    -------
    matplotlib.figure.Figure
        A line per signal, then the oracle's (which knows the quality) and the flat one (which
        knows nothing): nAUC, in the labels, is 1 on the one and 0 on the other.

    Raises
    ------
    ValueError
        If lengths differ, an array holds NaN or infinity, or the rates are not as said.

    Notes
    -----
    Gisserot-Boukhlef et al., https://arxiv.org/abs/2402.12997; see `uec_rag.paper.metrics.nauc`.
    """
    at = np.asarray(rates, dtype=np.float64)
    if at.ndim != 1 or len(at) < 2 or not (np.diff(at) > 0).all() or at[0] < 0 or at[-1] > 1:
        raise ValueError(f"rates: expected at least two increasing shares in [0, 1], got {at}.")
    good = _numbers("quality", quality)
    signals = _signals(confidence, len(good))
    figure, axes = _figure()
    curves = {
        f"{name}, nAUC {nauc(own, good, at):.2f}": abstention_curve(own, good, at)
        for name, own in signals.items()
    }
    lines = _lines(axes, at, curves)
    oracle = abstention_curve(good, good, at)
    lines += axes.plot(at, oracle, color=_GREY, linestyle="--", label="oracle")
    flat = np.full(len(at), oracle[0])
    lines += axes.plot(at, flat, color=_GREY, linestyle=":", label="flat")
    axes.set(
        xlabel="queries not answered, least confident first", ylabel="mean quality of the rest"
    )
    axes.margins(x=0.02)
    _percent(axes.xaxis)
    _label_ends(axes, lines)
    return figure


def reliability_diagram(probability: ArrayLike, outcome: ArrayLike, *, bins: int = 10) -> Figure:
    """Draw how often what is predicted with a probability comes true, and how often it is.

    Parameters
    ----------
    probability : array_like, shape (n,)
        In [0, 1].
    outcome : array_like of bool, shape (n,)
    bins : int
        Of equal width, at least 1; those without examples are left out.

    Returns
    -------
    matplotlib.figure.Figure
        Above: a point per bin at its mean probability and its share of true outcomes, with a 95 %
        Wilson interval, and the expected calibration error. Below: how many examples a bin has.

    Raises
    ------
    ValueError
        If lengths differ, a probability is outside [0, 1], an outcome not 0 or 1, or bins < 1.

    Notes
    -----
    Guo et al., "On Calibration of Modern Neural Networks", https://arxiv.org/abs/1706.04599.
    """
    true = _outcomes("outcome", outcome)
    p = _numbers("probability", probability, len(true))
    if p.min() < 0 or p.max() > 1:
        raise ValueError(f"probability: expected [0, 1], got {p.min():.3g} to {p.max():.3g}.")
    if bins < 1:
        raise ValueError(f"bins: expected at least 1, got {bins}.")
    place = np.minimum((p * bins).astype(int), bins - 1)
    counts = np.bincount(place, minlength=bins)
    kept = counts > 0
    size = counts[kept]
    predicted = np.bincount(place, p, bins)[kept] / size
    observed = np.bincount(place, true, bins)[kept] / size
    error = float((size * np.abs(predicted - observed)).sum() / len(p))

    figure, axes = _figure(5.2, 5.2, ratios=(5, 1))
    low, high = _wilson(observed, size)
    axes.plot([0, 1], [0, 1], color=_GREY, linestyle="--", linewidth=1)
    diagonal = axes.text(0.97, 0.97, "calibrated", ha="right", va="bottom", color=_GREY)
    diagonal.set(rotation=45, rotation_mode="anchor", transform_rotates_text=True)
    axes.vlines(predicted, low, high, color=_COLOURS[0], linewidth=1.5, alpha=0.5)
    axes.plot(predicted, observed, "o", color=_COLOURS[0], clip_on=False)
    axes.text(0.02, 0.97, f"ECE {error:.3f}", va="top", color=_COLOURS[0], weight="bold", size=12)
    axes.set(xlim=(0, 1), ylim=(0, 1), ylabel="share that came true")
    axes.tick_params(labelbottom=False)
    below = figure.axes[1]
    below.bar((np.arange(bins) + 0.5) / bins, counts, 0.9 / bins, color=_PALE)
    below.set(xlim=(0, 1), yscale="log", xlabel="predicted probability", ylabel="examples")
    return figure


def coefficient_heatmap(
    coefficients: ArrayLike, groups: Sequence[str], encoders: Sequence[str]
) -> Figure:
    """Draw how much each encoder counts, on average over groups of queries (paper figure 4).

    Parameters
    ----------
    coefficients : array_like, shape (n, K)
        Of n queries, or means of n groups; at least 0.
    groups : sequence of str
        The group of each, for instance a language; drawn in the order of their first appearance.
    encoders : sequence of str
        K names.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        If the shapes do not fit, or a coefficient is negative or not finite.
    """
    pi = np.asarray(coefficients, dtype=np.float64)
    if pi.shape != (len(groups), len(encoders)) or not pi.size:
        raise ValueError(
            f"coefficients: expected shape ({len(groups)}, {len(encoders)}), a row per entry of "
            f"groups and a column per encoder, at least one of each; got {pi.shape}."
        )
    if not (np.isfinite(pi).all() and pi.min() >= 0):
        raise ValueError("coefficients: expected finite numbers of at least 0.")
    names = list(dict.fromkeys(groups))
    own = np.array(groups)
    means = np.stack([pi[own == name].mean(axis=0) for name in names])
    widest = max(11, *(len(name) for name in encoders))
    figure, axes = _figure(2.4 + 0.075 * widest * len(encoders), 0.9 + 0.55 * len(names))
    top = max(float(means.max()), 1e-9)
    axes.imshow(means, cmap="Blues", vmin=0, vmax=top, aspect="auto")
    for row, column in np.ndindex(*means.shape):
        colour = "white" if means[row, column] > 0.6 * top else _INK
        number = f"{means[row, column]:.2f}"
        axes.text(column, row, number, ha="center", va="center", color=colour, size=11)
    axes.set_xticks(range(len(encoders)), list(encoders))
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure


def variance_error_bins(
    mean: ArrayLike, variance: ArrayLike, target: ArrayLike, *, bins: int = 10
) -> Figure:
    """Draw predicted variance beside squared error, in bins of equal size by variance.

    Parameters
    ----------
    mean, variance : array_like, shape (n,)
        For instance mu_s and sigma_s^2 of each pair.
    target : array_like, shape (n,)
        What `mean` predicts.
    bins : int
        1 to n.

    Returns
    -------
    matplotlib.figure.Figure
        Two points per bin: its mean variance, its mean squared error; with Var-ECE, the mean of
        the gaps between them.

    Raises
    ------
    ValueError
        As `uec_rag.paper.metrics.var_ece`.

    Notes
    -----
    Paper eq. 31.
    """
    gap = var_ece(mean, variance, target, bins)  # checks all four
    sigma2 = np.asarray(variance, dtype=np.float64)
    squared = (np.asarray(mean, dtype=np.float64) - np.asarray(target, dtype=np.float64)) ** 2
    parts = np.array_split(np.argsort(sigma2, kind="stable"), bins)
    predicted = np.array([sigma2[part].mean() for part in parts])
    observed = np.array([squared[part].mean() for part in parts])
    figure, axes = _figure()
    number = np.arange(1, bins + 1)
    axes.vlines(number, predicted, observed, color=_PALE, linewidth=5)
    lines = _lines(
        axes, number, {"predicted variance": predicted, "squared error": observed}, marker="o"
    )
    axes.text(0.02, 0.97, f"Var-ECE {gap:.3g}", transform=axes.transAxes, va="top", weight="bold")
    axes.set(
        xlabel="examples in bins of equal size, by predicted variance", ylabel="mean of the bin"
    )
    axes.set_xticks(number)
    axes.set_ylim(0, 1.15 * max(predicted.max(), observed.max(), 1e-12))
    _label_ends(axes, lines)
    return figure


def _figure(
    width: float = 7.0, height: float = 4.0, ratios: tuple[int, ...] = (1,)
) -> tuple[Figure, Axes]:
    """A figure outside pyplot, with axes one under the other; the first is returned too."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ImportError(missing_extra("matplotlib", "plots")) from error
    figure = Figure(figsize=(width, height), layout="constrained")
    for axes in figure.subplots(len(ratios), squeeze=False, height_ratios=ratios).flat:
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(_GREY)
        axes.tick_params(color=_GREY, labelcolor=_INK)
    return figure, figure.axes[0]


def _lines(
    axes: Axes, x: ArrayLike, curves: Mapping[str, _Floats], marker: str = ""
) -> list[Line2D]:
    """A line per curve, in colours that repeat after six."""
    return [
        axes.plot(
            x, y, marker=marker, color=_COLOURS[row % len(_COLOURS)], linewidth=2, label=name
        )[0]
        for row, (name, y) in enumerate(curves.items())
    ]


def _label_ends(axes: Axes, lines: Sequence[Line2D]) -> None:
    """Write each line's name at its right end, moved up where the one below leaves no room."""
    room = 0.065 * np.ptp(axes.get_ylim())
    lowest = -np.inf
    for line in sorted(lines, key=lambda line: float(line.get_ydata()[-1])):  # type: ignore[index,arg-type]
        x, y = (float(values[-1]) for values in line.get_data())  # type: ignore[index,arg-type]
        lowest = max(y, lowest + room)
        name = axes.annotate(str(line.get_label()), (x, lowest), (8, 0), textcoords="offset points")
        name.set(color=line.get_color(), va="center")


def _percent(*axes: Axis) -> None:
    from matplotlib.ticker import PercentFormatter

    for axis in axes:
        axis.set_major_formatter(PercentFormatter(1))


def _wilson(share: _Floats, count: NDArray[np.int64]) -> tuple[_Floats, _Floats]:
    """95 % confidence interval of a share seen in `count` examples."""
    z2 = 1.96**2
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = np.sqrt(z2 * share * (1 - share) / count + (z2 / (2 * count)) ** 2) / (1 + z2 / count)
    return middle - half, middle + half


def _signals(confidence: Signals, count: int) -> dict[str, _Floats]:
    if not isinstance(confidence, Mapping):
        return {"confidence": _numbers("confidence", confidence, count)}
    if not confidence:
        raise ValueError("confidence: expected at least one signal, got an empty mapping.")
    return {name: _numbers(f"confidence[{name!r}]", own, count) for name, own in confidence.items()}


def _numbers(name: str, values: ArrayLike, count: int | None = None) -> _Floats:
    out = np.asarray(values, dtype=np.float64)
    if out.ndim != 1 or not len(out) or len(out) != (count or len(out)):
        expected = f"shape ({count},)" if count else "one number per example"
        raise ValueError(f"{name}: expected {expected}, got shape {out.shape}.")
    if not np.isfinite(out).all():
        raise ValueError(f"{name}: holds NaN or infinity; expected finite numbers.")
    return out


def _outcomes(name: str, values: ArrayLike) -> _Floats:
    out = _numbers(name, values)
    if not np.isin(out, (0, 1)).all():
        raise ValueError(f"{name}: expected only True and False, or 0 and 1.")
    return out
