"""The table of labels, which several pages and people change at a time."""

import subprocess
import sys

import pytest

from tests.helpers import data_of
from tests.server.conftest import TOKEN, serving
from uec_rag.documents.labels import read_questions
from uec_rag.retrieval.label_file import LabelFile

PAGE = """
import sys
from pathlib import Path

from uec_rag.retrieval.label_file import LabelFile

labels = LabelFile(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(40):
    labels.mark(f"{sys.argv[2]} {number}?", "parking", holds=True)
"""


def test_no_label_is_lost_if_two_processes_give_them_at_once(tmp_path):
    command = [sys.executable, "-c", PAGE, tmp_path]
    pages = [
        subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name in ("one", "two")
    ]
    for page in pages:
        assert page.stdout.readline() == "ready\n"
    for page in pages:
        page.stdin.write("\n")
        page.stdin.flush()
    for page in pages:
        page.communicate(timeout=120)
        assert page.returncode == 0
    asked = read_questions(tmp_path / "questions.csv", labelled=True)
    wanted = {f"{name} {number}?" for name in ("one", "two") for number in range(40)}
    assert asked == {question: {"parking"} for question in wanted}


@pytest.mark.parametrize(("before", "label", "after"), data_of("label_changes.json"))
def test_a_label_leaves_what_else_the_table_says(tmp_path, before, label, after):
    table = tmp_path / "questions.csv"
    table.write_text("\n".join(before), encoding="utf-8")
    LabelFile(tmp_path).mark(**label)
    assert table.read_text(encoding="utf-8").splitlines() == after


def test_a_label_for_a_table_with_a_cell_too_many_is_refused_with_its_line(tmp_path):
    table = tmp_path / "questions.csv"
    table.write_text("query,relevant_ids\nHow long?,a,b\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"questions\.csv, line 2: expected 2 cells"):
        LabelFile(tmp_path).mark("Who?", "a", holds=True)
    assert table.read_text(encoding="utf-8").splitlines()[1] == "How long?,a,b"


def test_labels_come_in_over_http_with_the_token(index):
    with serving(index, token=TOKEN) as client:
        label = {"question": "Where may I park?", "relevant_ids": ["parking"]}
        assert client.post("/labels", json=label).status_code == 401
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        assert client.post("/labels", json=label).status_code == 201
        nothing = {"question": "Who wrote Hamlet?", "relevant_ids": []}
        assert client.post("/labels", json=nothing).json() == {"relevant_ids": 0}
        gone = client.post("/labels", json=label | {"relevant_ids": ["gone"]})
        assert (gone.status_code, gone.json()["detail"][:12]) == (422, "relevant_ids")
    asked = read_questions(index / "questions.csv", labelled=True)
    assert asked == {"Where may I park?": {"parking"}, "Who wrote Hamlet?": set()}


def test_without_a_token_labels_are_refused(index):
    with serving(index) as client:
        told = client.post("/labels", json={"question": "Why?", "relevant_ids": []})
    assert told.status_code == 404
    assert "Labels need a token" in told.json()["detail"]
