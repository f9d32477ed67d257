"""Misspelt questions: what is found and decided before and after their spelling is corrected.

    python -m benchmarks.quality.typos DATA [--sets A,B] [--markdown]

One word of four letters or more in each question is misspelt by a fixed seed: two letters in the
wrong order, one left out, doubled, or the key beside it. `UEC()` as it comes. "right" is the share
of questions that are answered with a relevant passage among four. Thirty everyday questions that no
collection answers (tests/retrieval/test_off_topic.py) are asked as well, as they are.
"""

from __future__ import annotations

import random
import time
import warnings

import numpy as np
import regex
import typer

from benchmarks.paper.data import Collection, load_collection
from benchmarks.paper.metrics import mean_ndcg
from benchmarks.quality.hybrid import shipped
from benchmarks.quality.members import sampled
from benchmarks.quality.options import CACHE, SETS, Data, Markdown, Queries, Sets
from benchmarks.tables import print_table
from tests.retrieval.test_off_topic import EVERYDAY
from uec_rag import Retriever
from uec_rag.retrieval.spelling import correct_spelling

_WORD = regex.compile(r"\b[A-Za-z]{4,}\b")
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
K = 4


def misspelt(text: str, draw: random.Random) -> str:
    """The text with a slip of the finger in one of its words; as it is if it has no long one."""
    words = list(_WORD.finditer(text))
    if not words:
        return text
    word = draw.choice(words)
    letters, place = word[0], draw.randrange(1, len(word[0]) - 1)
    left, letter, right = letters[:place], letters[place], letters[place + 1 :]
    row = next((row for row in _ROWS if letter.lower() in row), letter)
    beside = row[max(0, row.find(letter.lower()) - 1)] if row[0] != letter.lower() else row[1:2]
    slip = draw.choice([right[0] + letter + right[1:], right, letter * 2 + right, beside + right])
    return text[: word.start()] + left + slip + text[word.end() :]


def figures(retriever: Retriever, collection: Collection, questions: list[str]) -> list[float]:
    """nDCG@10, and the share of questions answered with a relevant passage among four."""
    parts = retriever.uec.encode(questions, "query")  # `search_encoded` corrects nothing
    found = retriever.search_encoded(questions, parts, k=10)
    rows = zip(found.decisions, found.ids, collection.relevant.values(), strict=True)
    right = [
        d.action == "answer" and not relevant.keys().isdisjoint(ids[:K])
        for d, ids, relevant in rows
    ]
    return [mean_ndcg(collection, found.ids), float(np.mean(right))]


def answered(retriever: Retriever, questions: list[str]) -> int:
    """How many questions are answered."""
    parts = retriever.uec.encode(questions, "query")
    found = retriever.search_encoded(questions, parts, k=K)
    return sum(decision.action == "answer" for decision in found.decisions)


def milliseconds(retriever: Retriever, questions: list[str]) -> tuple[float, float]:
    """Of a whole search of one question, and of the correction in it; medians."""
    times = []
    for question in questions:
        begun = time.perf_counter()
        correct_spelling([question], retriever.uec.encoders, retriever.store)
        between = time.perf_counter()
        retriever.search([question], k=K)
        times.append((time.perf_counter() - between, between - begun))
    return tuple(np.median(times, axis=0) * 1e3)


def main(data: Data, sets: Sets = SETS, queries: Queries = 300, markdown: Markdown = False) -> None:
    """Print a table of quality, and one of time."""
    warnings.simplefilter("ignore")
    quality, spent = [], []
    for name in sets.split(","):
        collection = sampled(load_collection(data / name), queries)
        retriever = Retriever(shipped(CACHE))
        retriever.add(list(collection.passages.values()), ids=list(collection.passages))
        clean, draw = list(collection.queries.values()), random.Random(0)
        wrong = [misspelt(question, draw) for question in clean]
        of_index = retriever.uec.encoders, retriever.store
        mended, untouched = (correct_spelling(some, *of_index) for some in (wrong, clean))
        restored = np.mean([a.lower() == b.lower() for a, b in zip(clean, mended, strict=True)])
        changed = np.mean([a != b for a, b in zip(clean, untouched, strict=True)])
        pairs = [figures(retriever, collection, some) for some in (clean, untouched, wrong, mended)]
        everyday = correct_spelling(EVERYDAY, *of_index)
        off = f"{answered(retriever, EVERYDAY)}, {answered(retriever, everyday)}"
        cells = [f"{ndcg:.3f} / {right:.0%}" for ndcg, right in pairs]
        quality.append([name, *cells, f"{restored:.0%}", f"{changed:.1%}", off])
        for kind, some in {"as they are": clean[:50], "misspelt": wrong[:50]}.items():
            whole, own = milliseconds(retriever, some)
            spent.append([name, kind, f"{whole:.1f}", f"{own:.2f}", f"{own / whole:.1%}"])
    print_table(
        "nDCG@10 / right",
        [
            *("collection", "as they are", "corrected", "misspelt", "corrected", "restored"),
            *("correct ones changed", "everyday answered of 30, before and after"),
        ],
        quality,
        markdown=markdown,
    )
    print_table(
        "Milliseconds of a question",
        ["collection", "questions", "whole search", "correction", "share"],
        spent,
        markdown=markdown,
    )


if __name__ == "__main__":
    typer.run(main)
