"""nDCG@10 of questions in a conversation: how much of what was said before to search with.

    python -m benchmarks.quality.conversation DATA

Asks `UEC()` the last turns of conversations, from the second on: alone, with the turn before, after
all turns, after all and once more, as people rewrote them to stand alone, and mixed with the turns
before them, or completing the question that they reply to, as `uec_rag.questions.query` does
it ("ours"; no number of it was learned), also with the first turn of another conversation before
them. Turns that stand alone and turns that do not are reported apart. Milliseconds are for one
question asked by itself of a `Retriever`: forty turns by turns alone, with a history that was asked
before, as in a chat, and with one that was not; the medians, and the medians of the ratios. A
rewrite costs a call of a language model before that. DATA is a folder of test collections, whose
conversations have "turns", "answers", "rewrite" and "standalone" in their queries.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.data import Collection, load_collection, read_rows
from benchmarks.quality.shared import Data, Sets, shipped
from benchmarks.tables import print_table, run_script
from uec_rag import UEC, Retriever
from uec_rag.base.gaussian import FloatArray
from uec_rag.questions.query import turns_of
from uec_rag.retrieval.results import Result

SETS = "conv_pacific,conv_cast,conv_kdconv_zh"
_DEPTH = 10
_TIMED = 40


@dataclass(frozen=True)
class Turn:
    """A question and what was said before it.

    Attributes
    ----------
    before : list of str
        The user's turns, oldest first.
    history : list of str
        What a search takes of all that was said, see `uec_rag.questions.query.turns_of`.
    rewrite : str
        What a person made of the question so that it stands alone; empty if there is none.
    """

    text: str
    before: list[str]
    history: list[str]
    rewrite: str
    standalone: bool


@dataclass(frozen=True)
class Conversations:
    """Turns of conversations, each with its relevant passages.

    Attributes
    ----------
    gains : array, shape (n, N)
        Of each passage, 0 if it is not relevant.
    """

    name: str
    passages: list[str]
    turns: list[Turn]
    gains: FloatArray

    def index(self, uec: UEC) -> Retriever:
        """An index of the passages, whose ids are their places."""
        index = Retriever(uec)
        index.add(self.passages, [str(place) for place in range(len(self.passages))])
        return index

    @property
    def kinds(self) -> dict[str, NDArray[np.bool_]]:
        """Which turns stand alone, and which do not."""
        alone = np.array([turn.standalone for turn in self.turns])
        return {
            name: rows for name, rows in (("dependent", ~alone), ("alone", alone)) if rows.any()
        }


def load_conversations(folder: Path) -> Conversations:
    """Read the turns that have others before them."""
    collection = load_collection(folder)
    rows = {str(row["_id"]): row for row in read_rows(folder / "queries.jsonl.gz")}
    turns = {
        name: Turn(
            text,
            list(rows[name]["turns"][:-1]),
            history_of(rows[name]["turns"][:-1], rows[name]["answers"]),
            str(rows[name].get("rewrite") or ""),
            bool(rows[name]["standalone"]),
        )
        for name, text in collection.queries.items()
        if len(rows[name]["turns"]) > 1
    }
    return of_collection(collection, turns)


def history_of(turns: Sequence[str], answers: Sequence[str]) -> list[str]:
    """What a search takes of the user's turns and the answer to each."""
    return turns_of(
        message
        for turn, answer in zip(turns, answers, strict=True)
        for message in (("user", turn), ("assistant", answer))
    )


def of_collection(collection: Collection, turns: Mapping[str, Turn]) -> Conversations:
    """Turns by the id of their query."""
    place = {name: column for column, name in enumerate(collection.passages)}
    gains = np.zeros((len(turns), len(place)), dtype=np.float32)
    for row, name in enumerate(turns):
        for passage, gain in collection.relevant[name].items():
            if passage in place:
                gains[row, place[passage]] = gain
    return Conversations(
        collection.name, list(collection.passages.values()), list(turns.values()), gains
    )


def after_another(turns: Sequence[Turn]) -> list[list[str]]:
    """The history of each turn behind the first turn of another conversation."""
    rng, begun = np.random.default_rng(0), [turn.before[0] for turn in turns]
    return [
        [str(rng.choice([other for other in begun if other != turn.before[0]])), *turn.history]
        for turn in turns
    ]


def ours(uec: UEC, some: Conversations, history: Sequence[Sequence[str]]) -> FloatArray:
    """nDCG@10 of turns as a `Retriever` searches them behind those before them, shape (n,)."""
    texts = [turn.text for turn in some.turns]
    return ndcg_of_hits(some.index(uec).search(texts, _DEPTH, history=history), some.gains)


def ndcg_of_hits(found: Iterable[Result], gains: FloatArray) -> FloatArray:
    """nDCG@10 of each query, with linear gains, shape (n,)."""
    discount = 1 / np.log2(np.arange(2, _DEPTH + 2))
    ideal = -np.sort(-gains, axis=1)[:, :_DEPTH]
    places = [[*map(int, one.ids)] for one in found]
    got = [row[hits] @ discount[: len(hits)] for row, hits in zip(gains, places, strict=True)]
    return np.array(got) / np.maximum((ideal * discount[: ideal.shape[1]]).sum(axis=1), 1e-9)


RECIPES = {
    "last": lambda turn: turn.text,
    "last two": lambda turn: "\n".join([*turn.before[-1:], turn.text]),
    "joined": lambda turn: "\n".join([*turn.before, turn.text]),
    "joined, last twice": lambda turn: "\n".join([*turn.before, turn.text, turn.text]),
    "rewrite": lambda turn: turn.rewrite or turn.text,
}


def milliseconds(cached: UEC, passages: Sequence[str], turns: Sequence[Turn]) -> list[float]:
    """Milliseconds a question alone, in a chat, with a new history; the ratios of these to it.

    `cached`: encodes the passages, which is not measured.
    """
    retriever, ensembles = Retriever(cached), [UEC() for _ in range(3)]
    retriever.add(passages)
    for uec in ensembles:
        uec.fitted = retriever.uec.fitted
    times = np.empty((len(turns[: _TIMED + 2]), 3))
    for row, turn in enumerate(turns[: _TIMED + 2]):
        ensembles[1].encode(turn.before, "query")
        for column, uec in enumerate(ensembles):
            history = turn.history if column else []
            start = time.perf_counter()
            view = retriever.snapshot()
            view.uec = uec
            view.search([turn.text], history=[history])
            times[row, column] = 1000 * (time.perf_counter() - start)
    times = times[2:]  # the first are slow for other reasons
    return [*np.median(times, axis=0), *np.median(times[:, 1:] / times[:, :1], axis=0)]


def main(data: Data, sets: Sets = SETS) -> None:
    """Print the tables."""
    uec = shipped()
    rows = {name: [name] for name in (*RECIPES, "ours", "ours, after another subject")}
    header, took = ["searched with"], []
    for name in sets.split(","):
        some = load_conversations(data / name)
        index = some.index(uec)
        scores = {
            recipe: ndcg_of_hits(index.search([*map(text, some.turns)], _DEPTH), some.gains)
            for recipe, text in RECIPES.items()
        }
        scores["ours"] = ours(uec, some, [turn.history for turn in some.turns])
        scores["ours, after another subject"] = ours(uec, some, after_another(some.turns))
        for kind, chosen in some.kinds.items():
            header.append(f"{name}, {kind} ({chosen.sum()})")
            for recipe, of_turns in scores.items():
                rows[recipe].append(f"{of_turns[chosen].mean():.3f}")
        times = milliseconds(uec, some.passages, some.turns)
        took.append([name, *(f"{ms:.0f}" for ms in times[:3]), *map("{:.2f}".format, times[3:])])
    print_table("nDCG@10 of later turns", header, list(rows.values()))
    header = ["set", "alone", "in a chat", "new history", "ratio", "ratio, new history"]
    print_table("Milliseconds a question", header, took)


if __name__ == "__main__":
    run_script(main)
