"""What combining and comparing embeddings costs (paper table 6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from uec_rag.base.similarity import score
from uec_rag.ensemble import UEC
from uec_rag.paper.analyses.base import Result, searched
from uec_rag.paper.analyses.timing import fastest
from uec_rag.paper.collections import Collection
from uec_rag.paper.groups import Group
from uec_rag.paper.paper_numbers import RELATIVE_TIME
from uec_rag.paper.results import Json
from uec_rag.paper.systems import Ensemble, variation
from uec_rag.paper.tables import markdown


def run(groups: Sequence[Group]) -> Json:
    """Time UEC, and UEC.paper where there is one, on the main group's first collection."""
    lineup, collection = groups[0].lineup, searched(groups[0])[0]
    kinds = {"UEC": lineup.fitted}
    if len({encoder.dimension for encoder in lineup.encoders}) == 1:
        kinds["UEC.paper"] = lineup.paper
    return {name: search_times(build(), collection) for name, build in kinds.items()}


def section(result: Result, path: Path) -> Iterator[str]:
    """Write a table."""
    yield (
        "Combining and comparing embeddings that are there (paper table 6), relative to uniform "
        "coefficients and cosines in the same space: the direct sum of UEC, the shared one of "
        "UEC.paper."
    )
    yield markdown(
        ["Ensemble", "method", "milliseconds", "relative time", "paper"],
        [
            [
                name,
                row["name"],
                f"{1000 * row['seconds']:.2f}",
                f"{row['relative']:.3f}",
                f"{RELATIVE_TIME[row['name']]:.3f}",
            ]
            for name in ("UEC", "UEC.paper")
            for row in result.get(name, ())
        ],
    )


def search_times(uec: UEC, collection: Collection) -> list[dict[str, str | float]]:
    """Time of combining and comparing embeddings that are there, over a uniform ensemble's.

    Parameters
    ----------
    uec : UEC
        Fitted.
    collection : Collection

    Returns
    -------
    list of {"name", "seconds", "relative"}
        Paper table 6. The passages are combined once and not counted; UEC's coefficients are, and
        so are the members' own similarities where it learns the coefficients from them.
    """
    plain = variation(uec, coefficients="uniform", beta=0.0)
    weights = np.arange(1, len(uec.encoders) + 1).tolist()
    weighted = variation(uec, coefficients=weights, beta=0.0)
    texts = list(collection.queries.values())
    parts = uec.encode(texts, "query")
    candidates = uec.encode(list(collection.passages.values()), "passage")
    passages = uec.combine(candidates, uec.coefficients(candidates, "passage"))
    system = Ensemble("UEC", "UEC", uec)

    def deterministic(ensemble: UEC) -> None:
        query = ensemble.combine(parts, ensemble.coefficients(parts, "query"))
        _ = query.mean @ passages.mean.T

    def uncertain() -> None:
        score(uec.combine(parts, system.query_coefficients(parts, candidates)), passages, uec.beta)

    work = {
        "uniform": lambda: deterministic(plain),
        "weighted": lambda: deterministic(weighted),
        "UEC": uncertain,
    }
    seconds = {name: fastest(call) for name, call in work.items()}
    return [
        {"name": name, "seconds": value, "relative": value / seconds["uniform"]}
        for name, value in seconds.items()
    ]
