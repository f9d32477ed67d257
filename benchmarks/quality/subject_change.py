"""A change of subject, follow-ups, and the reply to a question back, in decisions.

    python -m benchmarks.quality.subject_change DATA --markdown

Questions of ordinary collections are asked alone, and behind one to four questions about another
subject: of the whole corpus, and of it without their answers. Short questions of other collections
and small talk are asked alone and behind one long question that the corpus answers: of all of it,
and of twenty of its passages and those that answer the long one.
Turns of conversations that do not stand alone are asked in the same way, alone and behind the turns
before them. A question counts as right if one of its first four hits is relevant. Underspecified
questions of clarify sets are asked, and what the user says then is the label of the last reading
that was offered, that politely or in a sentence, or its place: the share of replies whose first hit
is of that reading, and that are answered. Then each reading is chosen, with a button: the share
answered of those that hold what the set says some reading of the question is answered by, and of
the others. The same questions are asked behind a turn on another subject, which does not say what
is meant, behind the question of one reading, which does, and behind both. No number of the package
was learned from this. DATA is a folder of test collections, or set UEC_DATA.

With --manuals, the folder of `first_week`: its complete questions that are answered correctly alone
at .85 or more are asked behind another question to the same manual, with and without a word that
goes on ("And how do I make a backup?"): the share that is answered without a hit that answers, at
any confidence and at .85 or more. Beside it are follow-ups that begin so
(questions/follow_ups.csv): the share that is answered with a hit that answers.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.metrics import roc_auc_score

from benchmarks.paper.data import Collection, load_collection, read_rows
from benchmarks.quality.conversation import (
    SETS,
    Conversations,
    Turn,
    load_conversations,
    of_collection,
)
from benchmarks.quality.first_hour import has_any
from benchmarks.quality.first_week import QUESTIONS, corpora_of, named
from benchmarks.quality.hybrid import shipped
from benchmarks.quality.options import CACHE, Cache, Data, Markdown
from benchmarks.tables import print_table
from uec_rag import UEC, Retriever
from uec_rag.confidence.wording import is_question
from uec_rag.retrieval.result import Result

FOLLOW_UPS = Path(__file__).parent / "questions/follow_ups.csv"
ORDINARY = "xquad_en,belebele_en,claude_docs_rag,tydiqa_goldp_en,fiqa_small"
CLARIFY = "clarify_man,clarify_entities,clarify_pydocs,clarify_ambig"
REPLIES = {
    "label": "{}",
    "politely": "I mean {}, please",
    "in a sentence": "It is about {} that I ask.",
    "place": "The last one.",
}
SMALL_TALK = (
    "Thanks!",
    "Thank you, that helps.",
    "OK",
    "Good morning",
    "Who are you?",
    "Tell me a joke",
    "What time is it?",
    "Bye",
    "Great, thanks",
    "No",
)
_QUESTIONS, _ASKED, _MOST_BEFORE = 150, 40, 4
_SHORT, _FEW = 5, 20  # words of a short question; passages of a small corpus
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
    index = Retriever(uec)
    index.add(some.passages, [str(place) for place in range(len(some.passages))])
    turns = some.turns
    gold = [[str(place) for place in np.flatnonzero(row)] for row in some.gains]
    rows = []
    for name in ("alone", "behind"):
        answered, confidence, right = [], [], []
        for turn, wanted in zip(turns, gold, strict=True):
            history = [turn.history] if name == "behind" else None
            for filter in (None, {"$not": {"$id": wanted}}):
                [one] = index.search([turn.text], 4, history=history, filter=filter)
                answered.append(one.decision.action == "answer")
                confidence.append(one.decision.confidence)
                right.append(not set(wanted).isdisjoint(one.ids))
        there, sure = np.array(answered).reshape(-1, 2), np.array(confidence).reshape(-1, 2)
        held = np.array(right).reshape(-1, 2)[:, 0]
        figures = [held.mean(), *there.mean(axis=0), *sure.mean(axis=0)]
        auroc = roc_auc_score(right, confidence)
        rows.append([f"{some.name}, {name}", *(f"{value:.2f}" for value in figures)])
        rows[-1].append(f"{auroc:.3f}")
    return rows


def short_behind_long(uec: UEC, collections: Sequence[Collection]) -> list[list[str]]:
    """Shares of short questions that are answered, alone and behind a long one; rows to print."""
    rows = []
    for one in collections:
        short = [
            question
            for other in collections
            if other is not one
            for question in other.queries.values()
            if len(question.split()) <= _SHORT
        ]
        answered = {
            name: question
            for name, question in one.queries.items()
            if not one.passages.keys().isdisjoint(one.relevant[name])
        }
        long = sorted(answered, key=lambda name: -len(answered[name].split()))
        long = long[: max(60, len(long) // 4)]
        for few in (_FEW, None):
            rng, figures, index = np.random.default_rng(3), [], None
            for name in rng.choice(long, _ASKED).tolist():
                if few is not None or index is None:
                    kept = dict.fromkeys(p for p in one.relevant[name] if p in one.passages)
                    kept |= dict.fromkeys(rng.permutation([*one.passages])[:few].tolist())
                    index = Retriever(uec)
                    index.add([one.passages[p] for p in kept], [*kept])
                asked = [str(rng.choice(short)), str(rng.choice(SMALL_TALK))]
                alone, behind = (
                    index.search(asked),
                    index.search(asked, history=[[answered[name]]] * 2),
                )
                figures.append(
                    [
                        result.decision.action == "answer"
                        for found in (alone, behind)
                        for result in found
                    ]
                )
            shares = np.mean(figures, axis=0)[[0, 2, 1, 3]]
            count = "all" if few is None else f"{few} passages"
            rows.append([f"{one.name}, {count}", *(f"{share:.2f}" for share in shares)])
    return rows


@dataclass(frozen=True, eq=False)
class Clarify:
    """A clarify set, and those of its underspecified questions that are asked back about.

    Attributes
    ----------
    name : str
    index : Retriever
    rows : list of dict
        The questions, with their readings.
    results : list of Result
        What is found for each alone.
    """

    name: str
    index: Retriever
    rows: list[dict[str, Any]]
    results: list[Result]

    @classmethod
    def load(cls, uec: UEC, folder: Path) -> Clarify:
        """Index a set, and ask its underspecified questions."""
        index = Retriever(uec)
        passages = list(read_rows(folder / "corpus.jsonl.gz"))
        texts = [f"{row.get('title') or ''} {row['text']}".strip() for row in passages]
        titles = [{"title": row["title"]} if row.get("title") else {} for row in passages]
        index.add(texts, [str(row["_id"]) for row in passages], titles)
        rows = [
            row
            for row in read_rows(folder / "queries.jsonl.gz")
            if row["label"] == "underspecified"
        ]
        pairs = zip(rows, index.search([row["text"] for row in rows]), strict=True)
        asked = [pair for pair in pairs if pair[1].decision.action == "clarify"][:_ASKED]
        return cls(folder.name, index, [row for row, _ in asked], [one for _, one in asked])


def replied(some: Clarify) -> list[str]:
    """What is found for replies to questions back."""
    out = [some.name, str(len(some.results))]
    for words in REPLIES.values():
        figures = []
        for one in some.results:
            chosen = one.decision.readings[-1]
            history = [[one.query, one.decision.clarifying_question]]
            [found] = some.index.search([words.format(chosen.title)], history=history)
            first_of_reading = found.ids[0] in chosen.ids
            figures.append((first_of_reading, found.decision.action == "answer"))
        out += [f"{value:.2f}" for value in np.mean(figures, axis=0)] if figures else [""] * 2
    answered: dict[bool, list[bool]] = {True: [], False: []}
    for row, one in zip(some.rows, some.results, strict=True):
        relevant = {id_ for reading in row["readings"] for id_ in reading["relevant"]}
        for reading in one.decision.readings:
            [found] = some.index.search([one.query], within=reading.ids)
            holds = not relevant.isdisjoint(found.ids)
            answered[holds].append(found.decision.action == "answer")
    return [*out, *(f"{np.mean(each):.2f} of {len(each)}" for each in answered.values())]


def behind_a_turn(some: Clarify, others: Sequence[str]) -> list[str]:
    """What is decided behind a question on another subject, that of one reading, and both."""
    texts, out = [row["text"] for row in some.rows], [some.name, str(len(some.rows))]
    meant = [row["readings"][0] for row in some.rows]
    chosen = np.random.default_rng(7).choice(others, len(texts)).tolist()
    told = [reading["text"] for reading in meant]
    for before in ([chosen], [told], [chosen, told]):
        found = some.index.search(texts, history=[*zip(*before, strict=True)])
        for action in ("clarify", "answer"):
            out.append(f"{np.mean([one.decision.action == action for one in found]):.2f}")
        if told in before:
            pairs = zip(found, meant, strict=True)
            right = [one.ids[0] in reading["relevant"] for one, reading in pairs]
            out.append(f"{np.mean(right):.2f}")
    return out


OPENINGS = {
    "nothing": "{}",
    "And": "And {}",
    "But": "But {}",
    "What about this": "What about this: {}",
}
OPENINGS |= {"So": "So, {}"}
_CONFIDENT = 0.85


def in_lower_case(question: str) -> str:
    """Return a question as it is written behind a conjunction."""
    first = question.split(maxsplit=1)[0]
    return question[0].lower() + question[1:] if first[1:].islower() else question


def begin_with_a_conjunction(uec: UEC, folder: Path) -> list[list[str]]:
    """Shares of questions to manuals that are answered from another subject, by how they begin."""
    with QUESTIONS.open(encoding="utf-8", newline="") as file:
        asked = [row for row in csv.DictReader(file) if row["kind"] in ("ordinary", "short")]
    with FOLLOW_UPS.open(encoding="utf-8", newline="") as file:
        follow_ups = [*csv.DictReader(file)]
    rng, changes = np.random.default_rng(7), {name: [] for name in OPENINGS}
    answered: list[tuple[bool, bool]] = []
    for name, passages in corpora_of(folder).items():
        index = Retriever(uec)
        index.add(
            [p.text for p in passages], [p.id for p in passages], [p.metadata for p in passages]
        )
        rows = [row for row in asked if row["documents"] == name and is_question(row["question"])]
        alone = index.search([row["question"] for row in rows])
        sure = [
            row
            for row, one in zip(rows, alone, strict=True)
            if one.decision.action == "answer"
            and one.decision.confidence >= _CONFIDENT
            and is_right(row, one)
        ]
        for row in sure:
            others = [one["question"] for one in rows if one["passage"] != row["passage"]]
            before = [str(rng.choice(others))]
            for opening, words in OPENINGS.items():
                said = words.format(in_lower_case(row["question"]))
                [one] = index.search([said], history=[before])
                wrong = one.decision.action == "answer" and not is_right(row, one)
                changes[opening].append((wrong, wrong and one.decision.confidence >= _CONFIDENT))
        for row in follow_ups:
            if row["documents"] == name:
                [one] = index.search([row["question"]], history=[[row["before"]]])
                right = is_right(row, one)
                answered.append((one.decision.action == "answer" and right, right))
    rows = [
        [opening, str(len(some)), *(f"{share:.3f}" for share in np.mean(some, axis=0))]
        for opening, some in changes.items()
    ]
    both = (f"{share:.2f}" for share in np.mean(answered, axis=0))
    return [*rows, ["follow-ups: answered correctly, found", str(len(answered)), *both]]


def is_right(row: dict[str, str], result: Result) -> bool:
    """Return whether one of the hits has a text that answers."""
    texts = [text.strip() for text in row["passage"].split("|") if text.strip()]
    return any(has_any(named(passage), texts) for passage in result.passages)


def main(
    data: Data,
    manuals: Annotated[Path | None, typer.Option(help="Folder of manuals, as first_week.")] = None,
    ordinary: Annotated[str, typer.Option(help="Collections, comma-separated.")] = ORDINARY,
    conversations: Annotated[str, typer.Option(help="Comma-separated.")] = SETS,
    clarify: Annotated[str, typer.Option(help="Clarify sets, comma-separated.")] = CLARIFY,
    cache: Cache = CACHE,
    markdown: Markdown = False,
) -> None:
    """Print the tables."""
    uec = shipped(cache)
    if manuals is not None:
        header = ["begins with", "questions", "answered wrongly", "at .85 or more"]
        rows = begin_with_a_conjunction(uec, manuals)
        print_table("Complete questions behind another subject", header, rows, markdown=markdown)
    collections = [load_collection(data / name) for name in ordinary.split(",")]
    asked = [*map(put_behind, collections)]
    said = [follow_ups(load_conversations(data / name)) for name in conversations.split(",")]
    header = [
        "questions",
        "found",
        "answered",
        "answered without",
        "confidence",
        "confidence without",
    ]
    for title, sets in (("A change of subject", asked), ("Follow-ups", said)):
        rows = [row for some in sets for row in decided(uec, some)]
        print_table(title, [*header, "AUROC"], rows, markdown=markdown)
    header = ["answered", "short, alone", "behind", "small talk, alone", "behind"]
    rows = short_behind_long(uec, collections)
    print_table("Short questions behind a long one", header, rows, markdown=markdown)
    header = ["set", "asked back"]
    for name in REPLIES:
        header += [f"{name}: of the reading", "answered"]
    header += ["each: answered if it holds the answer", "if not"]
    sets = [Clarify.load(uec, data / name) for name in clarify.split(",")]
    rows = [replied(one) for one in sets]
    print_table("Replies to a question back", header, rows, markdown=markdown)
    header = ["set", "asked back alone", "behind another subject: asked back", "answered"]
    for turns in ("what is meant", "both"):
        header += [f"behind {turns}: asked back", "answered", "first hit right"]
    others = [*collections[0].queries.values()]
    rows = [behind_a_turn(one, others) for one in sets]
    print_table("Underspecified questions behind a turn", header, rows, markdown=markdown)


if __name__ == "__main__":
    typer.run(main)
