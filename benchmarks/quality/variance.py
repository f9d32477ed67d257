"""What sigma_s^2 says of a hit: of its first half, of the members' disagreement, of both.

    python -m benchmarks.quality.variance DATA --passages 1000

"Model variance" is that of the posteriors of `UEC()` (paper eq. 5), "disagreement" that of the
members' logits. The true similarity of a hit is taken to be the mean of its kind: of the relevant
ones, or of the others, among the first ten hits of its collection. Printed of each collection are
the AUROC of the first hit's variance, for wrong against right first hits (beside it that of
confidence in one hit, the lower the more suspect), and coverage: the share of the first ten hits
whose truth lies within two standard deviations.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer
from sklearn.metrics import roc_auc_score

from benchmarks.paper.data import Collection, load_collection, sample_collection
from benchmarks.quality.shared import Data, ask_all, shipped
from benchmarks.quality.shipped_confidence import DOMAINS, QUESTIONS
from benchmarks.tables import print_table, run_script
from uec_rag import UEC

_K = 10


def figures(uec: UEC, collection: Collection) -> list[float]:
    """What holds of a collection."""
    found = ask_all(uec, collection, _K)
    wanted = collection.relevant.values()
    right = np.array([[i in row for i in ids] for ids, row in zip(found.ids, wanted, strict=True)])
    truth = np.where(right, found.mu[right].mean(), found.mu[~right].mean())
    parts = ("model_variance", "disagreement", "sigma2")
    variances = [np.stack([one.column(name) for one in found]) for name in parts]
    first = [*(variance[:, 0] for variance in variances), -found.confidence_at_k[:, 0]]
    wrong, off = ~right[:, 0], np.abs(found.mu - truth)
    return [
        *(float(roc_auc_score(wrong, suspect)) for suspect in first),
        *(float((off < 2 * np.sqrt(variance)).mean()) for variance in variances[::2]),
    ]


def main(
    data: Data,
    passages: Annotated[int, typer.Option(help="Passages beside their answers at most.")] = 600,
) -> None:
    """Print the table."""
    uec = shipped()
    rows = {
        name: figures(uec, sample_collection(load_collection(data / name), QUESTIONS, passages))
        for name in DOMAINS
    }
    rows["mean"] = np.nanmean(list(rows.values()), axis=0).tolist()
    header = ["collection", "AUROC, model variance", "disagreement", "both", "confidence"]
    table = [[name, *(f"{value:.2f}" for value in row)] for name, row in rows.items()]
    header += ["coverage, model variance", "both"]
    print_table(f"Variance: {', '.join(uec.names)}", header, table)


if __name__ == "__main__":
    run_script(main)
