"""How the commands speak, whatever they do."""

import json
import warnings

import pytest
import typer
from typer.testing import CliRunner

import uec_rag
from tests.helpers import data_of
from uec_rag.base.errors import warn
from uec_rag.cli.console import note, print_json, readable_errors, say


def outcome(command):
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(readable_errors(command))
    return CliRunner().invoke(app)


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
