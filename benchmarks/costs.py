"""What a search costs beside the hybrid retrievers of LangChain and LlamaIndex, without encoding.

    pip install rank_bm25 llama-index-retrievers-bm25
    python -m benchmarks.costs MANUALS MODELS

All retrievers have the same embedding, a black box whose vectors are at hand, and the same
passages, of the twelve manuals. Each runs in a process of its own, in turns: the seconds until its
first answer, fit included; the milliseconds of a question, the median of 200 that were not asked
before; and the private memory that it adds to passages and vectors.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from langchain_core.embeddings import Embeddings

from benchmarks.quality.first_week import corpora_of
from benchmarks.quality.own_model import own_encoder
from benchmarks.quality.shared import read_tables
from benchmarks.tables import print_table
from benchmarks.timing import private_memory

ASKED = 200


class AtHand(Embeddings):
    """An embedding whose vectors were computed before."""

    def __init__(self, folder: Path, texts: Sequence[str]) -> None:
        encoder = own_encoder(folder)
        vectors = encoder.encode([*texts], "passage").embedding
        self._encoder, self._known = encoder, dict(zip(texts, vectors.tolist(), strict=True))

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Look vectors up."""
        if new := [text for text in texts if text not in self._known]:
            made = self._encoder.encode(new, "passage").embedding.tolist()
            self._known |= dict(zip(new, made, strict=True))
        return [self._known[text] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Look a vector up."""
        return self.embed_documents([text])[0]


def ensemble_retriever(texts: list[str], embedding: AtHand) -> Callable[[str], Any]:
    """LangChain's rank fusion of its store in memory and BM25."""
    from langchain_classic.retrievers import EnsembleRetriever
    from langchain_community.retrievers import BM25Retriever
    from langchain_core.vectorstores import InMemoryVectorStore

    store = InMemoryVectorStore.from_texts(texts, embedding).as_retriever()
    words = BM25Retriever.from_texts(texts)
    return EnsembleRetriever(retrievers=[words, store], weights=[0.5, 0.5]).invoke


def fusion_retriever(texts: list[str], embedding: AtHand) -> Callable[[str], Any]:
    """LlamaIndex's fusion of relative scores of its store in memory and BM25."""
    from llama_index.core import VectorStoreIndex
    from llama_index.core.embeddings import MockEmbedding
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.core.schema import TextNode
    from llama_index.retrievers.bm25 import BM25Retriever

    class Known(MockEmbedding):
        def _get_query_embedding(self, query: str) -> list[float]:
            return embedding.embed_query(query)

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return embedding.embed_documents(texts)

    nodes = [TextNode(text=text) for text in texts]
    model = Known(embed_dim=384)
    index = VectorStoreIndex(nodes, embed_model=model)
    two = [
        index.as_retriever(similarity_top_k=4),
        BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=4),
    ]
    return QueryFusionRetriever(
        two,
        llm=MockLLM(),
        similarity_top_k=4,
        num_queries=1,
        mode="relative_score",
        use_async=False,
    ).retrieve


def ours(texts: list[str], embedding: AtHand) -> Callable[[str], Any]:
    """Our retriever in LangChain, with words, fitted at the first search."""
    from uec_rag.langchain import UECRetriever

    return UECRetriever.from_texts(texts, embedding, k=4).invoke


def over(texts: list[str], embedding: AtHand) -> Callable[[str], Any]:
    """The same over LangChain's store in memory, whose vectors it takes."""
    from langchain_core.vectorstores import InMemoryVectorStore

    from uec_rag.langchain import UECRetriever

    return UECRetriever.over(
        InMemoryVectorStore.from_texts(texts, embedding), embedding, k=4
    ).invoke


SYSTEMS = {
    "EnsembleRetriever": ensemble_retriever,
    "QueryFusionRetriever": fusion_retriever,
    "UECRetriever": ours,
    "UECRetriever.over": over,
}


def measure(name: str, manuals: Path, folder: Path, count: int) -> dict[str, float]:
    """Measure one retriever."""
    passages = [passage for each in corpora_of(manuals).values() for passage in each]
    drawn = np.random.default_rng(0).permutation(len(passages))[:count]
    texts = [*dict.fromkeys(passages[row].searched for row in drawn)]
    questions = [row["question"] for row in read_tables("first_week", "own_words")][: ASKED + 1]
    embedding = AtHand(folder, [*texts, *questions])
    before, start = private_memory(), time.perf_counter()
    ask = SYSTEMS[name](texts, embedding)
    ask(questions[0])
    first, times = time.perf_counter() - start, []
    for question in questions[1:]:
        start = time.perf_counter()
        ask(question)
        times.append(time.perf_counter() - start)
    median = 1000 * statistics.median(times)
    return {"seconds": first, "milliseconds": median, "megabytes": private_memory() - before}


def main(
    manuals: Annotated[Path, typer.Argument(metavar="MANUALS", help="See `quality.manuals`.")],
    models: Annotated[Path, typer.Argument(metavar="MODELS", help="Folder of the models.")],
    model: Annotated[str, typer.Option(help="One of these.")] = "all-MiniLM-L6-v2",
    only: Annotated[str, typer.Option(help="One retriever, as JSON.")] = "",
    passages: Annotated[list[int], typer.Option(help="Numbers of passages.")] = [2000, 10_000],  # noqa: B006
    rounds: Annotated[int, typer.Option(help="Each retriever this often.")] = 3,
) -> None:
    """Print the table; each number is the least of the rounds, of which the first fills a cache."""
    warnings.simplefilter("ignore")
    if only:
        print(json.dumps(measure(only, manuals, models / model, passages[0])))
        return
    rows = []
    for count in passages:
        told: dict[str, list[dict[str, float]]] = {name: [] for name in SYSTEMS}
        for _ in range(rounds):
            for name in SYSTEMS:
                command = [sys.executable, "-m", __spec__.name, str(manuals), str(models)]
                options = ["--model", model, "--only", name, "--passages", str(count)]
                done = subprocess.run([*command, *options], check=True, stdout=subprocess.PIPE)
                told[name].append(json.loads(done.stdout.splitlines()[-1]))
        for name, each in told.items():
            least = {key: min(one[key] for one in each) for key in each[0]}
            rows.append([f"{count:,}", name, *(f"{value:.1f}" for value in least.values())])
    header = ["passages", "retriever", "seconds to the first answer", "ms a question", "MB"]
    print_table("Costs without encoding", header, rows)


if __name__ == "__main__":
    typer.run(main)
