"""The three decisions: answer, ask back, abstain, and the model of underspecified questions.

    python -m benchmarks.quality.decisions DATA [--write]
    python -m benchmarks.quality.decisions DATA --most 40  # quick

Each set is judged by what all others taught: clarify sets, ordinary collections and conversations;
the threshold, too, is chosen without it, as the lowest at which 1.6 % of the ordinary
answerable questions are asked back. In ordinary collections questions are asked once as they are
and once of the corpus without their answers. In conversations the last turn alone is underspecified
if it depends on earlier turns; it and its rewrite are learned from, not reported. "Before" are the
decisions without asking back. After asking back a person chooses the reading that holds what they
meant, and the share of questions whose first passage of that reading is right is given beside that
of the first hit. Last is how many words a pair of characters counts as, where words have no spaces.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.metrics import roc_auc_score

import uec_rag.clarify
from benchmarks.paper.data import load_collection, read_rows, sample_collection
from benchmarks.quality.shared import Data, fit_calibrator, index_rows, shipped, write_learned
from benchmarks.tables import print_table, run_script
from uec_rag import UEC
from uec_rag.base.gaussian import FloatArray
from uec_rag.base.logistic import Calibrator
from uec_rag.clarify.outline import Node, features, underspecified
from uec_rag.clarify.readings import readings
from uec_rag.confidence.decision import Criteria, Evidence, decide
from uec_rag.confidence.model import ANSWER_ABOVE
from uec_rag.encoders import lexical
from uec_rag.questions.languages import function_words
from uec_rag.questions.phrasing import Phrasing
from uec_rag.questions.query import Query
from uec_rag.questions.replies import Reading
from uec_rag.retrieval.rankings import find
from uec_rag.retrieval.results import Result
from uec_rag.retrieval.search import assess

CLARIFY = ("clarify_ambig", "clarify_entities", "clarify_pydocs", "clarify_man")
ORDINARY = ("claude_docs_rag", "squad_sample", "tydiqa_goldp_en", "boolq_dev", "fiqa_small")
ORDINARY += ("chroma_chunking", "belebele_en", "cranfield", "medline", "xquad_zh", "xquad_ru")
ORDINARY += ("xquad_ar", "cmrc2018_zh", "belebele_de")
CONVERSATIONS = ("conv_cast", "conv_pacific", "conv_kdconv_zh")
SHARE = {"clarify": 1.0, "conv": 2.0}  # how much a set counts in learning; others .15
OTHERS = 0.15
PENALTY = 0.01
NEEDLESS = 0.014  # share of ordinary answerable questions to ask back; sets left out have .019
K = 4
LABELS = ("answerable", "underspecified", "unanswerable")


@dataclass(frozen=True, eq=False)
class Example:
    """A question of a set, what was found for it and what it is.

    Attributes
    ----------
    label : str
        One of `LABELS`.
    found : array, shape (5,)
        `features`.
    offered : tuple of Reading
        What it may mean.
    confidence, in_corpus : float
    before : str
        The label that the search's own decision stands for.
    first, chosen : float
        Share of the question's labelled readings whose passage is the first hit, and the first of
        the reading that a person who means it chooses; NaN if it has none.
    """

    label: str
    found: list[float]
    offered: tuple[Reading, ...]
    confidence: float
    in_corpus: float
    before: str
    first: float
    chosen: float


def example(row: dict[str, Any], label: str, near: Node, result: Result) -> Example:
    """What a search found for a question (`near`, `result`: of it alone)."""
    found = readings(near)
    offered = [reading.ids for reading in found]
    meant = [set(reading["relevant"]) for reading in row.get("readings", ())]
    first = [float(near.outline.ids[0] in right) for right in meant]
    # Who means a reading chooses the first option that has one of its passages, if any has.
    options = [next((ids for ids in offered if right & {*ids}), ()) for right in meant]
    chosen = [
        float(ids[:1] != () and ids[0] in right) for ids, right in zip(options, meant, strict=True)
    ]
    return Example(
        label,
        features(row["text"], near),
        tuple(found),
        result.decision.confidence,
        result.decision.in_corpus,
        "answerable" if result.decision.confidence > 0.5 else "unanswerable",
        float(np.mean(first)) if first else float("nan"),
        float(np.mean(chosen)) if chosen else float("nan"),
    )


class Corpus:
    """A searchable corpus."""

    def __init__(self, uec: UEC, passages: Iterable[dict[str, Any]]) -> None:
        self.retriever = index_rows(uec, [*passages])

    def ask(self, row: dict[str, Any], label: str, gone: frozenset[str] = frozenset()) -> Example:
        """Ask one question, of the corpus without some passages."""
        retriever = self.retriever
        store = retriever.store.snapshot({"$not": {"$id": sorted(gone)}} if gone else None)
        parts = retriever.uec.encode([row["text"]], "query")
        method = retriever._method()
        [found] = find(method, store, [Phrasing.of(row["text"])], parts, K)
        query = Query(row["text"])
        return example(row, label, found.ambiguity[1], assess(found, query, K, len(store)))


def clarify_set(uec: UEC, folder: Path, most: int) -> list[Example]:
    """Examples of a clarify set, at most so many of each label."""
    corpus = Corpus(uec, read_rows(folder / "corpus.jsonl.gz"))
    rows = read_rows(folder / "queries.jsonl.gz")
    random.Random(0).shuffle(rows)
    chosen = [row for label in LABELS for row in [r for r in rows if r["label"] == label][:most]]
    return [corpus.ask(row, row["label"]) for row in chosen]


def ordinary_set(uec: UEC, folder: Path, most: int) -> list[Example]:
    """Examples of a retrieval collection: as it is, and half as many without their answers."""
    drawn = sample_collection(load_collection(folder), most, 500)
    titles = {str(r["_id"]): r.get("title") or "" for r in read_rows(folder / "corpus.jsonl.gz")}
    corpus = Corpus(
        uec,
        (
            {"_id": id_, "title": titles[id_], "text": text.removeprefix(titles[id_]).strip()}
            for id_, text in drawn.passages.items()
        ),
    )
    rows = [{"_id": name, "text": text} for name, text in drawn.queries.items()]
    gone = [frozenset(drawn.relevant[row["_id"]]) for row in rows]
    return [corpus.ask(row, "answerable") for row in rows] + [
        corpus.ask(row, "unanswerable", answers)
        for row, answers in list(zip(rows, gone, strict=True))[: most // 2]
    ]


def conversation_set(uec: UEC, folder: Path, most: int) -> list[Example]:
    """Last turns of conversations, alone, and what they were rewritten to."""
    drawn = sample_collection(load_collection(folder), most, 800)
    passages = read_rows(folder / "corpus.jsonl.gz")
    corpus = Corpus(uec, (row for row in passages if str(row["_id"]) in drawn.passages))
    rows = [r for r in read_rows(folder / "queries.jsonl.gz") if r["_id"] in drawn.queries]
    examples = [
        corpus.ask(row, "answerable" if row["standalone"] else "underspecified") for row in rows
    ]
    rewritten = [row for row in rows if row.get("rewrite") and not row["standalone"]]
    return examples + [corpus.ask({"text": row["rewrite"]}, "answerable") for row in rewritten]


def learn(sets: dict[str, list[Example]]) -> Calibrator:
    """Learn what tells underspecified from answerable questions; in a set both count alike."""
    found, labels, weights = [], [], []
    for name, examples in sets.items():
        share = SHARE.get(name.partition("_")[0], OTHERS)
        counts = {label: sum(e.label == label for e in examples) for label in LABELS}
        for one in examples:
            if one.label != "unanswerable":
                found.append(one.found[:-2])
                labels.append(one.label == "underspecified")
                weights.append(share / counts[one.label])
    return fit_calibrator(np.array(found), labels, PENALTY, weights)


def probabilities(model: Calibrator, examples: Sequence[Example]) -> FloatArray:
    """P(underspecified) of each example."""
    found = [underspecified(one.found, model) for one in examples]
    return np.array(found, dtype=np.float32)


def asks_back(one: Example, unsaid: float, lowest: float) -> bool:
    """Whether a question is asked back about, from a lowest P(underspecified)."""
    evidence = Evidence(underspecified=unsaid, in_corpus=one.in_corpus)
    decision = decide(evidence, Criteria(clarify_from=lowest))
    return len(one.offered) > 1 and decision.action == "clarify"


def threshold(model: Calibrator, sets: dict[str, list[Example]]) -> float:
    """The lowest that asks at most `NEEDLESS` of the ordinary answerable questions back."""
    ordinary = [
        one
        for name, examples in sets.items()
        for one in examples
        if name not in (*CLARIFY, *CONVERSATIONS) and one.label == "answerable"
    ]
    needless = [
        told if asks_back(one, told, 0.0) else 0.0
        for one, told in zip(ordinary, probabilities(model, ordinary).tolist(), strict=True)
    ]
    return float(np.quantile(needless, 1 - NEEDLESS))


def decided(one: Example, unsaid: float, ask: float) -> str:
    """The label that a decision stands for."""
    if asks_back(one, unsaid, ask):
        return "underspecified"
    return "answerable" if one.confidence > ANSWER_ABOVE else "unanswerable"


def figures(
    examples: Sequence[Example], told: FloatArray, decided: Sequence[str]
) -> dict[str, float]:
    """What holds of one set, given P(underspecified) and decisions."""
    label = np.array([one.label for one in examples])
    action = np.array(decided)
    part = {name: label == name for name in LABELS}
    asked = action == "underspecified"
    known = part["answerable"] | part["underspecified"]
    there = [name for name in LABELS if part[name].any()]
    out = {f"{name} right": float((action[part[name]] == name).mean()) for name in there}
    out["answerable asked"] = float(asked[part["answerable"]].mean())
    out["asked rightly"] = float(part["underspecified"][asked].mean()) if asked.any() else np.nan
    if part["underspecified"].any():
        out["AUROC"] = float(roc_auc_score(part["underspecified"][known], told[known]))
        some = [one for one in examples if one.label == "underspecified"]
        out["first right"] = float(np.mean([one.first for one in some]))
        out["after asking"] = float(np.mean([one.chosen for one in some]))
    return out


def study(sets: dict[str, list[Example]]) -> None:
    """Print the table: each clarify set left out, and the ordinary collections together."""
    judged: dict[str, tuple[FloatArray, list[str]]] = {}
    for name in sets:
        others = {other: part for other, part in sets.items() if other != name}
        model = learn(others)
        ask = threshold(model, others)
        told = probabilities(model, sets[name])
        judged[name] = (
            told,
            [decided(one, float(p), ask) for one, p in zip(sets[name], told, strict=True)],
        )
    rows: dict[str, dict[str, float]] = {}
    for title, names in ({name: [name] for name in CLARIFY} | {"ordinary": ORDINARY}).items():
        examples = [one for name in names for one in sets[name]]
        told = np.concatenate([judged[name][0] for name in names])
        after = [action for name in names for action in judged[name][1]]
        rows[f"{title}, before"] = figures(examples, told, [one.before for one in examples])
        rows[f"{title}, after"] = figures(examples, told, after)
    keys = list(rows[f"{CLARIFY[0]}, after"])
    table = [[name, *(f"{row.get(key, np.nan):.2f}" for key in keys)] for name, row in rows.items()]
    print_table("Decisions", ["set", *keys], table)


def words_of_pair(data: Path) -> float:
    """The words in English for each pair of characters in Chinese, of the same questions."""
    counts = []
    for code in ("en", "zh"):
        rows = read_rows(data / f"xquad_{code}" / "queries.jsonl.gz")
        words = [lexical.words_by_key(lexical.written_words(row["text"])).values() for row in rows]
        little = function_words(code)
        counts.append(sum(word.casefold() not in little for some in words for word in some))
    return counts[0] / counts[1]


def main(
    data: Data,
    most: Annotated[int, typer.Option(help="Questions of a label or collection at most.")] = 120,
    write_model: Annotated[bool, typer.Option("--write", help="Into the package.")] = False,
) -> None:
    """Print the table; with --write put the model into the package."""
    uec = shipped()
    sets = {name: clarify_set(uec, data / name, 10 * most) for name in CLARIFY}
    sets |= {name: ordinary_set(uec, data / name, most) for name in ORDINARY}
    sets |= {name: conversation_set(uec, data / name, 2 * most) for name in CONVERSATIONS}
    study(sets)
    model = learn(sets)
    if write_model:
        plain = {k: v for k, v in model.metadata().items() if isinstance(v, (list, tuple, float))}
        write_learned("readings.json", {"underspecified": plain}, uec_rag.clarify)
        print(f"\nWritten; CLARIFY_FROM in decision.py should be {threshold(model, sets):.2f}")
    print(f"\nA pair of characters is {words_of_pair(data):.2f} words.")


if __name__ == "__main__":
    run_script(main)
