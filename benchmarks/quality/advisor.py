"""A language model in doubt: what its verdicts and rewrites gain, and how often it is asked.

    python -m benchmarks.quality.advisor FOLDER
    python -m benchmarks.quality.advisor FOLDER --data DATA    # conversations, too

FOLDER is that of `first_week.py`. The questions are those of the first week, and some 150 ordinary
ones in people's own words (questions/own_words.csv), written by somebody who read a passage and
avoided its words, before anything was searched. The replies (questions/replies.json) are a language
model's, which saw the prompt of `uec_rag.gates.advisor` with question and passages alone. A
reply is to the passages that were found when it was written; a question without one counts as if
the model had failed.

Right are decisions as in `first_week.py`: for a question that is asked back, answered with a
passage that the list names among the four hits, or left alone. "Verdicts" leaves the rewrites out,
"a fifth wrong" replaces a fifth of the verdicts by another one at random (mean of ten draws), "a
probability" is whether the verdict is "answer", as 0.97 or 0.03, with noise in the log odds of a
standard deviation (ten draws), and "also before each answer" is `ask="always"`. Beside them: what
becomes of the ambiguous questions, by what the advisor says of them. With --data, the later turns
of conversations that depend on earlier ones are searched with the turns, and with the rewrite that
a person wrote: of none, of those in doubt, and of all; nDCG@10 and the share rewritten.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.quality.conversation import SETS, load_conversations, ndcg_of_hits
from benchmarks.quality.first_week import KINDS, corpora_of
from benchmarks.quality.shared import TABLES, Manuals, index_of, is_found, read_tables, shipped
from benchmarks.tables import print_table, run_script
from uec_rag import Advice, Gate
from uec_rag.gates.opinion import odds_of, share_of
from uec_rag.retrieval.results import Result

VERDICTS = ("answer", "clarify", "no")
Advisor = Callable[[str, Sequence[str]], Advice | float | None]


def right(row: dict[str, str], result: Result) -> bool:
    """Whether the decision on a question is what the list expects."""
    action = result.decision.action
    return action == KINDS[row["kind"]] and (action != "answer" or is_found(row, result))


def read_replies(table: str = "replies") -> dict[str, Advice]:
    """The replies by question."""
    rows = json.loads((TABLES / f"{table}.json").read_text(encoding="utf-8"))
    return {
        row["question"]: Advice(
            row["verdict"], tuple(row["options"]), row["rewrite"], row.get("passage", 0)
        )
        for row in rows
    }


def erring(replies: Mapping[str, Advice], seed: int) -> Advisor:
    """The replies, of which a fifth have another verdict, and no rewrite or options then."""
    rng = random.Random(seed)
    changed = {
        question: Advice(rng.choice([v for v in VERDICTS if v != advice.verdict]))
        if rng.random() < 0.2
        else advice
        for question, advice in replies.items()
    }
    return lambda question, texts: changed.get(question)


def probabilities(replies: Mapping[str, Advice], noise: float, seed: int) -> Advisor:
    """Whether the replies say "answer", as probabilities with noise in their log odds."""

    def share(question: str, texts: Sequence[str]) -> float | None:
        reply = replies.get(question)
        if reply is None:
            return None
        odds = odds_of(0.97 if reply.verdict == "answer" else 0.03)
        return share_of(odds + random.Random(f"{seed} {question}").gauss(0, noise))

    return share


def shares(
    rows: Sequence[dict[str, str]], found: Sequence[Result], asked: Counter[str]
) -> list[str]:
    """Right by kind, their mean, the number of wrong answers, and calls by kind and in all."""
    of_kind = {
        kind: [right(row, one) for row, one in zip(rows, found, strict=True) if row["kind"] == kind]
        for kind in KINDS
    }
    means = [float(np.mean(values)) if values else float("nan") for values in of_kind.values()]
    calls = [
        float(np.mean([asked[row["question"]] for row in rows if row["kind"] == kind] or [0]))
        for kind in KINDS
    ]
    wrong = sum(
        result.decision.action == "answer" and not right(row, result)
        for row, result in zip(rows, found, strict=True)
    )
    calls.append(sum(asked.values()) / len(rows))
    cells = [*(f"{m:.2f}" for m in means), f"{np.nanmean(means):.3f}", str(wrong)]
    return [*cells, *(f"{c:.2f}" for c in calls)]


def fates(
    rows: Sequence[dict[str, str]],
    found: Sequence[Result],
    asked: Counter[str],
    replies: Mapping[str, Advice],
) -> list[list[str]]:
    """Ambiguous questions: what the advisor said, what was decided, how many."""
    counts = Counter[tuple[str, str]]()
    for row, one in zip(rows, found, strict=True):
        if row["kind"] == "ambiguous":
            reply = replies.get(row["question"])
            said = "no reply" if reply is None else reply.verdict
            said = said if asked[row["question"]] else "not asked"
            counts[said, one.decision.action] += 1
    return [[*fate, str(count)] for fate, count in counts.most_common()]


def main(
    folder: Manuals,
    data: Annotated[Path | None, typer.Option(help="Folder of collections.")] = None,
) -> None:
    """Print the tables."""
    replies, uec = read_replies(), shipped()
    indexes = {name: index_of(uec, passages) for name, passages in corpora_of(folder).items()}
    asked = read_tables("first_week", "own_words")
    rows = [row for name in indexes for row in asked if row["documents"] == name]

    def decided(gate: Gate) -> tuple[list[Result], Counter[str]]:
        asked, found, advisor = Counter[str](), list[Result](), gate.advisor

        def counting(question: str, texts: Sequence[str]) -> object:
            asked[question] += 1
            return None if advisor is None else advisor(question, texts)

        used = gate if advisor is None else replace(gate, advisor=counting)
        for name, index in indexes.items():
            some = [row["question"] for row in rows if row["documents"] == name]
            found += used.search(index, some).results
        return found, asked

    def known(question: str, texts: Sequence[str]) -> Advice | None:
        return replies.get(question)

    def verdicts(question: str, texts: Sequence[str]) -> Advice | None:
        advice = replies.get(question)
        return None if advice is None else replace(advice, rewrite="")

    ways = {
        "without": Gate(),
        "verdicts": Gate(advisor=verdicts),
        "with rewrites": Gate(advisor=known),
        "doubt up to .95": Gate(advisor=known, doubt=(0.05, 0.95)),
        "also before each answer": Gate(advisor=known, ask="always"),
    }
    table = [[name, *shares(rows, *decided(gate))] for name, gate in ways.items()]
    noisy = {
        f"a probability, noise {noise}": partial(probabilities, replies, noise)
        for noise in (0, 2, 4)
    }
    for name, drawn in {"a fifth wrong": partial(erring, replies), **noisy}.items():
        draws = [shares(rows, *decided(Gate(advisor=drawn(seed)))) for seed in range(10)]
        means = np.array(draws, dtype=float).mean(axis=0)
        table.append([name, *(f"{mean:.3f}" for mean in means)])
    head = ["", *KINDS, "mean", "wrong answers", *(f"calls, {kind}" for kind in (*KINDS, "all"))]
    print_table("Right, and calls a question", head, table)
    table = fates(rows, *decided(ways["with rewrites"]), replies)
    header = ["advisor", "decision", "questions"]
    print_table("Ambiguous questions", header, table)
    if data is not None:
        print_table("Conversations", *conversations(data))


def conversations(data: Path) -> tuple[list[str], list[list[str]]]:
    """nDCG@10 of dependent turns: as they are, rewritten in doubt, and all rewritten."""
    table, uec, gate = [], shipped(), Gate()
    for name in SETS.split(","):
        some = load_conversations(data / name)
        turns = [turn for turn in some.turns if turn.rewrite and not turn.standalone]
        gains = some.gains[[row for row, turn in enumerate(some.turns) if turn in turns]]
        if not turns:
            continue
        index = some.index(uec)
        plain = index.search([turn.text for turn in turns], 10, history=[t.history for t in turns])
        written = index.search([turn.rewrite for turn in turns], 10)
        doubted = [gate.is_doubted(one.decision) for one in plain]
        mixed = [b if d else a for a, b, d in zip(plain, written, doubted, strict=True)]
        scores = [ndcg_of_hits(found, gains).mean() for found in (plain, mixed, written)]
        table.append([name, *(f"{score:.3f}" for score in scores), f"{np.mean(doubted):.2f}"])
    return ["", "with their turns", "rewritten in doubt", "all rewritten", "in doubt"], table


if __name__ == "__main__":
    run_script(main)
