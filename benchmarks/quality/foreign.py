"""What confidence says in languages that an ensemble was not fitted on.

    python -m benchmarks.quality.foreign DATA [--model MODEL --model MODEL [--model bm25]]

The embedded ensemble as it comes, or one fitted on TyDi QA's English pairs. Questions of other
languages are asked of their own collection, and those of another collection in the same language.
Prints confidence as it would be without looking at the language, and as it is, with the share of
questions answered. Embeddings are cached.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Annotated

import numpy as np
import typer

from benchmarks.paper.data import Collection, load_collection
from benchmarks.quality.options import Data
from uec_rag import UEC, Retriever, SearchResult
from uec_rag.encoders import CachedEncoder
from uec_rag.encoders.base import TermEncoder
from uec_rag.encoders.bundled.packages import cache_folder

ELSEWHERE = {
    "belebele_en": "fiqa_small",
    "belebele_de": "fiqa_small",  # in English: there is no other German collection
    "xquad_zh": "drcd_zh_hant",
    "xquad_ru": "tydiqa_goldp_ru",
    "xquad_ar": "tydiqa_goldp_ar",
}
K = 4


def main(
    data: Data,
    model: Annotated[list[str] | None, typer.Option(help="A model; give it several times.")] = None,
    fit: Annotated[str, typer.Option(help="Fit on the train split of it.")] = "tydiqa_goldp_en",
    most: Annotated[int, typer.Option(help="Questions of a collection at most.")] = 80,
) -> None:
    """Print the table."""
    cache = cache_folder() / "embeddings"
    uec = UEC(model) if model else UEC()
    uec.encoders = [
        encoder if isinstance(encoder, TermEncoder) else CachedEncoder(encoder, cache)
        for encoder in uec.encoders
    ]
    if model:
        uec.fit(load_collection(data / fit, "train").pairs())
    print(f"Members: {', '.join(uec.names)}; fitted on {fit if model else 'what it comes with'}.\n")
    print(
        "| collection | said when indexed | right | confidence before | after | right answered "
        "before | after | others' answered before | after |\n" + "|---" * 9 + "|"
    )
    for name, other in ELSEWHERE.items():
        collection, elsewhere = load_collection(data / name), load_collection(data / other)
        retriever = Retriever(uec)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            retriever.add(list(collection.passages.values()), ids=list(collection.passages))
        said = any("look alike" in str(one.message) for one in caught)
        asked, right = _asked(retriever, collection, most)
        strange, _ = _asked(retriever, elsewhere, most)
        numbers = [
            right.mean(),
            *(result.confidence.mean() for result in asked),
            *((result.confidence[right] > 0.5).mean() for result in asked),
            *((result.confidence > 0.5).mean() for result in strange),
        ]
        cells = " | ".join(f"{number:.2f}" for number in numbers)
        print(f"| {name} | {'yes' if said else 'no'} | {cells} |", flush=True)


def _asked(
    retriever: Retriever, collection: Collection, most: int
) -> tuple[list[SearchResult], np.ndarray]:
    """Results without a look at the language and with one, and which questions are right."""
    queries = list(collection.queries)
    queries = [queries[row] for row in np.random.default_rng(0).permutation(len(queries))[:most]]
    texts = [collection.queries[query] for query in queries]
    uec, fitted = retriever.uec, retriever.uec.fitted
    uec.fitted = replace(fitted, training_profile=None)
    before = retriever.search(texts, K)
    uec.fitted = fitted
    after = retriever.search(texts, K)
    right = [
        not collection.relevant[query].keys().isdisjoint(row)
        for query, row in zip(queries, after.ids, strict=True)
    ]
    return [before, after], np.array(right)


if __name__ == "__main__":
    typer.run(main)
