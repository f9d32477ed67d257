"""An ensemble or an index for LlamaIndex to copy, send to workers or write down.

As JSON, and as a saved folder on any file system that fsspec knows: an object store, say. As on a
local disk every save is a generation of its own, and the manifest, which is written last, says
which one counts. There are no locks: where two save at once the later one stays, whole. An object
store writes a small file whole or not at all, which is what swapping the manifest takes.
"""

from __future__ import annotations

import base64
import pickle
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fsspec import AbstractFileSystem  # type: ignore[import-untyped]

from uec_rag.base.errors import IndexCorrupted
from uec_rag.base.saved.manifest import MANIFEST, Manifest, read_manifest
from uec_rag.ensemble import UEC
from uec_rag.retrieval import Retriever

_ATTEMPTS = 5  # at reading a folder that others save to meanwhile


def _packed(folder: Path) -> dict[str, str]:
    """Files of a folder: path in it -> bytes in base 64."""
    return {
        file.relative_to(folder).as_posix(): base64.b64encode(file.read_bytes()).decode()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def _unpacked(data: Mapping[str, str], folder: Path) -> Path:
    """Write what `_packed` made into a folder; ValueError if a file would lie outside."""
    for name, content in data.items():
        file = (folder / name).resolve()
        if not file.is_relative_to(folder.resolve()):
            raise ValueError(f"index: {name!r} lies outside its folder.")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(content))
    return folder


def ensemble_to_dict(uec: UEC) -> dict[str, str]:
    """Return what `UEC.save` writes, as JSON takes it."""
    with tempfile.TemporaryDirectory() as folder:
        uec.write(Path(folder))
        return _packed(Path(folder))


def ensemble_from_dict(data: Mapping[str, str]) -> UEC:
    """Rebuild an ensemble from `ensemble_to_dict`; ValueError as `UEC.load`."""
    with tempfile.TemporaryDirectory() as folder:
        return UEC.read(_unpacked(data, Path(folder)))


def index_to_dict(retriever: Retriever) -> dict[str, str]:
    """Return what `Retriever.save` writes, as JSON takes it; TypeError as there."""
    with tempfile.TemporaryDirectory() as folder:
        retriever.save(Path(folder) / "index")
        return _packed(Path(folder) / "index")


def index_from_dict(data: Mapping[str, str], uec: UEC | None = None, **options: Any) -> Retriever:
    """Rebuild an index from `index_to_dict`; options and errors as in `Retriever.load`."""
    with tempfile.TemporaryDirectory() as folder:
        return Retriever.load(_unpacked(data, Path(folder) / "index"), uec, **options)


def check_picklable(uec: UEC) -> None:
    """Say at once where an ensemble cannot be sent to a worker, which LlamaIndex would not say.

    Raises pickle.PicklingError if an encoder cannot be pickled.
    """
    for encoder in uec.encoders:
        try:
            pickle.dumps(encoder)
        except Exception as error:
            raise pickle.PicklingError(
                f"uec: encoder {encoder.name!r} cannot be pickled ({error}). Expected one that is "
                "loaded by name, or a function at the top of a module; or save (UEC.save, "
                "UECVectorStore.persist) and load with encoders= in the other process."
            ) from error


def upload(folder: Path, fs: AbstractFileSystem, path: str) -> None:
    """Copy a saved folder to another file system, in place of an older one of the same kind.

    Raises FileExistsError if there is something else there. OSError if a file cannot be copied:
    what was there is there as before.
    """
    manifest, path = read_manifest(folder), path.rstrip("/")
    before = _current(fs, path, manifest.kind)
    written: list[str] = []
    try:
        for name, entry in manifest.files.items():
            target = f"{path}/{manifest.generation}/{name}"
            written.append(target)
            fs.makedirs(target.rpartition("/")[0], exist_ok=True)
            fs.put_file(str(folder / manifest.generation / name), target)
            if fs.size(target) != entry.bytes:
                raise OSError(f"path: {target!r} was not copied whole; persist again.")
        fs.pipe_file(f"{path}/{MANIFEST}", (folder / MANIFEST).read_bytes())
    except BaseException:
        _remove(fs, written)
        raise
    if before is not None:
        _remove(fs, [f"{path}/{before.generation}/{name}" for name in before.files])


def download(fs: AbstractFileSystem, path: str, folder: Path) -> None:
    """Copy a saved folder from another file system into an empty one here; nothing is checked yet.

    Raises FileNotFoundError if there is none. IndexCorrupted if the manifest is damaged, or a file
    that it names is missing.
    """
    path = path.rstrip("/")
    for attempt in range(_ATTEMPTS):
        try:
            content = fs.cat_file(f"{path}/{MANIFEST}")
        except (FileNotFoundError, IsADirectoryError) as error:
            raise FileNotFoundError(
                f"path: no saved index at {path!r}; expected {MANIFEST} there."
            ) from error
        (folder / MANIFEST).write_bytes(content)
        manifest = read_manifest(folder)
        try:
            for name in manifest.files:
                target = folder / manifest.generation / name
                target.parent.mkdir(parents=True, exist_ok=True)
                fs.get_file(f"{path}/{manifest.generation}/{name}", str(target))
            return
        except FileNotFoundError as error:
            # Another save may have removed it just now.
            if attempt + 1 == _ATTEMPTS or fs.cat_file(f"{path}/{MANIFEST}") == content:
                raise IndexCorrupted(
                    f"path: a file of the saved {manifest.kind} at {path!r} is missing ({error}); "
                    "save it again."
                ) from error


def _current(fs: AbstractFileSystem, path: str, kind: str) -> Manifest | None:
    fs.invalidate_cache()
    if not fs.exists(path):
        return None
    if fs.isdir(path) and not fs.ls(path, detail=False):
        return None
    with tempfile.TemporaryDirectory() as folder, suppress(OSError, IndexCorrupted):
        (Path(folder) / MANIFEST).write_bytes(fs.cat_file(f"{path}/{MANIFEST}"))
        manifest = read_manifest(Path(folder))
        if manifest.kind == kind:
            return manifest
    raise FileExistsError(
        f"path: {path!r} exists and is not a saved {kind}; choose another path or remove it."
    )


def _remove(fs: AbstractFileSystem, files: list[str]) -> None:
    """Remove files, and folders that are left empty; what cannot be removed stays."""
    for file in files:
        with suppress(OSError):
            fs.rm_file(file)
    folders = {file.rpartition("/")[0] for file in files}
    folders |= {folder.rpartition("/")[0] for folder in folders}
    for folder in sorted(folders, key=len, reverse=True):
        with suppress(OSError):
            if not fs.ls(folder, detail=False):
                fs.rmdir(folder)
