"""Write the token vectors of the package wordllama into this one, in eight bits.

    python -m benchmarks.token_vectors [--write]

Printed is how alike the vectors of passages of Python's documentation are before and after.
"""

from __future__ import annotations

import shutil

import numpy as np
from safetensors.numpy import load_file, save_file

from benchmarks.tables import run_script
from uec_rag.documents import passages_of
from uec_rag.documents.python_docs import gather_corpus
from uec_rag.encoders import load_encoder
from uec_rag.encoders.packages import _PACKAGES, package_folder
from uec_rag.encoders.token_vectors import MATRIX, SHIPPED, TOKENIZER

_LARGEST = 127


def main(write: bool = False) -> None:
    """Print the least cosine of a passage's two vectors; with --write, write the files before."""
    folder, to = package_folder(_PACKAGES["wordllama"]), SHIPPED["wordllama"]
    if write:
        vectors = load_file(folder / MATRIX)["embedding.weight"].astype(np.float32)
        weights = (np.abs(vectors).max(axis=1) / _LARGEST).astype(np.float16)
        embeddings = np.round(vectors / weights[:, None].astype(np.float32))
        embeddings = embeddings.clip(-_LARGEST, _LARGEST).astype(np.int8)
        save_file({"embeddings": embeddings, "weights": weights}, to / MATRIX)
        shutil.copy(folder / TOKENIZER, to / TOKENIZER)
    texts = [passage.text for passage in passages_of(gather_corpus(1000))]
    whole, bytes_ = (
        load_encoder(name).encode(texts, "passage").embedding
        for name in ("pypi:wordllama", "wordllama")
    )
    cosines = (whole * bytes_).sum(axis=1)
    print(f"least {cosines.min():.5f}, mean {cosines.mean():.5f}")


if __name__ == "__main__":
    run_script(main)
