"""nDCG@10 before and after `self_calibrate`, which must not cost any.

    python -m benchmarks.quality.self_calibration DATA --model MODEL --model MODEL

The models and `bm25` are fitted on the training pairs of one collection. Of each other collection a
fixed sample of queries is asked, at most so many, before and after `Retriever.self_calibrate` has
made questions of its passages. DATA is a folder of test collections (see
`benchmarks.paper.data`), or set UEC_DATA.
"""

from __future__ import annotations

import sys

import numpy as np
import typer

from benchmarks.paper.data import Collection, load_collection
from benchmarks.paper.metrics import mean_ndcg
from benchmarks.quality.members import sampled
from benchmarks.quality.options import (
    CACHE,
    FITTED_ON,
    Cache,
    Data,
    Fit,
    Markdown,
    Models,
    Queries,
    Sets,
)
from benchmarks.tables import print_table
from uec_rag import UEC, Retriever
from uec_rag.encoders import CachedEncoder, load_encoder

SETS = (
    "cranfield,cisi,medline,fiqa_small,chroma_chunking,claude_docs_rag,belebele_en,"
    "tydiqa_goldp_en,squad_sample,xquad_en,xquad_ru,xquad_zh,xquad_ar"
)


def before_and_after(uec: UEC, collection: Collection) -> tuple[float, float]:
    """nDCG@10 of an index that was not calibrated, and of the same calibrated on itself."""
    retriever = Retriever(uec)
    retriever.add(list(collection.passages.values()), ids=list(collection.passages))
    queries = list(collection.queries.values())
    before = retriever.search(queries, 10).ids
    retriever.self_calibrate()
    return mean_ndcg(collection, before), mean_ndcg(collection, retriever.search(queries, 10).ids)


def main(
    data: Data,
    model: Models,
    fit: Fit = FITTED_ON,
    sets: Sets = SETS,
    queries: Queries = 1000,
    cache: Cache = CACHE,
    markdown: Markdown = False,
) -> None:
    """Print the table."""
    encoders = [CachedEncoder(load_encoder(name), cache) for name in model]
    uec = UEC([*encoders, "bm25"]).fit(load_collection(data / fit, "train").pairs())
    table, changes = [], []
    for name in sets.split(","):
        before, after = before_and_after(uec, sampled(load_collection(data / name), queries))
        changes.append(after - before)
        table.append([name, f"{before:.4f}", f"{after:.4f}", f"{after - before:+.4f}"])
        print(*table[-1], file=sys.stderr, flush=True)
    table.append(["mean", "", "", f"{np.mean(changes):+.4f}"])
    table.append(["worst", "", "", f"{np.min(changes):+.4f}"])
    header = ["collection", "before", "after", "change"]
    print_table("nDCG@10 around self_calibrate", header, table, markdown=markdown)


if __name__ == "__main__":
    typer.run(main)
