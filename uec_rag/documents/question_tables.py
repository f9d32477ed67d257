"""Tables of questions from users: CSV with a header, in UTF-8."""

import csv
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from uec_rag.base.checks import pluralize
from uec_rag.base.errors import warn
from uec_rag.stores.base import Searched
from uec_rag.stores.passage import Passage, hash_text

_NAMED = 3  # ids that a message names
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


def follow_labels(labels: Mapping[str, Mapping[str, str]], store: Searched) -> dict[str, set[str]]:
    """Find the passages whose texts labels were given for, whatever their ids are now.

    Parameters
    ----------
    labels : mapping of str to mapping of str to str
        For each question, the hashes of the texts that answer it, by the ids that these had.
    store : Searched

    Returns
    -------
    dict of str to set of str
        Ids by question; empty if nothing answers it. Questions whose answers are all gone are left
        out.

    Warns
    -----
    UserWarning
        If some of the texts are gone; it says how many, and which ids they had.
    """
    given = sorted({(id_, text) for known in labels.values() for id_, text in known.items()})
    now = store.fingerprints([*{id_ for id_, _ in given}])
    found = {label: label[0] for label in given if now.get(label[0]) == label[1]}
    if len(found) < len(given):
        by_text = {hash_text(passage.text): passage.id for passage in store.passages()}
        moved = {label: by_text[label[1]] for label in given if label[1] in by_text}
        found = moved | found
    if gone := [id_ for id_, text in given if (id_, text) not in found]:
        first = ", ".join([*gone[:_NAMED], *["..."] * (len(gone) > _NAMED)])
        warn(
            f"left out {pluralize(len(gone), 'label')} of the index, whose passages are gone or "
            f"have other texts ({first}); label their questions again"
        )
    kept = {
        question: {found[label] for label in known.items() if label in found}
        for question, known in labels.items()
    }
    return {question: ids for question, ids in kept.items() if ids or not labels[question]}
