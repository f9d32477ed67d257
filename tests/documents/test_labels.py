"""Tables of questions that users give."""

import csv
import functools
import json
import re

import pytest

from tests.helpers import rows_of
from uec_rag.documents.labels import find_labels, read_pairs, read_questions, write_questions
from uec_rag.stores.base import Passage


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [("q.csv", "question\nWho?"), ("q.jsonl", '{"question": "Who?"}'), ("r.csv", "query\nWho?")],
)
def test_the_column_of_questions_is_called_query_or_question(tmp_path, name, text):
    path = written(tmp_path, name, text)
    assert read_questions(path, labelled=False) == {"Who?": set()}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"query": "q", "passage": "p, p"}\n\n{"query":"q2","passage":"x","label":0}'),
        ("a.csv", 'query,passage,label\nq,"p, p",\nq2,x,0\n'),
        ("a.tsv", "passage\tlabel\tquery\np, p\t\tq\nx\t0\tq2\n"),
        ("a.CSV", '\ufeffquery,passage,label\r\nq,"p, p",,\r\n\r\nq2,x,False\r\n'),
    ],
)
def test_the_formats_say_the_same(tmp_path, name, text):
    assert read_pairs(written(tmp_path, name, text)) == [("q", "p, p"), ("q2", "x", 0)]


def test_a_text_may_be_of_any_length(tmp_path):
    path = written(tmp_path, "a.csv", f"query,passage\nq,{'p' * 200_000}\n")
    assert read_pairs(path) == [("q", "p" * 200_000)]


def test_in_jsonl_a_question_may_have_a_list_of_ids(tmp_path):
    rows = ({"query": "a", "relevant_ids": ["x", "y "]}, {"query": "a", "relevant_ids": "z"})
    rows = (*rows, {"query": "b", "relevant_ids": None}, {"query": "c", "relevant_ids": []})
    path = written(tmp_path, "q.jsonl", "\n".join(map(json.dumps, rows)))
    asked = read_questions(path, labelled=True)
    assert asked == {"a": {"x", "y", "z"}, "b": set(), "c": set()}


LABELLED = functools.partial(read_questions, labelled=True)
READ = {"pairs": read_pairs, "questions": LABELLED}
DEEP = '{"query": "Who?", "relevant_ids": ""}\n{"query": "What?", "relevant_ids": ' + "[" * 100_000


@pytest.mark.parametrize(
    ("read", "name", "content", "message"),
    [
        *((READ[row.pop("read")], *row.values()) for row in rows_of("no_rows.csv")),
        (LABELLED, "q.csv", b"query,relevant_ids\nhei\xdft?,", "q.csv: this is no table in UTF-8"),
        (LABELLED, "q.jsonl", DEEP, "q.jsonl, line 2: expected an object of JSON"),
    ],
)
def test_a_row_that_is_none_is_named(tmp_path, read, name, content, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read(written(tmp_path, name, content))
    with pytest.raises(FileNotFoundError, match="no such file"):
        read(tmp_path / "no.csv")


HELD = [
    Passage("f.md#fees", "a", {"source": "f.md", "title": "Fees"}),
    Passage("f.md#fees-2", "b", {"source": "f.md", "title": "Fees"}),
    Passage("f.md#how-late", "c", {"source": "f.md", "title": "How *late*?"}),
    Passage("f.md#c", "e", {"source": "f.md", "title": "C++"}),
    Passage("f.md#c-2", "f", {"source": "f.md", "title": "C#"}),
    Passage("note", "d", {}),
    Passage("n.txt#0", "g", {"source": "n.txt", "title": "n"}),
]


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("f.md#fees", {"f.md#fees"}),
        ("f.md#Fees", {"f.md#fees", "f.md#fees-2"}),
        ("f.md#How late?", {"f.md#how-late"}),
        ("f.md#C++", {"f.md#c"}),
        ("f.md#C#", {"f.md#c-2"}),
        ("f.md", {one.id for one in HELD[:5]}),
        ("note", {"note"}),
    ],
)
def test_passages_are_named_by_id_by_file_or_by_the_heading_as_it_reads(name, ids):
    asked = {"one": {name}, "two": set()}
    assert find_labels(asked, HELD, "q.csv").relevant == {"one": ids, "two": set()}


def test_a_question_whose_answers_are_all_gone_is_left_out_and_they_are_named():
    labels = find_labels({"a": {"note", "f.md#gone"}, "b": {"n.txt#7"}, "c": set()}, HELD, "q.csv")
    assert (labels.relevant, labels.gone) == ({"a": {"note"}, "c": set()}, ["f.md#gone", "n.txt#7"])
    with pytest.raises(ValueError, match=r"q\.csv: 2 passages not in the index, first 'f.md#gone'"):
        labels.check_complete("q.csv")
    with pytest.raises(ValueError, match=r"q\.csv: 1 passage not in the index, first 'nobody'"):
        find_labels({"a": {"nobody"}}, HELD, "q.csv")


def test_questions_of_any_characters_are_read_as_they_were_written(tmp_path):
    asked = {'a, "b"\nc\rd\r\n=e': {"f.md#c"}, " \u0928\u092e ": set()}
    write_questions(tmp_path / "q.csv", asked)
    assert read_questions(tmp_path / "q.csv", labelled=True) == asked


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://a","b")']
NO_FORMULAS = ["Who?", "'tis", "'", "a=b", " =1"]


def test_a_spreadsheet_finds_no_formula_in_a_table_of_questions(tmp_path):
    texts = [*FORMULAS, *NO_FORMULAS, *(f"'{text}" for text in FORMULAS)]
    asked = {text: {text.strip()} for text in texts}
    write_questions(tmp_path / "q.csv", asked)
    assert read_questions(tmp_path / "q.csv", labelled=True) == asked
    with (tmp_path / "q.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    cells = {cell for row in rows for cell in row}
    assert not [cell for cell in cells if cell.startswith(tuple("=+-@\t\r"))]
    assert cells >= {f"'{text}" for text in FORMULAS} | {*NO_FORMULAS}


@pytest.mark.parametrize("text", FORMULAS)
def test_a_table_of_ones_own_may_have_it_with_an_apostrophe_and_without(tmp_path, text):
    for cell in (text, f"'{text}"):
        quoted_cell = '"' + cell.replace('"', '""') + '"'
        path = written(tmp_path, "p.csv", f"query,passage\n{quoted_cell},p\n")
        assert read_pairs(path) == [(text, "p")]
