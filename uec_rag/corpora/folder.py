"""All the readable files of a folder."""

import hashlib
import os
import stat
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import TypeAlias

from uec_rag.base.checks import visible
from uec_rag.base.environment import missing_extra
from uec_rag.corpora.document import Document, has_words
from uec_rag.corpora.readers import NEEDS, READERS
from uec_rag.corpora.reading_process import ReadingProcess, UnreadableFileError

SECONDS = 60.0
"""What a file may take, by default: a PDF of a thousand pages does."""

Track: TypeAlias = Callable[[Collection[str], str], Iterable[str]]
"""Goes through sources, and shows how far it is with what it is told they are for."""

LARGEST = 2**28
"""Bytes of a file, at most."""

_AT_ONCE = 4  # files read at a time
_LINK = "is a link; follow_symlinks (--follow-symlinks) reads it"


@dataclass(frozen=True)
class FolderRead:
    """What became of the files of a folder; every file is in one of the three, by its source.

    Attributes
    ----------
    documents : list of Document
        In the order of their paths.
    empty : dict of str to str
        Files that hold no text, and what is said of each.
    unreadable : dict of str to str
        Files, and folders that cannot be listed, and what is the matter with each.
    """

    documents: list[Document] = field(default_factory=list)
    empty: dict[str, str] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)


def read_folder(
    folder: str | Path,
    *,
    show_progress: bool = False,
    follow_symlinks: bool = False,
    seconds: float = SECONDS,
    only: Collection[str] | None = None,
) -> list[Document]:
    """Read every file of the kinds in `READERS` in a folder and in the folders inside it.

    Files are read in other processes, whose time and memory are limited: a damaged or malicious
    one is left out.

    Parameters
    ----------
    folder
        Hidden files and folders in it (".git") are left out.
    show_progress
        Draw a progress bar on stderr.
    follow_symlinks
        Also read what links in the folder lead to, inside it or not.
    seconds
        What a file may take before it is left out.
    only
        Sources to read, as `file_hashes` names them; all by default.

    Returns
    -------
    list of Document
        In the order of their paths.

    Raises
    ------
    FileNotFoundError, NotADirectoryError
        If there is no such folder.
    ValueError
        If there is no file of these kinds in it, or, of all, none that holds text.
    ImportError
        If the library for a kind of file that is there is missing.

    Warns
    -----
    UserWarning
        For each file that cannot be read, takes too long, is no regular file or holds no text; the
        others are read.
    """
    read = read_files(
        folder,
        track=_bar if show_progress else _as_they_are,
        follow_symlinks=follow_symlinks,
        seconds=seconds,
        only=only,
    )
    if not read.documents and only is None:
        count = len(read.empty) + len(read.unreadable)
        raise ValueError(
            f"none of the {count} files in {str(Path(folder).expanduser())!r} holds text to index"
        )
    return read.documents


def _as_they_are(items: Collection[str], what: str) -> Iterable[str]:
    return items


def _bar(items: Collection[str], what: str) -> Iterable[str]:
    from rich.console import Console
    from rich.progress import track

    return track(items, what, console=Console(stderr=True), transient=True)


def read_files(
    folder: str | Path,
    *,
    track: Track = _as_they_are,
    follow_symlinks: bool = False,
    seconds: float = SECONDS,
    only: Collection[str] | None = None,
) -> FolderRead:
    """`read_folder` that also returns which files hold no text or cannot be read.

    No file ends it. Parameters, warnings and what is raised are those of `read_folder`, but that
    there may be no document, and `track` goes through the files in place of `show_progress`.
    """
    root = Path(folder).expanduser()
    found = {
        source: problem
        for source, problem in _found(root, follow_symlinks).items()
        if only is None or source in only
    }
    _check_libraries(source for source, problem in found.items() if problem is None)
    read = FolderRead()
    with ExitStack() as stack:
        free: SimpleQueue[ReadingProcess] = SimpleQueue()
        count = max(1, min(_AT_ONCE, os.cpu_count() or 1, len(found)))
        for _ in range(count):
            free.put(stack.enter_context(ReadingProcess(seconds)))
        pool = ThreadPoolExecutor(count)
        # Whoever interrupts does not wait for the files that are being read.
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        outcomes = pool.map(lambda item: item[1] or _read(free, root, item[0]), found.items())
        for source in track(found, "Reading files"):
            outcome, kind = next(outcomes), read.unreadable
            if isinstance(outcome, Document):
                if outcome.sections:
                    read.documents.append(outcome)
                    continue
                scan = "; is it a scan?" if source.lower().endswith(".pdf") else ""
                outcome, kind = f"holds no text{scan}", read.empty
            kind[source] = outcome
            warnings.warn(visible(f"left out {source}, which {outcome}"), stacklevel=3)
    return read


def file_hashes(
    folder: str | Path, *, follow_symlinks: bool = False, track: Track = _as_they_are
) -> tuple[dict[str, str], dict[str, str]]:
    """Hash the files that `read_folder` would read.

    Parameters
    ----------
    folder, follow_symlinks
        As in `read_folder`; so is what is raised.
    track
        As in `read_files`.

    Returns
    -------
    hashes : dict of str to str
        SHA-256 of each file, by its source.
    unreadable : dict of str to str
        What is the matter with each of the others, as in `FolderRead`.
    """
    root = Path(folder).expanduser()
    hashes, unreadable = {}, {}
    found = _found(root, follow_symlinks)
    for source in track(found, "Looking for changes"):
        problem = found[source]
        try:
            if problem is None:
                hashes[source] = _hash(root / source)
        except OSError as error:
            problem = f"cannot be read: {_why(error)}"
        if problem is not None:
            unreadable[source] = problem
    return hashes, unreadable


def other_files(folder: str | Path, *, follow_symlinks: bool = False) -> list[str]:
    """Return the paths in a folder of the files whose kind `read_folder` does not read, in order.

    `folder`, `follow_symlinks`: as in `read_folder`.
    """
    root = Path(folder).expanduser()
    return sorted(
        path.relative_to(root).as_posix()
        for path in _files(root, follow_symlinks)
        if path.suffix.lower() not in READERS and not path.is_dir()
    )


def _read(free: SimpleQueue[ReadingProcess], root: Path, source: str) -> Document | str:
    """A file read by a process that is free, or what is the matter with it."""
    process = free.get()
    try:
        # Should the file change in between, its hash is that of the state before: it is read again.
        sha256 = _hash(root / source)
        sections = process.read(root / source)
    except (UnreadableFileError, OSError) as error:
        return f"cannot be read: {_why(error)}"
    finally:
        free.put(process)
    return Document(source, tuple(part for part in sections if has_words(part.text)), sha256)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _why(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _check_libraries(files: Iterable[str]) -> None:
    needed = {NEEDS[end] for file in files if (end := Path(file).suffix.lower()) in NEEDS}
    missing = [
        package
        for module, package in sorted(needed)
        if find_spec(module.partition(".")[0]) is None or find_spec(module) is None
    ]
    if missing:
        raise ImportError(missing_extra(", ".join(missing), "documents"))


def _found(root: Path, follow_symlinks: bool) -> dict[str, str | None]:
    """Sources to read, in the order of their paths, and what is the matter with the others."""
    if not root.exists():
        raise FileNotFoundError(f"no such folder: {str(root)!r}")
    if not root.is_dir():
        raise NotADirectoryError(f"expected a folder, got the file {str(root)!r}")
    found: dict[Path, str | None] = {}
    failed: list[OSError] = []
    for path in _files(root, follow_symlinks, failed):
        if path.is_symlink() and path.is_dir():
            found[path] = _LINK
        elif path.suffix.lower() in READERS:
            found[path] = _problem(path, follow_symlinks)
    for error in failed:
        if Path(error.filename) == root:
            raise error
        found[Path(error.filename)] = f"cannot be read: {error.strerror}"
    if not found:
        raise ValueError(
            f"no readable files in {str(root)!r}; expected some that end in {', '.join(READERS)}"
        )
    return {
        source: problem if _is_unicode(source) else "has a name that is not Unicode; rename it"
        for path, problem in sorted(found.items())
        for source in [path.relative_to(root).as_posix()]
    }


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # bytes that are none stand in it as surrogates
        return False
    return True


def _files(
    root: Path, follow_symlinks: bool, failed: list[OSError] | None = None
) -> Iterator[Path]:
    """Files that are not hidden, and links to folders that are not followed.

    What went wrong with a folder is added to `failed`.
    """
    seen: set[tuple[int, int]] = set()
    told = None if failed is None else failed.append
    for here, folders, names in os.walk(root, onerror=told, followlinks=follow_symlinks):
        try:
            state = os.stat(here)
        except OSError as error:
            if told is not None:
                told(error)
            folders.clear()
            continue
        if (state.st_dev, state.st_ino) in seen:  # links may lead back
            folders.clear()
            continue
        seen.add((state.st_dev, state.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        links = [name for name in folders if not follow_symlinks and Path(here, name).is_symlink()]
        yield from (Path(here, name) for name in [*links, *names] if not name.startswith("."))


def _problem(path: Path, follow_symlinks: bool) -> str | None:
    """Why a file is not even to be opened."""
    if path.is_symlink() and not follow_symlinks:
        return _LINK
    try:
        state = path.stat()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if not stat.S_ISREG(state.st_mode):
        return "is no regular file"
    if state.st_size > LARGEST:
        return f"has {state.st_size:,} bytes, more than {LARGEST:,}"
    return None
