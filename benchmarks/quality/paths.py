"""Whether three paths decide alike: our own store, and Chroma with our vectors or a wrapper's.

    python -m benchmarks.quality.paths MANUALS --only uv,handbook,restic

MANUALS is a folder of manuals, see `first_week`. The same passages and the same model are put into
a store of ours, into Chroma by `UECEmbeddings`, and into Chroma by an embedding of LangChain around
the model, of which nothing else is known; `UECRetriever.over` searches the two. A sample of the
questions to each manual is asked of all three. The first table has the shares of questions that are
decided alike, and the mean difference of confidence; the second how often each path is right, and
what a question costs: the passages that are embedded, and processor time. Passages are embedded
once, and kept on disk; the first search, which may fit, is not counted.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Annotated, Any

import numpy as np
import typer
from langchain_chroma import Chroma
from langchain_core.embeddings import Embeddings

from benchmarks.quality.first_week import KINDS, Asked, passages_in
from benchmarks.quality.shared import Manuals, cached, is_found, read_tables
from benchmarks.tables import print_table, run_script
from uec_rag import UEC
from uec_rag.encoders import Encoded, Encoder
from uec_rag.encoders.base import Role, TermEncoder
from uec_rag.langchain import UECEmbeddings, UECRetriever
from uec_rag.stores.passage import Passage

OWN, OURS, WRAPPER = "own store", "Chroma, UECEmbeddings", "Chroma, wrapper"


class Counted:
    """A model whose vectors are kept on disk until it counts the passages that it embeds."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self._on_disk = encoder, cached(encoder)
        self.passages: int | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def encode(self, texts: Sequence[str], role: Role) -> Encoded:
        """Embed texts."""
        if self.passages is None:
            return self._on_disk.encode(texts, role)
        self.passages += len(texts) * (role == "passage")
        return self._encoder.encode(texts, role)


class Wrapper(Embeddings):
    """An embedding that tells nothing of its model."""

    def __init__(self, uec: UEC) -> None:
        self._own = UECEmbeddings(uec)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed passages."""
        return self._own.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        """Embed a question."""
        return self._own.embed_query(text)


def own_store(uec: UEC, passages: Sequence[Passage]) -> UECRetriever:
    """A store of ours."""
    texts, ids = [one.text for one in passages], [one.id for one in passages]
    return UECRetriever.from_texts(texts, uec, [one.metadata for one in passages], ids)


def in_chroma(embedding: Embeddings, passages: Sequence[Passage]) -> UECRetriever:
    """Chroma with the vectors of an embedding."""
    theirs = Chroma(type(embedding).__name__, embedding)
    theirs.reset_collection()
    texts, ids = [one.text for one in passages], [one.id for one in passages]
    theirs.add_texts(texts, [{"source": "", **one.metadata} for one in passages], ids)
    return UECRetriever.over(theirs, embedding)


PATHS: dict[str, Callable[[UEC, Sequence[Passage]], UECRetriever]] = {
    OWN: own_store,
    OURS: lambda uec, passages: in_chroma(UECEmbeddings(uec), passages),
    WRAPPER: lambda uec, passages: in_chroma(Wrapper(uec), passages),
}


def ask(
    path: str, passages: Sequence[Passage], rows: Sequence[dict[str, str]]
) -> tuple[list[Asked], float, float]:
    """Ask questions; return what was decided, and embedded passages and seconds a question."""
    uec = UEC()
    uec.encoders = [one if isinstance(one, TermEncoder) else Counted(one) for one in uec.encoders]
    index = PATHS[path](uec, passages).index
    index.search(["Is this the first question?"])
    model = uec.encoders[0]
    model.passages, start = 0, time.process_time()
    results = [index.search([row["question"]])[0] for row in rows]
    seconds = time.process_time() - start
    asked = [
        Asked(row["question"], row["kind"], result.decision, is_found(row, result))
        for row, result in zip(rows, results, strict=True)
    ]
    return asked, model.passages / len(rows), seconds / len(rows)


def main(
    folder: Manuals,
    only: Annotated[str, typer.Option(help="Manuals, comma-separated.")] = "uv,handbook,restic",
    questions: Annotated[int, typer.Option(help="Asked of each manual at most.")] = 60,
) -> None:
    """Print the tables."""
    tables = read_tables("first_week", "own_words", "further")
    asked, costs = defaultdict[str, list[Asked]](list), defaultdict[str, list[list[float]]](list)
    for name in only.split(","):
        of_manual = [row for row in tables if row["documents"] == name]
        rows = of_manual[:: -(-len(of_manual) // questions)]
        passages = passages_in(folder, name)
        print(f"{name}: {len(passages)} passages, {len(rows)} questions")
        for path in PATHS:
            decided, *cost = ask(path, passages, rows)
            asked[path] += decided
            costs[path] += [cost] * len(decided)
    pairs = combinations(PATHS, 2)
    table = [[one, other, *_compare(asked[one], asked[other])] for one, other in pairs]
    print_table("Decided alike", ["", "", "decided alike", "difference of confidence"], table)
    table = [
        [path, *_summary(of), *(f"{x:.3f}" for x in np.mean(costs[path], axis=0))]
        for path, of in asked.items()
    ]
    header = ["", "questions", "right", "mean of the kinds", "passages embedded", "seconds"]
    print_table("Each path", header, table)


def _compare(asked: Sequence[Asked], others: Sequence[Asked]) -> list[str]:
    pairs = [(one.decision, two.decision) for one, two in zip(asked, others, strict=True)]
    alike = [mine.action == theirs.action for mine, theirs in pairs]
    apart = np.mean([abs(mine.confidence - theirs.confidence) for mine, theirs in pairs])
    return [f"{np.mean(alike):.3f}", f"{apart:.3f}"]


def _summary(asked: Sequence[Asked]) -> list[str]:
    kinds = ([one.right for one in asked if one.kind == kind] for kind in KINDS)
    shares = [*map(np.mean, filter(None, kinds))]
    right = np.mean([one.right for one in asked])
    return [str(len(asked)), f"{right:.3f}", f"{np.mean(shares):.3f}"]


if __name__ == "__main__":
    run_script(main)
