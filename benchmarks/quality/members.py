"""What each single member is worth and costs: nDCG@10 by language, milliseconds a passage.

    python -m benchmarks.quality.members DATA --model pypi:wordllama --model bm25 --markdown

Each model searches alone, by its own similarity, so nothing is fitted. Of each collection a fixed
sample of queries is asked of all its passages. Milliseconds are of the processor, for a passage of
320 characters, the median of batches, with one thread. DATA is a folder of test collections (see
`benchmarks.paper.data`), or set UEC_DATA.
"""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import typer

from benchmarks.paper.data import Collection, load_collection
from benchmarks.quality.options import CACHE, Cache, Data, Markdown, Queries
from benchmarks.quality.retrieval import evaluate
from benchmarks.tables import print_table
from uec_rag import UEC
from uec_rag.encoders import CachedEncoder, Encoder, load_encoder
from uec_rag.encoders.base import TermEncoder

SETS = "belebele_en,xquad_en,xquad_ru,xquad_zh"
_CHARACTERS = 320
_BATCH, _BATCHES = 32, 5


def sampled(collection: Collection, queries: int) -> Collection:
    """A collection with a fixed sample of its queries."""
    names = list(collection.queries)
    if len(names) > queries:
        chosen = np.random.default_rng(0).permutation(len(names))[:queries]
        names = [names[row] for row in sorted(chosen)]
    return replace(
        collection,
        queries={name: collection.queries[name] for name in names},
        relevant={name: collection.relevant[name] for name in names},
    )


def milliseconds(encoder: Encoder, collection: Collection) -> float:
    """Of the processor, for a passage."""
    texts = [text[:_CHARACTERS] for text in collection.passages.values()]
    texts = [text for text in texts if len(text) == _CHARACTERS][: _BATCH * (_BATCHES + 1)]
    times = []
    for start in range(0, len(texts), _BATCH):
        some = texts[start : start + _BATCH]
        begin = time.process_time()
        encoder.encode(some, "passage")
        times.append(1000 * (time.process_time() - begin) / len(some))
    return median(times[1:])


def main(
    data: Data,
    model: Annotated[list[str], typer.Option(help="A model to measure; give it several times.")],
    sets: Annotated[str, typer.Option(help="Collections, the first in English.")] = SETS,
    queries: Queries = 200,
    cache: Cache = CACHE,
    markdown: Markdown = False,
) -> None:
    """Print the table."""
    import torch

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "This UEC is not fitted")
    collections = [sampled(load_collection(data / name), queries) for name in sets.split(",")]
    rows = []
    for name in model:
        encoder = load_encoder(name)
        cost = milliseconds(encoder, collections[0])
        if not isinstance(encoder, TermEncoder):
            encoder = CachedEncoder(encoder, cache)
        uec = UEC([encoder], coefficients="uniform")
        found = [evaluate(uec, collection).ndcg10 for collection in collections]
        width = str(encoder.dimension or "-")
        label = Path(name).name
        rows.append([label, width, f"{cost:.2f}", *(f"{score:.3f}" for score in found)])
        print(rows[-1], file=sys.stderr, flush=True)
    header = ["member", "d", "ms a passage", *sets.split(",")]
    print_table("nDCG@10 of each member alone", header, rows, markdown=markdown)


if __name__ == "__main__":
    typer.run(main)
