"""A change of subject, follow-ups, and the reply to a question back, in decisions.

    python -m benchmarks.quality.subject_change DATA

Questions of ordinary collections are asked alone, and behind one to four questions about another
subject: of the whole corpus, and of it without their answers. Turns of conversations that do not
stand alone are asked in the same way, alone and behind the turns before them. A question counts as
right if one of its first four hits is relevant. Underspecified questions of clarify sets are asked,
and what the user says then is the title of the last reading that was offered, that in a sentence,
or its place: the share of replies whose first hit is of that reading, and that are answered. The
same questions are asked behind a turn on another subject, which does not say what is meant, and
behind the question of one reading, which does. No number of the package was learned from this. DATA
is a folder of test collections, or set UEC_DATA.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper.data import Collection, load_collection, read_rows
from benchmarks.quality.conversation import (
    SETS,
    Conversations,
    Turn,
    load_conversations,
    of_collection,
)
from benchmarks.quality.shared import Data, index_rows, shipped
from benchmarks.tables import print_table, run_script
from uec_rag import UEC, Retriever
from uec_rag.retrieval.results import Result

ORDINARY = "xquad_en,belebele_en,claude_docs_rag,tydiqa_goldp_en,fiqa_small"
CLARIFY = "clarify_man,clarify_entities,clarify_pydocs,clarify_ambig"
REPLIES = {"title": "{}", "in a sentence": "It is about {} that I ask."}
_QUESTIONS, _ASKED, _MOST_BEFORE = 150, 40, 4
_OF_ARTICLE = 5  # consecutive passages of XQuAD


def put_behind(collection: Collection) -> Conversations:
    """Questions behind others about one other subject."""
    rng = np.random.default_rng(7)
    names, place = list(collection.queries), {p: i for i, p in enumerate(collection.passages)}
    passage = np.array([place[next(iter(collection.relevant[name]))] for name in names])
    of_articles = collection.name.startswith("xquad")
    subject = passage // _OF_ARTICLE if of_articles else passage
    turns = {}
    for row in rng.permutation(len(names))[:_QUESTIONS]:
        count = int(rng.integers(1, _MOST_BEFORE + 1))
        others = np.flatnonzero(subject != subject[row])
        of_one = np.flatnonzero(subject == subject[rng.choice(others)])
        others = of_one if len(of_one) >= count else others
        before = rng.choice(others, min(count, len(others)), replace=False)
        rng.random()
        said = [collection.queries[names[i]] for i in before]
        turns[names[row]] = Turn(collection.queries[names[row]], said, said, "", standalone=True)
    return of_collection(collection, turns)


def follow_ups(some: Conversations) -> Conversations:
    """Turns that do not stand alone, a fixed sample."""
    rows = np.flatnonzero(some.kinds["dependent"])
    chosen = np.sort(np.random.default_rng(7).permutation(rows)[:_QUESTIONS])
    turns = [some.turns[row] for row in chosen.tolist()]
    return replace(some, turns=turns, gains=some.gains[chosen])


def decided(uec: UEC, some: Conversations) -> list[list[str]]:
    """A row for questions alone, and one for them behind others."""
    index, rows = some.index(uec), []
    gold = [[str(place) for place in np.flatnonzero(row)] for row in some.gains]
    for name in ("alone", "behind"):
        figures = []
        for turn, wanted in zip(some.turns, gold, strict=True):
            history = [turn.history] if name == "behind" else None
            [there] = index.search([turn.text], 4, history=history)
            [gone] = index.search([turn.text], 4, history=history, filter={"$not": {"$id": wanted}})
            answered = (one.decision.action == "answer" for one in (there, gone))
            figures.append((not set(wanted).isdisjoint(there.ids), *answered))
        shares = (f"{share:.2f}" for share in np.mean(figures, axis=0))
        rows.append([f"{some.name}, {name}", *shares])
    return rows


Asked = list[tuple[dict[str, Any], Result]]
"""Underspecified questions, with their readings, and what is found for each alone."""


def asked_back(uec: UEC, folder: Path) -> tuple[Retriever, Asked]:
    """Index a clarify set; its underspecified questions of which readings are offered."""
    index = index_rows(uec, read_rows(folder / "corpus.jsonl.gz"))
    queries = read_rows(folder / "queries.jsonl.gz")
    rows = [row for row in queries if row["label"] == "underspecified"]
    pairs = zip(rows, index.search([row["text"] for row in rows]), strict=True)
    return index, [
        pair for pair in pairs if pair[1].decision.action == "clarify" and pair[1].decision.readings
    ][:_ASKED]


def replied(index: Retriever, asked: Asked) -> list[str]:
    """What is found for replies to questions back."""
    out = [str(len(asked))]
    for words in REPLIES.values():
        figures = []
        for _, one in asked:
            chosen = one.decision.readings[-1]
            history = [[one.query, one.decision.clarifying_question]]
            [found] = index.search([words.format(chosen.title)], history=history)
            figures.append((found.ids[0] in chosen.ids, found.decision.action == "answer"))
        out += [f"{value:.2f}" for value in np.mean(figures, axis=0)]
    return out


def behind_a_turn(index: Retriever, asked: Asked, others: Sequence[str]) -> list[str]:
    """What is decided behind a question on another subject, and behind that of one reading."""
    texts, meant = [row["text"] for row, _ in asked], [row["readings"][0] for row, _ in asked]
    strange = np.random.default_rng(7).choice(others, len(texts)).tolist()
    out = []
    for before in (strange, [reading["text"] for reading in meant]):
        found = index.search(texts, history=[[text] for text in before])
        for action in ("clarify", "answer"):
            out.append(f"{np.mean([one.decision.action == action for one in found]):.2f}")
    right = [one.ids[0] in of["relevant"] for one, of in zip(found, meant, strict=True)]
    return [*out, f"{np.mean(right):.2f}"]


def main(data: Data) -> None:
    """Print the tables."""
    uec = shipped()
    collections = [load_collection(data / name) for name in ORDINARY.split(",")]
    asked = [*map(put_behind, collections)]
    asked += [follow_ups(load_conversations(data / name)) for name in SETS.split(",")]
    rows = [row for some in asked for row in decided(uec, some)]
    header = ["questions", "found", "answered", "answered without"]
    print_table("A change of subject, and follow-ups", header, rows)
    header = ["set", "asked back"]
    for name in REPLIES:
        header += [f"{name}: of the reading", "answered"]
    for turn in ("another subject", "what is meant"):
        header += [f"behind {turn}: asked back", "answered"]
    rows, others = [], [*collections[0].queries.values()]
    for name in CLARIFY.split(","):
        index, pairs = asked_back(uec, data / name)
        rows.append([name, *replied(index, pairs), *behind_a_turn(index, pairs, others)])
    print_table("Replies to a question back", [*header, "first hit right"], rows)


if __name__ == "__main__":
    run_script(main)
