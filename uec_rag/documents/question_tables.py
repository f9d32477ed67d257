"""Tables of questions from users, as spreadsheets write them: CSV or TSV with a header."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from uec_rag.base.checks import pluralize
from uec_rag.base.errors import warn
from uec_rag.base.text import in_nfc
from uec_rag.documents.plain_text import decode
from uec_rag.documents.readers import has_text, rows_of
from uec_rag.stores.base import Searched
from uec_rag.stores.passage import Passage, hash_text

_NAMED = 3  # ids that a message names
_NAMES = "ids ('faq.md#returns'), files ('faq.md') or headings ('faq.md#How do I return it?')"
NULL = frozenset({"", "nan", "-nan", "null", "<na>", "n/a", "#n/a", "na", "nat", "n.a."})
"""The texts by which tables and logs say that there is no value, in lower case."""

_NOTHING = "- -- \u2013 \u2014 \u2212 none nothing no nil void empty () [] {} \u2205 unanswerable"
_NOTHING += " unanswered keine nichts aucun aucune rien ninguno ninguna nada nessuno niente nenhum"
_NOTHING += " geen niets ingen inget brak \u043d\u0435\u0442"
_NOTHING += " \u65e0 \u6ca1\u6709 \u306a\u3057 \uc5c6\uc74c"
_NO_ANSWER = NULL | {*_NOTHING.split(), "no answer", "no answers", "not answerable"}
_BETWEEN = re.compile(r"(\s*[\n,;|]\s*|\s+)")  # the names in a cell
# Columns that say whether a passage answers, and what they say if it does not, beside numbers.
_GRADES = {"relevance", "relevant", "is_relevant", "rel", "label", "score", "grade", "judgment"}
_GRADES |= {"judgement", "qrel"}
_WRONG = {"irrelevant", "not relevant", "non-relevant", "nonrelevant", "not_relevant", "no", "n"}
_WRONG |= {"false", "f", "wrong", "negative", "incorrect", "unrelated", "bad"}
_LONGEST_NAME = 60  # words, and what is between them


def read_questions(path: Path, *, labelled: bool) -> dict[str, set[str]]:
    """Read questions and, if they are labelled, what their cells say of the passages that answer.

    The column relevant_ids holds ids or files, as `find_labels` takes them. Rows that a column such
    as "relevance" grades 0, or "irrelevant", are left out. The cells of several
    rows with the same question are combined; "" among others says that a row has none.

    Raises FileNotFoundError if the file does not exist, and ValueError if it is no such table or a
    row is invalid; the message names the row.
    """
    if not path.is_file():
        raise FileNotFoundError(f"QUESTIONS: no such file: {str(path)!r}")
    columns, questions = ["query", *["relevant_ids"] * labelled], dict[str, set[str]]()
    try:
        text, guesses = decode(path.read_bytes())
        if guesses:
            raise ValueError(f"it {guesses[0]}")
    except ValueError as error:
        raise ValueError(
            f"{path.name}: this is no table in UTF-8 ({error}); save it as CSV in UTF-8."
        ) from None
    rows = rows_of(text, skipinitialspace=False)
    header = [name.strip().casefold() for name in next(filter(has_text, rows), [])]
    names = ", ".join(header)
    if not {*columns} <= {*header}:
        raise ValueError(
            f"{path.name}, line 1: expected the columns {' and '.join(columns)}, got "
            f"{names or 'none'}"
        )
    for row in filter(has_text, rows):
        row_name = f"{path.name}, line {rows.line_num}"
        cells, surplus = row + [""] * (len(header) - len(row)), row[len(header) :]
        if any(map(str.strip, surplus)):
            raise ValueError(
                f"{row_name}: {surplus[0]!r:.60} belongs to none of the columns {names}. Quote a "
                "cell that holds a comma; several ids go into a quoted cell, or into a row each."
            )
        grades = (cell for name, cell in zip(header, cells, strict=False) if name in _GRADES)
        if labelled and any(map(_is_wrong, grades)):
            continue
        question, *ids = (cells[header.index(column)].strip() for column in columns)
        if not question:
            raise ValueError(f"{row_name}: expected some text as query, got {question!r}")
        questions.setdefault(question, set()).update(ids)
    return {question: ids - {""} if len(ids) == 1 else ids for question, ids in questions.items()}


def find_labels(
    questions: Mapping[str, Collection[str]], passages: Iterable[Passage], table: str
) -> dict[str, set[str]]:
    """Find the passages that labels name by id, by file, or as "file#Heading".

    A label may be several names ("a.md, b.md"), or a word for none ("N/A", "none", "-"), unless
    the index has one of that name.

    Parameters
    ----------
    questions : mapping of str to collection of str
        Labels for each question, as returned by `read_questions`.
    passages : iterable of Passage
        All passages of the index.
    table : str
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
        If some names are not in the index, one of them is a word for none, or a question is said
        both to have an answer and to have none.
    """
    labels = {label for cells in questions.values() for label in cells}
    candidates = {name for label in labels for name in _names_in(label)}
    answers: dict[str, set[str]] = {}
    for passage in passages:
        source = str(passage.metadata.get("source", passage.id))
        names = {passage.id, source, f"{source}#{passage.metadata.get('title', '')}"}
        for name in {*map(in_nfc, names)} & candidates:
            answers.setdefault(name, set()).add(passage.id)
    parts = {label: _split(label, answers) for label in labels}
    names = {name for part in parts.values() for name in part} - {""}
    if words := sorted(filter(_is_none, names)):
        warn(f"{table}: {words[0]!r} is in the index, and so read as a name, not as 'no answer'")
    if missing := sorted(names - answers.keys()):
        count = pluralize(len(missing), "label")
        message = f"{table}: {count} not in the index, first {missing[0]!r}"
        if not answers:
            raise ValueError(f"{message}; expected {_NAMES}")
        warn(f"{message}; questions without another answer are left out")
    ids_of, contradicted = dict[str, set[str]](), list[str]()
    for question, cells in questions.items():
        names_of = {name for label in cells for name in parts[label]}
        contradicted += [question] * ("" in names_of and len(names_of) > 1)
        ids = {id_ for name in names_of for id_ in answers.get(name, ())}
        if ids or not names_of - {""}:
            ids_of[question] = ids
    if contradicted:
        warn(
            f"{table}: {pluralize(len(contradicted), 'question')} both with and without an answer, "
            f"first {contradicted[0]!r:.80}; the answer counts. Correct the table"
        )
    return ids_of


def _is_wrong(grade: str) -> bool:
    """Return whether a grade says that a passage does not answer: 0, -1, "irrelevant"."""
    text = grade.strip().casefold()
    number = re.fullmatch(r"[-+\u2212]?\d+(?:[.,]\d+)?", text)
    is_negative = text.startswith(("-", "\u2212")) or not text.strip("+0.,")
    return text in _WRONG or (number is not None and is_negative)


def _is_none(label: str) -> bool:
    return label.strip().casefold() in _NO_ANSWER


def _texts(label: str) -> list[str]:
    """Return the words of a label, and between them what parts them."""
    return _BETWEEN.split(in_nfc(label).strip("[](){} "))


def _name(texts: Sequence[str], start: int, end: int) -> str:
    return "".join(texts[start:end]).strip(" '\"")


def _ends(texts: Sequence[str], start: int) -> range:
    """Return where a name may end that begins at a word, the longest first."""
    return range(min(len(texts), start + _LONGEST_NAME), start, -2)


def _names_in(label: str) -> Iterator[str]:
    """Yield all that may be a name in a label."""
    yield in_nfc(label)
    texts = _texts(label)
    for start in range(0, len(texts), 2):
        yield from (_name(texts, start, end) for end in _ends(texts, start))


def _split(label: str, index_names: Collection[str]) -> list[str]:
    """Return the names in a label, the longest that are known; "" says that there is none."""
    if (whole := in_nfc(label)) in index_names:
        return [whole]
    texts, names, start = _texts(label), list[str](), 0
    while start < len(texts):
        ends = (end for end in _ends(texts, start) if _name(texts, start, end) in index_names)
        # What is not known goes on to the next separator that is not blank.
        marks = (n for n in range(start + 1, len(texts), 2) if texts[n].strip())
        end = next(ends, 0) or next(marks, len(texts))
        names += [_name(texts, start, end)]
        start = end + 1
    nonempty = [name for name in names if name]
    return ["" if _is_none(name) and name not in index_names else name for name in nonempty] or [""]


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
    old_labels = sorted({(id_, text) for hashes in labels.values() for id_, text in hashes.items()})
    now = store.fingerprints([*{id_ for id_, _ in old_labels}])
    new_ids = {label: label[0] for label in old_labels if now.get(label[0]) == label[1]}
    if len(new_ids) < len(old_labels):
        by_text = {hash_text(passage.text): passage.id for passage in store.passages()}
        moved = {label: by_text[label[1]] for label in old_labels if label[1] in by_text}
        new_ids = moved | new_ids
    if missing := [id_ for id_, text in old_labels if (id_, text) not in new_ids]:
        first_ids = ", ".join([*missing[:_NAMED], *["..."] * (len(missing) > _NAMED)])
        warn(
            f"left out {pluralize(len(missing), 'label')} of the index, whose passages are gone or "
            f"have other texts ({first_ids}); label their questions again"
        )
    answers = {
        question: {new_ids[label] for label in hashes.items() if label in new_ids}
        for question, hashes in labels.items()
    }
    return {question: ids for question, ids in answers.items() if ids or not labels[question]}
