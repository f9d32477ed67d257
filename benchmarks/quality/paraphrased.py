"""What becomes of questions in other words than the documents', and what helps.

    python -m benchmarks.quality.paraphrased --model FOLDER

Eighteen questions to 775 passages of Python's documentation (questions/paraphrased.csv) were
written before anything was searched, with the sections that answer them. FOLDER is a
SentenceTransformer model in the place of an embedding of one's own; give it several times.

The advisor's replies (questions/paraphrased_replies.json) are a language model's, to the ten
passages that it was given. It also wrote the questions, so that its rewrites are an upper bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from benchmarks.quality.advisor import read_replies
from benchmarks.quality.own_model import OwnEmbedding
from benchmarks.quality.shared import index_of, read_tables, shipped
from benchmarks.quality.unseen import outcome
from benchmarks.tables import print_table, run_script
from uec_rag import Gate, Retriever
from uec_rag.documents import passages_of
from uec_rag.documents.python_docs import gather_corpus
from uec_rag.langchain import UECRetriever
from uec_rag.stores.passage import Passage

READ = 10  # passages that an advisor reads
OUTCOMES = ("answered rightly", "uncertain", "refused in error", "answered wrongly")

Row = dict[str, str]


def over(model: Path, passages: Sequence[Passage]) -> Retriever:
    """An index over a store that has a model's vectors, fitted without labels."""
    embedding = OwnEmbedding(model)
    store = InMemoryVectorStore(embedding)
    store.add_documents([Document(p.text, id=p.id, metadata=p.metadata) for p in passages])
    retriever = UECRetriever.over(store, embedding)
    retriever.fit_from()
    return retriever.index


def row_of(name: str, index: Retriever, rows: Sequence[Row], gate: Gate) -> list[str]:
    """What becomes of the questions, and where their passages are."""
    questions = [row["question"] for row in rows]
    found = [
        [p.metadata["source"] in row["sources"].split("|") for p in one.passages]
        for row, one in zip(rows, index.search(questions, READ), strict=True)
    ]
    told = Counter[str]()
    for row, result in zip(rows, gate.search(index, questions), strict=True):
        sources = {passage.metadata["source"] for passage in result.passages[:4]}
        is_found = not sources.isdisjoint(row["sources"].split("|"))
        decision = result.decision
        told[outcome("paraphrased", decision.action, decision.code, is_found)] += 1
    counts = [told.pop(what, 0) for what in OUTCOMES]
    numbers = [*counts, told.total(), sum(any(f[:4]) for f in found), sum(map(any, found))]
    return [name, *map(str, numbers)]


def main(
    model: Annotated[list[Path], typer.Option(help="Folder of a model.")] = [],  # noqa: B006
) -> None:
    """Print what becomes of the questions."""
    passages, rows = passages_of(gather_corpus(1000)), read_tables("paraphrased")
    replies = read_replies("paraphrased_replies")
    verdicts = {question: replace(advice, rewrite="") for question, advice in replies.items()}
    index = index_of(shipped(), passages)
    gates = {
        "`UEC()`": Gate(),
        "and an LLM's verdicts": Gate(advisor=lambda question, texts: verdicts.get(question)),
        "and its rewrites": Gate(advisor=lambda question, texts: replies.get(question)),
    }
    table = [row_of(name, index, rows, gate) for name, gate in gates.items()]
    table += [row_of(path.name, over(path, passages), rows, Gate()) for path in model]
    header = ["", *OUTCOMES, "asked back", "passage among four hits", f"among {READ}"]
    print_table(f"Of {len(rows)} questions in other words", header, table)


if __name__ == "__main__":
    run_script(main)
