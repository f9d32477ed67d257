"""What `self_calibrate` changes, on collections in languages that only some members know.

    python -m benchmarks.quality.confidence DATA --model MODEL --model MODEL [--fit tydiqa_goldp_en]

Prints a Markdown table: nDCG@10 of each member alone, fitted and after `self_calibrate`, and how
much each counts then. DATA is a folder of collections, or set UEC_DATA. Embeddings are cached.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from benchmarks.paper.data import Collection, load_collection
from benchmarks.paper.metrics import score_retrieval
from benchmarks.quality.options import Data, Models
from uec_rag import UEC, Retriever
from uec_rag.encoders import CachedEncoder, Encoder, load_encoder
from uec_rag.encoders.bundled.packages import cache_folder

SETS = "xquad_zh,xquad_ru,xquad_en,belebele_de,fiqa_small"
K = 10


def main(
    data: Data,
    model: Models,
    fit: Annotated[str, typer.Option(help="Fit on the train split of it.")] = "tydiqa_goldp_en",
    fit_pairs: Annotated[int, typer.Option(help="At most so many fitting pairs.")] = 4000,
    sets: Annotated[str, typer.Option(help="Collections, comma-separated.")] = SETS,
) -> None:
    """Print the table."""
    warnings.filterwarnings("ignore", message="The index has changed")
    cache = cache_folder() / "embeddings"
    encoders: list[Encoder] = [CachedEncoder(load_encoder(name), cache) for name in model]
    pairs = load_collection(data / fit, "train").pairs()[:fit_pairs]
    uec = UEC(encoders).fit(pairs)
    print(f"Members: {', '.join(uec.names)}; fitted on {len(pairs)} pairs of {fit}.\n")
    collections = [load_collection(data / name) for name in sets.split(",")]
    _print(_self_calibration(uec, collections))


def _scored(system: UEC, collection: Collection):
    result = _index(system, collection).search(list(collection.queries.values()), K)
    return score_retrieval(collection, result.ids, result.confidence), result


def _self_calibration(uec: UEC, collections: Sequence[Collection]) -> Iterable[Sequence[object]]:
    yield (
        "collection",
        *(f"nDCG@10 {name}" for name in uec.names),
        "fitted",
        "self-calibrated",
        *(f"{name} counts" for name in uec.names),
    )
    for collection in collections:
        members = [
            _scored(UEC([encoder], coefficients="uniform"), collection)[0].ndcg10
            for encoder in uec.encoders
        ]
        before, _ = _scored(uec, collection)
        retriever = _index(uec, collection).self_calibrate()
        result = retriever.search(list(collection.queries.values()), K)
        after = score_retrieval(collection, result.ids, result.confidence)
        yield (
            collection.name,
            *members,
            before.ndcg10,
            after.ndcg10,
            *result.coefficients.mean(axis=0),
        )


def _index(system: UEC, collection: Collection) -> Retriever:
    retriever = Retriever(system)
    retriever.add(list(collection.passages.values()), ids=list(collection.passages))
    return retriever


def _print(rows: Iterable[Sequence[object]]) -> None:
    for number, row in enumerate(rows):
        cells = [f"{v:.3f}" if isinstance(v, float) else str(v) for v in row]
        print("| " + " | ".join(cells) + " |", flush=True)
        if not number:
            print("|" + "---|" * len(cells))
    print()


if __name__ == "__main__":
    typer.run(main)
