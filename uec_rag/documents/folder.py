"""Reading of all supported files in a folder."""

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypedDict, Unpack

from uec_rag.base.checks import as_list, pluralize, visible
from uec_rag.base.environment import missing_extra
from uec_rag.base.errors import warn
from uec_rag.base.files import NotRegularError, check_regular, is_saved, open_regular, pieces
from uec_rag.base.progress import progress_bar
from uec_rag.documents.document import Document
from uec_rag.documents.process import ReadingProcess, UnreadableFileError
from uec_rag.documents.readers import READERS

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

SECONDS = 60.0
"""The default time limit for a file, in seconds; a PDF of a thousand pages takes less."""

CHARACTERS = 10_000_000
"""The default limit of a file's text, in characters: about 4,000 pages, or 12,500 passages."""

LARGEST = 2**28
"""The largest size of a file, in bytes."""

_AT_ONCE = 4  # files read at a time
_LINK = "is a link; follow_symlinks (--follow-symlinks) reads it"
_NAMED = 3  # files that a message names
# They share words with every question and answer few.
_RARELY_ANSWER = (
    *("changelog.*", "changelogs/", "changes.*", "copying.*"),
    *("licence.*", "licences.*", "license.*", "licenses.*"),
)


class Selection(TypedDict, total=False):
    """The options of `read_folder`, which says what they mean."""

    follow_symlinks: bool
    exclude: Sequence[str]
    include: Sequence[str]


@dataclass(frozen=True)
class FolderRead:
    """The outcome of reading a folder; each file is in exactly one of the attributes.

    Attributes
    ----------
    documents : list of Document
        The files with text, in the order of their paths.
    empty : dict of str to str
        Sources of files without text, with a description of each.
    unreadable : dict of str to str
        Sources of files that cannot be read, and of folders that were not entered, with the reason
        for each.
    """

    documents: list[Document] = field(default_factory=list)
    empty: dict[str, str] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)


def read_folder(
    folder: str | Path,
    *,
    follow_symlinks: bool = False,
    exclude: Sequence[str] = (),
    include: Sequence[str] = (),
) -> list[Document]:
    """Read all files in a folder and its subfolders that a reader in `READERS` supports.

    Files are read in other processes with limited time and memory, so that a damaged or malicious
    file is merely left out.

    Parameters
    ----------
    folder : str or Path
        The folder. Hidden files and folders in it (".git") are ignored, and indexes that uec-rag
        saved there are left out.
    follow_symlinks : bool
        Whether to follow links in the folder, even to targets outside it.
    exclude : sequence of str
        Patterns as in a .gitignore, "drafts/" or "*.de.md", of files to leave out; "!drafts/a.md"
        reads one nevertheless.
    include : sequence of str
        Patterns of the only files to read, "guide/**" or "*.md"; by default, all but changelogs and
        licences, which share words with every question.

    Returns
    -------
    list of Document
        The documents, in the order of their paths.

    Raises
    ------
    FileNotFoundError, NotADirectoryError
        If there is no such folder.
    ValueError
        If it contains no file of a supported format, or none with text, or a pattern is invalid.
    ImportError
        If the library for the format of one of the files is missing.

    Warns
    -----
    UserWarning
        For each file that cannot be read, takes too long, contains too much text or none, or is
        not a regular file; for each folder that cannot be listed or is a saved index; and once for
        all links that are not followed, and for changelogs and licences. All other files are read.
    """
    read = read_files(folder, follow_symlinks=follow_symlinks, exclude=exclude, include=include)
    if not read.documents:
        count = len(read.empty) + len(read.unreadable)
        raise ValueError(
            f"{str(Path(folder).expanduser())!r}: expected files with text to index, found none "
            f"among {pluralize(count, 'file')}"
        )
    return read.documents


def read_files(
    folder: str | Path,
    *,
    seconds: float = SECONDS,
    max_characters: int = CHARACTERS,
    only: Collection[str] | None = None,
    **selection: Unpack[Selection],
) -> FolderRead:
    """Read a folder as `read_folder` does, and also return the files that were left out.

    Unlike `read_folder`, this raises no error if none of the files contains text. The other errors
    and the warnings are the same.

    Parameters
    ----------
    folder
        As in `read_folder`.
    seconds : float
        Time limit for a file; one that takes longer is left out.
    max_characters : int
        Limit of a file's text; a file with more is left out. A workbook of a few kilobytes can
        contain hundreds of millions of characters.
    only : collection of str, optional
        Sources to read, as in the keys of `file_hashes`; all by default.
    **selection
        The other options of `read_folder`.
    """
    root, follow_symlinks = Path(folder).expanduser(), selection.get("follow_symlinks", False)
    hashes = _find_sources(root, selection, only)
    _check_libraries(source for source, problem in hashes.items() if problem is None)
    read = FolderRead()
    with ExitStack() as stack:
        free: SimpleQueue[ReadingProcess] = SimpleQueue()
        count = max(1, min(_AT_ONCE, os.cpu_count() or 1, len(hashes)))
        for _ in range(count):
            free.put(stack.enter_context(ReadingProcess(seconds, max_characters)))
        pool = ThreadPoolExecutor(count)
        # An interrupt does not wait for the files that are being read.
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)

        def outcome_of(item: tuple[str, str | None]) -> tuple[Document | str, Sequence[str]]:
            source, problem = item
            return (problem, ()) if problem else _read(free, root, source, follow_symlinks)

        outcomes = pool.map(outcome_of, hashes.items())
        bar = stack.enter_context(progress_bar("Reading files", len(hashes)))
        for source, (outcome, notes) in zip(hashes, outcomes, strict=True):
            bar.update()
            for said in notes:
                warn(visible(f"{source} {said}"))
            kind = read.unreadable
            if isinstance(outcome, Document):
                if outcome.sections:
                    read.documents.append(outcome)
                    continue
                scan = "; is it a scan?" if source.lower().endswith(".pdf") else ""
                outcome, kind = f"holds no text{scan}", read.empty
            kind[source] = outcome
            if outcome != _LINK:
                warn(visible(f"left out {source}, which {outcome}"))
    links = [source for source, problem in read.unreadable.items() if problem == _LINK]
    if links:  # one warning for all, since there may be hundreds
        warn(
            visible(
                f"left out {pluralize(len(links), 'link')}{list_first(links)}; follow_symlinks "
                "(--follow-symlinks) reads what they lead to"
            )
        )
    return read


def list_first(files: Collection[str]) -> str:
    """List the first of some files in parentheses, after a blank; "" if there are none."""
    more = ["..."] if len(files) > _NAMED else []
    return f" ({', '.join([*islice(files, _NAMED), *more])})" if files else ""


def file_hashes(
    folder: str | Path, *, only: Collection[str] | None = None, **selection: Unpack[Selection]
) -> tuple[dict[str, str], dict[str, str]]:
    """Hash the files that `read_folder` would read.

    Parameters
    ----------
    folder, **selection
        As in `read_folder`, with the same errors for the folder.
    only : collection of str, optional
        Sources of the only files to hash.

    Returns
    -------
    hashes : dict of str to str
        SHA-256 of each file, by its source.
    unreadable : dict of str to str
        The reason why each of the others cannot be read, as in `FolderRead`.
    """
    root, follow_symlinks = Path(folder).expanduser(), selection.get("follow_symlinks", False)
    hashes, unreadable = {}, {}
    found = _find_sources(root, selection, only)
    with progress_bar("Looking for changes", len(found)) as bar:
        for source, problem in found.items():
            bar.update()
            try:
                if problem is None:
                    digest = hashlib.sha256()
                    with _open(root, source, follow_symlinks) as (file, size):
                        for piece in pieces(file, size):
                            digest.update(piece)
                    hashes[source] = digest.hexdigest()
            except OSError as error:
                problem = _why(error)
            if problem is not None:
                unreadable[source] = problem
    return hashes, unreadable


def other_files(folder: str | Path, **selection: Unpack[Selection]) -> list[str]:
    """List the paths of files in a folder whose formats `read_folder` does not support, sorted.

    Parameters are those of `read_folder`.
    """
    root = Path(folder).expanduser()
    return sorted(
        entry.path.relative_to(root).as_posix()
        for entry in _entries(root, selection)
        if not entry.folder and entry.path.suffix.lower() not in READERS
    )


def _read(
    free: SimpleQueue[ReadingProcess], root: Path, source: str, follow_symlinks: bool
) -> tuple[Document | str, Sequence[str]]:
    """Read a file in a free process, with notes on it; if that fails, return the reason."""
    process = free.get()
    try:
        with _open(root, source, follow_symlinks) as (file, size):
            return process.read(source, file, size)
    except (UnreadableFileError, OSError) as error:
        return _why(error), ()
    finally:
        free.put(process)


@contextmanager
def _open(root: Path, source: str, follow_symlinks: bool) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file, and yield it with its size.

    Unless `follow_symlinks`, no link below the root is followed, even if one has just replaced a
    folder or the file (for folders, only if the platform can open relative to a directory).
    """
    with ExitStack() as stack:
        folder, name = None, str(root / source)
        if not follow_symlinks and os.open in os.supports_dir_fd:
            *folders, name = Path(source).parts
            flags = os.O_RDONLY | os.O_DIRECTORY
            for step in (str(root), *folders):
                folder = os.open(step, flags, dir_fd=folder)
                stack.callback(os.close, folder)
                flags |= os.O_NOFOLLOW  # the root may be a link
        file = open_regular(name, follow_symlinks=follow_symlinks, dir_fd=folder)
        stack.enter_context(file)
        size = os.fstat(file.fileno()).st_size
        _check_size(size)
        yield file, size


def _check_size(size: int) -> None:
    if size > LARGEST:
        raise UnreadableFileError(f"it has {size:,} bytes, more than {LARGEST:,}")


def _why(error: Exception) -> str:
    """Describe why a file cannot be read."""
    if isinstance(error, NotRegularError):
        return f"is {error.strerror}"
    return f"cannot be read: {(isinstance(error, OSError) and error.strerror) or error}".rstrip(".")


def _check_libraries(files: Iterable[str]) -> None:
    libraries = dict[str, str]()
    for suffix in {Path(file).suffix.lower() for file in files}:
        libraries.update(READERS[suffix].libraries)
    missing = {package for module, package in libraries.items() if find_spec(module) is None}
    if missing:
        raise ImportError(missing_extra(", ".join(sorted(missing)), "documents"))


def check_folder(folder: Path, argument: str = "folder") -> None:
    """Raise FileNotFoundError or NotADirectoryError if the path is not an existing folder."""
    if not folder.exists():
        raise FileNotFoundError(f"{argument}: there is no folder {str(folder)!r}")
    if not folder.is_dir():
        raise NotADirectoryError(f"{argument}: expected a folder, got the file {str(folder)!r}")


def _find_sources(
    root: Path, selection: Selection, only: Collection[str] | None
) -> dict[str, str | None]:
    """Return all sources, or only some, in the order of their paths, each with its problem or None.

    If all are asked for, warn of the files that are left out by default.
    """
    check_folder(root)
    rare = list[str]()
    hashes = {
        entry.path: entry.problem
        for entry in _entries(root, selection, rare)
        if entry.folder or entry.path.suffix.lower() in READERS
    }
    rare = [name for name in rare if name.endswith("/") or Path(name).suffix.lower() in READERS]
    told = (
        f"left out {', '.join(sorted(rare)[:_NAMED])}{', ...' * (len(rare) > _NAMED)}, as "
        "changelogs and licences rarely answer; include=['*'] (--include '*') reads them"
    )
    if not hashes:
        patterns = selection.get("exclude") or selection.get("include")
        chosen = " that exclude and include select" if patterns else ""
        raise ValueError(
            f"no readable files{chosen} in {str(root)!r}; expected some that end in "
            f"{', '.join(READERS)}" + (f", and {visible(told)}" if rare else "")
        )
    if rare and only is None:
        warn(visible(told))
    return {
        source: problem if _is_unicode(source) else "has a name that is not Unicode; rename it"
        for path, problem in sorted(hashes.items())
        for source in [path.relative_to(root).as_posix()]
        if only is None or source in only
    }


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # undecodable bytes are represented by surrogates
        return False
    return True


class _Entry(NamedTuple):
    """A file, or a folder that is not entered."""

    path: Path
    folder: bool
    problem: str | None  # the reason not to open it


def _spec(patterns: Sequence[str], argument: str) -> "GitIgnoreSpec":
    """Parse patterns of git; ValueError if one is invalid."""
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(as_list(patterns, argument))
    except ValueError as error:
        raise ValueError(f"{argument}: expected patterns as in a .gitignore; {error}") from None


def _selector(
    root: Path, selection: Selection, rare: list[str] | None
) -> Callable[[str, str, bool], bool]:
    """Return whether an entry is selected: a function of its folder, name and whether it is one.

    `rare`: list to which the names are added that are left out by default.
    """
    exclude = _spec(selection.get("exclude", ()), "exclude")
    include = _spec(selection.get("include", ()), "include")
    by_default = _spec(() if include.patterns else _RARELY_ANSWER, "exclude")

    def is_selected(here: str, name: str, is_folder: bool) -> bool:
        if name.startswith("."):
            return False
        path = Path(here, name).relative_to(root).as_posix() + "/" * is_folder
        excluded = exclude.check_file(path).include
        if excluded is None and by_default.match_file(path.lower()):
            if rare is not None:
                rare.append(path)
            return False
        is_included = is_folder or not include.patterns or include.match_file(path)
        return not excluded and is_included

    return is_selected


def _walk(
    root: Path, follow_symlinks: bool, failed: list[OSError]
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Walk through folders as `os.walk` does, each only once, since links may lead back."""
    seen: set[tuple[int, int]] = set()
    for here, folders, names in os.walk(root, onerror=failed.append, followlinks=follow_symlinks):
        try:
            state = os.stat(here)
        except OSError as error:
            failed.append(error)
            folders.clear()
            continue
        if (state.st_dev, state.st_ino) in seen:
            folders.clear()
            continue
        seen.add((state.st_dev, state.st_ino))
        yield here, folders, names


def _entries(root: Path, selection: Selection, rare: list[str] | None = None) -> Iterator[_Entry]:
    """Walk through the selected entries that are not hidden; OSError if the root cannot be listed.

    `rare`: list to which the names are added that are left out by default.
    """
    follow_symlinks = selection.get("follow_symlinks", False)
    is_selected = _selector(root, selection, rare)
    failed: list[OSError] = []
    for here, folders, names in _walk(root, follow_symlinks, failed):
        folders[:] = sorted(name for name in folders if is_selected(here, name, True))
        for name in [name for name in folders if is_saved(Path(here, name))]:
            folders.remove(name)
            yield _Entry(Path(here, name), True, "is an index or an ensemble that uec-rag saved")
        for name in folders:
            if not follow_symlinks and os.path.islink(os.path.join(here, name)):
                yield _Entry(Path(here, name), True, _LINK)
        for name in names:
            if is_selected(here, name, False):
                path = Path(here, name)
                yield _Entry(path, False, _problem(path, follow_symlinks))
    for failure in failed:
        if Path(failure.filename) == root:
            raise failure
        yield _Entry(Path(failure.filename), True, _why(failure))


def _problem(path: Path, follow_symlinks: bool) -> str | None:
    try:
        state = os.stat(path, follow_symlinks=follow_symlinks)
        if stat.S_ISLNK(state.st_mode):
            return _LINK
        check_regular(state, path)
        _check_size(state.st_size)
    except (OSError, UnreadableFileError) as error:
        return _why(error)
    return None
