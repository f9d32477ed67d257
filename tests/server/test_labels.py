"""The table of labels, which several pages and people change at a time."""

import subprocess
import sys

import pytest

from tests.helpers import data_of
from uec_rag.corpora.tables import read_questions
from uec_rag.server.labels import Label, LabelFile

PAGE = """
import sys
from pathlib import Path

from uec_rag.server.labels import Label, LabelFile

labels = LabelFile(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(40):
    labels.give(Label(question=f"{sys.argv[2]} {number}?", id="parking", holds=True))
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
    LabelFile(tmp_path).give(Label(**label))
    assert table.read_text(encoding="utf-8").splitlines() == after


def test_a_label_for_a_table_with_a_cell_too_many_is_refused_with_its_line(tmp_path):
    table = tmp_path / "questions.csv"
    table.write_text("query,relevant_ids\nHow long?,a,b\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"questions\.csv, line 2: expected 2 cells"):
        LabelFile(tmp_path).give(Label(question="Who?", id="a", holds=True))
    assert table.read_text(encoding="utf-8").splitlines()[1] == "How long?,a,b"
