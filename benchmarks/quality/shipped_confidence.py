"""Learn the confidence that comes with the package, and show how it holds where it was not learned.

    python -m benchmarks.quality.shipped_confidence DATA --ensemble A,B --ensemble C [--write]
    python -m benchmarks.quality.shipped_confidence DATA --ensemble A,bm25 --ensemble B,C,bm25

Ensembles are fitted on TyDi QA's training pairs, but for the embedded one, which is as it comes;
those without words are searched unfitted, too. Each collection's questions are asked of the whole
corpus and of small ones cut out of it, of the same without their answers, and of other collections;
those that are learned from also in other words (`WORDINGS`), longer and shorter than they are.
The questions of `CLARIFY` are asked of their whole corpora, with and without an answer.
Only collections whose licence allows what is derived from them are learned from (`LEARNED`); the
others (`HELD_OUT`) are asked alone. Every figure of a collection is of a model that learned from no
collection of its domain. With --write the models learned from all of `LEARNED`, of ensembles with
words apart from those without, go to `uec_rag/confidence/shipped.json`. Embeddings are cached.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from sklearn.metrics import roc_auc_score

import uec_rag.confidence
from benchmarks.paper.data import Collection, load_collection, read_rows, sample_collection
from benchmarks.quality.manuals import rows_of
from benchmarks.quality.shared import (
    Data,
    Sets,
    fit_calibrator,
    index_collection,
    unfitted,
    write_learned,
)
from benchmarks.tables import print_table, run_script
from uec_rag import UEC, Retriever
from uec_rag.base.similarity import weighted_sum
from uec_rag.base.text import ENGLISH_WORDS
from uec_rag.confidence.fit_view import FitView, fit_temperature
from uec_rag.confidence.model import ConfidenceModel, Examples, shipped_model
from uec_rag.index.learn import labelled_examples, without_answers
from uec_rag.retrieval.rankings import Method, unfitted_logit_line

_ROWS = rows_of("collections")
LEARNED, HELD_OUT, CLARIFY = (
    {row["collection"]: row["domain"] for row in _ROWS if row["part"] == part}
    for part in ("learned", "held out", "clarify")
)
"""Collection -> its domain. Those of `CLARIFY` are for ensembles with words: names differ there."""
DOMAINS = LEARNED | HELD_OUT
TAUGHT = LEARNED | CLARIFY
SETS = ",".join(DOMAINS)
FIT = "tydiqa_goldp_en"
K = 10
QUESTIONS = 200
ALL = 100_000  # passages: more than any collection has
# How many corpora of each size are cut out of a collection; a whole one counts as size 0.
SMALL = {5: 24, 20: 10, 100: 4, 600: 1}
# What a question counts: an answerable one, one whose answer was removed, another collection's.
MIX = {"answerable": 1.0, "removed": 0.1, "other": 0.1}
# The same where words are a member, to which more that has no answer looks answered. By it .87 of
# the questions that are right among four hits are answered, and less than .03 of others'.
MIX_WITH_WORDS = MIX | {"removed": 0.3, "other": 0.2}
# What all questions of a collection count in other words, beside them as they are.
WORDINGS = {"framed": 0.25, "keywords": 0.25, "joined": 0.25}
FRAMES = (
    "Hello everybody, I hope this is the right place. I have been reading about this for a while "
    "and could not find anything that helps me, so maybe one of you knows more about it than I do: "
    "{} Thank you very much in advance for any help, I would really appreciate it.",
    "I am preparing something for tomorrow and one point is still open. {} Please explain it in a "
    "few sentences, and say where it is written if you can.",
    "Hi! Quick question, sorry if this has been asked before. {} Thanks!",
)


@dataclass(frozen=True, eq=False)
class Cell:
    """Questions of one kind, in one wording, asked of corpora of one size of one collection."""

    collection: str
    kind: str
    size: int
    examples: Examples
    wording: str = ""


def gather(
    uec: UEC, model: ConfidenceModel, collection: Collection, foreign: Sequence[str], most: int
) -> Iterator[Cell]:
    """Ask a collection's questions, and foreign ones, of its corpus and of parts of it."""
    names = chosen_questions(collection, most)
    texts = [collection.queries[name] for name in names]
    yield from _gathered(uec, model, collection, names, texts, foreign, {0: 1, **SMALL})
    for wording in WORDINGS if collection.name in LEARNED else ():
        texts = reworded(collection, names, wording)
        others = [_in_words(text, place, wording) for place, text in enumerate(foreign)]
        for cell in _gathered(uec, model, collection, names, texts, others, {0: 1, 100: 2}):
            yield replace(cell, wording=wording)


def clarify_cells(uec: UEC, model: ConfidenceModel, folder: Path, most: int) -> Iterator[Cell]:
    """Ask a clarify set's questions with an answer, these without it, and those that have none."""
    rows = read_rows(folder / "corpus.jsonl.gz")
    ids = [str(row["_id"]) for row in rows]
    retriever = Retriever(uec)
    retriever.add([f"{row.get('title') or ''} {row['text']}".strip() for row in rows], ids=ids)
    method = Method(uec.fitted, model, check_familiar=False)
    store, asked = retriever.store.snapshot(), read_rows(folder / "queries.jsonl.gz")
    random.Random(0).shuffle(asked)
    for label in ("answerable", "unanswerable"):
        some = [row for row in asked if row["label"] == label][:most]
        texts = [row["text"] for row in some]
        parts = uec.encode(texts, "query")
        wanted = [
            frozenset(map(str, row["relevant"])) if label == "answerable" else frozenset[str]()
            for row in some
        ]
        found = Examples.concatenate(labelled_examples(method, store, texts, parts, wanted, K))
        yield Cell(folder.name, "removed" if label == "unanswerable" else label, 0, found)
        if label == "answerable":
            half = slice(len(some) // 2)
            own = [part[half] for part in parts]
            gone = without_answers(method, store, texts[half], own, wanted[half], K)
            yield Cell(folder.name, "removed", 0, Examples.concatenate(gone))


def reworded(collection: Collection, names: Sequence[str], wording: str) -> list[str]:
    """Questions in a frame, by their keywords, or joined with others that the same passages answer.

    `wording`: one of `WORDINGS`.
    """
    if wording != "joined":
        return [_in_words(collection.queries[n], i, wording) for i, n in enumerate(names)]
    by_answer: dict[str, list[str]] = {}
    for name, wanted in collection.relevant.items():
        for id_ in wanted:
            by_answer.setdefault(id_, []).append(name)
    out = []
    for name in names:
        wanted = set(collection.relevant[name])
        others = [other for id_ in sorted(wanted) for other in by_answer[id_] if other != name]
        same = [other for other in dict.fromkeys(others) if {*collection.relevant[other]} <= wanted]
        out.append(" ".join(collection.queries[one] for one in (name, *same[:3])))
    return out


def _in_words(text: str, place: int, wording: str) -> str:
    if wording == "framed":
        return FRAMES[place % len(FRAMES)].format(text)
    if wording == "keywords":
        words = [word.strip("?.,!\"'()") for word in text.split()]
        telling = (word for word in words if word and word.lower() not in ENGLISH_WORDS)
        return " ".join(telling) or text
    return text


def _gathered(
    uec: UEC,
    model: ConfidenceModel,
    collection: Collection,
    names: Sequence[str],
    texts: Sequence[str],
    others: Sequence[str],
    sizes: dict[int, int],
) -> Iterator[Cell]:
    rng = np.random.default_rng(0)
    method = Method(uec.fitted, model, check_familiar=False)
    parts, foreign = (uec.encode(list(some), "query") for some in (texts, others))
    wanted = [frozenset(collection.relevant[name]) for name in names]
    ids = list(collection.passages)
    for size, corpora in sizes.items():
        if size > 0.8 * len(ids):
            continue
        for _ in range(corpora):
            rows, chosen = list(range(len(names))), ids
            if size:
                rows, chosen = _small(rng, wanted, ids, size)
            retriever = Retriever(uec)
            retriever.add([collection.passages[id_] for id_ in chosen], ids=chosen)
            inside = [wanted[row] & set(chosen) for row in rows]
            some = rng.permutation(len(others))[: max(4, size // 4) if size else None].tolist()
            store, asked = retriever.store.snapshot(), [texts[row] for row in rows]
            own = [part[rows] for part in parts]
            strange, nothing = [others[row] for row in some], [frozenset[str]()] * len(some)
            theirs = [part[some] for part in foreign]
            found = {
                "answerable": labelled_examples(method, store, asked, own, inside, K),
                "removed": without_answers(method, store, asked, own, inside, K),
                "other": labelled_examples(method, store, strange, theirs, nothing, K),
            }
            for kind, examples in found.items():
                yield Cell(collection.name, kind, size, Examples.concatenate(examples))


def chosen_questions(collection: Collection, most: int) -> list[str]:
    """Names of the questions that are asked, at random."""
    queries = list(collection.queries)
    rows = np.random.default_rng(0).permutation(len(queries))[:most]
    return [queries[row] for row in rows]


def strange_questions(
    collections: Sequence[Collection], place: int, most: int, domains: Mapping[str, str] = DOMAINS
) -> list[str]:
    """Questions of collections of other domains than that of the one at a place."""
    strange = [
        other
        for other in [*collections[place + 1 :], *collections[:place]]
        if domains[other.name] != domains[collections[place].name]
    ][:3]
    return [text for other in strange for text in list(other.queries.values())[: most // 4]]


def _small(
    rng: np.random.Generator, wanted: Sequence[frozenset[str]], ids: list[str], size: int
) -> tuple[list[int], list[str]]:
    """A corpus of a size, and the questions that it answers: of each a quarter of it at most."""
    rows: list[int] = []
    chosen: dict[str, None] = {}
    for row in rng.permutation(len(wanted)).tolist():
        some = sorted(wanted[row])[: max(1, size // 4)]
        if len(rows) >= max(2, size // 2) or len(chosen) + len(some) > size:
            break
        rows.append(row)
        chosen.update(dict.fromkeys(some))
    rest = [ids[i] for i in rng.permutation(len(ids)) if ids[i] not in chosen]
    return rows, [*chosen, *rest[: size - len(chosen)]]


def temperature_of(uec: UEC, collections: Sequence[Collection], most: int) -> float:
    """Temperature at which standardised similarities give the answers the most."""
    views = []
    for collection in collections:
        queries = list(collection.queries)[:most]
        retriever = index_collection(uec, collection)
        parts = uec.encode([collection.queries[query] for query in queries], "query")
        view = retriever.store.snapshot()
        compared = view.compare([p.terms[0] if p.terms else p.mean for p in parts])
        best = np.stack([of_block[:, 0] for of_block in compared.leading], axis=1)
        coefficients = uec.fitted.weigh(parts, compared.leading, best)
        mu = weighted_sum(compared.similarities, coefficients * uec.fitted.weights)
        slope, offset = unfitted_logit_line(uec.fitted, view, parts)
        logits = slope * mu + offset[:, None]
        place = {id_: column for column, id_ in enumerate(collection.passages)}
        relevant = np.zeros(logits.shape, dtype=bool)
        for row, query in enumerate(queries):
            relevant[row, [place[id_] for id_ in collection.relevant[query]]] = True
        views.append(FitView(logits, relevant, logits[..., None]))
    return fit_temperature(views)


def learn(
    cells: Sequence[Cell], start: ConfidenceModel, mix: Mapping[str, float]
) -> ConfidenceModel:
    """Learn from cells; of each collection, kind and size all questions together count alike."""
    counts: dict[tuple[str, str, int, str], int] = {}
    for cell in cells:
        key = (cell.collection, cell.kind, cell.size, cell.wording)
        counts[key] = counts.get(key, 0) + len(cell.examples.answerable)
    weighted = [
        replace(
            cell.examples,
            weight=np.full(
                len(cell.examples.answerable),
                mix[cell.kind]
                * (0.5 if cell.size else 1.0)
                * WORDINGS.get(cell.wording, 1.0)
                / counts[cell.collection, cell.kind, cell.size, cell.wording],
                dtype=np.float32,
            ),
        )
        for cell in cells
    ]
    gone = (mix["removed"] + mix["other"]) / sum(mix.values())
    joined = Examples.concatenate(weighted)
    there, own, relevant = joined.answerable, joined.features, joined.relevant[joined.answerable]
    _, found, right, weight = joined.at_cutoffs()
    of_hits = np.broadcast_to(joined.weight[there, None], relevant.shape)
    return replace(
        start,
        relevance=fit_calibrator(own.relevance[there], relevant, weights=of_hits),
        in_corpus=fit_calibrator(own.in_corpus, there, weights=joined.weight),
        found=fit_calibrator(found, right, weights=weight),
        per_count=0.0,
        unanswerable=gone,
    )


def certainty(model: ConfidenceModel, examples: Examples) -> tuple[np.ndarray, ...]:
    """Confidence in four hits, whether one of them is relevant, and that the corpus answers."""
    sure = model.probabilities(examples.features)
    right = examples.relevant[:, :4].any(axis=1)
    return sure.confidence_at_k[:, min(4, examples.relevant.shape[1]) - 1], right, sure.in_corpus


def figures(model: ConfidenceModel, cells: Sequence[Cell]) -> dict[str, float]:
    """What holds of one collection under a model."""
    whole = {c.kind: c.examples for c in cells if not c.size}
    sure, right, held = certainty(model, whole["answerable"])
    gone, _, without = certainty(model, whole["removed"])
    other, _, _ = certainty(model, whole["other"])
    level = float(sure.mean() - right.mean())
    labels = [1] * len(held) + [0] * len(without)
    return {
        "level": level,
        "30 % removed": 0.7 * level + 0.3 * float(gone.mean()),
        "right answered": float((sure[right] > 0.5).mean()),
        "others' answered": float((other > 0.5).mean()),
        "AUROC removed": float(roc_auc_score(labels, [*held, *without])),
    }


def learned_elsewhere(
    groups: Sequence[Sequence[Cell]], name: str, start: ConfidenceModel, mix: Mapping[str, float]
) -> ConfidenceModel:
    """Learn from what may be learned from, but for a collection's domain.

    Each ensemble's own temperature is in its features already.
    """
    others = [
        cell
        for cells in groups
        for cell in cells
        if cell.collection in TAUGHT and TAUGHT[cell.collection] != DOMAINS[name]
    ]
    return learn(others, start, mix)


def study(kind: str, groups: Sequence[Sequence[Cell]], start: ConfidenceModel) -> ConfidenceModel:
    """Print what holds leaving domains out, and learn from everything that may be learned from."""
    mix = MIX_WITH_WORDS if kind == "words" else MIX
    rows: dict[str, list[float]] = {}
    for number, cells in enumerate(groups, 1):
        for name in dict.fromkeys(c.collection for c in cells if c.collection in DOMAINS):
            model = learned_elsewhere(groups, name, start, mix)
            as_asked = [c for c in cells if c.collection == name and not c.wording]
            found = figures(model, as_asked)
            rows[f"{name} ({number})"] = [*found.values()]
    rows["mean of sizes"] = np.abs([*rows.values()]).mean(axis=0).tolist()
    table = [[name, *(f"{value:.3f}" for value in row)] for name, row in rows.items()]
    print_table(kind, ["collection (ensemble)", *found], table)
    known = [cell for cells in groups for cell in cells if cell.collection in TAUGHT]
    return learn(known, start, mix)


def run(
    data: Path, ensembles: Sequence[UEC], names: Sequence[str], most: int, passages: int
) -> dict[str, dict[str, object]]:
    """Study ensembles of each kind; return what was learned.

    `passages`: of a collection at most, beside those that are relevant.
    """
    pairs = load_collection(data / FIT, "train").pairs()
    collections = [loaded(data / name, passages) for name in names]
    learned: dict[str, dict[str, object]] = {}
    for kind in ("fitted", "words", "unfitted"):
        chosen = [
            uec
            for uec in ensembles
            if ("bm25" in [e.spec for e in uec.encoders]) == (kind == "words")
        ]
        temperatures = []
        for uec in chosen:
            if kind != "unfitted":
                uec.fit(pairs)
                temperatures.append(uec.fitted.confidence_model.temperature)
            else:
                uec.fitted = UEC(uec.encoders).fitted
                taught = [c for c in collections if c.name in LEARNED]
                temperatures.append(temperature_of(uec, taught, most))
        if not chosen:
            continue
        cells, shared = [], float(np.exp(np.mean(np.log(temperatures))))
        start = shipped_model(kind)
        for uec, own in zip(chosen, temperatures, strict=True):
            model = replace(start, temperature=shared if kind == "unfitted" else own)
            cells.append(list(cells_of(uec, model, collections, most)))
            for name in CLARIFY if kind == "words" else ():
                cells[-1] += clarify_cells(uec, model, data / name, most)
        start = replace(start, temperature=shared if kind == "unfitted" else 1.0)
        learned[kind] = study(kind, cells, start).metadata()
    return learned


def loaded(folder: Path, passages: int) -> Collection:
    """A collection, or so many passages of it, some questions and what is relevant to them."""
    collection = load_collection(folder)
    if passages >= len(collection.passages):
        return collection
    return sample_collection(collection, QUESTIONS, passages)


def cells_of(
    uec: UEC,
    model: ConfidenceModel,
    collections: Sequence[Collection],
    most: int,
    domains: Mapping[str, str] = DOMAINS,
) -> Iterator[Cell]:
    for place, collection in enumerate(collections):
        foreign = strange_questions(collections, place, most, domains)
        by_kind: dict[tuple[str, int, str], list[Examples]] = {}
        for cell in gather(uec, model, collection, foreign, most):
            by_kind.setdefault((cell.kind, cell.size, cell.wording), []).append(cell.examples)
        for (kind, size, wording), examples in by_kind.items():
            yield Cell(collection.name, kind, size, Examples.concatenate(examples), wording)


def main(
    data: Data,
    ensemble: Annotated[list[str], typer.Option(help="Models, comma-separated.")],
    sets: Sets = SETS,
    most: Annotated[int, typer.Option(help="Questions of a collection at most.")] = QUESTIONS,
    passages: Annotated[int, typer.Option(help="Passages of a collection at most.")] = ALL,
    write: Annotated[bool, typer.Option(help="Write it into the package.")] = False,
) -> None:
    """Print the tables; with --write put the model into the package."""
    ensembles = [unfitted(names.split(",")) for names in ensemble]
    learned = run(data, ensembles, sets.split(","), most, passages)
    if write:
        save(learned)


def save(learned: dict[str, dict[str, object]]) -> None:
    """Write models into the package; their profiles, which `tenants` measures, stay."""
    path = Path(uec_rag.confidence.__file__).parent / "shipped.json"
    before = json.loads(path.read_text(encoding="utf-8"))
    kept = {kind: model | {"profile": before[kind]["profile"]} for kind, model in learned.items()}
    write_learned("shipped.json", kept)


if __name__ == "__main__":
    run_script(main)
