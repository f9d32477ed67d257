"""What a question costs beside its encoding, in hybrid retrievers; and what starting costs.

    pip install bm25s faiss-cpu langchain-community rank_bm25 llama-index-retrievers-bm25 lancedb
    pip install txtai
    python -m benchmarks.peers                  # all sizes, about an hour
    python -m benchmarks.peers --sizes 10000 --frequent

The same synthetic passages of sixty words and vectors of width 384 for all, k = 4, each system in a
process of its own. A question and its vector are new each time. "by hand" is what one writes with
faiss and bm25s: both lists, joined by reciprocal rank fusion. Ratios are to it, in processor time,
since wall time moves with what else runs. Memory is private, beside the passages and vectors.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.synthetic import Corpus
from benchmarks.tables import print_table, run_script
from benchmarks.timing import machine, private_memory
from benchmarks.words import Texts
from uec_rag.base.records import cached_property

K, FETCHED, ASKED, AT_ONCE, _STARTS = 4, 30, 100, 40, 5
_ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_COMPILED = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}  # as where nothing says otherwise
Ask = Callable[[list[str]], object]


_ZIPF = "PEERS_ZIPF"  # the variable of processes whose passages have 60 to 120 words


class Given:
    """Passages and questions with their vectors, which nothing has to encode."""

    def __init__(self, size: int) -> None:
        corpus, made = Corpus(1), FrequentTexts() if os.environ.get(_ZIPF) else Texts()
        questions, beyond = range(ASKED + 3 * AT_ONCE + 2), range(10**9, 10**9 + 400)
        # Statements, as most passages are: words alone would be looked at as lists.
        self.texts = [f"This is on {made.passage(number)}." for number in range(size)]
        self.questions = [made.query(number) for number in questions]
        self.pairs = [(made.query(number), made.passage(number)) for number in beyond]
        self.vectors = corpus._vectors(0, range(size), "passage")
        asked = [*self.questions, *(question for question, _ in self.pairs)]
        texts = [*asked, *self.texts, *(passage for _, passage in self.pairs)]
        roles = [(questions, "query"), (beyond, "query"), (range(size), "passage")]
        each = [corpus._vectors(0, *of) for of in [*roles, (beyond, "passage")]]
        self._known = dict(zip(texts, np.concatenate(each), strict=True))

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Look vectors up."""
        if unknown := [text for text in texts if text not in self._known]:
            self._known |= dict.fromkeys(unknown, self.vectors[0])
        return np.array([self._known[text] for text in texts])

    @cached_property
    def fitted(self) -> Any:
        """An ensemble, fitted on questions and passages beyond these."""
        from uec_rag import UEC

        return UEC([self.embed, "bm25"]).fit(self.pairs)

    def langchain(self) -> Any:
        """The same as an embedding of LangChain."""
        from langchain_core.embeddings import Embeddings

        class Known(Embeddings):
            embed_documents = staticmethod(lambda texts: self.embed(texts).tolist())
            embed_query = staticmethod(lambda text: self.embed([text])[0].tolist())

        return Known()


class FrequentTexts(Texts):
    """Texts of 60 to 120 words, with English function words at the head of Zipf's law."""

    def __init__(self) -> None:
        super().__init__()
        words = ["the", "of", "and", "to", "in", "is", "for", "that", "it", "as", "with", "on"]
        self._words[: len(words)] = words

    def passage(self, number: int) -> str:
        """Return a passage and the beginning of another."""
        words = super().passage(~number & (2**40 - 1)).split()
        return " ".join([super().passage(number), *words[: number % 61]])

    def query(self, number: int) -> str:
        """Ask with function words, as people do."""
        return f"what is the {super().query(number)} of that"


def by_hand(given: Given) -> Ask:
    """What one writes with faiss and bm25s."""
    import bm25s
    import faiss

    flat, words = faiss.IndexFlatIP(given.vectors.shape[1]), bm25s.BM25()
    flat.add(given.vectors)
    words.index(bm25s.tokenize(given.texts, show_progress=False), show_progress=False)

    def ask(questions: list[str]) -> list[list[int]]:
        near = flat.search(given.embed(questions), FETCHED)[1]
        tokens = bm25s.tokenize(questions, show_progress=False)
        # With JAX, where it is installed, the smallest take twice as long.
        ranked = words.retrieve(tokens, k=FETCHED, show_progress=False, backend_selection="numpy")
        found, joined = ranked.documents, []
        for lists in zip(near.tolist(), found.tolist(), strict=True):
            scores = Counter[int]()
            for of_one in lists:
                scores.update({row: 1 / (60 + rank) for rank, row in enumerate(of_one)})
            joined.append([row for row, _ in scores.most_common(K)])
        return joined

    return ask


def ours(given: Given, folder: str | None = None) -> Ask:
    """Ours, with a confidence and a decision; fitted before."""
    from uec_rag import Retriever
    from uec_rag.stores import LocalStore

    index = Retriever(given.fitted, LocalStore(folder))
    index.add(given.texts)
    return lambda questions: index.search(questions, K)


def ours_in_folder(given: Given) -> Ask:
    """The same on disk."""
    return ours(given, os.path.join(tempfile.mkdtemp(), "index"))


def langchain(given: Given) -> Ask:
    """LangChain's rank fusion of FAISS and BM25."""
    from langchain_classic.retrievers import EnsembleRetriever
    from langchain_community.retrievers import BM25Retriever
    from langchain_community.vectorstores import FAISS

    near = FAISS.from_texts(given.texts, given.langchain()).as_retriever(search_kwargs={"k": K})
    words = BM25Retriever.from_texts(given.texts, k=K)
    both = EnsembleRetriever(retrievers=[words, near], weights=[0.5, 0.5])
    return lambda questions: [both.invoke(question) for question in questions]


def llama_index(given: Given) -> Ask:
    """LlamaIndex's fusion of its store in memory and BM25."""
    from llama_index.core import MockEmbedding, VectorStoreIndex
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.core.schema import TextNode
    from llama_index.retrievers.bm25 import BM25Retriever

    class Known(MockEmbedding):
        def _get_query_embedding(self, query: str) -> list[float]:
            return given.embed([query])[0].tolist()

    pairs = zip(given.texts, given.vectors.tolist(), strict=True)
    nodes = [TextNode(text=text, embedding=vector) for text, vector in pairs]
    index = VectorStoreIndex(nodes, embed_model=Known(embed_dim=given.vectors.shape[1]))
    near = index.as_retriever(similarity_top_k=K)
    words = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=K)
    both = QueryFusionRetriever(
        [near, words], llm=MockLLM(), similarity_top_k=K, num_queries=1, use_async=False
    )
    return lambda questions: [both.retrieve(question) for question in questions]


def lancedb(given: Given) -> Ask:
    """LanceDB's hybrid search of a folder."""
    import lancedb as lance

    pairs = zip(given.texts, given.vectors, strict=True)
    rows = [{"text": text, "vector": vector} for text, vector in pairs]
    table = lance.connect(tempfile.mkdtemp()).create_table("passages", rows)
    table.create_fts_index("text")

    def ask(questions: list[str]) -> list[Any]:
        asked = zip(questions, given.embed(questions), strict=True)
        hybrid = [table.search(query_type="hybrid").vector(near).text(q) for q, near in asked]
        return [each.limit(K).to_list() for each in hybrid]

    return ask


def txtai(given: Given) -> Ask:
    """Hybrid search of txtai, which returns texts."""
    from txtai import Embeddings

    def embed(texts: list[str]) -> np.ndarray:  # it takes no method
        return given.embed(texts)

    index = Embeddings(method="external", transform=embed, hybrid=True, content=True)
    index.index(given.texts)
    return lambda questions: index.batchsearch(questions, K)


SYSTEMS = (by_hand, ours, ours_in_folder, txtai, lancedb, langchain, llama_index)
MOST = {lancedb: 100_000, langchain: 100_000, llama_index: 10_000, txtai: 100_000}
MOST |= {by_hand: 200_000, ours: 200_000}


def clocks() -> np.ndarray:
    """Processor and wall time, in seconds."""
    return np.array([time.process_time(), time.perf_counter()])


def measure(name: str, size: int) -> list[float]:
    """Measure a system: the numbers of a row of the table."""
    given = Given(size)
    if name.startswith("ours"):
        _ = given.fitted  # once, whatever is indexed
    before, start = private_memory(), clocks()
    ask = {system.__name__: system for system in SYSTEMS}[name](given)
    ask(given.questions[-1:])
    indexed, left = clocks() - start, given.questions[:-1]
    alone, together = [], []
    for times, count in ((alone, 1), (together, AT_ONCE)):
        for _ in range(ASKED if count == 1 else 3):
            asked, left = left[:count], left[count:]
            start = clocks()
            ask(asked)
            times.append(1000 * (clocks() - start) / count)
    memory = private_memory() - before
    return [*np.median(alone, 0), *np.median(together, 0), indexed[0], memory]


def starts() -> dict[str, str]:
    """The command of each start, by name."""
    modules = ("callbacks", "documents", "embeddings", "language_models", "messages", "retrievers")
    modules += ("runnables", "tools", "vectorstores")
    used = "; ".join(f"import langchain_core.{name}" for name in modules)
    return {
        "python -c pass": "pass",
        "import uec_rag": "import uec_rag",
        "UEC()": "import uec_rag; uec_rag.UEC()",
        "the modules of langchain_core that we use": used,
        "import uec_rag.langchain": "import uec_rag.langchain",
    }


def start_seconds(code: str) -> float:
    """Median processor time of a process that runs some code, its first run left out."""
    taken = []
    for _ in range(_STARTS + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-c", code]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=_COMPILED)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return float(np.median(taken[1:]))


def encoding_ratio() -> float:
    """Processor time to encode passages, over that of onnxruntime's runs alone."""
    from uec_rag import UEC

    encoder, texts = UEC().encoders[0], [Texts().passage(number) for number in range(30)]
    inputs, ratios = encoder._inputs, []
    of_text = [encoder.tokenizer.encode(encoder.prompts["passage"] + text) for text in texts]
    names = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
    fed = [{n: np.array([getattr(one, names[n])], np.int64) for n in inputs} for one in of_text]
    for _ in range(5):
        first = time.process_time()
        encoder.encode(texts, "passage")
        second = time.process_time()
        for each in fed:
            encoder._session.run(None, each)
        ratios.append((second - first) / (time.process_time() - second))
    return float(np.median(ratios))


def main(
    sizes: Annotated[str, typer.Option(help="Numbers of passages.")] = "2000,10000,100000,200000",
    only: Annotated[str, typer.Option(help="One system of one size, as JSON.")] = "",
    frequent: Annotated[bool, typer.Option(help="Longer texts with frequent words.")] = False,
) -> None:
    """Print the tables."""
    if frequent:
        _ONE_THREAD[_ZIPF] = "1"
    if only:
        print(json.dumps(measure(only, int(sizes))))
        return
    title, rows = machine(), []
    for size in map(int, sizes.split(",")):
        first = None
        for system in SYSTEMS:
            if size > MOST.get(system, size):
                continue
            command = [sys.executable, "-m", __spec__.name, "--sizes", str(size)]
            command += ["--only", system.__name__]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=_ONE_THREAD)
            found = json.loads(done.stdout.splitlines()[-1])
            first = first or found
            cells = [f"{number:.3g}" for number in found]
            ratios = [f"{found[0] / first[0]:.2f}", f"{found[2] / first[2]:.2f}"]
            rows.append([f"{size:,}", system.__name__, *cells, *ratios])
            print(rows[-1], file=sys.stderr, flush=True)
    header = ["passages", "system", "ms of processor a question", "ms"]
    header += ["forty at once, of processor", "ms", "s of processor to index", "MB"]
    header += ["/ by hand", "forty / by hand"]
    print_table(title, header, rows)
    of_start = [[name, f"{start_seconds(code):.2f}"] for name, code in starts().items()]
    print_table("Processor time of a new process", ["", "s"], of_start)
    print(f"\nencoding / onnxruntime's runs alone: {encoding_ratio():.3f}")


if __name__ == "__main__":
    run_script(main)
