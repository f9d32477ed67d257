"""Reading of all supported files in a folder."""

import gc
import hashlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from uec_rag.base.checks import as_list, pluralize, visible
from uec_rag.base.errors import NotRegularError, missing_extra, warn
from uec_rag.base.files import is_saved, open_regular
from uec_rag.base.progress import progress_bar
from uec_rag.base.text import in_nfc
from uec_rag.documents.document import Document, Section, cut
from uec_rag.documents.plain_text import plain
from uec_rag.documents.readers import LIBRARIES, READERS, SIGNS, read_content

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_LARGEST = 2**28  # bytes of a file
# About 4,000 pages, or 12,500 passages; a workbook of a few kilobytes can hold far more.
_MOST_CHARACTERS = 10_000_000
_MEMORY = 2**32  # address space of a process that reads files, in bytes
_DEEPEST = 3_000  # calls of functions in each other, for what nests; Python's default is 1,000
# The process runs in isolated mode and with the import path of this one, so that it imports nothing
# from the current folder that this process would not.
_CODE = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from uec_rag.documents.folder import serve
serve()
"""
_SLOWEST = 20 if hasattr(signal, "setitimer") else 1  # seconds on the clock for one of work
_MADE = 100_000  # objects between two searches for garbage, of which parsers leave little
_AHEAD = 8  # files whose names are told ahead
_SEEN = 2**24  # bytes of a file that are looked at to see whether it is of a kind that is read
_NAMED = 3  # files that a message names
_TOLD = 20  # files of which it is told line by line what of them was left out
# They share words with every question and answer few. Patterns tell capitals from small letters.
_RARELY = "changelog.* changelogs/ changes.* copying.* "
_RARELY += "licence.* licences.* licences/ license.* licenses.* licenses/"
_RARELY_ANSWER = re.sub("[a-z]", lambda c: f"[{c[0]}{c[0].upper()}]", _RARELY).split()


class _Outcome(msgspec.Struct):
    """The outcome of reading a file: a document with notes on it, or why there is none.

    `missing`: what could not be imported.
    """

    document: Document | None = None
    notes: Sequence[str] = ()
    error: str = ""
    missing: str = ""


# Made here, since msgspec 0.22 crashes if two threads make one together.
_OUTCOMES = msgspec.json.Decoder(_Outcome)


def _content_of(root: Path, source: str) -> bytes:
    """Read a regular file of a folder; OSError or ValueError if that is not possible.

    A link is followed within the folder only, even if it has just replaced the file.
    """
    path = Path(os.path.realpath(root / source))
    if not path.is_relative_to(os.path.realpath(root)):
        raise ValueError("it is outside the folder")
    with open_regular(path) as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ValueError(f"it has more than {_LARGEST:,} bytes")
    return data


def _reason_of(error: Exception) -> str:
    if isinstance(error, NotRegularError):
        return f"is {error.strerror}"
    why = (isinstance(error, OSError) and error.strerror) or plain(str(error))
    return f"cannot be read: {why or type(error).__name__}".rstrip(".")


@dataclass
class Folder:
    """The files of a folder, and what was read of them.

    Attributes
    ----------
    root : Path
    sources : list of str
        The paths in the folder of the files that a reader supports, sorted.
    other : Counter of str
        How many other files there are of each suffix.
    missing : list of str
        Those of the other files that the extra "formats" reads.
    documents : list of Document
        The files that were read, in the order of their paths; one without text has no sections.
    unreadable : dict of str to str
        Sources of files that cannot be read, and of folders that were not entered, with the reason
        for each.
    """

    root: Path
    sources: list[str] = field(default_factory=list)
    other: Counter[str] = field(default_factory=Counter)
    missing: list[str] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of each file; those that cannot be read go to `unreadable`."""
        hashes = dict[str, str]()
        for source in self.sources:
            try:
                hashes[source] = hashlib.sha256(_content_of(self.root, source)).hexdigest()
            except (OSError, ValueError) as error:
                self._leave_out(source, _reason_of(error))
        return hashes

    def read(self, only: Collection[str] | None = None, *, seconds: float = 60.0) -> Self:
        """Read the files, in a process of its own.

        Parameters
        ----------
        only : collection of str, optional
            Sources of the files to read; all by default.
        seconds : float
            Limit of a file's processor time; one that takes longer is left out.

        Raises ImportError if the library for the format of one of them is missing.
        """
        for _ in self.groups(only, seconds=seconds):
            pass
        return self

    def groups(
        self,
        only: Collection[str] | None = None,
        *,
        most: float = math.inf,
        seconds: float = 60.0,
    ) -> Iterator[list[Document]]:
        """Read the files as `read` does, and yield documents of so many characters together.

        Those before the last ones are not kept in memory: `documents` has them without their texts.
        """
        sources = [source for source in self.sources if only is None or source in only]
        process, begin, size = _Process(self.root, seconds), len(self.documents), 0
        try:
            with progress_bar("Reading files", len(sources)) as bar:
                for source, outcome in process.outcomes(sources):
                    if size > most:
                        yield self.documents[begin:]
                        self.documents[begin:] = map(_without_text, self.documents[begin:])
                        begin, size = len(self.documents), 0
                    before = len(self.documents)
                    self._take(source, outcome)
                    parts = (
                        part for document in self.documents[before:] for part in document.sections
                    )
                    size += sum(len(part.text) for part in parts)
                    bar.update()
                yield self.documents[begin:]
        finally:
            process.end()

    def tell_left_out(self) -> None:
        """Warn of what was not read: parts of files, a line for each of the first; other kinds."""
        if empty := [document.source for document in self.documents if not document.sections]:
            scan = "; is it a scan?" * any(name.lower().endswith(".pdf") for name in empty)
            files = empty[0] if len(empty) == 1 else f"{len(empty):,} files{list_first(empty)}"
            warn(visible(f"left out {files}, without a text to index{scan}"))
        partial = [document for document in self.documents if document.left_out]
        for document in partial[:_TOLD]:
            parts = ", ".join(pluralize(number, noun) for noun, number in document.left_out.items())
            warn(visible(f"left out of {document.source}: {parts}"))
        if partial[_TOLD:]:
            rest_of_files = pluralize(len(partial) - _TOLD, "other file")
            warn(f"left out parts of {rest_of_files}, too, see Document.left_out")
        if self.other:
            ranked = sorted(self.other.items(), key=lambda kind: (-kind[1], kind[0]))
            kinds = (f"{n:,} {kind or 'without a suffix'}" for kind, n in ranked)
            files = pluralize(self.other.total(), "file")
            hint = f"; {self._hint()}" if self.missing else ""
            warn(visible(f"left out {files} of kinds that are not read: {', '.join(kinds)}{hint}"))

    def _hint(self) -> str:
        return f'pip install "uec-rag[formats]" reads {len(self.missing):,} of them'

    def _take(self, source: str, outcome: _Outcome) -> None:
        if outcome.missing:
            extra = "formats" if outcome.missing in LIBRARIES.values() else "documents"
            raise ImportError(missing_extra(outcome.missing, extra))
        for note in outcome.notes:
            warn(visible(f"{source} {note}"))
        if outcome.document is None:
            self._leave_out(source, outcome.error)
            return
        self.documents.append(outcome.document)

    def _leave_out(self, source: str, reason: str) -> None:
        self.unreadable[source] = reason
        warn(visible(f"left out {source}, which {reason}"))


def _without_text(document: Document) -> Document:
    """Return a document of which nothing is known but whether it has a text."""
    return replace(document, sections=(Section((), ""),) * bool(document.sections), metadata={})


def read_folder(
    folder: str | Path, *, exclude: Sequence[str] = (), include: Sequence[str] = ()
) -> list[Document]:
    """Read all files in a folder and its subfolders that a reader in `READERS` supports.

    Files are read in another process with limited time and memory, so that a damaged or malicious
    file is merely left out.

    Parameters
    ----------
    folder : str or Path
        The folder. Hidden files and folders in it (".git") are ignored; links that leave it, and
        indexes that uec-rag saved there, are left out.
    exclude : sequence of str
        Patterns as in a .gitignore, "drafts/" or "*.de.md", of files to leave out; "!drafts/a.md"
        reads one nevertheless.
    include : sequence of str
        Patterns of the only files to read, "guide/**" or "*.md"; by default, all but changelogs and
        licences, which share words with every question.

    Returns
    -------
    list of Document
        The documents, in the order of their paths. A table's row is a line, "Plan: Basic, Price:
        5"; another head below an empty row begins another table. Links are as in Markdown, except
        to other pages of a site; crossed-out text is "~~80~~"; an icon in a cell or beside words is
        its `alt`, `aria-label` or title.

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
        For each file that cannot be read, takes too long, contains too much text, or is not a
        regular file; for each folder that cannot be listed or is a saved index; for each file of
        which parts were not read (`Document.left_out`); and once for files without text, for
        changelogs and licences, and for files of other kinds. All other files are read.
    """
    contents = list_files(folder, exclude=exclude, include=include).read()
    documents = [document for document in contents.documents if document.sections]
    if not documents:
        files = pluralize(len(contents.documents) + len(contents.unreadable), "file")
        root = str(contents.root)
        raise ValueError(f"{root!r}: expected files with text, found none among {files}")
    contents.tell_left_out()
    return documents


def list_files(
    folder: str | Path, *, exclude: Sequence[str] = (), include: Sequence[str] = ()
) -> Folder:
    """List the files of a folder as `read_folder` does, with its errors, without reading any."""
    root = Path(folder).expanduser()
    if not root.is_dir():
        error = NotADirectoryError if root.exists() else FileNotFoundError
        raise error(f"folder: expected an existing folder, got {str(root)!r}")
    included = _spec(include, "include")
    usual = () if included.patterns else _RARELY_ANSWER
    rare, copied = list[str](), list[str]()
    excluded = _spec([*usual, *as_list(exclude, "exclude")], "exclude")
    by_user = _spec(exclude, "")
    files = Folder(root)
    for source in _walk(files):
        suffix = Path(source).suffix.lower()
        name = in_nfc(source)
        if excluded.match_file(name) or (included.patterns and not included.match_file(name)):
            rare += [source] * (excluded.match_file(name) and not by_user.match_file(name))
            continue
        is_read = suffix in READERS or os.path.isdir(root / source)
        if is_read and os.path.islink(root / source) and not _leads_inside(root, source):
            files._leave_out(source, "is a link")
        elif not included.patterns and _has_page(root, source):
            copied.append(source)
        elif not _is_read(files, source, suffix):
            files.other[suffix] += 1
        elif source != source.encode("utf-8", "replace").decode():  # bytes that are no text
            files._leave_out(source, "has a name that is not Unicode; rename it")
        else:
            files.sources.append(source)
    files.sources = _each_once(files)
    rarely = "changelogs and licences rarely answer; include=['*'] (--include '*') reads them"
    for sources, why in ((rare, rarely), (copied, "their HTML beside _sources is read")):
        if sources:
            count = pluralize(len(sources), "file")
            warn(visible(f"left out {count}{list_first(sources)}, as {why}"))
    if not (files.sources or files.unreadable):
        selection = " that exclude and include select" if exclude or include else ""
        formats = ", ".join(suffix for suffix in READERS if suffix[1:].isalpha())
        expected = files._hint() if files.missing else f"expected some that end in {formats}"
        raise ValueError(f"no readable files{selection} in {str(root)!r}; {expected}")
    return files


def _is_read(folder: Folder, source: str, suffix: str) -> bool:
    """Return whether a file is read, by its suffix or what it contains, and the libraries here."""
    if suffix not in READERS:
        return False
    if sign := SIGNS.get(suffix):
        with suppress(OSError), open_regular(Path(os.path.realpath(folder.root / source))) as file:
            if not sign.search(file.read(_SEEN)):
                return False  # of an error, reading it will tell
    library = LIBRARIES.get(READERS[suffix].partition(":")[0])
    is_missing = library is not None and find_spec(library) is None
    folder.missing += [source] * is_missing
    return not is_missing


def list_first(files: Collection[str]) -> str:
    """List the first of some files in parentheses, after a blank; "" if there are none."""
    ellipsis = ["..."] if len(files) > _NAMED else []
    return f" ({', '.join([*islice(sorted(files), _NAMED), *ellipsis])})" if files else ""


def _has_page(root: Path, source: str) -> bool:
    """Return whether a file is a source that Sphinx has copied to `_sources`, beside its HTML."""
    folder, copied, name = f"/{source}".rpartition("/_sources/")
    page = f"{root}{folder}/{os.path.splitext(name.removesuffix('.txt'))[0]}"
    return bool(copied) and any(map(os.path.exists, (f"{page}.html", f"{page}/index.html")))


def _leads_inside(root: Path, source: str) -> bool:
    """Return whether a path leads to a file or a folder below the root, as ConfigMaps' links do."""
    real, top = os.path.realpath(root / source), os.path.realpath(root)
    return real != top and Path(real).is_relative_to(top) and os.path.exists(real)


def _each_once(folder: Folder) -> list[str]:
    """Return the sorted sources, each file once: by its own path, or else by the first link."""
    top, by_path = os.path.realpath(folder.root), dict[str, str]()
    real = {source: os.path.realpath(folder.root / source) for source in folder.sources}
    for source in sorted(real, key=lambda name: (real[name] != os.path.join(top, name), name)):
        by_path.setdefault(real[source], source)
    return sorted(by_path.values(), key=lambda source: Path(source).parts)


def _walk(folder: Folder) -> Iterator[str]:
    """Yield the paths of all files and links that are not hidden; each folder is entered once."""
    tops, entered = [folder.root], set[str]()

    def leave_out(error: OSError) -> None:
        source = Path(error.filename).relative_to(folder.root).as_posix()
        folder._leave_out(source, _reason_of(error))

    for top in tops:  # to which links to folders are added, after all that have paths of their own
        for here, folders, names in os.walk(top, onerror=leave_out):
            if (real := os.path.realpath(here)) in entered:
                folders.clear()
                continue
            entered.add(real)
            below, subfolders = Path(here).relative_to(folder.root), list[str]()
            for name in folders:
                path, source = Path(here, name), (below / name).as_posix()
                if name.startswith("."):
                    continue
                if is_saved(path):
                    folder._leave_out(source, "is an index or an ensemble that uec-rag saved")
                elif not os.path.islink(path):
                    subfolders.append(name)
                elif _leads_inside(folder.root, source):
                    tops.append(path)
                else:
                    yield source
            folders[:] = subfolders
            yield from ((below / name).as_posix() for name in names if not name.startswith("."))


def _spec(patterns: Sequence[str], argument: str) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(map(in_nfc, as_list(patterns, argument)))


class _Process:
    """A process that reads a folder's files, each within some seconds; the first one starts it.

    It is told a few names ahead, so that neither waits for the other at each file.
    """

    def __init__(self, root: Path, seconds: float) -> None:
        self._root, self._seconds = root, seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._deadline, self._ended = math.inf, threading.Event()

    def outcomes(self, sources: Iterable[str]) -> Iterator[tuple[str, _Outcome]]:
        """Yield each file with the outcome of reading it."""
        names, pending = iter(sources), deque[str]()
        limit = _SLOWEST * self._seconds
        clock = threading.Thread(target=self._watch, args=(min(1.0, limit / 4),), daemon=True)
        clock.start()
        while True:
            self._tell(ahead := [*islice(names, _AHEAD - len(pending))])
            pending += ahead
            if not pending:
                return
            self._deadline = time.monotonic() + limit
            line = self._process.stdout.readline()  # type: ignore[union-attr]
            self._deadline = math.inf
            source = pending.popleft()
            if line.endswith(b"\n"):
                yield source, _OUTCOMES.decode(line)
                continue
            self._stop()
            why = f"its reader crashed or took longer than {self._seconds:g} seconds"
            yield source, _Outcome(error=f"cannot be read: {why}")
            self._tell(pending)

    def _tell(self, sources: Collection[str]) -> None:
        if not sources:
            return
        process = self._process = self._process or _start(self._root, self._seconds)
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(b"".join(msgspec.json.encode(name) + b"\n" for name in sources))
            process.stdin.flush()

    def _watch(self, step: float) -> None:
        while not self._ended.wait(step):
            if time.monotonic() > self._deadline and self._process is not None:
                self._process.kill()

    def end(self) -> None:
        self._ended.set()
        self._stop()

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(BrokenPipeError), process:
                pass  # on exit, closes the pipes and waits for the process


def _start(root: Path, seconds: float) -> "subprocess.Popen[bytes]":
    paths = json.dumps([*filter(None, sys.path), str(Path(__file__).parents[2])])
    command = [sys.executable, "-I", "-c", _CODE, paths, str(root), str(seconds)]
    # The address space of a thread pool would count towards the memory limit.
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=null, env=env)


def serve() -> None:
    """Read the files that stdin names, each in a line of JSON, and write the outcomes."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # output that parsers print must not mix with the answers
    with suppress(ImportError, ValueError, OSError):  # not every system supports it
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    sys.setrecursionlimit(_DEEPEST)
    gc.set_threshold(_MADE)
    warnings.simplefilter("ignore")
    for line in sys.stdin.buffer:
        # A signal that ends the process after so many seconds of work, however busy others are.
        if hasattr(signal, "setitimer"):  # not on Windows
            signal.setitimer(signal.ITIMER_PROF, float(sys.argv[3]))
        try:
            outcome = _outcome_of(Path(sys.argv[2]), json.loads(line))
        except ModuleNotFoundError as error:
            outcome = _Outcome(missing=error.name or str(error))
        except Exception as error:  # a parser may fail with any error on a damaged file
            outcome = _Outcome(error=_reason_of(error))
        answers.write(msgspec.json.encode(outcome) + b"\n")


def _outcome_of(root: Path, source: str) -> _Outcome:
    data = _content_of(root, source)
    content = read_content(source, data)
    title, sections = cut(content)
    if (count := sum(len(section.text) for section in sections)) > _MOST_CHARACTERS:
        raise ValueError(f"it holds {count:,} characters of text, more than {_MOST_CHARACTERS:,}")
    digest = hashlib.sha256(data).hexdigest()
    document = Document(source, sections, digest, title, content.metadata, content.left_out)
    return _Outcome(document, content.notes)
