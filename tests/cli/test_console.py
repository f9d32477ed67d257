"""How the commands speak, whatever they do."""

import json
import os
import subprocess
import sys
import warnings
from contextvars import copy_context
from functools import partial

import pytest
import typer
from typer.testing import CliRunner

import uec_rag
from tests.helpers import data_of
from uec_rag import UEC, Retriever
from uec_rag.base.errors import warn
from uec_rag.cli import app
from uec_rag.cli.console import note, print_json, readable_errors, say


def outcome(command):
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(readable_errors(command))
    return copy_context().run(CliRunner().invoke, app)


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (ValueError("k: not\n  1, got [bold]0[/]"), 2, "error: k: not 1, got [bold]0[/]\n"),
        (KeyError("filter: no key 'x'"), 2, "error: filter: no key 'x'\n"),
        (typer.Exit(1), 1, ""),
    ],
)
def test_a_mistake_ends_in_one_line_and_a_defect_with_its_traceback(monkeypatch, error, code, told):
    def command() -> None:
        raise error

    result = outcome(command)
    assert (result.exit_code, result.stderr) == (code, told)
    monkeypatch.setenv("UEC_DEBUG", "1")  # the traceback is there for those who ask
    assert code == 1 or outcome(command).exception is error
    monkeypatch.delenv("UEC_DEBUG")
    error = ZeroDivisionError("by zero")
    assert outcome(command).exception is error


def test_warnings_of_this_package_are_notes_and_others_are_silent():
    def command() -> None:
        warn("not\nfitted")
        warnings.warn_explicit("on its way out", DeprecationWarning, "y.py", 1, module="torch.nn")

    assert outcome(command).stderr == "note: not fitted\n"


def test_the_version_is_printed(run):
    assert run("--version").stdout == f"uec-rag {uec_rag.__version__}\n"


@pytest.mark.parametrize("command", ["demo", "index", "ask"])
def test_every_command_has_help_with_an_example(run, command):
    assert f"Example: uec-rag {command}" in run(command, "--help").stdout


@pytest.mark.parametrize(("command", "option", "value"), data_of("wrong_values.json"))
def test_a_wrong_value_is_refused_with_its_option_before_any_work(run, command, option, value):
    assert f"Invalid value for '{option}'" in run(command, option, value, code=2).output


def test_without_a_command_the_commands_are_listed(run):
    result = run(code=2)
    assert all(command in result.output for command in ("demo", "index", "ask", "gate"))


def test_control_characters_are_shown_and_not_sent_to_the_terminal():
    def command() -> None:
        say("file \x1b[2J")
        note("name \x9b2J")
        print_json({"text": "\x1b]0;\x9b\u202e"})
        raise ValueError("got \x1b[31m")

    result = outcome(command)
    assert result.stderr == "file \\x1b[2J\nnote: name \\x9b2J\nerror: got \\x1b[31m\n"
    assert result.stdout == '{\n  "text": "\\u001b]0;\\u009b\\u202e"\n}\n'
    assert json.loads(result.stdout) == {"text": "\x1b]0;\x9b\u202e"}


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """An index in letters that no code page of Windows has together."""
    index = Retriever(UEC(["bm25"]))
    texts = [
        "δέκα άδεια διαρκεί δύο εβδομάδες → έως ½ €.",
        "休暇は二週間です。",
        "Отпуск длится две недели – да.",
    ]
    index.add(texts, ["grec", "日本", "жд"], [{"title": text[:9]} for text in texts])
    index.save(path := tmp_path_factory.mktemp("foreign") / "idx")
    return path


ASKED = "休暇 διαρκεί Отпуск ?"


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "latin-1", "cp932", "utf-8"])
def test_what_an_encoding_lacks_is_a_question_mark_and_an_escape_in_json(
    foreign, encoding, tmp_path
):
    table = tmp_path / "labels.csv"
    table.write_text("query,relevant_ids\n休暇は,日本\n休暇,grec\nwho,\n", encoding="utf-8")
    for command in (["ask", foreign, ASKED], ["evaluate", foreign, table], ["ask", "--help"]):
        runner = CliRunner(charset=encoding)
        result = copy_context().run(runner.invoke, app, [str(one) for one in command])
        assert result.exit_code == 0, result.output
        assert result.stdout_bytes.decode(encoding)
    invoke = partial(copy_context().run, CliRunner(charset=encoding).invoke, app)
    result = invoke(["ask", str(foreign), ASKED, "--json"])
    told = json.loads(result.stdout_bytes.decode(encoding))
    assert (result.exit_code, told["question"]) == (0, ASKED)
    missing = invoke(["ask", str(tmp_path / "休暇"), ASKED])
    assert missing.exit_code == 2


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_pipe_of_another_encoding_gets_what_it_can(foreign, more):
    command = [sys.executable, "-m", "uec_rag", "ask", str(foreign), ASKED, *more]
    done = subprocess.run(
        command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "cp1252"}
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.decode("cp1252")
    assert json.loads(said)["question"] == ASKED if more else "?" in said
