"""Tables that users give: JSON lines, or a table with a header."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_FORMATS = (".jsonl", ".csv", ".tsv")


def read_rows(
    path: Path, columns: Sequence[str], argument: str
) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Read the rows of a file in UTF-8, each with the number of its line.

    Parameters
    ----------
    path
        JSON lines, or a table with a header.
    columns
        Those that a table must have.
    argument
        What the command calls the file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is of another kind, has no such columns, or a line is no JSON object.
    """
    if path.suffix.lower() not in _FORMATS:
        raise ValueError(f"{argument}: expected a {', '.join(_FORMATS)} file, got {str(path)!r}")
    if not path.is_file():
        raise FileNotFoundError(f"{argument}: no such file: {str(path)!r}")
    return _json_rows(path, columns) if path.suffix.lower() == ".jsonl" else _rows(path, columns)


def _json_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, Mapping[str, object]]]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path.name}, line {number}: not JSON ({error.msg})") from None
            if not isinstance(row, dict):
                wanted = ", ".join(f'"{column}": ...' for column in columns)
                raise ValueError(
                    f"{path.name}, line {number}: expected {{{wanted}}}, got {line.strip()[:60]}"
                )
            yield number, row


def _rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, Mapping[str, object]]]:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open(encoding="utf-8-sig", newline="") as file:
        csv.field_size_limit(max(csv.field_size_limit(), path.stat().st_size))
        reader = csv.DictReader(file, delimiter=delimiter)
        if set(columns) - set(reader.fieldnames or ()):
            raise ValueError(
                f"{path.name}: expected a first line with the columns {' and '.join(columns)}, "
                f"got {reader.fieldnames or 'an empty file'}"
            )
        for row in reader:
            yield reader.line_num, row
