"""The table of labels, which several pages and people change at a time."""

import subprocess
import sys

from uec_rag.corpora.tables import read_questions

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
