"""Other similarities of Gaussians in place of s_hat: quality and time (paper table 9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from uec_rag.base.gaussian import Gaussian
from uec_rag.base.similarity import score
from uec_rag.ensemble import UEC
from uec_rag.paper.analyses.base import METRICS, Result, looked_into, quality
from uec_rag.paper.analyses.timing import fastest
from uec_rag.paper.collections import Collection
from uec_rag.paper.groups import Group
from uec_rag.paper.results import Json
from uec_rag.paper.scoring import score_retrieval
from uec_rag.paper.similarities import SIMILARITIES
from uec_rag.paper.systems import Ensemble, ranking
from uec_rag.paper.tables import markdown


def run(groups: Sequence[Group], *, paper: bool = False) -> Json:
    """Compare the Gaussians of UEC, or of UEC.paper, with every similarity."""
    uec, collections = looked_into(groups, paper=paper)
    rows = compare_similarities(uec, collections)
    return {"collections": [c.name for c in collections], "rows": [asdict(row) for row in rows]}


def section(result: Result, path: Path) -> Iterator[str]:
    """Write a table."""
    yield (
        f"The same Gaussians, compared in other ways (paper table 9); means over "
        f"{', '.join(result['collections'])}. Abstention by the top similarity. Times are of all "
        "queries against all passages on this machine, relative to s_hat."
    )
    head = ["Similarity", *METRICS.values(), "seconds", "relative time"]
    yield markdown(
        head,
        [
            [row["name"], *quality(row), f"{row['seconds']:.3f}", f"{row['relative']:.2f}"]
            for row in result["rows"]
        ],
    )


@dataclass(frozen=True)
class SimilarityRow:
    """One similarity, means over the collections.

    Attributes
    ----------
    name : str
    ndcg10, recall10, auc10 : float
    seconds : float
        For all scores of all collections, best of three where that is short.
    relative : float
        Time over s_hat's.
    """

    name: str
    ndcg10: float
    recall10: float
    auc10: float
    seconds: float
    relative: float


def compare_similarities(uec: UEC, collections: Sequence[Collection]) -> list[SimilarityRow]:
    """Search collections with every similarity of the very same Gaussians.

    Parameters
    ----------
    uec : UEC
        Fitted.
    collections : sequence of Collection
    """
    system = Ensemble("UEC", "UEC", uec)
    embedded = []
    for collection in collections:
        texts = list(collection.queries.values()), list(collection.passages.values())
        embedded.append((collection, *system.compared(*texts)))
    for _, queries, passages in embedded:  # multiplied out once, outside what is timed
        _ = queries.variance, passages.variance
    measured = {name: _measure(name, uec.beta, embedded) for name in SIMILARITIES}
    unit = measured["uec"][1]
    return [
        SimilarityRow(name, *quality, seconds=seconds, relative=seconds / unit)
        for name, (quality, seconds) in measured.items()
    ]


def _measure(
    name: str, beta: float, embedded: Sequence[tuple[Collection, Gaussian, Gaussian]]
) -> tuple[tuple[float, float, float], float]:
    quality, total = [], 0.0
    for collection, queries, passages in embedded:
        compare = partial(score, beta=beta) if name == "uec" else SIMILARITIES[name]
        total += fastest(partial(compare, queries, passages))
        found = ranking(compare(queries, passages), list(collection.passages), 100)
        result = score_retrieval(collection, found.ids, found.confidence)
        quality.append((result.ndcg10, result.recall10, result.auc10))
    ndcg, recall, auc = np.mean(quality, axis=0).tolist()
    return (ndcg, recall, auc), total
