"""What a tenant costs over another package's store: a question with one, and others.

A store has 10,000 passages, each with a vector of 384 numbers; a tenant has a share of them. The
same questions are asked in turn: of all passages, with the tenant's condition as a filter, which is
what the store itself takes for it, and with the tenant. Its first question lists its passages and
counts their words; the megabytes are those of the words of all tenants.

    python -m benchmarks.tenants_over
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any

import faiss
import numpy as np
from langchain_chroma import Chroma
from langchain_community.docstore.in_memory import InMemoryDocstore
from langchain_community.vectorstores import FAISS
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models

from benchmarks.tables import print_table, run_script
from benchmarks.timing import machine, private_memory, take_turns
from uec_rag.langchain import UECRetriever

_SIZE, _PASSAGES, _BATCH = 384, 10_000, 1_000
_SHARES = {"half": 2, "tenth": 10, "hundredth": 100}


class Directions(Embeddings):
    """Embeds a text as the sum of directions of its words."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed passages."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Embed one text."""
        rows = [
            np.random.default_rng(sum(map(ord, word))).standard_normal(_SIZE)
            for word in text.lower().split()
        ]
        vector: list[float] = np.sum(rows, axis=0).tolist()
        return vector


def _qdrant() -> VectorStore:
    client = QdrantClient(":memory:")
    client.create_collection(
        "texts", models.VectorParams(size=_SIZE, distance=models.Distance.COSINE)
    )
    return QdrantVectorStore(client, "texts", Directions())


def _faiss() -> VectorStore:
    return FAISS(Directions(), faiss.IndexFlatL2(_SIZE), InMemoryDocstore(), {})


STORES: dict[str, Callable[[], Any]] = {
    "InMemoryVectorStore": lambda: InMemoryVectorStore(Directions()),
    "FAISS": _faiss,
    "Chroma": lambda: Chroma("texts", Directions()),
    "Qdrant, in memory": _qdrant,
}


def texts_and_metadata() -> tuple[list[str], list[dict[str, Any]]]:
    """Passages of a thousand words each says some of, and whose they are."""
    rng = np.random.default_rng(0)
    words = [f"w{number}ab" for number in range(3_000)]
    texts = [
        f"Item {at}. " + " ".join(words[i] for i in rng.zipf(1.3, 60) % len(words))
        for at in range(_PASSAGES)
    ]
    metadatas = [
        {name: "mine" if at % every == 0 else "theirs" for name, every in _SHARES.items()}
        for at in range(_PASSAGES)
    ]
    return texts, metadatas


def measure(name: str, store: VectorStore, questions: list[str], rounds: int) -> list[list[str]]:
    """Time questions to a store, with each tenant and without."""
    retriever = UECRetriever.over(store, fit=False)
    asked = cycle(questions)

    def ask(**named: Any) -> object:
        return retriever.invoke(next(asked), **named)

    ask()
    before, first = private_memory(), {}
    for share in _SHARES:
        start = time.perf_counter()
        ask(tenant={share: "mine"})
        first[share] = time.perf_counter() - start
    grown = private_memory() - before
    systems: dict[str, Callable[[], object]] = {"all": ask}
    for share in _SHARES:
        systems[f"filter {share}"] = partial(ask, filter={share: "mine"})
        systems[f"tenant {share}"] = partial(ask, tenant={share: "mine"})
    seconds = {system: taken for system, (taken, _) in take_turns(systems, rounds).items()}
    return [
        [
            name,
            f"a {share} of all",
            *(f"{1000 * seconds[system]:.1f}" for system in ("all", f"filter {share}")),
            f"{1000 * seconds[f'tenant {share}']:.1f}",
            f"{seconds[f'tenant {share}'] / seconds['all']:.2f}",
            f"{seconds[f'tenant {share}'] / seconds[f'filter {share}']:.2f}",
            f"{first[share]:.2f}",
            f"{grown:.0f}",
        ]
        for share in _SHARES
    ]


def run(rounds: int = 21) -> None:
    """Print a table of the stores."""
    print(machine())
    texts, metadatas = texts_and_metadata()
    questions = [" ".join(text.split()[2:9]) for text in texts[:500:7]]
    rows = list[list[str]]()
    for name, make in STORES.items():
        store = make()
        for start in range(0, _PASSAGES, _BATCH):
            span = slice(start, start + _BATCH)
            store.add_texts(texts[span], metadatas[span])
        rows += measure(name, store, questions, rounds)
    head = ["store", "tenant", "ms of all", "ms with a filter", "ms with a tenant"]
    head += ["tenant to all", "tenant to filter", "seconds of the first question", "MB"]
    print_table(f"{_PASSAGES:,} passages, median of {rounds} rounds", head, rows)


if __name__ == "__main__":
    run_script(run)
