"""Tables of questions from users: CSV with a header, in UTF-8."""

import csv
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from uec_rag.base.checks import pluralize
from uec_rag.base.errors import warn
from uec_rag.stores.base import Passage

_NAMES = "ids ('faq.md#returns'), files ('faq.md') or headings ('faq.md#How do I return it?')"


def read_questions(path: Path, *, labelled: bool) -> dict[str, set[str]]:
    """Read questions and, if they are labelled, ids or files of the passages that answer each.

    The column relevant_ids holds one id or file, or nothing if no passage answers. The ids of
    several rows with the same question are combined.

    Raises FileNotFoundError if the file does not exist, and ValueError if it is no such table or a
    row is invalid; the message names the row.
    """
    if not path.is_file():
        raise FileNotFoundError(f"QUESTIONS: no such file: {str(path)!r}")
    csv.field_size_limit(sys.maxsize)  # 131,072 by default
    columns, asked = ["query", *["relevant_ids"] * labelled], dict[str, set[str]]()
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file, restval="")
            names = ", ".join(table.fieldnames or ())
            for column in columns:
                if column not in (table.fieldnames or ()):
                    raise ValueError(
                        f"{path.name}, line 1: expected the columns {' and '.join(columns)}, got "
                        f"{names or 'none'}"
                    )
            for row in table:
                where = f"{path.name}, line {table.line_num}"
                rest: Any = row.pop(None, [])
                if any(map(str.strip, rest)):
                    raise ValueError(
                        f"{where}: {rest[0]!r:.60} belongs to none of the columns {names}. Quote a "
                        "cell that holds a comma, and put each further id in a row of its own."
                    )
                if not row["query"].strip():
                    raise ValueError(f"{where}: expected some text as query, got {row['query']!r}")
                id_ = row.get("relevant_ids", "").strip()
                asked.setdefault(row["query"], set()).update([id_] if id_ else [])
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path.name}: this is no table in UTF-8 ({error}); save it as CSV in UTF-8."
        ) from None
    return asked


def find_labels(
    asked: Mapping[str, Collection[str]], passages: Iterable[Passage], where: str
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
