"""Encoding beside fastembed: the same model file, tokenizer and passages, taking turns.

    python -m benchmarks.fastembed FOLDER --python venv/bin/python

FOLDER is one of documents; its first passages are encoded. PYTHON has fastembed installed, such as
that of an environment of its own. Each round runs a process for each system, which encodes a few
texts to warm up, then all: passages a second by the clock, and the most memory that the process
held (Linux). fastembed pads the texts of a batch to the longest; ours are encoded one by one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import typer

from benchmarks.tables import print_table
from uec_rag.documents import passages_of, read_folder
from uec_rag.encoders.packages import cache_folder

NAME = "snowflake-arctic-embed-s"
_MEASURE = """
import json, resource, sys, time
import numpy as np

texts = json.load(open(sys.argv[1]))
encode(texts[:8])
start = time.perf_counter()
vectors = np.asarray(encode(texts))
seconds = time.perf_counter() - start
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
np.save(sys.argv[3], vectors)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([len(texts) / seconds, peak]))
"""
_OURS = """
import sys
from uec_rag.encoders.small_models import OnnxEncoder

encoder = OnnxEncoder(sys.argv[2], name="snowflake-arctic-embed-s")
encode = lambda texts: encoder.encode(texts, "passage").embedding
"""
_THEIRS = """
import sys
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType

TextEmbedding.add_custom_model(
    "same/model", PoolingType.CLS, True, ModelSource(hf="same/model"), 384, model_file="model.onnx"
)
model = TextEmbedding("same/model", specific_model_path=sys.argv[2])
encode = lambda texts: [*model.embed(texts, batch_size=BATCH)]
"""


def fastembed_folder(model: Path, folder: Path) -> None:
    """Copy a model, with the files of a tokenizer that fastembed requires beside it."""
    shutil.copytree(model, folder, dirs_exist_ok=True)
    special = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    tokens = {f"{name}_token": token for name, token in special.items()}
    written = {
        "config.json": {"pad_token_id": 0},
        "tokenizer_config.json": tokens | {"model_max_length": 512, "max_length": 512},
        "special_tokens_map.json": tokens,
    }
    for name, value in written.items():
        (folder / name).write_text(json.dumps(value))


def main(
    folder: Annotated[Path, typer.Argument(help="Documents.")],
    python: Annotated[Path, typer.Option(help="A Python that has fastembed.")],
    texts: Annotated[int, typer.Option(help="Passages to encode.")] = 256,
    rounds: Annotated[int, typer.Option(help="How often each system has its turn.")] = 3,
) -> None:
    """Print the table."""
    [model] = {path.parent for path in (cache_folder() / "models").glob("bot-brain-*/model.onnx")}
    some = [one.text for one in passages_of(read_folder(folder))][:texts]
    systems = {"uec-rag": (Path(sys.executable), _OURS)}
    for batch in (256, 16):
        code = _THEIRS.replace("BATCH", str(batch))
        systems[f"fastembed, batches of {batch}"] = (python, code)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in systems}
    vectors: dict[str, np.ndarray] = {}
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch, "model")
        fastembed_folder(model, copy)
        Path(scratch, "texts.json").write_text(json.dumps(some))
        for number in range(rounds):
            for name in [*systems][:: 1 if number % 2 == 0 else -1]:
                interpreter, code = systems[name]
                files = [str(Path(scratch, one)) for one in ("texts.json", "model", "out.npy")]
                command = [str(interpreter), "-c", code + _MEASURE, *files]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found[name].append(tuple(json.loads(done.stdout.splitlines()[-1])))
                vectors[name] = np.load(files[2])
    ours = vectors["uec-rag"]
    rows = [
        [
            name,
            f"{median(one for one, _ in pairs):.1f}",
            f"{min(one for one, _ in pairs):.1f} to {max(one for one, _ in pairs):.1f}",
            f"{median(peak for _, peak in pairs):,.0f}",
            f"{np.mean((ours * vectors[name]).sum(axis=1)):.4f}",
        ]
        for name, pairs in found.items()
    ]
    header = ["", "passages a second", "range", "peak memory, MB", "cosine to ours"]
    print_table(f"Encoding {len(some)} passages, {NAME}", header, rows)


if __name__ == "__main__":
    typer.run(main)
