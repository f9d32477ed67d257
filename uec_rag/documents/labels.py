"""Reading of tables from users: JSON lines, or CSV or TSV with a header, in UTF-8.

'uec-rag index --fit' needs texts and 'uec-rag gate' needs ids, so their columns have different
names, and a table for one command is not mistaken for a table for the other.
"""

import csv
import hashlib
import io
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from uec_rag.base.checks import pluralize
from uec_rag.base.files import replace_file
from uec_rag.documents.passages import anchor
from uec_rag.stores.base import Passage

_FORMATS = (".jsonl", ".csv", ".tsv")
_QUESTIONS = ("query", "relevant_ids")
_LABELS = {"1": 1, "true": 1, "0": 0, "false": 0}
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
        label = row.get("label")
        if label is None or label == "":
            pairs.append(texts)
        elif str(label).lower() in _LABELS:
            pairs.append((*texts, _LABELS[str(label).lower()]))
        else:
            raise ValueError(f"{where}: expected 0 or 1 as label, got {label!r}")
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

    A table that is there keeps its byte order mark, by which spreadsheets know UTF-8, its other
    columns, and its rows in their order: a row whose question has other answers now gets one of
    these, and is left out if there is none. What a spreadsheet
    would take for a formula, such as "=1+1", is written with an apostrophe before it.
    """
    mark, header, rows = "", [*_QUESTIONS], list[list[str]]()
    if path.exists():
        mark = _BYTE_ORDER_MARK if _has_byte_order_mark(path) else ""
        (_, header), *lines = _read_cells(path, _QUESTIONS)
        rows = [cells + [""] * (len(header) - len(cells)) for _, cells in lines]
    query, id_ = map(_known_names(header).index, _QUESTIONS)
    written = {(from_cell(cells[query]), from_cell(cells[id_].strip())) for cells in rows}
    new = {
        question: [name for name in sorted(ids) or [""] if (question, name) not in written]
        for question, ids in asked.items()
    }
    out = io.StringIO(newline="")
    table = csv.writer(out)  # whose ends of lines are "\r\n", so that it quotes a "\r" in a text
    table.writerow(header)
    for cells in rows:
        question, name = from_cell(cells[query]), from_cell(cells[id_].strip())
        if name not in asked.get(question, ()) and new.get(question):
            name = new[question].pop(0)
            cells[id_] = as_cell(name)
        if question in asked and (not name or name in asked[question]):
            table.writerow(cells)
    for question, names in new.items():
        for name in names:
            cells = [""] * len(header)
            cells[query], cells[id_] = as_cell(question), as_cell(name)
            table.writerow(cells)
    replace_file(path, mark + out.getvalue())


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
    headings: dict[str, dict[str, list[str]]] = {}  # names by file and anchor of the heading
    for name in wanted:
        for mark in re.finditer("#", name):
            of_file = headings.setdefault(name[: mark.start()], {})
            of_file.setdefault(anchor(name[mark.end() :]), []).append(name)
    passages_by_name: dict[str, dict[str, str]] = {}
    exact: dict[str, dict[str, str]] = {}  # of "C++", which has the anchor of "C#"
    for passage in passages:
        source = str(passage.metadata.get("source", passage.id))
        names = [name for name in (passage.id, source) if name in wanted]
        if source in headings:
            title = str(passage.metadata.get("title", ""))
            names += headings[source].get(anchor(title), [])
            if (name := f"{source}#{title}") in names:
                exact.setdefault(name, {})[passage.id] = passage.text
        for name in names:
            passages_by_name.setdefault(name, {})[passage.id] = passage.text
    answers = {
        name: {name: texts[name]} if name in texts else exact.get(name, texts)
        for name, texts in passages_by_name.items()
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


def _text(row: Mapping[str, object], column: str, where: str) -> str:
    value = row.get(column)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{where}: expected some text as {column}, got {value!r}")
    return value


def _rows(
    path: Path, columns: Sequence[str], argument: str
) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield each row with its file and line number; ValueError if a column is missing."""
    kind = path.suffix.lower()
    if kind not in _FORMATS:
        raise ValueError(f"{argument}: expected a {', '.join(_FORMATS)} file, got {str(path)!r}")
    if not path.is_file():
        raise FileNotFoundError(f"{argument}: no such file: {str(path)!r}")
    try:
        yield from _read_rows(path, kind, columns)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path.name}: this is no table in UTF-8 ({error}); save it as CSV in UTF-8."
        ) from None


def _read_rows(
    path: Path, kind: str, columns: Sequence[str]
) -> Iterator[tuple[str, Mapping[str, object]]]:
    if kind == ".jsonl":
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    where = f"{path.name}, line {number}"
                    yield where, _json_row(line, columns, where)
        return
    lines = _read_cells(path, columns)
    names = _known_names(next(lines)[1])
    for where, cells in lines:
        yield where, dict(zip(names, map(from_cell, cells), strict=False))


def _has_byte_order_mark(path: Path) -> bool:
    with path.open(encoding="utf-8") as file:
        return file.read(1) == _BYTE_ORDER_MARK


def _read_cells(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the header and the rows of a CSV or TSV table, each with its file and line number."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        csv.field_size_limit(max(csv.field_size_limit(), path.stat().st_size))
        reader = csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        header = next(reader, [])
        where = f"{path.name}, line 1"
        _check_columns(_known_names(header), columns, where)
        yield where, header
        for cells in filter(None, reader):
            where = f"{path.name}, line {reader.line_num}"
            if rest := "".join(cells[len(header) :]).strip():
                raise ValueError(
                    f"{where}: expected {pluralize(len(header), 'cell')} ({', '.join(header)}), "
                    f"got {len(cells)}; {rest!r:.60} belongs to none. Quote a cell that holds "
                    f"{reader.dialect.delimiter!r}, and put each further id in a row of its own."
                )
            yield where, cells


def _json_row(line: str, columns: Sequence[str], where: str) -> Mapping[str, object]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: not JSON ({error.msg})") from None
    except RecursionError:
        raise ValueError(f"{where}: expected a flat object, got one nested too deep") from None
    if not isinstance(row, dict):
        wanted = ", ".join(f'"{column}": ...' for column in columns)
        raise ValueError(f"{where}: expected {{{wanted}}}, got {line.strip()[:60]}")
    row = dict(zip(_known_names([*row]), row.values(), strict=True))
    _check_columns(row, columns, where)
    return row


def _known_names(names: Sequence[str]) -> list[str]:
    """Return the names of columns, with "question" replaced by its synonym "query"."""
    return ["query" if name == "question" and "query" not in names else name for name in names]


def _check_columns(names: Collection[str], columns: Sequence[str], where: str) -> None:
    if not set(columns) <= set(names):
        meant = "".join(f" ({_MEANINGS[name]})" for name in columns if name in _MEANINGS)
        raise ValueError(
            f"{where}: expected the columns {' and '.join(columns)}{meant}, got "
            f"{', '.join(names) or 'none'}"
        )
    for name in columns:
        if (count := [*names].count(name)) > 1:
            raise ValueError(
                f"{where}: expected the column {name} once, got {count}; put what the others hold "
                "in rows of their own."
            )
