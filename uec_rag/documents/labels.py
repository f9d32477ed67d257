"""Tables of questions from users: CSV with a header, in UTF-8."""

import csv
import io
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from uec_rag.base.checks import pluralize
from uec_rag.base.errors import warn
from uec_rag.base.files import replace_file
from uec_rag.stores.base import Passage

_QUESTIONS = ("query", "relevant_ids")
_NAMES = (
    "ids as 'uec-rag ask --json' prints them ('faq.md#returns'), files ('faq.md'), or headings of "
    "a file as they read ('faq.md#How do I return it?')"
)
_BYTE_ORDER_MARK = "\ufeff"
_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # or what `as_cell` makes of a formula


def read_questions(path: Path, *, labelled: bool) -> dict[str, set[str]]:
    """Read questions and, if they are labelled, ids or files of the passages that answer each.

    The column relevant_ids holds one id or file, or nothing if no passage answers. The ids of
    several rows with the same question are combined.

    Raises FileNotFoundError if the file does not exist, and ValueError if its format is not
    supported or a row is invalid; the message names the row.
    """
    asked: dict[str, set[str]] = {}
    for where, row in _rows(path, _QUESTIONS if labelled else _QUESTIONS[:1]):
        if not row["query"].strip():
            raise ValueError(f"{where}: expected some text as query, got {row['query']!r}")
        id_ = row.get("relevant_ids", "").strip()
        asked.setdefault(row["query"], set()).update([id_] if id_ else [])
    return asked


def write_label(path: Path, question: str, ids: Collection[str] | None) -> None:
    """Write the rows of a question into a CSV table that `read_questions` reads, atomically.

    Other rows stay as they are, and all columns. None for `ids` removes the question's rows. The
    byte order mark at the table's beginning tells spreadsheets that it is UTF-8. What they would
    take for a formula, such as "=1+1", is written with an apostrophe before it.
    """
    rows = [row for _, row in _rows(path, _QUESTIONS)] if path.exists() else []
    columns = [*(rows[0] if rows else _QUESTIONS)]
    known = {row["relevant_ids"].strip(): row for row in rows if row["query"] == question}
    at = next((n for n, row in enumerate(rows) if row["query"] == question), len(rows))
    rows = [row for row in rows if row["query"] != question]
    if ids is not None:
        names = [*filter(ids.__contains__, known), *sorted({*ids} - known.keys())] or [""]
        spare = [row for name, row in known.items() if name not in names]  # with their notes
        old = [known.get(name) or (spare.pop() if spare else {}) for name in names]
        about = [{"query": question, "relevant_ids": name} for name in names]
        rows[at:at] = [row | new for row, new in zip(old, about, strict=True)]
    out = io.StringIO(newline="")
    # Its ends of lines are "\r\n", so that it quotes a "\r" in a text.
    table = csv.DictWriter(out, columns, restval="")
    table.writeheader()
    table.writerows({name: as_cell(text) for name, text in row.items()} for row in rows)
    replace_file(path, _BYTE_ORDER_MARK + out.getvalue())


def as_cell(text: str) -> str:
    """Return a text as a cell of CSV that a spreadsheet does not take for a formula.

    Examples
    --------
    >>> as_cell("=1+1"), from_cell("'=1+1"), as_cell("'=1+1"), as_cell("'tis")
    ("'=1+1", '=1+1', "''=1+1", "'tis")
    """
    return f"'{text}" if _FORMULA.match(text) else text


def from_cell(cell: str) -> str:
    """Return the text that `as_cell` has written."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def find_labels(
    asked: Mapping[str, Collection[str]],
    passages: Iterable[Passage],
    where: str,
) -> dict[str, set[str]]:
    """Find the passages that labels name by id, by file, or as "file#Heading".

    Parameters
    ----------
    asked : mapping of str to collection of str
        Names for each question, as returned by `read_questions`.
    passages : iterable of Passage
        All passages of the index.
    where : str
        Name of the table, for messages.

    Returns
    -------
    dict of str to set of str
        Ids by question; empty if nothing answers it. Questions whose answers are all gone are left
        out.

    Raises
    ------
    ValueError
        If none of the names is in the index.

    Warns
    -----
    UserWarning
        If some names are not in the index.
    """
    wanted = set[str]().union(*asked.values())
    answers: dict[str, set[str]] = {}
    for passage in passages:
        source = str(passage.metadata.get("source", passage.id))
        names = {passage.id, source, f"{source}#{passage.metadata.get('title', '')}"}
        for name in names & wanted:
            answers.setdefault(name, set()).add(passage.id)
    if gone := sorted(wanted - answers.keys()):
        said = f"{where}: {pluralize(len(gone), 'label')} not in the index, first {gone[0]!r}"
        if not answers:
            raise ValueError(f"{said}; expected {_NAMES}")
        warn(f"{said}; questions without another answer are left out")
    return {
        question: {id_ for name in names for id_ in answers.get(name, ())}
        for question, names in asked.items()
        if not names or not answers.keys().isdisjoint(names)
    }


def _rows(path: Path, columns: Collection[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each row with its file and line number; ValueError if a column is missing."""
    if path.suffix.lower() != ".csv":
        raise ValueError(f"QUESTIONS: expected a .csv file, got {str(path)!r}")
    if not path.is_file():
        raise FileNotFoundError(f"QUESTIONS: no such file: {str(path)!r}")
    csv.field_size_limit(sys.maxsize)  # 131,072 by default
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file, restval="")
            names = [*(table.fieldnames or [])]
            if not {*columns} <= {*names} or len({*names}) < len(names):
                raise ValueError(
                    f"{path.name}, line 1: expected the columns {' and '.join(columns)}, each "
                    f"once, got {', '.join(names) or 'none'}"
                )
            for row in table:
                where = f"{path.name}, line {table.line_num}"
                rest: Any = row.pop(None, [])
                if any(map(str.strip, rest)):
                    raise ValueError(
                        f"{where}: expected {pluralize(len(names), 'cell')} ({', '.join(names)}), "
                        f"got {len(names) + len(rest)}; {rest[0]!r:.60} belongs to none. Quote a "
                        "cell that holds a comma, and put each further id in a row of its own."
                    )
                yield where, {name: from_cell(cell) for name, cell in row.items()}
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path.name}: this is no table in UTF-8 ({error}); save it as CSV in UTF-8."
        ) from None
