"""The file of what a language model has written, so that nothing is paid for twice."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from uec_rag.base.files import open_regular

Written: TypeAlias = tuple[str, ...]
"""The questions of a passage, and its everyday names in one line; empty if it has none."""


def request_key(text: str, model: str, prompt: str, tenant: str = "") -> str:
    """Return the key of what a model writes by a prompt for a text, which may be a tenant's."""
    content = json.dumps([text, model, prompt, *([tenant] if tenant else [])]).encode(
        errors="surrogatepass"
    )
    return hashlib.sha256(content).hexdigest()[:32]


class QuestionFile:
    """The questions written for each key, in memory and in a file of JSON lines.

    A line is added for each passage as soon as it is known, so that an interruption loses nothing;
    several processes may add lines. Lines that are damaged are left out.

    Parameters
    ----------
    path : Path or None
        The file, which is made if it is missing; None to keep them in memory alone.

    Raises
    ------
    NotRegularError
        If there is something else than a file.
    OSError
        If it cannot be read or written.

    Examples
    --------
    >>> file = QuestionFile(None)
    >>> file.add({"a key": ("May I keep a cat?", "pets, kitten")})
    >>> file["a key"], "another" in file
    (('May I keep a cat?', 'pets, kitten'), False)
    """

    def __init__(self, path: Path | None) -> None:
        self.path, self._lock = path, threading.Lock()
        self._rows = dict[str, Written]()
        if path is None:
            return
        self._append(b"")  # which fails now, not once something was paid for
        with open_regular(path) as file:
            content = file.read()
        for line in content.splitlines():
            self._rows |= _read(line)
        if content and not content.endswith(b"\n"):  # of a process that was killed
            self._append(b"\n")

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def __getitem__(self, key: str) -> Written:
        return self._rows[key]

    def add(self, rows: Mapping[str, Sequence[str]]) -> None:
        """Keep what was written for some keys."""
        lines = "".join(
            json.dumps({"key": key, "questions": [*texts]}, ensure_ascii=False) + "\n"
            for key, texts in rows.items()
        )
        with self._lock:
            self._rows |= {key: tuple(texts) for key, texts in rows.items()}
            self._append(lines.encode())

    def _append(self, content: bytes) -> None:
        if self.path is None:
            return
        # A link or a pipe in its place is not written to.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        for name in ("O_NONBLOCK", "O_NOFOLLOW", "O_BINARY"):  # which not every system has
            flags |= getattr(os, name, 0)
        handle = os.open(self.path, flags, 0o666)
        with os.fdopen(handle, "wb") as file:
            file.write(content)


def _read(line: bytes) -> dict[str, Written]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(row, dict):
        return {}
    key, texts = row.get("key"), row.get("questions")
    if not isinstance(key, str) or not isinstance(texts, list):
        return {}
    return {key: tuple(texts)} if all(isinstance(text, str) for text in texts) else {}
