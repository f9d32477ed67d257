"""What each single member is worth and costs: nDCG@10 by language, milliseconds a passage.

    python -m benchmarks.quality.members DATA --model pypi:wordllama --model bm25

Each model searches alone, by its own similarity, so nothing is fitted. Of each collection a fixed
sample of queries is asked of all its passages. Milliseconds are of the processor, for a passage of
320 characters, the median of batches, with one thread. DATA is a folder of test collections (see
`benchmarks.paper.data`), or set UEC_DATA.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from statistics import median

import typer

from benchmarks.paper.data import Collection, load_collection
from benchmarks.quality.shared import Data, Models, Queries, Sets, cached, ndcg10, sampled
from benchmarks.tables import print_table
from uec_rag import UEC
from uec_rag.encoders import Encoder, load_encoder

SETS = "belebele_en,xquad_en,xquad_ru,xquad_zh"
_CHARACTERS = 320
_BATCH, _BATCHES = 32, 5


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


def main(data: Data, model: Models, sets: Sets = SETS, queries: Queries = 200) -> None:
    """Print the table."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    collections = [sampled(load_collection(data / name), queries) for name in sets.split(",")]
    rows = []
    for name in model:
        encoder = load_encoder(name)
        cost = milliseconds(encoder, collections[0])
        uec = UEC([cached(encoder)], coefficients="uniform")
        found = [f"{ndcg10(uec, collection):.3f}" for collection in collections]
        rows.append([Path(name).name, str(encoder.dimension or "-"), f"{cost:.2f}", *found])
    header = ["member", "d", "ms a passage", *sets.split(",")]
    print_table("nDCG@10 of each member alone", header, rows)


if __name__ == "__main__":
    typer.run(main)
