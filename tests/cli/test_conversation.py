"""`uec-rag ask`, and going on from what was said."""

import json
import os
import pty
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tests.helpers import data_of, pairs
from uec_rag import UEC, Retriever
from uec_rag.cli import app

BUTTONS = {"red": "left", "blue": "right", "green": "upper"}
VAGUE = "Reset the printer"
FOLLOW_UP = "And for how long?"


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Three printers, and notes on other matters; not to be written to."""
    path = tmp_path_factory.mktemp("saved") / "idx"
    passages = {
        colour: f"The {colour} printer is reset by holding the {button} button long enough."
        for colour, button in BUTTONS.items()
    }
    passages |= {f"note {i}": f"Note {i} is on matter {i} of the archive." for i in range(20)}
    retriever = Retriever(UEC(["bm25"]).fit(pairs()))
    titles = [{"title": f"{id_} printer" if id_ in BUTTONS else id_} for id_ in passages]
    retriever.add([*passages.values()], [*passages], titles)
    retriever.save(path)
    return path


def said(index, *lines, options=()):
    """What is answered to lines on standard input: a record each."""
    given = ["ask", str(index), "--json", *options]
    result = CliRunner().invoke(app, given, input="".join(f"{line}\n" for line in lines))
    assert result.exit_code == 0, result.output
    return [*map(json.loads, result.stdout.splitlines() if lines else [result.stdout])]


def first(record):
    return record["passages"][0]["id"]


def test_a_question_back_has_its_readings(index):
    [asked] = said(index, VAGUE)
    assert asked["decision"] == "clarify"
    assert asked["clarifying_question"] == "Do you mean red printer, blue printer or green printer?"
    assert [one["ids"] for one in asked["readings"]] == [["red"], ["blue"], ["green"]]


@pytest.mark.parametrize(
    ("lines", "questions", "found"), data_of("conversations_on_a_terminal.json")
)
def test_a_conversation_goes_on_from_what_was_said(index, lines, questions, found):
    records = said(index, *lines)
    assert [record["question"] for record in records] == questions
    assert first(records[-1]) == found


def test_a_new_subject_and_questions_of_a_file_begin_without_what_was_said(index):
    [alone] = said(index, FOLLOW_UP)
    assert said(index, "the green printer", "/new", FOLLOW_UP)[1] == alone


def test_on_a_terminal_it_is_a_conversation(index):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "uec_rag", "ask", str(index)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        os.write(ours, f"{VAGUE}\nblue printer\n\n".encode())
        done = subprocess.run(
            command, stdin=theirs, capture_output=True, text=True, env=environment, timeout=120
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 0, done.stderr
    assert "2: blue printer" in done.stderr
    asked, chosen = done.stdout.split("=> ")[1:]
    assert asked.startswith("clarify")
    assert chosen.startswith("answer")
    assert "red printer" not in chosen
