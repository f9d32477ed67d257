"""What words beside vectors cost: whole searches with and without them.

The same vectors under two ensembles, one encoder of 384 dimensions and the same beside "bm25".
Passages are made of words whose frequencies follow Zipf's law, queries of six words of their
passage, so that most have words that many passages hold. Searches of both take turns; a ratio is
the median over the rounds. A query is timed after it is encoded.

    python -m benchmarks.words                       # a million passages: a quarter of an hour
    python -m benchmarks.words --passages 20000      # a look
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import numpy as np
import typer

from benchmarks.synthetic import Corpus, K, with_encodings
from benchmarks.tables import print_table, run_script
from benchmarks.timing import machine, take_turns
from uec_rag import UEC, Retriever
from uec_rag.encoders import Encoded
from uec_rag.retrieval.results import SearchResult
from uec_rag.stores import LocalStore, Passage

_VOCABULARY = 200_000
_PASSAGE, _QUERY = 60, 6  # words
_QUERIES, _BATCHES, _ROUNDS = 16, (1, 8), 9
_AT_ONCE = 20_000
_CONSONANTS, _VOWELS = "bcdfghjklmnprstvwz", "aeiou"


class Texts:
    """Passages and queries by number; the same number gives the same text each time."""

    def __init__(self) -> None:
        syllables = [c + v for c in _CONSONANTS for v in _VOWELS]
        rng = np.random.default_rng(0)
        lengths = rng.integers(2, 5, _VOCABULARY)
        self._words = np.array(["".join(rng.choice(syllables, n)) for n in lengths])
        weights = 1 / np.arange(1, _VOCABULARY + 1)
        self._edges = np.cumsum(weights / weights.sum())

    def passage(self, number: int) -> str:
        """Words that are rare or usual as in any language."""
        drawn = np.random.default_rng([1, number]).random(_PASSAGE)
        return " ".join(self._words[np.searchsorted(self._edges, drawn).clip(max=_VOCABULARY - 1)])

    def query(self, number: int) -> str:
        """Some words of the passage."""
        words = self.passage(number).split()
        return " ".join(np.random.default_rng([2, number]).choice(words, _QUERY, replace=False))


def ensembles(corpus: Corpus, texts: Texts) -> dict[str, UEC]:
    """An ensemble without words and one with, fitted on texts that are not in the corpus."""
    beyond = range(10**9, 10**9 + 400)
    pairs = [(texts.query(i), texts.passage(i)) for i in beyond]
    number = {text: i for i, pair in zip(beyond, pairs, strict=True) for text in pair}

    def vectors(given: list[str]) -> np.ndarray:
        made_up = [number.setdefault(text, 2 * 10**9 + len(number)) for text in given]
        role = "query" if len(given[0].split()) == _QUERY else "passage"
        return corpus._vectors(0, made_up, role)

    members = {"vectors": [vectors], "words": [vectors, "bm25"]}
    return {name: UEC(some).fit(pairs) for name, some in members.items()}


def encoded(uec: UEC, corpus: Corpus, texts: Texts, numbers: range, role: str) -> list[Encoded]:
    """What each member makes of some texts."""
    vectors = corpus._vectors(0, numbers, role)
    of_one = texts.query if role == "query" else texts.passage
    words = [of_one(number) for number in numbers]
    return [Encoded(vectors, vectors), *(each.encode(words, role) for each in uec.encoders[1:])]


def build(uec: UEC, corpus: Corpus, texts: Texts, count: int) -> Retriever:
    """An index of the first passages."""
    index = Retriever(uec, LocalStore())
    for start in range(0, count, _AT_ONCE):
        numbers = range(start, min(count, start + _AT_ONCE))
        passages = [Passage(str(i), str(i)) for i in numbers]
        index.add_encoded(passages, encoded(uec, corpus, texts, numbers, "passage"))
    return index


def searches(
    retriever: Retriever, corpus: Corpus, texts: Texts, batch: int
) -> Callable[[], list[SearchResult]]:
    """All queries, so many at a time, encoded already."""
    batches = [range(start, start + batch) for start in range(0, _QUERIES, batch)]
    asked = [
        (
            [texts.query(number) for number in numbers],
            retriever.uec.fitted.gaussians(encoded(retriever.uec, corpus, texts, numbers, "query")),
        )
        for numbers in batches
    ]
    views = [(with_encodings(retriever, *each), each[0]) for each in asked]
    return lambda: [view.search(queries, K) for view, queries in views]


def main(passages: Annotated[int, typer.Option(help="How many.")] = 1_000_000) -> None:
    """Print the table."""
    described, corpus, texts, rows = machine(), Corpus(1), Texts(), []
    kinds = ensembles(corpus, texts)
    held = {name: build(uec, corpus, texts, passages) for name, uec in kinds.items()}
    for batch in _BATCHES:
        asked = {name: searches(index, corpus, texts, batch) for name, index in held.items()}
        found = take_turns(asked, _ROUNDS)
        times = [f"{1e3 * seconds / _QUERIES:.3g}" for seconds, _ in found.values()]
        rows.append([f"{passages:,}", str(batch), *times, f"{found['words'][1]:.2f}"])
    header = ["passages", "batch", "vectors, ms a query", "and words, ms a query", "ratio"]
    print_table(described, header, rows)


if __name__ == "__main__":
    run_script(main)
