"""Posteriors of one encoder: structure, likelihood, layer, and less and less data.

What the paper has in tables 17 and 19.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper.analyses.base import Result, within
from benchmarks.paper.analyses.calibration import (
    ERRORS,
    HEAD,
    Calibration,
    PairTask,
    calibrate,
    hard_tasks,
)
from benchmarks.paper.plan import Group
from benchmarks.paper.results import Json, markdown, paper_rows
from uec_rag.encoders import Encoder
from uec_rag.ensemble import UEC
from uec_rag.laplace.pairs import MINIMUM

FRACTIONS = (0.5, 0.1, 0.01)
_SEEDS = 3  # to see what a figure owes to chance


def run(groups: Sequence[Group]) -> Json:
    """Fit posteriors of the main group's first encoder, each several times."""
    group = groups[0]
    encoder, inside = group.lineup.encoders[0], group.lineup.inside()[0]
    ffn = None if inside is encoder else inside
    tasks = hard_tasks(group)
    runs = [
        posterior_variants(encoder, group.lineup.pairs, *tasks, ffn, seed) for seed in range(_SEEDS)
    ]
    return {
        "encoder": encoder.name,
        "seeds": _SEEDS,
        "rows": [_mean(r) for r in zip(*runs, strict=True)],
    }


def section(result: Result, path: Path) -> Iterator[str]:
    """Write a table."""
    printed = paper_rows("covariance") | paper_rows("sparsity")
    yield (
        f"Posteriors of {result['encoder']}, told answers from hits: structure, likelihood, layer, "
        "and less and less data (paper tables 17 and 19). In the paper's form (accuracy, ECE): "
        + "; ".join(f"{name} {acc} {ece}" for name, (acc, ece) in printed.items())
        + f". Means of {result['seeds']} fits, ± their standard deviation: another seed is another "
        "fifth held out, other negatives, and another part of the data."
    )
    yield markdown(
        HEAD,
        [
            [
                row["name"],
                f"{100 * row['accuracy']:.2f}",
                *(within(row[key], row[f"{key}_sd"]) for key in ERRORS),
                within(row["error_auroc"], row["error_auroc_sd"], 100, 1),
                f"{row['seconds']:.1f}",
            ]
            for row in result["rows"]
        ],
    )


def posterior_variants(
    encoder: Encoder,
    pairs: Sequence[tuple[str, str]],
    fit: PairTask,
    test: PairTask,
    ffn: Encoder | None = None,
    seed: int = 0,
) -> list[Calibration]:
    """Diagonal and Kronecker posteriors, both likelihoods and layers, and less and less data.

    Parameters
    ----------
    encoder : Encoder
    pairs : sequence of (query, passage)
        What posteriors are fitted on.
    fit, test : PairTask
        As in `calibrate`.
    ffn : Encoder, optional
        The same model with ``last_layer="ffn"``, where one can look inside it.
    seed : int
        Of what is held out, mined, and left out.

    Notes
    -----
    The row "0 %" has no posterior: its probabilistic classifier is the deterministic one. A share
    of the data that leaves fewer pairs than a posterior needs is fitted on that fewest number.
    """

    def fitted(
        label: str, model: Encoder, some: Sequence[tuple[str, str]], **options: Any
    ) -> Calibration:
        return calibrate(UEC([model], seed=seed, **options).fit(some), fit, test, label)

    rows = [
        fitted(f"{kind}, {likelihood}", encoder, pairs, structure=kind, likelihood=likelihood)
        for kind in ("kron", "diag")
        for likelihood in ("pairs", "in_batch")
    ]
    for kind in ("kron", "diag") if ffn is not None else ():
        rows.append(fitted(f"{kind}, pairs, ffn", ffn, pairs, structure=kind))
    order = np.random.default_rng(seed).permutation(len(pairs))
    for fraction in FRACTIONS:
        count = max(MINIMUM, round(fraction * len(pairs)))
        some = [pairs[index] for index in order[:count]]
        rows.append(fitted(f"{fraction:.0%} of the data ({count} pairs)", encoder, some))
    # Without variance the two classifiers are one.
    plain = rows[0]
    return [
        *rows,
        replace(
            plain,
            name="0% of the data (deterministic)",
            ece=plain.ece_deterministic,
            nll=plain.nll_deterministic,
            error_auroc=float("nan"),
            reliability=[],
            seconds=0.0,
        ),
    ]


def _mean(rows: Sequence[Calibration]) -> Json:
    """Means over seeds, and their standard deviation."""
    found: Json = {"name": rows[0].name}
    for key in ("accuracy", *ERRORS, "error_auroc", "seconds"):
        values = [getattr(row, key) for row in rows]
        found |= {key: float(np.mean(values)), f"{key}_sd": float(np.std(values, ddof=1))}
    return found
