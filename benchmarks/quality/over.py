"""What words are worth over a vector store of someone else's, which names candidates by one model.

    python -m benchmarks.quality.over DATA --model arctic-embed-s --markdown

Ensembles are fitted on the training pairs of one collection. Of each of the others a fixed sample
of queries is asked, of a store that finds its passages by the model's cosine: in the store's own
order, in the order of the model with its uncertainty, with words beside it, and over a store of
this package, which finds candidates by words, too. DATA is a folder of test collections (see
`benchmarks.paper.data`), or set UEC_DATA.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import numpy as np
import typer

from benchmarks.paper.data import Collection, load_collection
from benchmarks.paper.metrics import score_retrieval
from benchmarks.quality.members import sampled
from benchmarks.quality.options import CACHE, FITTED_ON, Cache, Data, Fit, Markdown, Queries
from benchmarks.quality.retrieval import evaluate
from benchmarks.tables import print_table
from uec_rag import UEC, Retriever
from uec_rag.encoders import CachedEncoder, Encoder, load_encoder
from uec_rag.retrieval.sources import Source, SourceStore
from uec_rag.stores import Passage

_K = 10


def nearest(encoder: Encoder, collection: Collection, count: int) -> Callable[[str], list[Passage]]:
    """A search by the cosine of one model."""
    passages = [Passage(id_, text) for id_, text in collection.passages.items()]
    vectors = encoder.encode([passage.text for passage in passages], "passage").embedding

    def find(question: str) -> list[Passage]:
        near = vectors @ encoder.encode([question], "query").embedding[0]
        return [passages[place] for place in np.argsort(-near, kind="stable")[:count]]

    return find


def main(
    data: Data,
    model: Annotated[str, typer.Option(help="Whose vectors the store keeps.")] = "arctic-embed-s",
    fit: Fit = FITTED_ON,
    sets: Annotated[str, typer.Option(help="Collections.")] = "fiqa_small,belebele_en",
    queries: Queries = 200,
    candidates: Annotated[int, typer.Option(help="Named by the store for each query.")] = 50,
    cache: Cache = CACHE,
    markdown: Markdown = False,
) -> None:
    """Print the table."""
    encoder = CachedEncoder(load_encoder(model), cache)
    pairs = load_collection(data / fit, "train").pairs()
    alone, both = UEC([encoder]).fit(pairs), UEC([encoder, "bm25"]).fit(pairs)
    rows = []
    for name in sets.split(","):
        collection = sampled(load_collection(data / name), queries)
        asked = [*collection.queries.values()]
        find = nearest(encoder, collection, candidates)
        own = [[passage.id for passage in find(query)[:_K]] for query in asked]
        scores = [score_retrieval(collection, own, np.zeros(len(own)))]
        for uec in (alone, both):
            source = Source("a model's nearest", lambda question, _, find=find: find(question))
            found = Retriever(uec, SourceStore(uec, source)).search(asked, _K)
            scores.append(score_retrieval(collection, found.ids, found.confidence))
        scores.append(evaluate(both, collection))
        rows.append([name, *(f"{one.ndcg10:.3f}" for one in scores)])
    header = ["collection", "its own order", "over it", "over it, words", "own store, words"]
    print_table(f"nDCG@10, {candidates} candidates", header, rows, markdown=markdown)


if __name__ == "__main__":
    typer.run(main)
