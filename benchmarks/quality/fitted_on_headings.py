"""Decisions on the first week's questions: `UEC()`, and the same fitted on the documents' headings.

    python -m benchmarks.quality.fitted_on_headings FOLDER

FOLDER and questions are those of `first_week`; a fit is `UEC().fit(fitting_pairs(documents))` on
each set of documents. The order of confidence is its AUROC: ordinary and short questions whose
passage is among the four hits against questions without an answer. Level is the mean confidence of
ordinary and short questions.
"""

from __future__ import annotations

import csv
import warnings
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from sklearn.metrics import roc_auc_score

from benchmarks.quality.first_week import QUESTIONS, RIGHT, Asked, ask, documents_of, passages_in
from benchmarks.quality.hybrid import shipped
from benchmarks.quality.options import CACHE
from benchmarks.tables import print_table
from uec_rag.corpora import fitting_pairs


def cells(asked: Sequence[Asked]) -> list[float]:
    """Share right of each kind, of ordinary and short ones, and of all; order and level."""
    answerable = [one for one in asked if RIGHT[one.kind] == "answer"]
    groups = [[one for one in asked if one.kind == kind] for kind in RIGHT]
    shares = [
        float(np.mean([one.right for one in group])) if group else np.nan
        for group in (*groups, answerable, asked)
    ]
    sure = [one.decision.confidence for one in answerable if one.found]
    absent = [one.decision.confidence for one in groups[-1]]
    order = roc_auc_score([1] * len(sure) + [0] * len(absent), sure + absent)
    return [*shares, float(order), float(np.mean([one.decision.confidence for one in answerable]))]


def main(
    folder: Annotated[Path, typer.Argument(help="As in first_week.")],
    markdown: Annotated[bool, typer.Option(help="Print as Markdown.")] = False,
) -> None:
    """Print both of each set of documents, and of all."""
    warnings.simplefilter("ignore")
    with QUESTIONS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    of_all: dict[str, list[Asked]] = defaultdict(list)
    table = []
    for name, documents in documents_of(folder).items():
        passages, some = passages_in(name, documents), [r for r in rows if r["documents"] == name]
        uec = shipped(CACHE)
        found = {"UEC()": ask(uec, passages, some)}
        found["fitted"] = ask(uec.fit(fitting_pairs(documents)), passages, some)
        for system, asked in found.items():
            of_all[system] += asked
            table.append([name, system, *cells(asked)])
    table += [["all", system, *cells(asked)] for system, asked in of_all.items()]
    head = ["documents", "", *RIGHT, "ordinary and short", "all", "AUROC", "level"]
    lines = [
        [*row[:2], *("" if np.isnan(value) else f"{value:.3f}" for value in row[2:])]
        for row in table
    ]
    print_table("Decided rightly", head, lines, markdown=markdown)


if __name__ == "__main__":
    typer.run(main)
