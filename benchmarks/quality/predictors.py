"""Query performance prediction: what the literature's predictors tell, beside ours.

    python -m benchmarks.quality.predictors DATA --ensemble arctic-embed-s,bm25 [--passages 500]

Ensembles, questions and what is learned from which domain are as in `shipped_confidence.py`.
Predictors over scores are of the fused score and of each member's own; `in_corpus` and confidence
(at four) are of models that know none of a collection's domain, and so is what being found rests
on, "found", of which confidence is the product with `in_corpus`; "with the gap" they have learned
from the gap of the ten best scores, too. Kendall's tau is with nDCG@10; AUROC is of answerable
questions against the same with their answers removed, of answerable against other collections'
questions, and of right among the first four against not. The last table is of the decision at one
half with and without the gap: right and others' questions answered and the Brier score at four, of
each collection and on average.

Sources: NQC (Shtok et al., 2012), deviation at k and by the score's own cut (Cummins et al., 2011),
WIG (Zhou and Croft, 2007), SMV (Tao and Wu, 2014), RSD (Roitman et al., 2017), SCS and idf (He and
Ounis, 2004).
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from scipy.stats import kendalltau
from sklearn.metrics import roc_auc_score

from benchmarks.paper.data import Collection, load_collection
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
from benchmarks.tables import print_table
from uec_rag import UEC, Retriever
from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence.model import shipped_model
from uec_rag.encoders import DEFAULT_ENCODERS, load_encoder
from uec_rag.encoders.lexical import ENGLISH, split_words
from uec_rag.ensemble.convolution import gap
from uec_rag.retrieval.search import best_of, compare, fuse

MEASURES = ("tau", "removed", "others'", "right at 4")
DEPTH = 100


def of_scores(scores: FloatArray, words: FloatArray) -> dict[str, FloatArray]:
    """Predictors over each question's scores of all passages, shape (n, N), -inf if it is gone.

    `words`, shape (n,): how many each question has.
    """
    there = np.where(np.isfinite(scores), scores, np.nan)
    mean, length = np.nanmean(there, axis=1), np.sqrt(np.maximum(words, 1))
    best = -np.sort(-scores, axis=1)[:, :DEPTH]
    best = np.where(np.isfinite(best), best, np.nan)
    top, base = best[:, 0], np.maximum(np.abs(mean), 1e-3)
    positive = np.maximum(best, 1e-6)
    centre = np.maximum(np.nanmean(best, axis=1), 1e-6)[:, None]
    rng, robust = np.random.default_rng(0), []
    for _ in range(30):
        size = int(rng.integers(5, best.shape[1] + 1))
        some = best[:, np.sort(rng.choice(best.shape[1], size, replace=False))]
        weight = np.maximum(np.nanmean(some, axis=1) - mean, 0) / length
        robust.append(weight * np.nanstd(some, axis=1))
    return {
        "top": top,
        "gap to tenth": top - best[:, 9],
        "deviation 10": np.nanstd(best[:, :10], axis=1),
        "deviation 30": np.nanstd(best[:, :30], axis=1),
        "deviation 100": np.nanstd(best, axis=1),
        "deviation, own cut": np.nanstd(np.where(best >= 0.5 * top[:, None], best, np.nan), axis=1),
        "NQC": np.nanstd(best, axis=1) / base,
        "WIG": (np.nanmean(best[:, :5], axis=1) - mean) / length,
        "SMV": np.nanmean(positive * np.abs(np.log(positive / centre)), axis=1) / base,
        "RSD": np.mean(robust, axis=0) / base,
    }


def of_words(texts: list[str], collection: Collection) -> dict[str, FloatArray]:
    """How specific the words of questions are in a collection."""
    counts = [Counter(_terms(text)) for text in collection.passages.values()]
    frequency = Counter(word for count in counts for word in count)
    total = sum(counts, Counter())
    tokens, size = total.total(), len(counts)
    rows = []
    for text in texts:
        words = _terms(text) or [""]
        idf = [np.log((size + 1) / (frequency[word] + 0.5)) for word in words]
        share = {word: count / len(words) for word, count in Counter(words).items()}
        scs = sum(p * np.log2(p * tokens / (total[word] + 0.5)) for word, p in share.items())
        rows.append((np.mean(idf), np.max(idf), scs))
    return dict(zip(("idf mean", "idf max", "SCS"), np.array(rows).T, strict=True))


def _terms(text: str) -> list[str]:
    return [low for word in split_words(text) if (low := word.casefold()) not in ENGLISH]


def gains(scores: FloatArray, relevant: FloatArray) -> tuple[FloatArray, FloatArray]:
    """NDCG@10, and whether one of the first four is relevant; `relevant`: gains, shape (n, N)."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    found, best = np.take_along_axis(relevant, order, axis=1), -np.sort(-relevant, axis=1)[:, :10]
    discount = 1 / np.log2(np.arange(2, 2 + found.shape[1]))
    return (found @ discount) / (best @ discount), found[:, :4].any(axis=1)


def measured(
    uec: UEC, collection: Collection, names: list[str], others: list[str]
) -> tuple[dict[str, list[FloatArray]], FloatArray, FloatArray]:
    """Predictors of questions as they are, without answers, and of others'; NDCG@10; right at 4."""
    asked = [collection.queries[name] for name in names]
    retriever = Retriever(uec)
    retriever.add([*collection.passages.values()], ids=[*collection.passages])
    view, fitted = retriever.store.snapshot(), uec.fitted
    place = {id_: column for column, id_ in enumerate(collection.passages)}
    relevant = np.zeros((len(names), len(place)))
    for row, name in enumerate(names):
        for id_, gain in collection.relevant[name].items():
            relevant[row, place[id_]] = gain
    out: dict[str, list[FloatArray]] = {}
    judged: list[tuple[FloatArray, FloatArray]] = []
    for texts, gone in ((asked, 0 * relevant), (asked, relevant), (others, np.zeros((1, 1)))):
        parts = uec.encode(texts, "query")
        members = compare(fitted, view, parts)
        weights = retriever.uec.fitted.evidence_weights
        pi = fitted.weigh(weights, parts, members, best_of(members))
        fused = fuse(fitted, members, pi)
        words = np.array([len(split_words(text)) for text in texts])
        own = dict(zip(uec.names, members, strict=True))
        for kind, scores in {"fused": fused, **own}.items():
            name = kind if kind in ("fused", "bm25") else "vectors"
            for key, values in of_scores(np.where(gone > 0, -np.inf, scores), words).items():
                out.setdefault(f"{name}: {key}", []).append(values)
        for key, values in of_words(texts, collection).items():
            out.setdefault(key, []).append(values)
        if not judged:
            judged.append(gains(fused, relevant))
    return out, *judged[0]


def told(
    values: list[FloatArray], ndcg: FloatArray, right: FloatArray
) -> tuple[float, float, float, float]:
    """The figures of one predictor, in the order of `MEASURES`."""
    here, gone, other = (np.nan_to_num(one, nan=-1e9) for one in values)

    def auroc(high: FloatArray, low: FloatArray) -> float:
        if not len(high) or not len(low):
            return np.nan
        return float(roc_auc_score([1] * len(high) + [0] * len(low), [*high, *low]))

    tau = float(kendalltau(here, ndcg).statistic)
    return tau, auroc(here, gone), auroc(here, other), auroc(here[right], here[~right])


def with_gap(cell: Cell) -> Cell:
    """Add the gap of the ten best scores to what being found rests on."""
    known = cell.examples.features
    # Logs of shares of one softmax differ as the scores do.
    apart = gap(known.relevance[..., 1])
    column = np.broadcast_to(apart[:, None, None], (*known.found.shape[:2], 1))
    found = np.concatenate([known.found, column], axis=-1)
    return replace(cell, examples=replace(cell.examples, features=replace(known, found=found)))


def main(
    data: Annotated[Path, typer.Argument(envvar="UEC_DATA", help="Folder of collections.")],
    ensemble: Annotated[list[str], typer.Option(help="Members, comma-separated; several times.")],
    sets: Annotated[str, typer.Option(help="Collections.")] = ",".join(DOMAINS),
    most: Annotated[int, typer.Option(help="Questions of a collection at most.")] = 200,
    passages: Annotated[int, typer.Option(help="Passages of a collection at most.")] = ALL,
) -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")
    collections = [loaded(data / name, passages) for name in sets.split(",")]
    pairs = load_collection(data / FIT, "train").pairs()
    groups = []
    for members in ensemble:
        uec = UEC([cached(load_encoder(name)) for name in members.split(",")])
        if tuple(members.split(",")) == DEFAULT_ENCODERS:
            uec.fitted = UEC().fitted
        else:
            uec.fit(pairs)
        own = replace(shipped_model("words"), temperature=uec.fitted.confidence_model.temperature)
        groups.append((uec, own, list(cells_of(uec, own, collections, most))))
    figures: dict[str, list[tuple[float, ...]]] = {}
    decided: dict[str, list[float]] = {}
    gapped = [[*map(with_gap, cells)] for *_, cells in groups]
    for number, (uec, own, _) in enumerate(groups):
        for place, collection in enumerate(collections):
            names = chosen_questions(collection, most)
            others = strange_questions(collections, place, most)
            values, ndcg, right = measured(uec, collection, names, others)
            plain = [some for *_, some in groups]
            for added, every in {"": plain, " with the gap": gapped}.items():
                model = learned_elsewhere(every, collection.name, own, MIX_WITH_WORDS)
                cells = as_asked(every[number], collection.name)
                whole = {cell.kind: cell.examples for cell in cells if not cell.size}
                kinds = ("answerable", "removed", "other")
                sure, found, held = zip(
                    *(certainty(model, whole[kind], 4) for kind in kinds), strict=True
                )
                values[f"confidence{added}"] = [*sure]
                values[f"found{added}"] = [s / h for s, h in zip(sure, held, strict=True)]
                values["in_corpus"] = [*held]
                there, _, other = sure
                hit = found[0]
                figure = (there[hit] > 0.5).mean(), (other > 0.5).mean()
                decided.setdefault(f"{collection.name} ({number + 1})", []).extend(
                    (*figure, ((there - hit) ** 2).mean())
                )
            for name, of_one in values.items():
                figures.setdefault(name, []).append(told(of_one, ndcg, right))
    print_means(figures)
    decided["mean"] = np.mean([*decided.values()], axis=0).tolist()
    columns = ("right answered", "others' answered", "Brier score")
    print_table(
        "Decided at one half, without and with the gap",
        ["collection", *columns, *(f"{name} with" for name in columns)],
        [[name, *(f"{value:.3f}" for value in row)] for name, row in decided.items()],
        markdown=True,
    )


def print_means(figures: Mapping[str, Sequence[tuple[float, ...]]]) -> None:
    """Print each predictor's means, the best first."""
    mean = {name: np.nanmean(rows, axis=0) for name, rows in figures.items()}
    ours = np.array(figures["in_corpus"]), np.array(figures["confidence"])
    table = []
    for name in sorted(mean, key=lambda name: -mean[name][1]):
        # At worst over collections: what a predictor has above the better of ours.
        above = np.nanmax(np.array(figures[name]) - np.maximum(*ours), axis=0)
        both = zip(mean[name], above, strict=True)
        table.append([name, *(f"{value:.3f} ({more:+.2f})" for value, more in both)])
    print_table(
        "Means, and by how much it is above the better of ours at most",
        ["predictor", *MEASURES],
        table,
        markdown=True,
    )


if __name__ == "__main__":
    typer.run(main)
