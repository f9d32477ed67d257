"""An ensemble on the processor and on a GPU, in whole and in half precision.

    python -m benchmarks.encode MODEL [--documents docs]

The passages of a folder are indexed, the ensemble of the model and BM25 is fitted on questions made
of them, and the questions are asked. Printed are the largest difference of a passage's vector, of a
confidence, and the shares of equal hits and decisions, each from the processor's; and the seconds
in which 5,000 passages are encoded.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from sentence_transformers import SentenceTransformer

from benchmarks.tables import print_table, run_script
from uec_rag import UEC, Retriever
from uec_rag.documents import passages_of, read_folder
from uec_rag.documents.generated_questions import make_questions
from uec_rag.encoders import SentenceTransformerEncoder

_TEXTS = 5_000


def main(
    model: Annotated[str, typer.Argument(help="Hub name or folder.")],
    documents: Annotated[Path, typer.Option(help="Folder of documents.")] = Path("docs"),
) -> None:
    """Print the table."""
    passages = passages_of(read_folder(documents))
    ids, texts = [passage.id for passage in passages], [passage.text for passage in passages]
    asked = [*make_questions(passages, 100), "What is the capital of Peru?", "Who won the cup?"]
    first, rows = None, []
    places = [("cpu", torch.float32), ("cuda", torch.float32), ("cuda", torch.float16)]
    for device, precision in places[: 1 if not torch.cuda.is_available() else None]:
        made = SentenceTransformer(model, device=device).to(precision)
        encoder = SentenceTransformerEncoder(made)
        index = Retriever(UEC([made, "bm25"]))
        index.add(texts, ids)
        index.fit_from(passages)
        found, vectors = index.search(asked), encoder.encode(texts, "passage").embedding
        actions = [decision.action for decision in found.decisions]
        first = first or (vectors, found, actions)
        start = time.perf_counter()
        encoder.encode((texts * _TEXTS)[:_TEXTS], "passage")
        took = time.perf_counter() - start
        differences = vectors - first[0], found.confidence - first[1].confidence
        equal = [np.mean(np.equal(found.ids, first[1].ids)), np.mean(np.equal(actions, first[2]))]
        name = torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()}"
        numbers = [f"{np.abs(one).max():.1e}" for one in differences]
        shares = [f"{share:.3f}" for share in equal]
        rows.append([device, name, str(precision), *numbers, *shares, f"{took:.1f}"])
    header = ["device", "GPU, or threads", "precision", "vectors", "confidence", "hits"]
    title = f"{len(texts)} passages, {len(asked)} questions"
    print_table(title, [*header, "decisions", f"{_TEXTS} passages, s"], rows)


if __name__ == "__main__":
    run_script(main)
