"""Every aim of confidence in one table, on collections of domains that nobody learned from.

    python -m benchmarks.quality.aims DATA --ensemble A,bm25 --ensemble B,C,bm25

Ensembles, questions and what is learned from which domain are as in `shipped_confidence.py`.
"Removed" is a question asked of the corpus without its answers. After `calibrate` with 100 labels
the others are asked; beside its error stands what chance alone shows of probabilities that hold.
Level and its error are means over k = 1, 4 and 10 (ECE of confidence too); decisions are at 4.
Level is in_corpus times being found where it is there, whose errors may hide each other: presence
is mean in_corpus less the share of questions with an answer, found is of those with one; both are
signed. The least that is left of the level is that of a shift of each collection's own, which knows
the answers: a question whose answer was removed cannot count against confidence where it is not
told. A number is incoherent where the highest relevance, confidence, in_corpus and the sum of
relevance are not in this order, or in_corpus is another at 1, 4 and 10 hits. Collections in other
languages (--languages) are asked as they are, and judged by what other domains taught in English.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from benchmarks.paper.data import Collection, load_collection
from benchmarks.paper.metrics import score_retrieval
from benchmarks.quality.gate import figures as gate_figures
from benchmarks.quality.gate import halves, relative
from benchmarks.quality.shipped_confidence import (
    ALL,
    DOMAINS,
    FIT,
    MIX_WITH_WORDS,
    Cell,
    as_asked,
    cached,
    cells_of,
    certainty,
    chosen_questions,
    learned_elsewhere,
    loaded,
    strange_questions,
)
from uec_rag import UEC, Retriever
from uec_rag.confidence.model import (
    ConfidenceModel,
    Examples,
    Features,
    log_odds,
    shipped_model,
    sigmoid,
)
from uec_rag.encoders import DEFAULT_ENCODERS, load_encoder
from uec_rag.retrieval.search import compare

K, LABELS, DRAWS, RISK = 10, 100, 10, 0.1
NUMBERS = (1, 4, K)  # of hits
# What is aimed at on average and at worst, and whether more is better; None: it is signed.
AIMS: dict[str, tuple[float | None, float | None, bool | None]] = {
    "level, answerable": (0.09, 0.20, False),
    "level, 30 % removed": (0.09, 0.20, False),
    "the least left of both": (None, None, False),
    "ECE of confidence": (0.06, None, False),
    "presence, answerable": (None, None, None),
    "presence, 30 % removed": (None, None, None),
    "found where present": (None, None, None),
    "level, worst third of lengths": (None, 0.20, False),
    "right answered": (0.9, None, True),
    "others' answered": (0.03, None, False),
    "others' clarified": (0.10, None, False),
    "AUROC of right at four": (None, None, True),
    "nAUC over the best cosine's": (0.15, 0.0, True),
    "AUROC of removed over the best cosine's": (None, 0.0, True),
    "incoherent of 10,000": (0.0, 0.0, False),
    "calibrated: ECE at rank 1": (0.05, None, False),
    "by chance, at rank 1": (None, None, False),
    "calibrated: Brier at rank 1": (None, None, False),
    "calibrated: ECE of all ten": (0.05, None, False),
    "calibrated: Brier of all ten": (None, None, False),
    "calibrated: ECE of confidence": (0.05, None, False),
    "by chance, confidence": (None, None, False),
    "calibrated: Brier of confidence": (None, None, False),
    "calibrated, 30 % removed: ECE of confidence": (0.05, None, False),
    "by chance, 30 % removed": (None, None, False),
    "calibrated, 30 % removed: level": (0.05, None, False),
    "gate: answered over an oracle's": (0.6, None, True),
    "gate: splits over the risk": (None, 0.05, False),
    "gate: best single threshold's": (None, None, True),
    "gate: limit": (None, None, True),
}
CALIBRATED = [name for name in AIMS if "calibrated: " in name or name.startswith("by chance, ")][:8]
LANGUAGES = "xquad_zh,cmrc2018_zh,drcd_zh_hant,xquad_ar,tydiqa_goldp_ar"
LANGUAGES += ",xquad_ru,tydiqa_goldp_ru,belebele_de"
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
    whole = {cell.kind: cell for cell in cells if not cell.size}
    retriever = index_of(uec, collection)
    lengths = [len(text) for text in asked.queries.values()]
    out = levels(model, whole, lengths)
    out |= of_others(retriever, others)
    out |= against_cosines(uec, retriever, asked, whole, model)
    odd = [incoherent(retriever, [*asked.queries.values(), *others])]
    if len(names) >= 1.5 * LABELS:
        out |= calibrated(retriever, asked) | calibrated_with_removed(model, whole)
        odd.append(incoherent(retriever, [*asked.queries.values(), *others]))
    return out | {"incoherent of 10,000": float(np.mean(odd))}


def index_of(uec: UEC, collection: Collection) -> Retriever:
    """All passages of a collection."""
    retriever = Retriever(uec)
    retriever.add(list(collection.passages.values()), ids=list(collection.passages))
    return retriever


def of_others(retriever: Retriever, others: Sequence[str]) -> Figures:
    """What is done about questions of other collections."""
    decided = [one.action for one in retriever.search(list(others), 4).decisions]
    return {
        "others' answered": decided.count("answer") / len(decided),
        "others' clarified": decided.count("clarify") / len(decided),
    }


def incoherent(retriever: Retriever, texts: Sequence[str]) -> float:
    """Of 10,000 questions and numbers of hits, how many whose numbers contradict each other."""
    results, odd = [retriever.search(list(texts), k) for k in NUMBERS], 0
    for k, result in zip(NUMBERS, results, strict=True):
        most, total = result.relevance.max(axis=1), result.relevance.sum(axis=1)
        held, sure = result.in_corpus, result.by_cutoff[:, k - 1]
        wrong = (most > sure + 1e-5) | (sure > held + 1e-5)
        wrong |= (sure > total + 1e-5) | (np.abs(held - results[0].in_corpus) > 1e-5)
        odd += int(wrong.sum())
    return 1e4 * odd / (len(results) * len(texts))


def levels(model: ConfidenceModel, whole: dict[str, Cell], lengths: Sequence[int]) -> Figures:
    """Level, its errors, what is answered, and the gate, by the cells of the whole corpus."""
    here, gone = (whole[kind].examples for kind in ("answerable", "removed"))
    told, removed = (model.probabilities(e.features) for e in (here, gone))
    sure, right = told.by_cutoff, np.logical_or.accumulate(here.relevant, axis=1)
    out = level_figures(sure, right, told.in_corpus, removed.by_cutoff, removed.in_corpus, lengths)
    if len(sure) >= LABELS:
        out |= gate(sure[:, 3].astype(np.float64), right[:, 3])
    return out


def level_figures(
    sure: NDArray[np.floating],
    right: Truth,
    held: NDArray[np.floating],
    gone: NDArray[np.floating],
    gone_held: NDArray[np.floating],
    lengths: Sequence[int],
) -> Figures:
    """The same of confidence and in_corpus, of questions and of them with their answers removed.

    `sure`, `right`, `gone`: arrays, shape (n, 10), by number of hits. `held`, `gone_held`: (n,).
    """
    rows, error = [], (sure - right)[:, [0, 3, 9]].mean(axis=1)
    for at in (0, 3, 9):
        level = sure[:, at].mean() - right[:, at].mean()
        removed = abs(0.7 * level + 0.3 * gone[:, at].mean())
        left = least_left(sure[:, at], right[:, at], gone[:, at])
        rows.append((abs(level), removed, left, ece(sure[:, at], right[:, at])))
    out = dict(zip(list(AIMS)[:4], np.mean(rows, axis=0).tolist(), strict=True))
    found = sure / np.maximum(held, 1e-9)[:, None]
    thirds = np.array_split(np.argsort(lengths, kind="stable"), 3)
    return out | {
        "presence, answerable": float(held.mean() - 1),
        "presence, 30 % removed": float(0.7 * held.mean() + 0.3 * gone_held.mean() - 0.7),
        "found where present": float((found - right)[:, [0, 3, 9]].mean()),
        "level, worst third of lengths": max(abs(float(error[third].mean())) for third in thirds),
        "right answered": float((sure[:, 3][right[:, 3]] > 0.5).mean()),
        "AUROC of right at four": float(roc_auc_score(right[:, 3], sure[:, 3]))
        if 0 < right[:, 3].mean() < 1
        else np.nan,
    }


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
    own = compare(uec.fitted, retriever.store.snapshot(), parts)
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
        sure = result.by_cutoff[:, K - 1]
        rows.append(
            (
                ece(first, right[:, 0]),
                by_chance(first),
                brier(first, right[:, 0]),
                ece(result.relevance, right),
                brier(result.relevance, right),
                ece(sure, found),
                by_chance(sure),
                brier(sure, found),
            )
        )
    return dict(zip(CALIBRATED, np.mean(rows, axis=0).tolist(), strict=True))


def calibrated_with_removed(model: ConfidenceModel, whole: dict[str, Cell]) -> Figures:
    """Labels and questions of which three in ten have no answer, as `calibrate` learns of them."""
    here, gone = (whole[kind].examples for kind in ("answerable", "removed"))
    rows = []
    for seed in range(DRAWS):
        order = np.random.default_rng(seed).permutation(len(here.answerable))
        mine, other = order[:LABELS], order[LABELS:]
        without = np.concatenate([mine[:30], other[: round(0.3 * len(other))]])
        parts = [
            Examples.joined([some_of(here, np.setdiff1d(rows_, without)), some_of(gone, lost)])
            for rows_ in (mine, other)
            for lost in [np.intersect1d(rows_, without)]
        ]
        told, asked = model.recalibrated(parts[0]), parts[1]
        sure = told.probabilities(asked.features).by_cutoff[:, [0, 3, 9]]
        right = np.logical_or.accumulate(asked.relevant, axis=1)[:, [0, 3, 9]]
        rows.append(
            (
                np.mean([ece(sure[:, i], right[:, i]) for i in range(3)]),
                np.mean([by_chance(sure[:, i]) for i in range(3)]),
                np.abs((sure - right).mean(axis=0)).mean(),
            )
        )
    names = [name for name in AIMS if "30 % removed" in name][2:]
    return dict(zip(names, np.mean(rows, axis=0).tolist(), strict=True))


def some_of(examples: Examples, rows: NDArray[np.intp]) -> Examples:
    """Some of the queries."""
    features = {name: values[rows] for name, values in vars(examples.features).items()}
    labels = (examples.relevant, examples.answerable, examples.weight)
    return Examples(Features(**features), *(values[rows] for values in labels))


def elsewhere(
    uec: UEC, model: ConfidenceModel, collection: Collection, others: Sequence[str], most: int
) -> Figures:
    """What holds of a collection in another language, by searches as users make them."""
    uec.fitted = replace(uec.fitted, confidence_model=model)
    names = chosen_questions(collection, most)
    texts = [collection.queries[name] for name in names]
    wanted = [frozenset(collection.relevant[name]) for name in names]
    retriever = index_of(uec, collection)
    found = retriever.search(texts, K)
    hits = zip(found.ids, wanted, strict=True)
    right = np.array([[id_ in ids for id_ in row] for row, ids in hits])
    without = [
        retriever.search([text], K, filter=lambda passage, ids=ids: passage.id not in ids)
        for text, ids in zip(texts, wanted, strict=True)
    ]
    out = level_figures(
        found.by_cutoff[:, :K],
        np.logical_or.accumulate(right, axis=1),
        found.in_corpus,
        np.concatenate([one.by_cutoff[:, :K] for one in without]),
        np.concatenate([one.in_corpus for one in without]),
        [len(text) for text in texts],
    )
    if others:
        out |= of_others(retriever, others)
    return out | {"incoherent of 10,000": incoherent(retriever, texts)}


def main(
    data: Annotated[Path, typer.Argument(envvar="UEC_DATA", help="Folder of collections.")],
    ensemble: Annotated[list[str], typer.Option(help="Members, comma-separated; several times.")],
    sets: Annotated[str, typer.Option(help="Collections.")] = ",".join(DOMAINS),
    languages: Annotated[str, typer.Option(help="Collections in others.")] = LANGUAGES,
    most: Annotated[int, typer.Option(help="Questions of a collection at most.")] = 200,
    passages: Annotated[int, typer.Option(help="Passages of a collection at most.")] = ALL,
) -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")
    pairs = load_collection(data / FIT, "train").pairs()
    collections = [loaded(data / name, passages) for name in sets.split(",")]
    start = replace(shipped_model("words"), temperature=1.0)
    ensembles, groups = [], []
    for members in ensemble:
        uec = UEC([cached(load_encoder(name)) for name in members.split(",")])
        if tuple(members.split(",")) == DEFAULT_ENCODERS:
            uec.fitted = UEC().fitted
        else:
            uec.fit(pairs)
        own = replace(start, temperature=uec.fitted.confidence_model.temperature)
        ensembles.append((uec, own))
        groups.append(list(cells_of(uec, own, collections, most)))
    foreign = [load_collection(data / name) for name in languages.split(",") if name]
    rows, abroad = {}, {}
    for (uec, own), cells in zip(ensembles, groups, strict=True):
        for place, collection in enumerate(collections):
            model = learned_elsewhere(groups, collection.name, own, MIX_WITH_WORDS)
            some = as_asked(cells, collection.name)
            others = strange_questions(collections, place, most)
            key = f"{', '.join(uec.names)}: {collection.name}"
            rows[key] = figures(uec, model, some, collection, others, most)
        model = learned_elsewhere(
            groups, FIT, own, MIX_WITH_WORDS
        )  # they are of encyclopaedias, too
        for collection in foreign:
            tongue = collection.name.split("_")[-1]
            same = [c for c in foreign if c.name.split("_")[-1] == tongue and c is not collection]
            others = [text for c in same for text in list(c.queries.values())[:50]]
            key = f"{', '.join(uec.names)}: {collection.name}"
            abroad[key] = elsewhere(uec, model, collection, others, most)
    show(rows)
    if abroad:
        print("\nIn other languages:\n")
        show(abroad)


def show(rows: dict[str, Figures]) -> None:
    """Print each aim, and then each collection."""
    print("| aim | aimed at | mean | at worst | worst | met |\n|---|---|---|---|---|---|")
    names = [name for name in AIMS if any(name in row for row in rows.values())]
    for name in names:
        mean, worst, more = AIMS[name]
        values = np.array([row[name] for row in rows.values() if name in row])
        values = values[~np.isnan(values)]
        far = max(values, key=abs) if more is None else min(values) if more else max(values)
        sign = 1 if more else -1
        aims = [(mean, values.mean()), (worst, far)]
        met = [sign * (value - aim) >= 0 for aim, value in aims if aim is not None]
        told = ["" if aim is None else f"{aim:.2f}" for aim, _ in aims]
        word = ("yes" if all(met) else "no") if met else ""
        print(f"| {name} | {told[0]} | {values.mean():.3f} | {told[1]} | {far:.3f} | {word} |")
    print("\n| collection | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 1))
    for key, row in rows.items():
        cells = [f"{row[name]:.2f}" if name in row else "" for name in names]
        print(f"| {key} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    typer.run(main)
