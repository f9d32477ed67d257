"""Atomic saves of folders: each save is a new generation next to the previous one.

A saved folder contains the file `manifest.json` and the folder `generations`. A save writes its
files into a new folder among the generations, flushes them to disk, and replaces the manifest,
which names the generation, by a single rename. Readers see the old generation before the rename and
the new one after it, even if the program ends in between.

A reader holds a shared lock on the generation it opens; the next save removes generations that are
neither current nor locked. Only one process at a time saves to a folder. An object that was loaded
from a generation can be saved there only while that one is the latest, so that the saves of other
processes are never undone.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from uec_rag.base.errors import IndexCorrupted, SavedMeanwhile, corruption
from uec_rag.base.saved.files import lock_file, open_regular, to_disk
from uec_rag.base.saved.manifest import (
    GENERATIONS,
    MANIFEST,
    Entry,
    Manifest,
    describe,
    names_in,
    read_manifest,
)

if sys.platform != "win32":
    import fcntl

_LOCK = ".lock"  # in a saved folder: locked by the process that saves
_HELD = ".held"  # in a generation: locked by readers
_LINK = ".link"  # in a generation, temporarily
_PROBE, _PROBED = ".probe", 2**20  # a test file after a failed save, and its size in bytes
_NAME = re.compile(r"[0-9]{8,18}-[0-9a-f]{8}")
_this_thread = threading.local()


class Saved(Protocol):
    """An object that is loaded and saved.

    Attributes
    ----------
    saved_as : tuple of path
        Absolute paths of the generations that it was loaded from or saved as, and may replace.
    """

    saved_as: tuple[Path, ...]


@contextmanager
def write_generation(
    path: str | os.PathLike[str], kind: str, *, of: Saved | None = None
) -> Iterator[Path]:
    """Save a folder atomically, so that others see the old version or the new one.

    The files that the block writes into the yielded folder become the next generation of `path`; if
    the block fails, `path` is unchanged. Unchanged files are hard links to those of the previous
    generation. Other files in `path` are kept, and a link to a folder remains a link.

    Parameters
    ----------
    of : Saved, optional
        The object to save. If it was neither loaded from `path` nor saved there before, it replaces
        the existing one.

    Raises
    ------
    FileExistsError
        If `path` exists and is not a saved `kind`.
    BlockingIOError
        If another process or thread is saving there.
    SavedMeanwhile
        If another process has saved there since `of` was loaded from or saved to `path`.
    OSError
        If writing fails, for instance because the disk is full.
    """
    target = Path(path)
    _current(target, kind)
    made = _make(target)
    with _locked(target, kind):
        before = _current(target, kind)
        generations = () if of is None else of.saved_as
        here = [generation for generation in generations if _lies_in(generation, target)]
        if here and before is not None and before.generation not in map(_name_in, here):
            raise SavedMeanwhile(
                f"path: the {kind} at {str(target)!r} was saved by another process since it was "
                "loaded. Nothing was saved; load it and make the change again, or save elsewhere."
            )
        generation = None
        try:
            _collect(target, before)
            generation = _new_generation(target)
            if of is not None:  # in case of an interrupt after the rename
                of.saved_as = (*generations, generation.absolute())
            yield generation
            manifest = _finish(target, generation, kind, before)
            os.replace(generation / MANIFEST, target / MANIFEST)
            for folder in (target, *(folder.parent for folder in made)):
                to_disk(folder)
        except BaseException as error:
            if of is not None and not (generation and is_last(generation)):
                of.saved_as = generations
            full = None
            if isinstance(error, Exception) and generation is not None:
                full = _full(target, generation, kind)
            _give_up(target, made)
            if full is not None:
                raise full from error
            raise
        if of is not None:
            others = (one for one in generations if one not in here and one.parent.parent.exists())
            of.saved_as = (*others, generation.absolute())
        _collect(target, manifest)


@contextmanager
def locked_for_saving(
    path: str | os.PathLike[str], kind: str, *, wait: float = 0.0
) -> Iterator[None]:
    """Lock a folder against saves by other processes and threads while the block runs.

    This thread may save, and all may read. To change a saved `kind` safely, load, change and save
    it in one such block.

    Parameters
    ----------
    wait : float
        Seconds to wait for another process or thread that is saving.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    BlockingIOError
        If another process or thread is still saving after that time.
    """
    target = Path(path)
    if not target.is_dir():
        raise FileNotFoundError(f"path: no saved {kind} at {str(target)!r}.")
    with _locked(target, kind, wait):
        _turns().add(target.resolve())
        try:
            yield
        finally:
            _turns().discard(target.resolve())


def _turns() -> set[Path]:
    """Return the folders that this thread has locked for saving and is not saving now."""
    turns: set[Path] = _this_thread.__dict__.setdefault("turns", set())
    return turns


@contextmanager
def _locked(target: Path, kind: str, wait: float = 0.0) -> Iterator[None]:
    if (path := target.resolve()) in _turns():
        _turns().remove(path)  # so that a nested save is refused, like that of another thread
        try:
            yield
        finally:
            _turns().add(path)
        return
    busy = (
        f"path: another process or thread is saving a {kind} at {str(target)!r}; wait for it, or "
        "save elsewhere."
    )
    with lock_file(target / _LOCK, busy, wait):
        yield


def is_last(generation: Path) -> bool:
    """Return whether a generation is still the latest one that was saved."""
    with suppress(OSError, IndexCorrupted):
        return read_manifest(generation.parent.parent).generation == _name_in(generation)
    return False


def _name_in(generation: Path) -> str:
    """Return the name of a generation in a manifest."""
    return f"{GENERATIONS}/{generation.name}"


@contextmanager
def read_generation(
    path: str | os.PathLike[str], kind: str, *, verify: bool = True
) -> Iterator[Path]:
    """Check that a folder is a complete saved `kind`, and yield the folder of its files.

    The files are kept while the block runs, even if another process saves. Memory-mapped files stay
    valid afterwards.

    Parameters
    ----------
    verify : bool
        Check the SHA-256 of all files. Sizes are always checked.

    Raises
    ------
    FileNotFoundError
        If there is no saved folder.
    IndexCorrupted
        If it is of another kind, or a file is missing, changed, unknown or not a regular file.
    """
    folder = Path(path)
    while True:
        manifest = _manifest(folder, kind)
        with _hold(folder / manifest.generation):
            # If the manifest is unchanged, its generation was not removed before it was locked.
            if read_manifest(folder) != manifest:
                continue
            manifest.check(folder, verify=verify)
            yield folder / manifest.generation
            return


def _manifest(folder: Path, kind: str) -> Manifest:
    if not os.path.lexists(folder / MANIFEST):
        raise FileNotFoundError(
            f"path: no saved {kind} at {str(folder)!r}; expected {MANIFEST} there."
        )
    manifest = read_manifest(folder)
    if manifest.kind != kind:
        raise corruption(folder, f"holds a saved {manifest.kind}, expected a saved {kind}.")
    return manifest


def _current(target: Path, kind: str) -> Manifest | None:
    """Return the manifest at a path; FileExistsError if there is anything but a saved `kind`."""
    taken = FileExistsError(
        f"path: {str(target)!r} exists and is not a saved {kind}; choose another path or remove it."
    )
    if not os.path.lexists(target):
        return None
    if not target.is_dir() or (target / GENERATIONS).is_symlink():
        raise taken
    if os.path.lexists(target / MANIFEST):
        try:
            return _manifest(target, kind)
        except IndexCorrupted as error:
            raise taken from error
    # Empty, or the remains of a first save that was interrupted.
    if {*os.listdir(target)} - {_LOCK, GENERATIONS}:
        raise taken
    if not all(_NAME.fullmatch(name) for name in _generations(target)):
        raise taken
    return None


def _generations(target: Path) -> list[str]:
    try:
        return os.listdir(target / GENERATIONS)
    except FileNotFoundError:
        return []


def _make(target: Path) -> list[Path]:
    """Create a folder with its parents; return the new ones, outer ones first."""
    missing = [folder for folder in (target, *target.parents) if not os.path.lexists(folder)]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
    return missing[::-1]


def _new_generation(target: Path) -> Path:
    numbers = [int(name.split("-")[0]) for name in _generations(target) if _NAME.fullmatch(name)]
    name = f"{max(numbers, default=0) + 1:08}-{secrets.token_hex(4)}"
    generation = target / GENERATIONS / name
    generation.mkdir(parents=True)
    (generation / _HELD).touch()
    return generation


def _finish(target: Path, generation: Path, kind: str, before: Manifest | None) -> Manifest:
    """Write the manifest of a generation, and flush all files to disk."""
    files = describe(generation, names_in(generation))
    linked = {*_link_equal_files(target, generation, files, before)}
    manifest = Manifest(kind, _name_in(generation), files)
    manifest.write(generation / MANIFEST)
    for name in {*files, MANIFEST} - linked:
        to_disk(generation / name)
    for folder, _, _ in os.walk(generation, topdown=False):
        to_disk(Path(folder))
    to_disk(generation.parent)
    return manifest


def _link_equal_files(
    target: Path, generation: Path, files: dict[str, Entry], before: Manifest | None
) -> Iterator[str]:
    """Replace new files by hard links to equal files of the previous generation."""
    if before is None:
        return
    old = target / before.generation
    for name in files:
        if files[name] != before.files.get(name):
            continue
        # Saving again repairs a damaged file, which must not be restored by a link.
        with suppress(OSError, IndexCorrupted):
            if describe(old, [name])[name] == files[name]:
                link = generation / _LINK
                os.link(old / name, link, follow_symlinks=False)
                os.replace(link, generation / name)
                yield name


def _collect(target: Path, kept: Manifest | None) -> None:
    """Remove generations that are not current and have no reader."""
    for name in _generations(target):
        if _NAME.fullmatch(name) and (kept is None or _name_in(Path(name)) != kept.generation):
            _remove_unless_held(target / GENERATIONS / name)


def _remove_unless_held(generation: Path) -> None:
    path = generation / _HELD
    with ExitStack() as stack:
        try:
            if sys.platform == "win32":
                path.unlink()  # an open file stays
            else:
                file = stack.enter_context(open_regular(path))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return
        except (OSError, IndexCorrupted):
            pass  # it cannot be locked: no such file, or a file system without locks
        shutil.rmtree(generation, ignore_errors=True)


@contextmanager
def _hold(generation: Path) -> Iterator[None]:
    try:
        lock = open_regular(generation / _HELD)
    except (OSError, IndexCorrupted):  # copied without hidden files
        yield
        return
    with lock:
        if sys.platform != "win32":
            with suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_SH)
        yield


def _lies_in(generation: Path, target: Path) -> bool:
    """Return whether a generation is, or was, one of a folder."""
    folder = generation.parent.parent
    return folder.exists() and folder.samefile(target)


def _full(target: Path, generation: Path, kind: str) -> OSError | None:
    """Return the error to raise if the disk is full, which writers do not always report."""
    probe = generation / _PROBE
    try:
        probe.write_bytes(bytes(_PROBED))
        to_disk(probe)
    except OSError as error:
        probe.unlink(missing_ok=True)
        written = sum(file.stat().st_size for file in generation.rglob("*") if file.is_file())
        free = shutil.disk_usage(target).free
        return OSError(
            error.errno,
            f"path: {error.strerror} at {str(target)!r}, where {free / 1e6:,.1f} MB are free and "
            f"this save had written {written / 1e6:,.1f} MB. Nothing was saved, and what was there "
            f"is unchanged; make room and save the {kind} again.",
        )
    return None


def _give_up(target: Path, made: list[Path]) -> None:
    """Remove the remains of a failed save, but neither the current generation nor other files."""
    with suppress(OSError, ValueError):
        # After an interrupt that followed the rename, the new generation is the current one.
        saved = os.path.lexists(target / MANIFEST)
        _collect(target, read_manifest(target) if saved else None)
        if not saved:
            (target / GENERATIONS).rmdir()
            (target / _LOCK).unlink()
            for folder in reversed(made):
                folder.rmdir()
