"""Saved folders: JSON and plain arrays, written atomically, checked when read. Never pickle."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"


@contextmanager
def writing(path: str | os.PathLike[str], kind: str) -> Iterator[Path]:
    """Write a folder so that others see the old one or the new one, never a part.

    What the block writes into the yielded folder replaces `path` in one rename at the end; if the
    block fails, `path` is as it was. A manifest with every file's size is added.

    Raises
    ------
    FileExistsError
        If `path` is there and holds something else than a saved `kind`.
    """
    target = Path(path)
    taken = target.exists() and (not target.is_dir() or any(target.iterdir()))
    if taken and not _is_saved(target, kind):
        raise FileExistsError(
            f"path: {str(target)!r} exists and is not a saved {kind}; "
            "choose another path or remove it."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield temporary
        sizes = {
            str(file.relative_to(temporary)): file.stat().st_size
            for file in sorted(temporary.rglob("*"))
            if file.is_file()
        }
        (temporary / MANIFEST).write_text(json.dumps({"kind": kind, "files": sizes}, indent=1))
        temporary.chmod(0o755)
        _replace(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _is_saved(folder: Path, kind: str) -> bool:
    try:
        return read_json(folder / MANIFEST).get("kind") == kind
    except (OSError, ValueError):
        return False


def _replace(temporary: Path, target: Path) -> None:
    if not target.exists():
        temporary.rename(target)
        return
    # A folder cannot be renamed onto a full one: the old one steps aside for an instant.
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
    target.rename(old / "old")
    try:
        temporary.rename(target)
    except BaseException:
        (old / "old").rename(target)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def reading(path: str | os.PathLike[str], kind: str) -> Path:
    """Check that a folder is a whole saved `kind`, and return it.

    Raises
    ------
    FileNotFoundError
        If the folder or one of its files is not there.
    ValueError
        If it is of another kind, or a file is truncated or has grown.
    """
    folder = Path(path)
    if not (folder / MANIFEST).is_file():
        raise FileNotFoundError(
            f"path: no saved {kind} at {str(folder)!r}; expected {MANIFEST} there."
        )
    manifest = read_json(folder / MANIFEST)
    if manifest.get("kind") != kind:
        raise ValueError(
            f"path: {str(folder)!r} holds a saved {manifest.get('kind')}, expected a saved {kind}."
        )
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise ValueError(f"path: {str(folder / MANIFEST)!r} is damaged; save the {kind} again.")
    for name, size in files.items():
        file = folder / name
        if not file.is_file():
            raise FileNotFoundError(f"path: {str(file)!r} is missing; save the {kind} again.")
        if file.stat().st_size != size:
            raise ValueError(
                f"path: {str(file)!r} has {file.stat().st_size} bytes, expected {size}: "
                f"it is truncated or was changed; save the {kind} again."
            )
    return folder


def write_json(file: Path, value: object) -> None:
    """Write JSON as UTF-8."""
    file.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises
    ------
    ValueError
        If it is not one.
    """
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"path: {str(file)!r} is not JSON ({error}).") from error
    if not isinstance(value, dict):
        raise ValueError(f"path: {str(file)!r} holds {type(value).__name__}, expected an object.")
    return value
