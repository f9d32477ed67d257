"""Reading of tables from users: JSON lines, or CSV or TSV with a header, in UTF-8.

'uec-rag index --fit' needs texts and 'uec-rag gate' needs ids, so their columns have different
names, and a table for one command is not mistaken for a table for the other.
"""

import csv
import hashlib
import io
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import msgspec

from uec_rag.base.checks import pluralize
from uec_rag.base.files import replace_file
from uec_rag.documents.passages import anchor
from uec_rag.stores.base import Passage

_DELIMITERS = {".jsonl": "", ".csv": ",", ".tsv": "\t"}
_QUESTIONS = ("query", "relevant_ids")
_LABELS = {"": 1, "none": 1, "1": 1, "true": 1, "0": 0, "false": 0}
_MEANINGS = {
    "passage": "the text that answers, not its id",
    "relevant_ids": "the id or file of what answers, not its text",
}

_NAMES = (
    "ids as 'uec-rag ask --json' prints them ('faq.md#returns'), files ('faq.md'), or headings of "
    "a file as they read ('faq.md#How do I return it?')"
)
_BYTE_ORDER_MARK = "\ufeff"
_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # or what `as_cell` makes of a formula


def read_pairs(path: Path, argument: str = "PAIRS") -> list[tuple[str, str] | tuple[str, str, int]]:
    """Read fitting pairs: a query, a passage and, optionally in each row, a label (0 or 1).

    Raises FileNotFoundError if the file does not exist, and ValueError if its format is not
    supported or a row is invalid; the message names the row.
    """
    pairs: list[tuple[str, str] | tuple[str, str, int]] = []
    for where, row in _rows(path, ("query", "passage"), argument):
        texts = _text(row, "query", where), _text(row, "passage", where)
        label = str(row.get("label", "")).lower()
        if label not in _LABELS:
            raise ValueError(f"{where}: expected 0 or 1 as label, got {row['label']!r}")
        pairs.append(texts if label in ("", "none") else (*texts, _LABELS[label]))
    return pairs


def read_questions(path: Path, *, labelled: bool) -> dict[str, set[str]]:
    """Read questions and, if they are labelled, ids or files of the passages that answer each.

    The column relevant_ids holds one id or file, nothing if no passage answers, or in JSON also a
    list. The ids of several rows with the same question are combined. Raises the errors of
    `read_pairs`.
    """
    asked: dict[str, set[str]] = {}
    columns = _QUESTIONS if labelled else _QUESTIONS[:1]
    for where, row in _rows(path, columns, "QUESTIONS"):
        given = row.get("relevant_ids") or []
        ids = [given] if isinstance(given, str) else given
        if not isinstance(ids, list) or not all(isinstance(id_, str) for id_ in ids):
            raise ValueError(f"{where}: expected ids or files as relevant_ids, got {given!r}")
        named = {id_.strip() for id_ in ids} - {""}
        asked.setdefault(_text(row, "query", where), set()).update(named)
    return asked


def write_questions(path: Path, asked: Mapping[str, Collection[str]]) -> None:
    """Write a CSV table that `read_questions` reads, atomically.

    A table that is there keeps its other columns, and its questions in their order. The byte order
    mark at its beginning tells spreadsheets that it is UTF-8. What they would take for a formula,
    such as "=1+1", is written with an apostrophe before it.
    """
    names, known = [*_QUESTIONS], dict[str, dict[str, dict[str, str]]]()
    if path.exists():
        for _, row in _rows(path, _QUESTIONS, ""):
            known.setdefault(row["query"], {})[row["relevant_ids"].strip()] = row
            names = [*row]
    out = io.StringIO(newline="")
    # Its ends of lines are "\r\n", so that it quotes a "\r" in a text.
    table = csv.DictWriter(out, names, restval="")
    table.writeheader()
    for question in [name for name in dict.fromkeys([*known, *asked]) if name in asked]:
        rows, ids = known.get(question, {}), asked[question]
        spare = [row for name, row in rows.items() if name not in ids]
        for name in [*filter(ids.__contains__, rows), *sorted({*ids} - rows.keys())] or [""]:
            row = rows.get(name) or (spare.pop() if spare else {})
            row = {**row, "query": question, "relevant_ids": name}
            table.writerow({column: as_cell(text) for column, text in row.items()})
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


@dataclass(frozen=True)
class Labels:
    """Questions, and the passages of an index that answer them.

    Attributes
    ----------
    relevant : dict of str to set of str
        Ids by question; empty if nothing answers it. Questions whose answers are all gone are left
        out.
    gone : list of str
        Names of answers that are not in the index.
    digests : dict of str to str
        Hash of the text of each answer that is not named by its file, by name.
    """

    relevant: dict[str, set[str]]
    gone: list[str]
    digests: dict[str, str]

    def check_complete(self, where: str) -> None:
        """Raise ValueError if any answer is gone; `where`: name of the table."""
        if self.gone:
            raise ValueError(
                f"{where}: {pluralize(len(self.gone), 'passage')} not in the index, first "
                f"{self.gone[0]!r}; expected {_NAMES}"
            )


def find_labels(
    asked: Mapping[str, Collection[str]], passages: Iterable[Passage], where: str
) -> Labels:
    """Find the passages that labels name by id, by file, or as "file#Heading".

    `asked`: names for each question, as returned by `read_questions`. `passages`: all passages of
    the index. `where`: name of the table, for error messages.

    Raises ValueError if none of the names is in the index.
    """
    wanted = set[str]().union(*asked.values())
    keys = {name: _keys_of(name) for name in wanted}
    known = {key for some in keys.values() for key in some}
    texts: dict[tuple[str, str], dict[str, str]] = {}  # by key and by id
    for passage in passages:
        source = str(passage.metadata.get("source", passage.id))
        heading = f"{source}#{passage.metadata.get('title', '')}"
        for key in {("id", passage.id), ("file", source), *_keys_of(heading)[2:]} & known:
            texts.setdefault(key, {})[passage.id] = passage.text
    answers = {
        name: next(texts[key] for key in some if key in texts)
        for name, some in keys.items()
        if any(key in texts for key in some)
    }
    gone = sorted(wanted - answers.keys())
    labels = Labels(
        {
            question: {id_ for name in names for id_ in answers.get(name, ())}
            for question, names in asked.items()
            if not names or not answers.keys().isdisjoint(names)
        },
        gone,
        {
            name: hashlib.sha256("\0".join(texts.values()).encode()).hexdigest()[:16]
            for name, texts in answers.items()
            if "#" in name or name in texts
        },
    )
    if gone and not answers:
        labels.check_complete(where)
    return labels


def _keys_of(name: str) -> list[tuple[str, str]]:
    """Return what a name may be, the likeliest first: "C++" has the anchor of "C#"."""
    source, _, heading = name.partition("#")
    named = [("id", name), ("file", name), ("heading", name)]
    return [*named, ("anchor", f"{source}#{anchor(heading)}")] if heading else named


def _text(row: Mapping[str, object], column: str, where: str) -> str:
    value = row[column]
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{where}: expected some text as {column}, got {value!r}")
    return value


def _rows(
    path: Path, columns: Sequence[str], argument: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each row with its file and line number; ValueError if a column is missing."""
    delimiter = _DELIMITERS.get(path.suffix.lower())
    if delimiter is None:
        formats = ", ".join(_DELIMITERS)
        raise ValueError(f"{argument}: expected a {formats} file, got {str(path)!r}")
    if not path.is_file():
        raise FileNotFoundError(f"{argument}: no such file: {str(path)!r}")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for number, names, values in (_cells if delimiter else _objects)(file, delimiter):
                where = f"{path.name}, line {number}"
                # "question" is a synonym of "query".
                known = [n if n != "question" or "query" in names else "query" for n in names]
                _check_columns(known, columns, where)
                if rest := "".join(values[len(names) :]).strip():
                    raise ValueError(
                        f"{where}: expected {pluralize(len(names), 'cell')} ({', '.join(names)}), "
                        f"got {len(values)}; {rest!r:.60} belongs to none. Quote a cell that holds "
                        f"{delimiter!r}, and put each further id in a row of its own."
                    )
                if values:
                    yield where, dict(zip(known, values, strict=False))
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path.name}: this is no table in UTF-8 ({error}); save it as CSV in UTF-8."
        ) from None


def _cells(file: TextIO, delimiter: str) -> Iterator[tuple[int, list[str], list[Any]]]:
    """Yield the number, the names of the columns and the cells of each row; of the first, none."""
    csv.field_size_limit(sys.maxsize)  # 131,072 by default
    reader = csv.reader(file, delimiter=delimiter)
    header = next(reader, [])
    yield 1, header, []
    for cells in filter(None, reader):
        blank = [""] * (len(header) - len(cells))
        yield reader.line_num, header, [*map(from_cell, cells), *blank]


def _objects(file: TextIO, _: str) -> Iterator[tuple[int, list[str], list[Any]]]:
    for number, line in enumerate(file, 1):
        if line.strip():
            try:
                row = msgspec.json.decode(line, type=dict[str, Any])
            except (msgspec.DecodeError, RecursionError) as error:
                where = f"{Path(file.name).name}, line {number}"
                raise ValueError(f"{where}: expected an object of JSON; {error}") from None
            yield number, [*row], [*row.values()]


def _check_columns(names: Sequence[str], columns: Sequence[str], where: str) -> None:
    if not {*columns} <= {*names}:
        meant = "".join(f" ({_MEANINGS[name]})" for name in columns if name in _MEANINGS)
        raise ValueError(
            f"{where}: expected the columns {' and '.join(columns)}{meant}, got "
            f"{', '.join(names) or 'none'}"
        )
    if twice := [name for name in columns if names.count(name) > 1]:
        raise ValueError(f"{where}: expected the column {twice[0]} once; use further rows")
