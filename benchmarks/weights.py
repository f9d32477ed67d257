"""Build and check a wheel of a preset's weights, from the repository of the model's own publisher.

    pip install build safetensors
    python -m benchmarks.weights arctic-embed-s --out dist
    python -m benchmarks.weights multilingual-e5-small --out dist

What is downloaded is at a pinned commit; what is made of it must have the hashes that
`uec_rag/encoders/packages.json` pins, so that fits and saved indexes stay. The wheel holds the
files, the licence and the publisher's model card, and no code. `.github/workflows/weights.yml` runs
this. Once a wheel is on the package index, its name and hash replace the package's in that JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.tables import run_script
from uec_rag.encoders.packages import PACKAGED, Package, read_packages
from uec_rag.encoders.small_models import BLOCK, Q4, FourBitFile, OnnxEncoder, files_of

ROOT = Path(__file__).parents[1]
PACKAGES = read_packages(ROOT / "uec_rag/encoders/packages.json")
_VERSION = "1.0.0"
_CARD = "README.md"


@dataclass(frozen=True)
class Source:
    """Where a model's own publisher has it, and under which licence."""

    repository: str
    commit: str
    files: tuple[str, ...]
    licence: str
    text: str


SOURCES = {
    "arctic-embed-s": Source(
        "Snowflake/snowflake-arctic-embed-s",
        "e596f507467533e48a2e17c007f0e1dacc837b33",
        ("onnx/model_int8.onnx", "tokenizer.json", _CARD),
        "Apache-2.0",
        (ROOT / "LICENSE").read_text(encoding="utf-8"),
    ),
    "multilingual-e5-small": Source(
        "intfloat/multilingual-e5-small",
        "fd1525a9fd15316a2d503bf26ab031a61d056e98",
        ("model.safetensors", "config.json", "tokenizer.json", _CARD),
        "MIT",
        (ROOT / "benchmarks/multilingual-e5-small.LICENSE").read_text(encoding="utf-8"),
    ),
}


def quantise(weights: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Round a matrix to four bits, as llama.cpp's Q4_0: blocks of 32 weights with a scale.

    The scale maps the entry of the largest magnitude to -8, so that what was rounded before stays.
    """
    rows = weights.astype(np.float32).reshape(-1, BLOCK)
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1, keepdims=True), axis=1)
    scale = largest / np.float32(-8)
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale != 0)
    nibbles = np.floor(rows * inverse + np.float32(8.5)).clip(0, 15).astype(np.uint8)
    blocks = np.empty(len(rows), dtype=Q4)
    blocks["scale"] = scale[:, 0]
    blocks["nibbles"] = nibbles[:, : BLOCK // 2] | nibbles[:, BLOCK // 2 :] << 4
    return blocks


_LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


def in_four_bits(folder: Path) -> FourBitFile:
    """Read a BERT of the hub, with a Unigram tokenizer, and quantise its matrices."""
    from safetensors.numpy import load_file

    loaded = load_file(folder / "model.safetensors")
    known = {name.removeprefix("bert."): array for name, array in loaded.items()}
    config = json.loads((folder / "config.json").read_bytes())
    model = json.loads((folder / "tokenizer.json").read_bytes())["model"]
    names = {"emb.word": "word_embeddings.weight", "emb.pos": "position_embeddings.weight"}
    names |= {"emb.type": "token_type_embeddings.weight"}
    names |= {"emb.ln.w": "LayerNorm.weight", "emb.ln.b": "LayerNorm.bias"}
    names = {short: f"embeddings.{long}" for short, long in names.items()}
    for layer in range(config["num_hidden_layers"]):
        for short, long in _LAYER.items():
            for letter, part in (("w", "weight"), ("b", "bias")):
                names[f"l{layer}.{short}.{letter}"] = f"encoder.layer.{layer}.{long}.{part}"
    tensors = {}
    for short, long in names.items():
        is_matrix = short == "emb.word" or (known[long].ndim == 2 and short.startswith("l"))
        tensors[short] = quantise(known[long]) if is_matrix else known[long].ravel()
    return FourBitFile(
        config["hidden_size"],
        config["num_hidden_layers"],
        config["num_attention_heads"],
        config["intermediate_size"],
        config["max_position_embeddings"],
        config["layer_norm_eps"],
        [(piece, float(str(np.float32(score)))) for piece, score in model["vocab"]],
        model["unk_id"],
        tensors,
    )


def files_from(folder: Path, package: Package) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a model by name, out of a folder of the publisher's files."""
    if package.packed:
        yield from files_of(in_four_bits(folder))
        return
    for name, file in package.files.items():
        content = (folder / file.published).read_bytes()
        yield name, content.replace(b"\n", file.newline.encode()) if file.newline else content


def check(files: Mapping[str, bytes], package: Package) -> None:
    """Raise SystemExit unless files are those of a package, by their hashes."""
    found = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    pinned = {name: file.sha256 for name, file in package.files.items()}
    if found != pinned:
        raise SystemExit(f"{package.model}: expected files with the hashes {pinned}, got {found}.")


def build(model: str, folder: Path, to: Path) -> Path:
    """Build the wheel of a model out of a folder of its publisher's files; return its path."""
    source, package = SOURCES[model], PACKAGES[PACKAGED[model]]
    check(files := dict(files_from(folder, package)), package)
    name = f"uec-rag-weights-{model}"
    with TemporaryDirectory() as made:
        inside = Path(made) / name.replace("-", "_")
        inside.mkdir()
        for file, content in files.items():
            (inside / file).write_bytes(content)
        (Path(made) / "LICENSE").write_text(source.text, encoding="utf-8")
        (Path(made) / _CARD).write_bytes((folder / _CARD).read_bytes())
        (Path(made) / "pyproject.toml").write_text(
            '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
            f'[project]\nname = "{name}"\nversion = "{_VERSION}"\nreadme = "{_CARD}"\n'
            f'description = "The weights of {source.repository} for uec-rag, without code."\n'
            f'license = "{source.licence}"\nlicense-files = ["LICENSE"]\n'
            'requires-python = ">=3.11"\n'
            f'[project.urls]\nPublisher = "https://huggingface.co/{source.repository}'
            f'/tree/{source.commit}"\n'
            f'[tool.hatch.build.targets.wheel]\npackages = ["{inside.name}"]\n',
            encoding="utf-8",
        )
        epoch = os.environ | {"SOURCE_DATE_EPOCH": "1767225600"}  # the same bytes on each run
        command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(to.absolute()), made]
        subprocess.run(command, check=True, env=epoch)
    return next(to.glob(f"{inside.name}-*.whl"))


def try_wheel(wheel: Path, model: str) -> None:
    """Check a wheel's files, that a licence is in it, and that the model finds an answer."""
    package = PACKAGES[PACKAGED[model]]
    inside = wheel.name.partition("-")[0]
    with zipfile.ZipFile(wheel) as archive, TemporaryDirectory() as folder:
        check({name: archive.read(f"{inside}/{name}") for name in package.files}, package)
        [licence] = [one for one in archive.namelist() if one.endswith("/licenses/LICENSE")]
        if SOURCES[model].text.encode() != archive.read(licence):
            raise SystemExit(f"{wheel.name}: {licence} is not the model's licence.")
        if code := [one for one in archive.namelist() if one.endswith((".py", ".so"))]:
            raise SystemExit(f"{wheel.name}: expected no code, got {code}.")
        for name in package.files:
            (Path(folder) / name).write_bytes(archive.read(f"{inside}/{name}"))
        encoder = OnnxEncoder(folder, name=package.model)
        texts = ["Whales are mammals that live in the ocean.", "Shares fell after rates rose."]
        [asked] = encoder.encode(["Why did shares drop?"], "query").embedding
        whales, shares = encoder.encode(texts, "passage").embedding @ asked
        if not shares > whales:
            raise SystemExit(f"{wheel.name}: the model finds the wrong text.")


def main(
    model: Annotated[str, typer.Argument(help=f"One of {', '.join(SOURCES)}.")],
    out: Annotated[Path, typer.Option(help="Folder of the wheel.")] = Path("dist"),
    folder: Annotated[
        Path | None, typer.Option(help="The publisher's files, instead of the hub.")
    ] = None,
) -> None:
    """Build the wheel, check it, and print its hash."""
    source = SOURCES[model]
    if folder is None:
        from huggingface_hub import snapshot_download

        made = snapshot_download(
            source.repository, revision=source.commit, allow_patterns=[*source.files]
        )
        folder = Path(made)
    out.mkdir(parents=True, exist_ok=True)
    wheel = build(model, folder, out)
    try_wheel(wheel, model)
    print(f"{hashlib.sha256(wheel.read_bytes()).hexdigest()}  {wheel}")


if __name__ == "__main__":
    run_script(main)
