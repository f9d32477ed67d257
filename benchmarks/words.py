"""What words beside vectors cost: whole searches with and without them, and bytes a passage.

The same vectors under two ensembles, one encoder of 384 dimensions and the same beside "bm25".
Passages are made of words whose frequencies follow Zipf's law, queries of six words of their
passage, so that most have words that many passages hold. Searches of both take turns; a ratio is
the median over the rounds. A query is timed after it is encoded.

    python benchmarks/words.py                       # a million passages: minutes, 4 GB
    python benchmarks/words.py --passages 20000      # a look
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from search import interleaved, machine
from synthetic import Corpus
from tables import print_table

from uec_rag import UEC, Gaussian, Retriever
from uec_rag.stores import MemoryStore, Passage

_VOCABULARY = 200_000
_PASSAGE, _QUERY = 60, 6  # words
_AT_ONCE = 20_000
_CONSONANTS, _VOWELS = "bcdfghjklmnprstvwz", "aeiou"
_K = 10


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


def ensembles(corpus: Corpus, texts: Texts) -> tuple[UEC, UEC]:
    """An ensemble without words and one with, fitted on texts that are not in the corpus."""
    beyond = range(10**9, 10**9 + 400)
    pairs = [(texts.query(i), texts.passage(i)) for i in beyond]
    number = {text: i for i, pair in zip(beyond, pairs, strict=True) for text in pair}

    def vectors(given: list[str]) -> np.ndarray:
        made_up = [number.setdefault(text, 2 * 10**9 + len(number)) for text in given]
        role = "query" if len(given[0].split()) == _QUERY else "passage"
        return corpus._vectors(0, made_up, role)

    return UEC([vectors]).fit(pairs), UEC([vectors, "bm25"]).fit(pairs)


def encoded(uec: UEC, corpus: Corpus, texts: Texts, numbers: range, role: str) -> list[Gaussian]:
    """Each member's Gaussians of some texts."""
    assert uec.posteriors is not None
    vectors = corpus._vectors(0, numbers, role)
    parts = [uec.posteriors[0].gaussian(vectors, vectors)]
    for encoder in uec.encoders[1:]:
        of_one = texts.query if role == "query" else texts.passage
        words = encoder.encode([of_one(number) for number in numbers], role)
        parts.append(
            uec.posteriors[1].gaussian(words.embedding, words.features).with_terms([words.terms])
        )
    return parts


def build(uec: UEC, corpus: Corpus, texts: Texts, count: int) -> Retriever:
    """An index of the first passages."""
    retriever = Retriever(uec, MemoryStore())
    for start in range(0, count, _AT_ONCE):
        numbers = range(start, min(count, start + _AT_ONCE))
        passages = [Passage(str(i), "") for i in numbers]
        retriever.add_encoded(passages, encoded(uec, corpus, texts, numbers, "passage"))
    return retriever


def saved_bytes(retriever: Retriever) -> tuple[int, int]:
    """Bytes of the words' files, and of all arrays."""
    with tempfile.TemporaryDirectory() as folder:
        retriever.store.save(Path(folder))
        sizes = {file.name: file.stat().st_size for file in Path(folder).glob("*.npy")}
    words = sum(size for name, size in sizes.items() if name.startswith("terms"))
    return words, sum(sizes.values())


def main(
    passages: Annotated[int, typer.Option(help="How many.")] = 1_000_000,
    batches: Annotated[str, typer.Option(help="Queries at a time.")] = "1,8",
    rounds: Annotated[int, typer.Option(help="Of which the median is taken.")] = 9,
    markdown: Annotated[bool, typer.Option(help="Print Markdown tables.")] = False,
) -> None:
    """Print the tables."""
    described, console = machine(), Console(stderr=True)
    corpus, texts = Corpus(1), Texts()
    without, with_words = ensembles(corpus, texts)
    console.print(f"{passages:,} passages ...")
    plain = build(without, corpus, texts, passages)
    start = time.perf_counter()
    hybrid = build(with_words, corpus, texts, passages)
    built = time.perf_counter() - start
    rows = []
    for batch in (int(batch) for batch in batches.split(",")):
        asked = [texts.query(i) for i in range(batch)]
        parts = [
            encoded(uec, corpus, texts, range(batch), "query") for uec in (without, with_words)
        ]
        found = interleaved(
            {
                "vectors": lambda asked=asked, p=parts[0]: plain.search_encoded(asked, p, _K),
                "and words": lambda asked=asked, p=parts[1]: hybrid.search_encoded(asked, p, _K),
            },
            rounds,
        )
        seconds, ratio = found["and words"]
        rows.append(
            [
                f"{passages:,}",
                str(batch),
                f"{1e3 * found['vectors'][0]:.3g}",
                f"{1e3 * seconds:.3g}",
                f"{ratio:.2f}",
            ]
        )
    header = ["passages", "batch", "vectors, ms", "and words, ms", "ratio"]
    print_table(described, header, rows, markdown=markdown)
    words, every = saved_bytes(hybrid)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{words / passages:.0f} bytes a passage of {_PASSAGE} words beside "
        f"{(every - words) / passages:.0f} of vectors and statistics; {built:.0f} s to index with "
        f"words; {peak:.1f} GB at most, both indexes in memory"
    )


if __name__ == "__main__":
    typer.run(main)
