"""The manifest of a saved folder: its files, their sizes and their hashes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from uec_rag.base.environment import cores
from uec_rag.base.errors import corruption
from uec_rag.base.saved.files import open_regular, read_json, write_json

MANIFEST = "manifest.json"
GENERATIONS = "generations"
_FORMAT = 2
_WORTH_THREADS = 2**24  # bytes to hash at which threads pay off
_LARGEST = 2**24  # bytes of a manifest, enough for about 100,000 files
_GENERATION = re.compile(rf"{GENERATIONS}/[0-9]{{8,18}}-[0-9a-f]{{8}}")
_PART = re.compile(r"[\w-][\w .-]*", re.ASCII)  # part of a path: not hidden, not "..", without ":"


@dataclass(frozen=True)
class Entry:
    """The size and the hash of a file in a saved folder."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The contents of a saved folder.

    Attributes
    ----------
    kind : str
        The kind of the saved object.
    generation : str
        Path of the folder with its files, "generations/...".
    files : mapping of str to Entry
        Files by their paths in it, with "/" on every system.
    """

    kind: str
    generation: str
    files: Mapping[str, Entry]

    def write(self, file: Path) -> None:
        """Write the manifest as JSON, with a hash of its contents."""
        state: dict[str, object] = {
            "kind": self.kind,
            "format": _FORMAT,
            "generation": self.generation,
            "files": {name: asdict(entry) for name, entry in self.files.items()},
        }
        write_json(file, state | {"sha256": _digest(state)})

    def check(self, folder: Path, *, verify: bool) -> None:
        """Compare the files of a saved folder with the manifest.

        Parameters
        ----------
        verify : bool
            Check the hashes of all files instead of those of JSON files only. Names, kinds and
            sizes are always checked.

        Raises
        ------
        IndexCorrupted
            If a file is missing, unknown, not a regular file, or differs in size or content.
        """
        root = folder / self.generation
        for inner in _folders([self.generation, *(f"{self.generation}/{n}" for n in self.files)]):
            _check_is_folder(folder / inner)
        for name, entry in self.files.items():
            with open_regular(root / name) as file:
                size = os.fstat(file.fileno()).st_size
            if size != entry.bytes:
                raise corruption(
                    root / name,
                    f"has {size} bytes, expected {entry.bytes}: it is "
                    f"truncated or was changed; save the {self.kind} again.",
                )
        unknown = sorted(set(names_in(root)) - set(self.files))
        if unknown:
            raise corruption(
                root / unknown[0],
                "is not one of the files that were saved; remove it, or save the "
                f"{self.kind} again.",
            )
        # JSON files are small, and are read as a whole anyway.
        hashed = [name for name in self.files if verify or name.endswith(".json")]
        for name, found in describe(root, hashed).items():
            if found != self.files[name]:
                raise corruption(
                    root / name,
                    "has other contents than were saved (its sha256 is "
                    f"{found.sha256}, expected {self.files[name].sha256}): it is damaged or was "
                    f"changed; save the {self.kind} again.",
                )


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a saved folder.

    Raises IndexCorrupted if it is not a valid manifest, or was changed.
    """
    file = folder / MANIFEST
    with open_regular(file) as stream:
        if os.fstat(stream.fileno()).st_size > _LARGEST:
            raise corruption(file, f"is longer than {_LARGEST} bytes.")
    state = read_json(file)
    damaged = corruption(file, "is damaged or was changed; save again.")
    kind, files = state.get("kind"), state.get("files")
    if not isinstance(kind, str) or not isinstance(files, dict) or "format" not in state:
        raise damaged
    if not all(all(map(_PART.fullmatch, name.split("/"))) for name in files):
        raise damaged
    digest, generation = state.pop("sha256", None), state.get("generation")
    if state["format"] != _FORMAT:
        raise corruption(
            file,
            f"has format {state['format']!r}, expected {_FORMAT}; it may have "
            "been saved by a newer uec-rag: use that version.",
        )
    if digest != _digest(state) or not _GENERATION.fullmatch(str(generation)):
        raise damaged
    if not all(map(_is_entry, files.values())):
        raise damaged
    return Manifest(kind, str(generation), {name: Entry(**entry) for name, entry in files.items()})


def names_in(root: Path) -> Iterator[str]:
    """List all files in a folder and its subfolders, except hidden ones, as paths with "/"."""
    for entry in os.scandir(root):
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from (f"{entry.name}/{name}" for name in names_in(Path(entry.path)))
        else:
            yield entry.name


def describe(root: Path, names: Iterable[str]) -> dict[str, Entry]:
    """Compute the sizes and hashes of files; large ones in parallel."""
    names = sorted(names)
    with suppress(OSError):  # a missing file is reported below
        if sum((root / name).lstat().st_size for name in names) > _WORTH_THREADS:
            with ThreadPoolExecutor(cores()) as pool:
                return dict(pool.map(lambda name: (name, _entry(root / name)), names))
    return {name: _entry(root / name) for name in names}


def _entry(file: Path) -> Entry:
    with open_regular(file) as stream:
        digest = hashlib.file_digest(stream, "sha256")
        return Entry(stream.tell(), digest.hexdigest())


def _digest(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _is_entry(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"bytes", "sha256"}
        and type(value["bytes"]) is int  # and not a bool
        and value["bytes"] >= 0
        and isinstance(value["sha256"], str)
    )


def _folders(names: Iterable[str]) -> list[str]:
    """List the folders that contain files, outer ones first."""
    folders = {
        "/".join(parts[:depth])
        for parts in (name.strip("/").split("/") for name in names)
        for depth in range(1, len(parts))
    }
    return sorted(folders)


def _check_is_folder(path: Path) -> None:
    try:
        kind = path.lstat().st_mode
    except OSError as error:
        raise corruption(path, "is missing; save again.") from error
    if not stat.S_ISDIR(kind):
        raise corruption(path, "is a link or a file, expected a folder; save again.")
