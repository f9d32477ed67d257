"""What words are worth over a vector store of someone else's, which names candidates by one model.

    python -m benchmarks.quality.over DATA

Ensembles are fitted on the training pairs of one collection. Of each of the others a fixed sample
of queries is asked, of a store that finds its passages by the model's cosine: in the store's own
order, in the order of the model with its uncertainty, with words beside it, and over a store of
this package, which finds candidates by words, too. DATA is a folder of test collections (see
`benchmarks.paper.data`), or set UEC_DATA.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.paper.data import load_collection
from benchmarks.paper.metrics import mean_ndcg
from benchmarks.quality.shared import FITTED_ON, Data, Sets, ndcg10, sampled, unfitted
from benchmarks.tables import print_table, run_script
from uec_rag import Retriever
from uec_rag.encoders import Encoder
from uec_rag.stores import Passage
from uec_rag.stores.source import Source, SourceStore

_MODEL = "arctic-embed-s"  # whose vectors the store keeps
_K, _QUERIES, _CANDIDATES = 10, 200, 50


def nearest(
    encoder: Encoder, passages: Sequence[Passage], count: int
) -> Callable[[str, object], list[Passage]]:
    """A search by the cosine of one model, as a `Source` asks for it."""
    vectors = encoder.encode([passage.text for passage in passages], "passage").embedding

    def find(question: str, _: object) -> list[Passage]:
        near = vectors @ encoder.encode([question], "query").embedding[0]
        return [passages[place] for place in np.argsort(-near, kind="stable")[:count]]

    return find


def main(data: Data, sets: Sets = "fiqa_small,belebele_en") -> None:
    """Print the table."""
    pairs = load_collection(data / FITTED_ON, "train").pairs()
    alone, both = (unfitted(names).fit(pairs) for names in ([_MODEL], [_MODEL, "bm25"]))
    rows = []
    for name in sets.split(","):
        collection = sampled(load_collection(data / name), _QUERIES)
        asked = [*collection.queries.values()]
        passages = [Passage(id_, text) for id_, text in collection.passages.items()]
        find = nearest(alone.encoders[0], passages, _CANDIDATES)
        scores = [
            mean_ndcg(collection, [[p.id for p in find(query, None)[:_K]] for query in asked])
        ]
        for uec in (alone, both):
            store = SourceStore(uec.encoders, Source("a model's nearest", find))
            found = Retriever(uec, store).search(asked, _K)
            scores.append(mean_ndcg(collection, found.ids))
        scores.append(ndcg10(both, collection))
        rows.append([name, *(f"{score:.3f}" for score in scores)])
    header = ["collection", "its own order", "over it", "over it, words", "own store, words"]
    print_table(f"nDCG@10, {_CANDIDATES} candidates", header, rows)


if __name__ == "__main__":
    run_script(main)
