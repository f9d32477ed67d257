"""Model files in the cache folder: complete or absent, and checked each time they are used."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from uec_rag.base.regular import open_regular

_log = logging.getLogger(__name__)


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


def sha256_of(path: Path) -> str:
    """Compute the SHA-256 (hex) of a regular file; OSError if it is none, or cannot be read."""
    with open_regular(path, follow_symlinks=True) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
