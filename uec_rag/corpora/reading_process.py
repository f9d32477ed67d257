"""Reading of files in another process, so that a hang or a crash affects only one file."""

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Self

from uec_rag.base.files import pieces
from uec_rag.corpora.document import Section
from uec_rag.corpora.readers import READERS

_MEMORY = 2**32  # address space of the process, in bytes

# The process runs in isolated mode and with the import path of this one, so that it imports nothing
# from the current folder that this process would not.
_CODE = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from uec_rag.corpora.reading_process import serve
serve()
"""


class UnreadableFileError(ValueError):
    """A file could not be read; the message gives the reason."""


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

    def read(self, ending: str, file: BinaryIO, size: int) -> tuple[list[Section], str]:
        """Read a file with the reader for its extension.

        Parameters
        ----------
        ending : str
            The extension, a key of `READERS`.
        file : binary file
        size : int
            Number of bytes to read, even if the file grows meanwhile.

        Returns
        -------
        sections : list of Section
        sha256 : str
            Hash of the content that the sections were read from.

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
            asked = {"ending": ending, "size": size, "characters": self._characters}
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
        if "error" in answer:
            raise UnreadableFileError(answer["error"])
        return [
            Section(_unicode(heading), _unicode(text), page, is_title, depth)
            for heading, text, page, is_title, depth, *_ in answer["sections"]
        ], sha256

    def _end(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        process.kill()
        with suppress(BrokenPipeError), process:
            pass  # on exit, closes the pipes and waits for the process
        return process.returncode


def _ask(
    process: "subprocess.Popen[bytes]", asked: Mapping[str, object], content: Iterable[bytes]
) -> tuple[str, dict[str, Any] | None]:
    """Send a file to the process; return its hash, and the answer or None if the process died."""
    assert process.stdin is not None
    assert process.stdout is not None
    sha256 = hashlib.sha256()
    with suppress(BrokenPipeError):
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        for piece in content:
            sha256.update(piece)
            process.stdin.write(piece)
        process.stdin.flush()
        line = process.stdout.readline()
        if line.endswith(b"\n"):
            answer: dict[str, Any] = json.loads(line)
            return sha256.hexdigest(), answer
    return sha256.hexdigest(), None


def _unicode(text: str) -> str:
    """Replace lone surrogates, which the text of a PDF may contain, by question marks."""
    return text.encode("utf-8", "replace").decode()


def serve() -> None:
    """Report readiness, then read files from stdin: for each, a line of JSON and its content."""
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # output that parsers print must not mix with the answers
    if sys.platform != "win32":
        import resource

        with suppress(ValueError, OSError):  # not every system supports it
            _, most = resource.getrlimit(resource.RLIMIT_AS)
            limit = _MEMORY if most == resource.RLIM_INFINITY else min(_MEMORY, most)
            resource.setrlimit(resource.RLIMIT_AS, (limit, most))
    print("ready", file=answers, flush=True)
    while line := sys.stdin.buffer.readline():
        asked = json.loads(line)
        content = sys.stdin.buffer.read(asked["size"])
        print(json.dumps(_answer(content, **asked)), file=answers, flush=True)


def _answer(content: bytes, ending: str, size: int, characters: int) -> dict[str, object]:
    try:
        sections = READERS[ending].read(content)
    except Exception as error:  # a parser may fail with any error on a damaged file
        return {"error": str(error) or type(error).__name__}
    found = sum(len(part.heading) + len(part.text) for part in sections)
    if found > characters:
        return {
            "error": f"it holds {found:,} characters of text, more than {characters:,}; "
            "max_characters (--max-characters) allows more"
        }
    return {"sections": [dataclasses.astuple(part) for part in sections]}


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
