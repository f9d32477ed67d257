"""What a plain score threshold answers, as LangChain and LlamaIndex users set it, beside ours.

    python -m benchmarks.quality.thresholds DATA

LangChain's `search_type="similarity_score_threshold"` and LlamaIndex's
`SimilarityPostprocessor(similarity_cutoff=...)` answer where the best cosine of a model is above a
number. Here the model is the member with vectors of `UEC()`, and the number the lowest that keeps
wrong answers, of the answers given, at the risk: on collections of other domains, as a user would
choose it, or on the very questions that are asked, as an oracle. Beside it stand confidence as
`UEC()` gives it, learned from other domains alone, at one half; with a number chosen as for the
cosine; and gates made of a hundred labels, asked the other questions: of the answers given, or of
all questions, the risk at most is answered wrongly.

Each collection is asked its own questions and, as three in ten, others'. An answer is right if one
of its first four hits is relevant. DATA is a folder of test collections, or set UEC_DATA.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from benchmarks.quality.shared import Data, Sets, index_collection, shipped
from benchmarks.quality.shipped_confidence import (
    ALL,
    DOMAINS,
    MIX_WITH_WORDS,
    SETS,
    cells_of,
    chosen_questions,
    learned_elsewhere,
    loaded,
    strange_questions,
)
from benchmarks.tables import print_table, run_script
from uec_rag.confidence.model import shipped_model
from uec_rag.confidence.risk import Guarantee, conformal_threshold, risk_threshold

K, LABELS, DRAWS, FOREIGN = 4, 100, 20, 0.3


@dataclass(frozen=True, eq=False)
class Answers:
    """How sure a system is of each question of a collection, and whether its hits are right."""

    sure: NDArray[np.float64]
    right: NDArray[np.bool_]
    foreign: NDArray[np.bool_]

    @property
    def weight(self) -> NDArray[np.float64]:
        """What each question counts, so that `FOREIGN` of all are foreign."""
        share = self.foreign.mean()
        return np.where(self.foreign, FOREIGN / share, (1 - FOREIGN) / (1 - share)) / len(self.sure)

    def of(self, rows: NDArray[np.intp]) -> Answers:
        """Those to some of the questions."""
        return Answers(self.sure[rows], self.right[rows], self.foreign[rows])

    def figures(self, threshold: float) -> list[float]:
        """Share answered, wrong ones of these and of all, right and foreign ones answered."""
        given = self.sure > threshold
        answered, wrong = float(self.weight @ given), float(self.weight @ (given & ~self.right))
        return [
            answered,
            wrong / answered if answered else 0.0,
            wrong,
            float(given[self.right].mean()) if self.right.any() else 0.0,
            float(given[self.foreign].mean()) if self.foreign.any() else 0.0,
        ]


def lowest(systems: Sequence[Answers], risk: float) -> float:
    """The lowest threshold at which no more than the risk of all collections' answers is wrong."""
    sure = np.concatenate([one.sure for one in systems])
    order = np.argsort(-sure, kind="stable")
    weight = np.concatenate([one.weight for one in systems])[order]
    wrong = np.cumsum(weight * ~np.concatenate([one.right for one in systems])[order])
    within = np.flatnonzero(wrong <= risk * np.cumsum(weight))
    return float(np.nextafter(sure[order][within[-1]], -np.inf)) if len(within) else np.inf


def gated(
    answers: Answers, made: Callable[[NDArray[np.float64], NDArray[np.bool_]], Guarantee]
) -> list[float]:
    """What a gate of a hundred questions answers of the others; the mean of some draws.

    `made`: the threshold of confidences and whether hits are right.
    """
    rows = []
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        drawn = rng.permutation(len(answers.sure))
        # As users ask: three in ten foreign.
        own, other = drawn[~answers.foreign[drawn]], drawn[answers.foreign[drawn]]
        count = round((1 - FOREIGN) * LABELS)
        mine = np.concatenate([own[:count], other[: LABELS - count]])
        gate = made(answers.sure[mine], answers.right[mine])
        rows.append(answers.of(np.setdiff1d(drawn, mine)).figures(gate.threshold))
    return np.mean(rows, axis=0).tolist()


def systems_of(
    data: Path, names: Sequence[str], most: int, passages: int
) -> dict[str, tuple[Answers, Answers]]:
    """Of each collection the cosine's answers and confidence's."""
    uec = shipped()
    start = replace(shipped_model("words"), temperature=uec.fitted.confidence_model.temperature)
    collections = [loaded(data / name, passages) for name in names]
    cells = list(cells_of(uec, start, collections, most))
    found = {}
    for place, collection in enumerate(collections):
        model = learned_elsewhere([cells], collection.name, start, MIX_WITH_WORDS)
        uec.fitted = replace(uec.fitted, confidence_model=model)
        retriever = index_collection(uec, collection)
        asked = chosen_questions(collection, most)
        others = strange_questions(collections, place, most)
        texts = [collection.queries[name] for name in asked] + others
        wanted = [frozenset(collection.relevant[name]) for name in asked]
        wanted += [frozenset()] * len(others)
        foreign = np.arange(len(texts)) >= len(asked)
        result = retriever.search(texts, K)
        parts = uec.encode(texts, "query")
        asked = [part.terms[0] if part.terms else part.mean for part in parts]
        own = retriever.store.snapshot().compare(asked).similarities
        cosines = next(own[i] for i, part in enumerate(parts) if not part.terms)
        every = list(collection.passages)
        nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :K]
        by_cosine = [[every[column] for column in row] for row in nearest]
        found[collection.name] = tuple(
            Answers(sure.astype(float), _right(ids, wanted), foreign)
            for sure, ids in ((cosines.max(axis=1), by_cosine), (result.confidence, result.ids))
        )
    return found


def _right(ids: Sequence[Sequence[str]], wanted: Sequence[frozenset[str]]) -> NDArray[np.bool_]:
    return np.array([not of.isdisjoint(row) for row, of in zip(ids, wanted, strict=True)])


WAYS = (
    "cosine, number from other domains",
    "cosine, number from these very questions",
    "confidence above one half",
    "confidence, number from other domains",
    "gate, a hundred labels, wrong of these",
    "gate, a hundred labels, wrong of all",
    "confidence, number from these very questions",
)


def main(
    data: Data,
    sets: Sets = SETS,
    risk: Annotated[float, typer.Option(help="Wrong answers among those given.")] = 0.1,
    most: Annotated[int, typer.Option(help="Questions of a collection at most.")] = 200,
    passages: Annotated[int, typer.Option(help="Passages of a collection at most.")] = ALL,
) -> None:
    """Print the tables."""
    names = sets.split(",")
    found = systems_of(data, names, most, passages)
    rows: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    for name in names:
        elsewhere = [found[other] for other in names if DOMAINS[other] != DOMAINS[name]]
        cosines, confidences = zip(*elsewhere, strict=True)
        cosine, sure = found[name]
        each = (
            cosine.figures(lowest(cosines, risk)),
            cosine.figures(lowest([cosine], risk)),
            sure.figures(0.5),
            sure.figures(lowest(confidences, risk)),
            gated(sure, lambda s, right: risk_threshold(s, right, risk)),
            gated(sure, lambda s, right: conformal_threshold(s, ~right, risk)),
            sure.figures(lowest([sure], risk)),
        )
        for way, figures in zip(WAYS, each, strict=True):
            rows[way].append(figures)
    shown = ("answered", "wrong of these", "wrong of all", "right answered", "foreign answered")
    header = ["", *shown, "most wrong of these", "of all"]
    table = []
    for way, of_sets in rows.items():
        worst = np.max(of_sets, axis=0)[1:3]
        table.append([way, *(f"{v:.3f}" for v in (*np.mean(of_sets, axis=0), *worst))])
    print_table(f"Risk {risk:g}, mean of {len(names)} collections", header, table)
    header = ["collection", *WAYS]
    table = [
        [name, *(f"{of[place][0]:.2f}, {of[place][1]:.2f} wrong" for of in rows.values())]
        for place, name in enumerate(names)
    ]
    print_table("Answered, and wrong of these", header, table)


if __name__ == "__main__":
    run_script(main)
