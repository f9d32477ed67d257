"""Take the parts of UEC away one by one (paper table 7), and turn its knobs (its section E)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from uec_rag.ensemble import UEC
from uec_rag.paper.collections import Collection
from uec_rag.paper.scoring import score_retrieval
from uec_rag.paper.systems import Ensemble

BETAS = (0.0, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
TEMPERATURES = (0.01, 0.05, 0.1, 0.5, 1.0, 1.5, 1.8, 3.0, 10.0)


@dataclass(frozen=True)
class Outcome:
    """One setting, means over the collections.

    Attributes
    ----------
    name : str
    ndcg10, recall10, auc10 : float
    """

    name: str
    ndcg10: float
    recall10: float
    auc10: float


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


def sensitivity(uec: UEC, collections: Sequence[Collection]) -> dict[str, list[Outcome]]:
    """Measure an ensemble over a range of beta, and of the trace rule's temperature T.

    Parameters and errors as in `ablation`; the top score is the confidence.
    """
    return {
        "beta": [outcome(f"{beta:g}", variation(uec, beta=beta), collections) for beta in BETAS],
        "temperature": [
            outcome(
                f"{value:g}", variation(uec, coefficients="trace", temperature=value), collections
            )
            for value in TEMPERATURES
        ],
    }


def variation(uec: UEC, encoders: Sequence[int] | None = None, **options: Any) -> UEC:
    """Another UEC with the posteriors of a fitted one: nothing is fitted again.

    Parameters
    ----------
    uec : UEC
        Fitted.
    encoders : sequence of int, optional
        Which of its encoders; all by default.
    **options
        What differs, of `UEC`'s options.
    """
    rows = range(len(uec.encoders)) if encoders is None else encoders
    kept: dict[str, Any] = {
        "space": uec.space,
        "structure": uec.structure,
        "likelihood": uec.likelihood,
        "coefficients": uec.rule if encoders is None else "uniform",
        "beta": uec.beta,
    }
    other = UEC([uec.encoders[row] for row in rows], **(kept | options))
    if uec.posteriors is not None:
        other.posteriors = [uec.posteriors[row] for row in rows]
    return other


def outcome(
    name: str, uec: UEC, collections: Sequence[Collection], *, calibrated: bool = False
) -> Outcome:
    """Measure one ensemble on collections."""
    system = Ensemble(name, "UEC", uec, calibrated=calibrated)
    results = []
    for collection in collections:
        found = system.search(list(collection.queries.values()), collection.passages, 100)
        scores = score_retrieval(collection, found.ids, found.confidence)
        results.append((scores.ndcg10, scores.recall10, scores.auc10))
    return Outcome(name, *np.mean(results, axis=0).tolist())
