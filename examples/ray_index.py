"""An index made on a Ray cluster: workers encode, this process adds.

    pip install "uec-rag[documents]" ray
    python examples/ray_index.py

`ray.init(address="auto")` connects to a cluster that runs already. With encoders on GPUs, pass
`num_gpus=0.25` to `map_batches`, so that four workers share one.
"""

import logging
import pickle
from collections.abc import Sequence

import ray
import ray.data

from uec_rag import UEC, Retriever
from uec_rag.documents import passages_of
from uec_rag.documents.python_docs import CHUNK_SIZE, gather_corpus
from uec_rag.stores import Passage

BATCH = 64  # passages that a worker encodes at a time


class Encode:
    """A worker, which holds the encoders."""

    def __init__(self, uec: UEC) -> None:
        self.uec = uec

    def __call__(self, batch):
        """Encode a batch of texts."""
        parts = self.uec.encodings(batch["text"].tolist(), "passage")
        return {"rows": [batch["row"].tolist()], "parts": [pickle.dumps(parts)]}


def index_passages(retriever: Retriever, passages: Sequence[Passage], workers: int = 2) -> None:
    """Encode passages on the cluster, and add them batch by batch to any store."""
    rows = [{"row": row, "text": passage.searched} for row, passage in enumerate(passages)]
    encoded = ray.data.from_items(rows).map_batches(
        Encode,
        fn_constructor_args=(retriever.uec,),
        batch_size=BATCH,
        compute=ray.data.ActorPoolStrategy(size=workers),
        num_cpus=0.5,  # reading takes a processor, too
    )
    for batch in encoded.iter_rows():
        added = [passages[row] for row in batch["rows"]]
        retriever.add_encoded(added, pickle.loads(batch["parts"]))


def main() -> None:
    ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    logging.getLogger("ray.data").setLevel("ERROR")
    passages = passages_of(gather_corpus(500), size=CHUNK_SIZE)
    retriever = Retriever(UEC())
    index_passages(retriever, passages)
    print(f"{len(retriever)} of {len(passages)} passages indexed")
    found = retriever.search(["How do I remove common leading whitespace from a text?"], k=1)[0]
    print(found.decision.action, "from", found.passages[0].metadata["source"])


if __name__ == "__main__":
    main()
