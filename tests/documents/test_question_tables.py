"""Tables of questions that users give."""

import re
import warnings

import pytest

from tests.helpers import data_of, rows_of
from uec_rag.documents.question_tables import find_labels, read_questions
from uec_rag.stores.passage import Passage


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        'query,relevant_ids\n"a, b",x\n"a, b",y\nc,\n',
        '\ufeffrelevant_ids,by,query\r\nx,Ann,"a, b"\r\n\r\ny ,,"a, b",\r\n,,c\r\n',
    ],
)
def test_a_question_has_the_ids_of_all_its_rows(tmp_path, text):
    path = written(tmp_path, "q.CSV", text)
    assert read_questions(path, labelled=True) == {"a, b": {"x", "y"}, "c": set()}
    assert read_questions(written(tmp_path, "r.csv", "query\nWho?"), labelled=False) == {
        "Who?": set()
    }


def test_a_text_may_be_of_any_length(tmp_path):
    path = written(tmp_path, "a.csv", f"query\n{'p' * 200_000}\n")
    assert read_questions(path, labelled=False) == {"p" * 200_000: set()}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        *((row["name"], row["content"], row["message"]) for row in rows_of("no_rows.csv")),
        ("q.csv", b"query,relevant_ids\nhei\xdft?,", "q.csv: this is no table in UTF-8"),
    ],
)
def test_a_row_that_is_none_is_named(tmp_path, name, content, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_questions(written(tmp_path, name, content), labelled=True)
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_questions(tmp_path / "no.csv", labelled=True)


HELD = [
    Passage("f.md#fees", "a", {"source": "f.md", "title": "Fees"}),
    Passage("f.md#fees-2", "b", {"source": "f.md", "title": "Fees"}),
    Passage("f.md#how-late", "c", {"source": "f.md", "title": "How *late*?"}),
    Passage("note", "d", {}),
    Passage("n.txt#0", "g", {"source": "n.txt", "title": "n"}),
]


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("f.md#fees", {"f.md#fees"}),
        ("f.md#Fees", {"f.md#fees", "f.md#fees-2"}),
        ("f.md#How *late*?", {"f.md#how-late"}),
        ("f.md", {one.id for one in HELD[:3]}),
        ("note", {"note"}),
    ],
)
def test_passages_are_named_by_id_by_file_or_by_the_heading_as_it_reads(name, ids):
    asked = {"one": {name}, "two": set()}
    assert find_labels(asked, HELD, "q.csv") == {"one": ids, "two": set()}


def test_a_question_whose_answers_are_all_gone_is_left_out_and_they_are_named():
    asked = {"a": {"note", "f.md#gone"}, "b": {"n.txt#7"}, "c": set()}
    said = r"q\.csv: 2 labels not in the index, first 'f.md#gone'"
    with pytest.warns(UserWarning, match=said):
        assert find_labels(asked, HELD, "q.csv") == {"a": {"note"}, "c": set()}
    with pytest.raises(ValueError, match=r"q\.csv: 1 label not in the index, first 'nobody'"):
        find_labels({"a": {"nobody"}}, HELD, "q.csv")


TABLES = data_of("tables_of_labels.json")
INDEXED = [
    *HELD,
    Passage("f.md#late", "e", {"source": "f.md", "title": "Late, or not?"}),
    Passage("geb", "f", {"source": "Geb\u00fchren.md"}),
]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize(("says", "text", "labels"), TABLES["read"])
def test_labels_are_read_as_spreadsheets_write_them(tmp_path, says, text, labels, encoding):
    table = written(tmp_path, "q.csv", text.encode(encoding))
    with warnings.catch_warnings(action="error"):
        found = find_labels(read_questions(table, labelled=True), INDEXED, "q.csv")
    assert found == {question: {*ids} for question, ids in labels.items()}, says


@pytest.mark.filterwarnings("ignore:q.csv")  # beside the one that is looked for
@pytest.mark.parametrize(("says", "text", "more", "labels", "told"), TABLES["told"])
def test_labels_that_may_be_meant_otherwise_are_told(tmp_path, says, text, more, labels, told):
    table = written(tmp_path, "q.csv", text)
    held = [*INDEXED, *(Passage(name, "h", {}) for name in more)]
    with pytest.warns(UserWarning, match=re.escape(told)):
        found = find_labels(read_questions(table, labelled=True), held, "q.csv")
    assert found == {question: {*ids} for question, ids in labels.items()}, says
