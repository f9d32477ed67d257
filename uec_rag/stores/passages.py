"""The passages of a store: a growing list in memory over an optional file on disk, read lazily."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Sequence
from io import BufferedWriter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.errors import IndexCorrupted
from uec_rag.base.files import open_regular, read_array
from uec_rag.stores.base import Passage
from uec_rag.stores.metadata import copied

# One encoder for all: json.dumps makes a new one for every line.
_to_json = json.JSONEncoder(ensure_ascii=False).encode


class PassageLog:
    """Passages by row. Rows only ever get added, so a reader of the first n rows may share it.

    Parameters
    ----------
    folder : path, optional
        Where `write` left passages; they are parsed when asked for, so opening costs nothing.
    ids : sequence of str
        Of those.

    Raises
    ------
    IndexCorrupted
        If the files are missing or do not belong together.

    Examples
    --------
    >>> log = PassageLog()
    >>> log.extend([Passage("a", "text")])
    >>> len(log), log[0].id
    (1, 'a')
    """

    def __init__(self, folder: Path | None = None, ids: Sequence[str] = ()) -> None:
        self._added: list[Passage] = []
        self._offsets: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self._file: mmap.mmap | None = None
        self._ids = ids
        if folder is not None:
            self._offsets = read_array(folder / "offsets.npy", np.int64, 1)
            with open_regular(folder / "passages.jsonl") as file:
                size = os.fstat(file.fileno()).st_size
                if not _divide(self._offsets, size):
                    raise IndexCorrupted(
                        f"path: {str(folder / 'offsets.npy')!r} does not say where the lines of "
                        f"{str(folder / 'passages.jsonl')!r} begin; save the index again."
                    )
                if size:
                    self._file = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return len(self._offsets) - 1 + len(self._added)

    def __getitem__(self, row: int) -> Passage:
        on_disk = len(self._offsets) - 1
        if row >= on_disk:
            held = self._added[row - on_disk]
            return Passage(held.id, held.text, copied(held.metadata))
        assert self._file is not None
        line = self._file[self._offsets[row] : self._offsets[row + 1]]
        try:
            passage = Passage(**json.loads(line))
        except (ValueError, TypeError, RecursionError) as error:
            raise IndexCorrupted(
                f"path: passages.jsonl of the index does not hold a passage in line {row + 1} "
                f"({error}); load the index with verify=True, or save it again."
            ) from error
        if passage.id != self._ids[row]:
            raise IndexCorrupted(
                f"path: passages.jsonl of the index holds {passage.id!r} where store.json says "
                f"{self._ids[row]!r}; save the index again."
            )
        return passage

    def write_lines(self, rows: NDArray[np.int64], out: BufferedWriter) -> NDArray[np.int64]:
        """Write rows, ascending, as JSON lines; those of the file as they lie there, not parsed.

        Returns
        -------
        int array
            How many bytes each has.

        Raises
        ------
        TypeError
            If metadata cannot be written as JSON.
        """
        on_disk = len(self._offsets) - 1
        kept, added = np.split(rows, [np.searchsorted(rows, on_disk)])
        for run in np.split(kept, np.flatnonzero(np.diff(kept) != 1) + 1):
            if len(run):
                assert self._file is not None
                start, stop = self._offsets[run[0]], self._offsets[run[-1] + 1]
                out.write(memoryview(self._file)[start:stop])
        lengths = [out.write(line_of(self._added[row - on_disk])) for row in added.tolist()]
        return np.concatenate([np.diff(self._offsets)[kept], np.array(lengths, dtype=np.int64)])

    def ids(self, rows: NDArray[np.int64]) -> list[str]:
        """Ids of rows."""
        on_disk = len(self._offsets) - 1
        return [
            self._ids[row] if row < on_disk else self._added[row - on_disk].id
            for row in rows.tolist()
        ]

    def extend(self, passages: Sequence[Passage]) -> None:
        """Add rows."""
        self._added.extend(passages)

    def first(self, rows: int) -> PassageLog:
        """Return a log of the first rows that grows on its own."""
        log = PassageLog()
        on_disk = min(rows, len(self._offsets) - 1)
        log._file, log._offsets = self._file, self._offsets[: on_disk + 1]
        log._ids = self._ids
        log._added = self._added[: rows - on_disk]
        return log


def _divide(offsets: NDArray[np.int64], size: int) -> bool:
    """Whether offsets lead from the beginning of a file of this size to its end, line by line."""
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != size:
        return False
    return bool((np.diff(offsets) > 0).all())


def write(passages: PassageLog, rows: NDArray[np.int64], folder: Path) -> list[str]:
    """Write rows, ascending, as ``passages.jsonl`` and ``offsets.npy`` into a folder.

    Returns
    -------
    list of str
        Their ids.

    Raises
    ------
    TypeError
        If metadata cannot be written as JSON.
    """
    with (folder / "passages.jsonl").open("wb") as out:
        lengths = passages.write_lines(rows, out)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    np.save(folder / "offsets.npy", offsets, allow_pickle=False)
    return passages.ids(rows)


def line_of(passage: Passage) -> bytes:
    """A passage as a line of JSON.

    Raises
    ------
    TypeError
        If its metadata cannot be written as JSON.
    """
    try:
        return _to_json(vars(passage)).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"metadata: passage {passage.id!r} cannot be saved as JSON ({error}); "
            "keep strings, numbers, lists and dicts."
        ) from error
