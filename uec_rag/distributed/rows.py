"""Passages out of files that are read a little at a time: Parquet, JSON lines, text."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from uec_rag.base.environment import missing_extra
from uec_rag.stores.base import Passage
from uec_rag.stores.make_passages import keepable

_AT_ONCE = 1024  # rows of a Parquet file
KINDS = (".jsonl", ".parquet", ".txt")
"""Endings of the files that are read."""


def read_passages(path: str | os.PathLike[str], *, text: str = "text") -> Iterator[Passage]:
    """Read passages from a file, or from all such files in a folder and the folders inside it.

    A row of Parquet or a JSON line is a passage with its other fields as metadata, a line of a
    ".txt" one without. The field "id" names a passage; without it its name is a hash of all it
    holds, so that the same passage is the same again. Blank texts are left out.

    Parameters
    ----------
    path : path
    text : str
        The field that holds the text.

    Yields
    ------
    Passage

    Raises
    ------
    FileNotFoundError
        If there is no such file, or none of these kinds in the folder.
    ValueError, TypeError
        If a row has no text, or what an index could not keep; file and row are named.
    ImportError
        Without pyarrow, for Parquet.
    """
    root = Path(path)
    files = [root]
    if root.is_dir():  # Spark writes folders whose names end as files do
        files = sorted(f for f in root.rglob("*") if f.suffix in KINDS and f.is_file())
    if not files or not root.exists():
        raise FileNotFoundError(f"path: expected files that end in {KINDS}, found none in {path}")
    if files[0].suffix not in KINDS:
        raise ValueError(f"path: expected a file that ends in {KINDS}, got {str(path)!r}.")
    for file in files:
        number = 0
        try:
            for row in _rows(file, text):
                number += 1
                passage = _passage(row, text)
                if passage is not None:
                    yield passage
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{file}, about row {number}: {error}") from error


def _rows(file: Path, text: str) -> Iterator[object]:
    if file.suffix == ".parquet":
        try:
            from pyarrow.parquet import ParquetFile
        except ModuleNotFoundError as error:
            raise ImportError(missing_extra("pyarrow", "ray")) from error
        with ParquetFile(file) as table:
            for batch in table.iter_batches(batch_size=_AT_ONCE):
                yield from batch.to_pylist()
        return
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield {text: line.strip()} if file.suffix == ".txt" else json.loads(line)


def _passage(row: object, text: str) -> Passage | None:
    if not isinstance(row, Mapping) or not isinstance(row.get(text), str):
        raise ValueError(f"expected a row with a string {text!r}, got {row!r:.80}")
    if not row[text].strip():
        return None
    metadata: dict[str, Any] = {key: row[key] for key in row if key not in (text, "id")}
    named = row.get("id")
    id_ = _content_hash(row[text], metadata) if named is None else str(named)
    return keepable(Passage(id_, row[text], metadata))


def _content_hash(text: str, metadata: Mapping[str, Any]) -> str:
    content = json.dumps([text, metadata], sort_keys=True, default=str)
    return hashlib.blake2b(content.encode(errors="surrogatepass"), digest_size=16).hexdigest()
