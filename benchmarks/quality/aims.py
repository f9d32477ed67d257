"""Every aim of confidence in one table, on collections of domains that nobody learned from.

    python benchmarks/quality/aims.py DATA --ensemble A,bm25 --ensemble B,C,bm25

Ensembles, questions and what is learned from which domain are as in `shipped_confidence.py`.
"Removed" is a question asked of the corpus without its answers. After `calibrate` with 100 labels
the others are asked; beside its error stands what chance alone shows of probabilities that hold.
Level and its error are means over k = 1, 4 and 10 (ECE of confidence too); decisions are at 4.
The least that is left of the level is that of a shift of each collection's own, which knows the
answers: a question whose answer was removed cannot count against confidence where it is not told.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from gate import figures as gate_figures
from gate import halves, relative
from numpy.typing import NDArray
from shipped_confidence import (
    DOMAINS,
    FIT,
    Cell,
    cached,
    cells_of,
    certainty,
    chosen_questions,
    learned_elsewhere,
    strange_questions,
)
from sklearn.metrics import roc_auc_score

from uec_rag import UEC, Retriever
from uec_rag.confidence.calibrator import sigmoid
from uec_rag.confidence.model import ConfidenceModel, log_odds
from uec_rag.confidence.shipped import shipped_model
from uec_rag.encoders import EMBEDDED, load_encoder
from uec_rag.paper.collections import Collection, load_collection
from uec_rag.paper.scoring import score_retrieval
from uec_rag.retrieval.search import own_similarities

K, LABELS, DRAWS, RISK = 10, 100, 10, 0.1
# Name, what is aimed at on average and at worst, and whether more is better.
AIMS: dict[str, tuple[float | None, float | None, bool]] = {
    "level, answerable": (0.08, 0.15, False),
    "level, 30 % removed": (0.08, 0.15, False),
    "the least left of both": (None, None, False),
    "ECE of confidence": (0.06, None, False),
    "right answered": (0.85, None, True),
    "others' answered": (0.05, None, False),
    "others' clarified": (0.10, None, False),
    "nAUC over the best cosine's": (0.15, 0.0, True),
    "AUROC of removed over the best cosine's": (None, 0.0, True),
    "calibrated: ECE at rank 1": (0.04, None, False),
    "by chance, at rank 1": (None, None, False),
    "calibrated: Brier at rank 1": (None, None, False),
    "calibrated: ECE of all ten": (0.04, None, False),
    "calibrated: Brier of all ten": (None, None, False),
    "calibrated: ECE of confidence": (0.04, None, False),
    "by chance, confidence": (None, None, False),
    "calibrated: Brier of confidence": (None, None, False),
    "gate: answered over an oracle's": (0.6, None, True),
    "gate: splits over the risk": (None, 0.05, False),
    "gate: best single threshold's": (None, None, True),
    "gate: limit": (None, None, True),
}
Figures = dict[str, float]
Truth = NDArray[np.bool_]


def ece(told: NDArray[np.floating], right: Truth) -> float:
    """Expected calibration error over ten bins."""
    import torch
    from torchmetrics.functional.classification import binary_calibration_error

    sure = torch.tensor(np.asarray(told, np.float32).ravel())
    return float(binary_calibration_error(sure, torch.tensor(right.ravel()), n_bins=10))


def by_chance(told: NDArray[np.floating]) -> float:
    """The same of what probabilities that hold would show."""
    rng = np.random.default_rng(0)
    return float(np.mean([ece(told, rng.random(told.shape) < told) for _ in range(20)]))


def brier(told: NDArray[np.floating], right: Truth) -> float:
    """Mean squared error: a proper score, which the true probabilities alone make least."""
    return float(np.mean((told - right) ** 2))


def least_left(sure: NDArray[np.floating], right: Truth, gone: NDArray[np.floating]) -> float:
    """Mean error of both levels under the best shift of the log odds."""
    left = []
    for shift in np.linspace(-4, 4, 81, dtype=np.float32):
        level = sigmoid(log_odds(sure) + shift).mean() - right.mean()
        removed = 0.7 * level + 0.3 * sigmoid(log_odds(gone) + shift).mean()
        left.append((abs(level) + abs(removed)) / 2)
    return float(min(left))


def figures(
    uec: UEC,
    model: ConfidenceModel,
    cells: Sequence[Cell],
    collection: Collection,
    others: Sequence[str],
    most: int,
) -> Figures:
    """What holds of one collection under a model that knows none of its domain."""
    uec.fitted = replace(uec.fitted, confidence_model=model)
    names = chosen_questions(collection, most)
    asked = replace(
        collection,
        queries={name: collection.queries[name] for name in names},
        relevant={name: collection.relevant[name] for name in names},
    )
    retriever = Retriever(uec)
    retriever.add(list(collection.passages.values()), ids=list(collection.passages))
    out = levels(model, {cell.kind: cell for cell in cells if not cell.size})
    decided = [one.action for one in retriever.search(list(others), 4).decisions]
    out["others' answered"] = decided.count("answer") / len(decided)
    out["others' clarified"] = decided.count("clarify") / len(decided)
    out |= against_cosines(uec, retriever, asked, {c.kind: c for c in cells if not c.size}, model)
    if len(names) >= 1.5 * LABELS:
        out |= calibrated(retriever, asked)
    return out


def levels(model: ConfidenceModel, whole: dict[str, Cell]) -> Figures:
    """Level, its error, what is answered, and the gate, by the cells of the whole corpus."""
    rows = []
    for k in (1, 4, 10):
        sure, right, _ = certainty(model, whole["answerable"].examples, k)
        gone, _, _ = certainty(model, whole["removed"].examples, k)
        level = sure.mean() - right.mean()
        removed = abs(0.7 * level + 0.3 * gone.mean())
        rows.append((abs(level), removed, least_left(sure, right, gone), ece(sure, right)))
    mean = np.mean(rows, axis=0).tolist()
    out = dict(zip(list(AIMS)[:4], mean, strict=True))
    sure, right, _ = certainty(model, whole["answerable"].examples, 4)
    out["right answered"] = float((sure[right] > 0.5).mean())
    if len(sure) >= LABELS:
        out |= gate(sure.astype(np.float64), right)
    return out


def gate(sure: NDArray[np.float64], right: Truth) -> Figures:
    """Thresholds of random halves, looked at on the other, and what any threshold could."""
    told = relative(gate_figures(halves(sure, right), RISK))
    return dict(zip(list(AIMS)[-4:], (told[0], told[1], told[-2], told[-1]), strict=True))


def against_cosines(
    uec: UEC,
    retriever: Retriever,
    asked: Collection,
    whole: dict[str, Cell],
    model: ConfidenceModel,
) -> Figures:
    """Confidence beside the top cosine of the best member with vectors."""
    texts, ids = list(asked.queries.values()), list(asked.passages)
    parts = uec.encode(texts, "query")
    own = own_similarities(uec.fitted, retriever.store, parts)
    place = {id_: column for column, id_ in enumerate(ids)}
    found = []
    for part, cosines in zip(parts, own, strict=True):
        if part.terms:
            continue
        hits = [[ids[i] for i in row] for row in np.argsort(-cosines, axis=1)[:, :K]]
        scores = score_retrieval(asked, hits, cosines.max(axis=1))
        without = cosines.copy()
        for row, wanted in enumerate(asked.relevant.values()):
            without[row, [place[id_] for id_ in wanted]] = -1
        told = [*cosines.max(axis=1), *without.max(axis=1)]
        found.append((scores.ndcg10, scores.auc10, _auroc(told)))
    _, nauc, auroc = max(found)
    result = retriever.search(texts, K)
    held = [certainty(model, whole[kind].examples, K)[2] for kind in ("answerable", "removed")]
    ours = score_retrieval(asked, result.ids, result.confidence).auc10
    return {
        "nAUC over the best cosine's": ours - nauc,
        "AUROC of removed over the best cosine's": _auroc(np.concatenate(held)) - auroc,
    }


def _auroc(told: Sequence[float] | NDArray[np.floating]) -> float:
    half = len(told) // 2
    return float(roc_auc_score([1] * half + [0] * half, told))


def calibrated(retriever: Retriever, asked: Collection) -> Figures:
    """`calibrate` with some of the questions, and the others asked."""
    texts, wanted = list(asked.queries.values()), list(asked.relevant.values())
    rows = []
    for seed in range(DRAWS):
        order = np.random.default_rng(seed).permutation(len(texts))
        mine, other = order[:LABELS], order[LABELS:]
        labels = [list(wanted[i]) for i in mine]
        retriever.calibrate([texts[i] for i in mine], labels, unanswerable=0)
        result = retriever.search([texts[i] for i in other], K)
        right = np.array(
            [[id_ in wanted[i] for id_ in row] for i, row in zip(other, result.ids, strict=True)]
        )
        first, found = result.relevance[:, 0], right.any(axis=1)
        rows.append(
            (
                ece(first, right[:, 0]),
                by_chance(first),
                brier(first, right[:, 0]),
                ece(result.relevance, right),
                brier(result.relevance, right),
                ece(result.confidence, found),
                by_chance(result.confidence),
                brier(result.confidence, found),
            )
        )
    return dict(zip(list(AIMS)[9:17], np.mean(rows, axis=0).tolist(), strict=True))


def main(
    data: Annotated[Path, typer.Argument(envvar="UEC_DATA", help="Folder of collections.")],
    ensemble: Annotated[list[str], typer.Option(help="Members, comma-separated; several times.")],
    sets: Annotated[str, typer.Option(help="Collections.")] = ",".join(DOMAINS),
    most: Annotated[int, typer.Option(help="Questions of a collection at most.")] = 200,
) -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")
    pairs = load_collection(data / FIT, "train").pairs()
    collections = [load_collection(data / name) for name in sets.split(",")]
    start = replace(shipped_model("words"), temperature=1.0)
    ensembles, groups = [], []
    for members in ensemble:
        uec = UEC([cached(load_encoder(name)) for name in members.split(",")])
        if tuple(members.split(",")) == EMBEDDED:
            uec.fitted = UEC().fitted
        else:
            uec.fit(pairs)
        own = replace(start, temperature=uec.confidence_model.temperature)
        ensembles.append((uec, own))
        groups.append(list(cells_of(uec, own, collections, most)))
    rows = {}
    for (uec, own), cells in zip(ensembles, groups, strict=True):
        for place, collection in enumerate(collections):
            model = learned_elsewhere(groups, collection.name, own)
            some = [cell for cell in cells if cell.collection == collection.name]
            others = strange_questions(collections, place, most)
            key = f"{', '.join(uec.names)}: {collection.name}"
            rows[key] = figures(uec, model, some, collection, others, most)
    show(rows)


def show(rows: dict[str, Figures]) -> None:
    """Print each aim, and then each collection."""
    print("| aim | aimed at | mean | at worst | worst | met |\n|---|---|---|---|---|---|")
    for name, (mean, worst, more) in AIMS.items():
        values = np.array([row[name] for row in rows.values() if name in row])
        if not len(values):
            continue
        far = values.min() if more else values.max()
        sign = 1 if more else -1
        aims = [(mean, values.mean()), (worst, far)]
        met = [sign * (value - aim) >= 0 for aim, value in aims if aim is not None]
        told = ["" if aim is None else f"{aim:.2f}" for aim, _ in aims]
        word = ("yes" if all(met) else "no") if met else ""
        print(f"| {name} | {told[0]} | {values.mean():.3f} | {told[1]} | {far:.3f} | {word} |")
    print("\n| collection | " + " | ".join(AIMS) + " |\n|" + "---|" * (len(AIMS) + 1))
    for key, row in rows.items():
        cells = [f"{row[name]:.2f}" if name in row else "" for name in AIMS]
        print(f"| {key} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    typer.run(main)
