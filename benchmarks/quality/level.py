"""What the confidence of `UEC()` means on collections that it was not learned on.

    python -m benchmarks.quality.level DATA [--write]

Each of the collections of `shipped_confidence` is judged by the model that those of other domains
taught, with its own questions and, as some share of all, the same ones without their answers.
Printed are

- for thresholds of confidence, which share of all questions is answered wrongly, and answered;
- for each share of wrong answers the threshold that keeps it on four of five collections, and what
  it does on each, if the others chose it.

With --write, the thresholds go into `uec_rag/confidence/shipped.json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks.quality.shared import Data, Sets, shipped, write_learned
from benchmarks.quality.shipped_confidence import (
    MIX_WITH_WORDS,
    QUESTIONS,
    SETS,
    Cell,
    cells_of,
    learned_elsewhere,
    loaded,
)
from benchmarks.tables import print_table, run_script
from uec_rag.confidence.model import ConfidenceModel, log_odds, shipped_model

Floats = NDArray[np.float64]

UNANSWERABLE = (0.0, 0.1, 0.2, 0.3, 0.5)
SHIPPED = 0.3  # share of unanswerable questions of the thresholds that are shipped
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
WRONG = (0.02, 0.05, 0.1, 0.15, 0.2)
KEPT = 0.8  # share of the collections on which a threshold keeps a share of wrong answers


@dataclass(frozen=True, eq=False)
class Asked:
    """Log odds of the confidence in questions, whether answers are right, and what each counts."""

    odds: Floats
    right: Floats
    weight: Floats

    @classmethod
    def of(cls, model: ConfidenceModel, cells: Sequence[Cell], unanswerable: float) -> Asked:
        """Ask a collection's questions, a share of them without their answers."""
        shares = {"answerable": 1 - unanswerable, "removed": unanswerable}
        parts = []
        for cell in cells:
            share = 0.0 if cell.size or cell.wording else shares.get(cell.kind, 0.0)
            if share:
                sure = model.probabilities(cell.examples.features).confidence
                right = cell.examples.relevant[:, :4].any(axis=1)
                weight = np.full(len(right), share / len(right))
                parts.append((log_odds(sure.astype(float)), right.astype(float), weight))
        return cls(*(np.concatenate(values) for values in zip(*parts, strict=True)))

    def at(self, threshold: float) -> tuple[float, float]:
        """Shares of all questions that get a wrong answer, and an answer, above a threshold."""
        given = self.weight * (expit(self.odds) > threshold)
        return float(given @ (1 - self.right)), float(given.sum())

    def lowest(self, wrong: float) -> float:
        """The lowest threshold that keeps a share of wrong answers."""
        order = np.argsort(-self.odds)
        kept = np.cumsum((self.weight * (1 - self.right))[order]) <= wrong
        return 0.0 if kept.all() else float(expit(self.odds[order][kept.sum()]))


def threshold_of(collections: Iterable[Asked], wrong: float) -> float:
    """The threshold that keeps a share of wrong answers on four of five collections."""
    return float(np.quantile([one.lowest(wrong) for one in collections], KEPT))


def print_all(asked: Mapping[float, Mapping[str, Asked]]) -> list[float]:
    """Print the tables, and return the thresholds that all collections teach."""
    shipped = asked[SHIPPED]
    thresholds = [round(threshold_of(shipped.values(), wrong), 3) for wrong in WRONG]
    table = [
        [f"{unanswerable:.0%}", f"{threshold}", *_summary([one.at(threshold) for one in some])]
        for unanswerable, of_share in asked.items()
        for threshold in THRESHOLDS
        for some in [[*of_share.values()]]
    ]
    head = ["unanswerable", "threshold", "wrong, median", "worst", "answered, median", "least"]
    print_table("Shares of all questions", head, table)
    table = []
    for wrong, threshold in zip(WRONG, thresholds, strict=True):
        got = [one.at(threshold_of(_others(shipped, name), wrong)) for name, one in shipped.items()]
        above = sum(share > wrong for share, _ in got)
        means = [f"{value:.3f}" for value in np.mean(got, axis=0)]
        table.append([f"{wrong}", f"{threshold}", *means, f"{above} of {len(got)}"])
    head = ["wrong at most", "threshold", "wrong", "answered", "more wrong in"]
    print_table("Thresholds that the others choose", head, table)
    return thresholds


def _others(asked: Mapping[str, Asked], name: str) -> list[Asked]:
    return [one for other, one in asked.items() if other != name]


def _summary(shares: Sequence[tuple[float, float]]) -> Iterator[str]:
    wrong, answered = np.array(shares).T
    for value in (np.median(wrong), wrong.max(), np.median(answered), answered.min()):
        yield f"{value:.3f}"


def asked_of(cells: Sequence[Cell], start: ConfidenceModel) -> dict[float, dict[str, Asked]]:
    """Each collection's questions under what other domains taught, by unanswerable share."""
    names = [*dict.fromkeys(cell.collection for cell in cells)]
    models = {name: learned_elsewhere([cells], name, start, MIX_WITH_WORDS) for name in names}
    return {
        share: {
            name: Asked.of(models[name], [c for c in cells if c.collection == name], share)
            for name in names
        }
        for share in UNANSWERABLE
    }


def main(
    data: Data,
    sets: Sets = SETS,
    most: Annotated[int, typer.Option(help="Questions of a collection at most.")] = QUESTIONS,
    passages: Annotated[int, typer.Option(help="Passages of a collection at most.")] = 1000,
    write: Annotated[bool, typer.Option(help="Write it into the package.")] = False,
) -> None:
    """Print the tables; with --write put the thresholds into the package."""
    uec = shipped()
    known: Any = uec.fitted.confidence_model
    start = replace(shipped_model("words"), temperature=known.temperature)
    collections = [loaded(data / name, passages) for name in sets.split(",")]
    cells = [*cells_of(uec, start, collections, most)]
    thresholds = print_all(asked_of(cells, start))
    if write:
        write_learned("shipped.json", {"level": {"wrong": WRONG, "thresholds": thresholds}})


if __name__ == "__main__":
    run_script(main)
