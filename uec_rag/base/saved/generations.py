"""Saved folders that are whole at every moment: each save is a new generation beside the last.

A saved folder holds the file `manifest.json` and the folder `generations`. A save writes its files
into a new folder among the generations, brings them to the disk, and swaps the manifest, which
names the generation, for a new one in a single rename. Before that rename the old generation is
the saved one, after it the new one: whatever ends the program in between, and for every reader.

A reader holds a shared lock on the generation it opens; those that no manifest names and no reader
holds are removed by the next save. One process saves to a folder at a time, and what was loaded
from a generation is saved there only while that one is the last: others' saves are never undone.
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

from filelock import FileLock, Timeout

from uec_rag.base.errors import IndexCorrupted, SavedMeanwhile
from uec_rag.base.saved.files import open_regular, to_disk
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

_LOCK = ".lock"  # in a saved folder: held by who saves
_HELD = ".held"  # in a generation: held by those who read
_LINK = ".link"  # in a generation, for an instant
_PROBE, _PROBED = ".probe", 2**20  # in a generation that could not be written; bytes
_POLL = 0.01  # seconds between two attempts at a lock: others hold it for tenths of a second
_NAME = re.compile(r"[0-9]{8,18}-[0-9a-f]{8}")
_this_thread = threading.local()


class Saved(Protocol):
    """An object that is loaded and saved.

    Attributes
    ----------
    saved_as : tuple of path
        Generations that it was loaded from or saved as, absolute: those that it may be saved over.
    """

    saved_as: tuple[Path, ...]


@contextmanager
def writing(path: str | os.PathLike[str], kind: str, *, of: Saved | None = None) -> Iterator[Path]:
    """Save a folder so that others see the old one or the new one, never a part.

    What the block writes into the yielded folder is the next generation of `path`; if the block
    fails, `path` is as it was. Files that are as they were are linked, not kept twice. What else
    lies in `path` stays, and a link to a folder stays a link.

    Parameters
    ----------
    of : Saved, optional
        What is saved. What was neither loaded from `path` nor saved there before replaces what is
        there.

    Raises
    ------
    FileExistsError
        If `path` is there and holds something else than a saved `kind`.
    BlockingIOError
        If another process or thread is saving there.
    SavedMeanwhile
        If somebody else has saved there since `of` was loaded from there or saved there.
    OSError
        If the file system takes no more.
    """
    target = Path(path)
    _current(target, kind)
    made = _make(target)
    with _locked(target, kind):
        before = _current(target, kind)
        known = () if of is None else of.saved_as
        here = [one for one in known if _lies_in(one, target)]
        if here and before is not None and before.generation not in map(_named, here):
            raise SavedMeanwhile(
                f"path: the {kind} at {str(target)!r} was saved by somebody else since it was "
                "loaded. Nothing was saved; load it and make the change again, or save elsewhere."
            )
        generation = None
        try:
            _collect(target, before)
            generation = _new_generation(target)
            if of is not None:  # interrupted after the swap, this one is the last
                of.saved_as = (*known, generation.absolute())
            yield generation
            manifest = _finish(target, generation, kind, before)
            os.replace(generation / MANIFEST, target / MANIFEST)
            for folder in (target, *(folder.parent for folder in made)):
                to_disk(folder)
        except BaseException as error:
            if of is not None and not (generation and is_last(generation)):
                of.saved_as = known
            full = None
            if isinstance(error, Exception) and generation is not None:
                full = _full(target, generation, kind)
            _give_up(target, made)
            if full is not None:
                raise full from error
            raise
        if of is not None:
            others = (one for one in known if one not in here and one.parent.parent.exists())
            of.saved_as = (*others, generation.absolute())
        _collect(target, manifest)


@contextmanager
def alone(path: str | os.PathLike[str], kind: str, *, wait: float = 0.0) -> Iterator[None]:
    """Keep others from saving a folder while the block runs; this thread may, and all may read.

    To change a saved `kind`, load it, change it and save it in one such block.

    Parameters
    ----------
    wait : float
        Seconds to wait for another who is saving.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    BlockingIOError
        If another process or thread is saving there all the while.
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
    """The folders that this thread keeps others from saving, and is not saving just now."""
    turns: set[Path] = _this_thread.__dict__.setdefault("turns", set())
    return turns


@contextmanager
def _locked(target: Path, kind: str, wait: float = 0.0) -> Iterator[None]:
    if (known := target.resolve()) in _turns():
        _turns().remove(known)  # a save within this one is refused, as that of another thread is
        try:
            yield
        finally:
            _turns().add(known)
        return
    lock = FileLock(target / _LOCK)
    try:
        try:
            lock.acquire(timeout=wait, poll_interval=_POLL)
        except Timeout as error:
            raise BlockingIOError(
                f"path: another process or thread is saving a {kind} at {str(target)!r}; "
                "wait for it, or save elsewhere."
            ) from error
        yield
    finally:
        lock.release(force=True)


def is_last(generation: Path) -> bool:
    """Tell whether a generation that `reading` or `writing` yielded is still the newest."""
    with suppress(OSError, IndexCorrupted):
        return read_manifest(generation.parent.parent).generation == _named(generation)
    return False


def _named(generation: Path) -> str:
    """Name a generation as a manifest does."""
    return f"{GENERATIONS}/{generation.name}"


@contextmanager
def reading(path: str | os.PathLike[str], kind: str, *, verify: bool = True) -> Iterator[Path]:
    """Check that a folder is a whole saved `kind`, and yield where its files lie.

    They stay while the block runs, even if another process saves. Afterwards what is mapped stays.

    Parameters
    ----------
    verify : bool
        Compare the files' sha256 with what was saved; their sizes are compared in any case.

    Raises
    ------
    FileNotFoundError
        If there is no saved folder.
    IndexCorrupted
        If it is of another kind, or a file is missing, changed, unknown, or no regular file.
    """
    folder = Path(path)
    while True:
        manifest = _manifest(folder, kind)
        with _holding(folder / manifest.generation):
            # The generation of a manifest that is still there was not removed before it was held.
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
        raise IndexCorrupted(
            f"path: {str(folder)!r} holds a saved {manifest.kind}, expected a saved {kind}."
        )
    return manifest


def _current(target: Path, kind: str) -> Manifest | None:
    """Find the generation at a path; FileExistsError if anything but a saved one is there."""
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
    # Nothing there, or what a first save left that did not end.
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
    """Make a folder and those it lies in; returns the new ones, outer ones first."""
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
    """Bring a generation to the disk, with its manifest in it."""
    files = describe(generation, names_in(generation))
    linked = {*_linked(target, generation, files, before)}
    manifest = Manifest(kind, _named(generation), files)
    manifest.write(generation / MANIFEST)
    for name in {*files, MANIFEST} - linked:
        to_disk(generation / name)
    for folder, _, _ in os.walk(generation, topdown=False):
        to_disk(Path(folder))
    to_disk(generation.parent)
    return manifest


def _linked(
    target: Path, generation: Path, files: dict[str, Entry], before: Manifest | None
) -> Iterator[str]:
    """Replace new files by links to those of the generation before that hold the same."""
    if before is None:
        return
    old = target / before.generation
    for name in files:
        if files[name] != before.files.get(name):
            continue
        # Saving again is what mends a damaged file: it must not come back by a link.
        with suppress(OSError, IndexCorrupted):
            if describe(old, [name])[name] == files[name]:
                link = generation / _LINK
                os.link(old / name, link, follow_symlinks=False)
                os.replace(link, generation / name)
                yield name


def _collect(target: Path, kept: Manifest | None) -> None:
    """Remove generations that are not the saved one and have no reader."""
    for name in _generations(target):
        if _NAME.fullmatch(name) and (kept is None or _named(Path(name)) != kept.generation):
            _remove_unless_held(target / GENERATIONS / name)


def _remove_unless_held(generation: Path) -> None:
    held = generation / _HELD
    with ExitStack() as stack:
        try:
            if sys.platform == "win32":
                held.unlink()  # an open file stays
            else:
                file = stack.enter_context(open_regular(held))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return
        except (OSError, IndexCorrupted):
            pass  # it cannot be held: no such file, or a file system without locks
        shutil.rmtree(generation, ignore_errors=True)


@contextmanager
def _holding(generation: Path) -> Iterator[None]:
    try:
        held = open_regular(generation / _HELD)
    except (OSError, IndexCorrupted):  # copied without hidden files
        yield
        return
    with held:
        if sys.platform != "win32":
            with suppress(OSError):  # a file system without locks
                fcntl.flock(held, fcntl.LOCK_SH)
        yield


def _lies_in(generation: Path, target: Path) -> bool:
    """Tell whether a generation is, or was, one of a folder's."""
    folder = generation.parent.parent
    return folder.exists() and folder.samefile(target)


def _full(target: Path, generation: Path, kind: str) -> OSError | None:
    """Return the error to raise if the disk is full: what writes does not always raise one."""
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
    """Remove what a save left that failed; what is saved, and what is not ours, stays."""
    with suppress(OSError, ValueError):
        # Interrupted after the swap, the new generation is the saved one.
        saved = os.path.lexists(target / MANIFEST)
        _collect(target, read_manifest(target) if saved else None)
        if not saved:
            (target / GENERATIONS).rmdir()
            (target / _LOCK).unlink()
            for folder in reversed(made):
                folder.rmdir()
