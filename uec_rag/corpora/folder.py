"""All the readable files of a folder."""

import hashlib
import os
import stat
import warnings
from collections.abc import Collection, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from uec_rag.base.environment import missing_extra
from uec_rag.base.visible import visible
from uec_rag.corpora.document import Document, has_words
from uec_rag.corpora.readers import NEEDS, READERS
from uec_rag.corpora.reading_process import ReadingProcess, UnreadableFileError

SECONDS = 60.0
"""What a file may take, by default: a PDF of a thousand pages does."""

_LARGEST = 2**28  # bytes of a file
_LINK = "is a link; follow_symlinks (--follow-symlinks) reads it"


def read_folder(
    folder: str | Path,
    *,
    show_progress: bool = False,
    follow_symlinks: bool = False,
    seconds: float = SECONDS,
    only: Collection[str] | None = None,
) -> list[Document]:
    """Read every file of the kinds in `READERS` in a folder and in the folders inside it.

    Files are read in another process, whose time and memory are limited: a damaged or malicious
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
    from rich.console import Console
    from rich.progress import track

    root = Path(folder).expanduser()
    found = {
        path: problem
        for path, problem in _found(root, follow_symlinks).items()
        if only is None or path.relative_to(root).as_posix() in only
    }
    _check_libraries(path for path, problem in found.items() if problem is None)
    documents = []
    with ReadingProcess(seconds) as process:
        for path, problem in track(
            found.items(),
            description="Reading files",
            console=Console(stderr=True),
            transient=True,
            disable=not show_progress,
        ):
            source = path.relative_to(root).as_posix()
            outcome = problem or _read(process, path, source)
            if isinstance(outcome, Document):
                documents.append(outcome)
            else:
                warnings.warn(visible(f"left out {source}, which {outcome}"), stacklevel=2)
    if not documents and only is None:
        raise ValueError(f"none of the {len(found)} files in {str(root)!r} holds text to index")
    return documents


def file_hashes(folder: str | Path, *, follow_symlinks: bool = False) -> dict[str, str]:
    """Return the SHA-256 of each file that `read_folder` would read, by its path in the folder.

    Parameters
    ----------
    folder, follow_symlinks
        As in `read_folder`; so is what is raised.
    """
    root = Path(folder).expanduser()
    hashes = {}
    for path, problem in _found(root, follow_symlinks).items():
        if problem is None:
            with path.open("rb") as file:
                hashes[path.relative_to(root).as_posix()] = hashlib.file_digest(
                    file, "sha256"
                ).hexdigest()
    return hashes


def other_files(folder: str | Path, *, follow_symlinks: bool = False) -> list[str]:
    """Return the paths in a folder of the files whose kind `read_folder` does not read, in order.

    Parameters
    ----------
    folder, follow_symlinks
        As in `read_folder`.
    """
    root = Path(folder).expanduser()
    return sorted(
        path.relative_to(root).as_posix()
        for path in _files(root, follow_symlinks)
        if path.suffix.lower() not in READERS and not path.is_dir()
    )


def _read(process: ReadingProcess, path: Path, source: str) -> Document | str:
    """A document, or what is the matter with it."""
    try:
        sections = process.read(path)
    except UnreadableFileError as error:
        return f"cannot be read: {error}"
    kept = tuple(section for section in sections if has_words(section.text))
    if not kept:
        return "holds no text" + ("; is it a scan?" if path.suffix.lower() == ".pdf" else "")
    return Document(source, kept)


def _check_libraries(files: Iterable[Path]) -> None:
    for suffix in sorted({path.suffix.lower() for path in files} & NEEDS.keys()):
        module, package = NEEDS[suffix]
        if find_spec(module.partition(".")[0]) is None or find_spec(module) is None:
            raise ImportError(missing_extra(package, "demo"))


def _found(root: Path, follow_symlinks: bool) -> dict[Path, str | None]:
    """Files to read, in order, and what is the matter with those that are not to be read."""
    if not root.exists():
        raise FileNotFoundError(f"no such folder: {str(root)!r}")
    if not root.is_dir():
        raise NotADirectoryError(f"expected a folder, got the file {str(root)!r}")
    found: dict[Path, str | None] = {}
    for path in _files(root, follow_symlinks):
        if path.is_symlink() and path.is_dir():
            found[path] = _LINK
        elif path.suffix.lower() in READERS:
            found[path] = _problem(path, follow_symlinks)
    if not found:
        raise ValueError(
            f"no readable files in {str(root)!r}; expected some that end in {', '.join(READERS)}"
        )
    return dict(sorted(found.items()))


def _files(root: Path, follow_symlinks: bool) -> Iterator[Path]:
    """Files that are not hidden, and links to folders that are not followed."""
    seen: set[tuple[int, int]] = set()
    for here, folders, names in os.walk(root, followlinks=follow_symlinks):
        state = os.stat(here)
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
    if state.st_size > _LARGEST:
        return f"has {state.st_size:,} bytes, more than {_LARGEST:,}"
    return None
