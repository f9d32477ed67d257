"""Reading of files in another process, so that a hang or a crash affects only one file."""

import hashlib
import json
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Self

import msgspec

from uec_rag.base.files import pieces
from uec_rag.documents.document import Document
from uec_rag.documents.readers import READERS
from uec_rag.documents.sections import cut, plain

_MEMORY = 2**32  # address space of the process, in bytes
_DEEPEST = 3_000  # calls of functions in each other, for what nests; Python's default is 1,000

# The process runs in isolated mode and with the import path of this one, so that it imports nothing
# from the current folder that this process would not.
_CODE = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from uec_rag.documents.process import serve
serve()
"""


class UnreadableFileError(ValueError):
    """A file could not be read; the message gives the reason."""


class _Asked(msgspec.Struct):
    """A file to read: its name, its number of bytes, and how many characters it may hold."""

    source: str
    size: int
    characters: int


class _Answer(msgspec.Struct):
    """The outcome of reading a file: a document with notes on it, or an error."""

    document: Document | None = None
    notes: Sequence[str] = ()
    error: str = ""


class ReadingProcess:
    """A process that reads files, as a context manager; it starts at the first file.

    Parameters
    ----------
    seconds : float
        Time limit for a file.
    characters : int
        Maximum number of characters in the text of a file.
    """

    def __init__(self, seconds: float, characters: int) -> None:
        self._seconds, self._characters = seconds, characters
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def read(self, source: str, file: BinaryIO, size: int) -> tuple[Document, Sequence[str]]:
        """Read a file with the reader for its extension.

        Parameters
        ----------
        source : str
            Its name, which ends in a key of `READERS`.
        file : binary file
        size : int
            Number of bytes to read, even if the file grows meanwhile.

        Returns
        -------
        document : Document
            With the hash of the content that it was read from.
        notes : sequence of str
            As in `Content`.

        Raises
        ------
        UnreadableFileError
            If the file is damaged, or exceeds the limit of time, memory or text.
        """
        process = self._process = self._process or _start()
        late = threading.Event()

        def give_up() -> None:
            late.set()
            process.kill()

        clock = threading.Timer(self._seconds, give_up)
        clock.daemon = True
        clock.start()
        try:
            asked = _Asked(source, size, self._characters)
            sha256, answer = _ask(process, asked, pieces(file, size))
        except BaseException:  # interrupted: a late answer would be taken for the next file's
            self._end()
            raise
        finally:
            clock.cancel()
        if answer is None:
            code = self._end()
            raise UnreadableFileError(
                f"reading it took longer than {self._seconds:g} seconds"
                if late.is_set()
                else f"its reader crashed (exit code {code})"
            )
        if answer.document is None:
            raise UnreadableFileError(answer.error)
        return replace(answer.document, sha256=sha256), answer.notes

    def _end(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        process.kill()
        with suppress(BrokenPipeError), process:
            pass  # on exit, closes the pipes and waits for the process
        return process.returncode


def _ask(
    process: "subprocess.Popen[bytes]", asked: _Asked, content: Iterable[bytes]
) -> tuple[str, _Answer | None]:
    """Send a file to the process; return its hash, and the answer or None if the process died."""
    assert process.stdin is not None
    assert process.stdout is not None
    sha256 = hashlib.sha256()
    with suppress(BrokenPipeError):
        process.stdin.write(msgspec.json.encode(asked) + b"\n")
        for piece in content:
            sha256.update(piece)
            process.stdin.write(piece)
        process.stdin.flush()
        line = process.stdout.readline()
        if line.endswith(b"\n"):
            return sha256.hexdigest(), msgspec.json.decode(line, type=_Answer)
    return sha256.hexdigest(), None


def serve() -> None:
    """Report readiness, then read files from stdin: for each, a line of JSON and its content."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output that parsers print must not mix with the answers
    if sys.platform != "win32":
        import resource

        with suppress(ValueError, OSError):  # not every system supports it
            _, most = resource.getrlimit(resource.RLIMIT_AS)
            limit = _MEMORY if most == resource.RLIM_INFINITY else min(_MEMORY, most)
            resource.setrlimit(resource.RLIMIT_AS, (limit, most))
    sys.setrecursionlimit(_DEEPEST)
    warnings.simplefilter("ignore")
    answers.write(b"ready\n")
    answers.flush()
    while line := sys.stdin.buffer.readline():
        asked = msgspec.json.decode(line, type=_Asked)
        answers.write(_answer(asked, sys.stdin.buffer.read(asked.size)) + b"\n")
        answers.flush()


def _answer(asked: _Asked, data: bytes) -> bytes:
    try:
        content = READERS[Path(asked.source).suffix.lower()].read(data)
        title, sections = cut(content)
        document = Document(asked.source, sections, title=title, metadata=content.metadata)
        count = sum(len(section.text) for section in sections)
        if count > asked.characters:
            raise ValueError(
                f"it holds {count:,} characters of text, more than {asked.characters:,}; "
                "max_characters (--max-characters) allows more"
            )
        return msgspec.json.encode(_Answer(document, content.notes))
    except Exception as error:  # a parser may fail with any error on a damaged file
        return msgspec.json.encode(_Answer(error=plain(str(error)) or type(error).__name__))


def _start() -> "subprocess.Popen[bytes]":
    home = str(Path(__file__).parents[2])
    paths = [path for path in sys.path if path] + [home]
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", _CODE, json.dumps(paths)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # The address space of a thread pool would count towards the memory limit.
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert process.stdout is not None
    process.stdout.readline()  # the start does not count as time of a file
    return process
