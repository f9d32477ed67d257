"""`uec-rag ask`, and going on from what was said."""

import json
import os
import pty
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tests.helpers import pairs
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


def said(index, *lines, options=("--chat",)):
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
    assert asked["question_back"] == "Do you mean red printer, blue printer or green printer?"
    assert [one["ids"] for one in asked["readings"]] == [["red"], ["blue"], ["green"]]


@pytest.mark.parametrize("reply", ["2", "Blue  Printer"])
def test_a_reading_is_chosen_by_its_number_or_its_name(index, reply):
    chosen = said(index, VAGUE, reply)[1]
    assert chosen["question"] == VAGUE
    assert [passage["id"] for passage in chosen["passages"]] == ["blue"]


def test_a_number_that_no_reading_has_and_an_unknown_command_are_not_searched(index):
    records = said(index, VAGUE, "9", "/quit", "2")
    assert [record["question"] for record in records] == [VAGUE, VAGUE]
    assert first(records[1]) == "blue"


def test_a_reply_in_other_words_is_searched_with_the_question(index):
    assert first(said(index, VAGUE, "I meant the green one")[1]) == "green"


def test_a_follow_up_goes_on_from_the_reading_that_was_chosen(index):
    assert first(said(index, VAGUE, "blue printer", "Which button?")[2]) == "blue"


def test_a_number_is_a_question_if_nothing_was_asked_back(index):
    assert [each["question"] for each in said(index, "matter 7", "7")] == ["matter 7", "7"]


def test_another_subject_begins_without_what_was_said(index):
    [alone] = said(index, FOLLOW_UP)
    assert first(said(index, "the green printer", FOLLOW_UP)[1]) == "green"
    assert said(index, "the green printer", "/new", FOLLOW_UP)[1] == alone
    assert said(index, VAGUE, "/new", "2")[1]["question"] == "2"


def test_a_script_gives_what_was_asked_before(index):
    options = ("And which button?", "--history", "the green printer", "--history", "Is it broken?")
    [found] = said(index, options=options)
    assert first(found) == "green"


def test_questions_of_a_file_have_nothing_to_do_with_each_other(index):
    [_, alone] = said(index, "the green printer", FOLLOW_UP, options=())
    assert alone == said(index, FOLLOW_UP, options=())[0]


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
