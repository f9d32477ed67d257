"""A saved folder on any file system that fsspec knows: an object store, say.

As on a local disk every save is a generation of its own, and the manifest, which is written last,
says which one counts. There are no locks: where two save at once the later one stays, whole. An
object store writes a small file whole or not at all, which is what swapping the manifest takes.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from fsspec import AbstractFileSystem  # type: ignore[import-untyped]

from uec_rag.base.errors import IndexCorrupted
from uec_rag.base.manifest import MANIFEST, Manifest, read_manifest

_ATTEMPTS = 5  # at reading a folder that others save to meanwhile


def upload(folder: Path, fs: AbstractFileSystem, path: str) -> None:
    """Copy a saved folder to another file system, in place of an older one of the same kind.

    Raises
    ------
    FileExistsError
        If there is something else there.
    OSError
        If a file cannot be copied: what was there is there as before.
    """
    manifest, path = read_manifest(folder), path.rstrip("/")
    before = _current(fs, path, manifest.kind)
    written: list[str] = []
    try:
        for name, entry in manifest.files.items():
            target = _place(path, manifest, name)
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
        _remove(fs, [_place(path, before, name) for name in before.files])


def download(fs: AbstractFileSystem, path: str, folder: Path) -> None:
    """Copy a saved folder from another file system into an empty one here; nothing is checked yet.

    Raises
    ------
    FileNotFoundError
        If there is none.
    IndexCorrupted
        If the manifest is damaged, or a file that it names is missing.
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
                fs.get_file(_place(path, manifest, name), str(target))
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


def _place(path: str, manifest: Manifest, name: str) -> str:
    """Where a file lies; uec-rag 0.1 has put them beside the manifest."""
    return "/".join(part for part in (path, manifest.generation, name) if part)


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
