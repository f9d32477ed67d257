"""How many questions a gate answers, simulated.

    python -m benchmarks.quality.gate

Prints, over logistic confidence of three accuracies and two strengths, the share that
`Gate(max_risk=...)` answers over that of an oracle, which knows the risk of every threshold; the
largest share of draws in which the risk exceeds its target; and what the best single threshold
answers, which only who knows the risks could choose, tested by all of delta.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, expit

from benchmarks.tables import print_table, run_script
from uec_rag.confidence import risk as ours

Floats = NDArray[np.float64]

SPLITS = 200
DELTA = 0.05
RISKS = (0.05, 0.1, 0.2)


@dataclass(frozen=True, eq=False)
class Draw:
    """Questions that a threshold is chosen on, and the risks of those that it is looked at with."""

    sure: Floats
    right: NDArray[np.bool_]
    asked: Floats
    wrong: Floats


def oracle(draw: Draw, risk: float) -> float:
    """Most questions that can be answered, by falling confidence, at no more than the risk."""
    order = np.argsort(-draw.asked, kind="stable")
    mean = np.cumsum(draw.wrong[order]) / np.arange(1, len(order) + 1)
    within = np.flatnonzero(mean <= risk)
    return (int(within[-1]) + 1) / len(order) if len(within) else 0.0


def figures(draws: Sequence[Draw], risk: float) -> list[float]:
    """Shares that an oracle and the gate answer, how often that is over, the best threshold's."""
    rows, count = [], len(draws[0].sure)
    shown, beyond = np.zeros(count), np.zeros(count)
    for draw in draws:
        taken = draw.asked > ours.risk_threshold(draw.sure, draw.right, risk, DELTA).threshold
        over = taken.any() and draw.wrong[taken].mean() > risk
        rows.append([oracle(draw, risk), taken.mean(), over])
        order = np.argsort(-draw.sure)
        wrong, answered = np.cumsum(~draw.right[order]), np.arange(1, count + 1)
        shown += bdtr(wrong, answered, risk) <= DELTA
        limits = np.append(draw.sure[order], -np.inf)[1:]
        beyond += 1 - np.searchsorted(np.sort(draw.asked), limits, "right") / len(draw.asked)
    best = float((shown * beyond).max()) / len(draws) ** 2
    return [*np.mean(rows, axis=0).tolist(), best]


def simulated() -> list[list[str]]:
    """A row for each number of labels and risk, over six kinds of confidence."""
    table = []
    rng = np.random.default_rng(0)
    for count, risk in product((50, 100, 200, 500, 1000), RISKS):
        rows = []
        for accuracy, strength in product((0.0, 1.0, 2.0), (1.5, 3.0)):
            every = rng.normal(size=20_000)
            chance = expit(accuracy + strength * every)
            draws = []
            for _ in range(SPLITS // 4):
                drawn = rng.integers(len(every), size=count)
                right = rng.random(count) < chance[drawn]
                draws.append(Draw(every[drawn], right, every, 1 - chance))
            rows.append(figures(draws, risk))
        most, answered, over, best = np.mean(rows, axis=0)
        cells = (answered / most, best / most, over)
        table.append([str(count), str(risk), *(f"{cell:.3f}" for cell in cells)])
    return table


def main() -> None:
    """Print the table."""
    header = ["labels", "risk", "answered", "best single threshold", "over"]
    print_table("Shares of what an oracle answers", header, simulated())


if __name__ == "__main__":
    run_script(main)
