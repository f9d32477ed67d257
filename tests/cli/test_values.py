"""Wrong values are refused before any work, each option by its name."""

import pytest
from typer.main import get_command

from uec_rag.cli import app
from uec_rag.cli.values import amount, place, share, whole

OPTIONS = [
    (name, param.opts[0], param.metavar)
    for name, command in get_command(app).commands.items()
    for param in command.params
    if param.opts[0].startswith("-") and not getattr(param, "is_flag", False)
]
NUMBERS = ("NUMBER", "SHARE", "TOKENS")


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [
        (command, option, value)
        for command, option, metavar in OPTIONS
        for value in (["", "-1", "nan", "many"] if metavar in NUMBERS else [""])
    ],
)
def test_a_wrong_value_is_refused_with_the_option_and_what_it_takes(run, command, option, value):
    said = " ".join(run(command, option, value, code=2).output.replace("│", " ").split())
    assert f"Invalid value for '{option}'" in said
    assert "expected" in said or "is not one of" in said
    assert option == "--store" or repr(value) in said


def test_an_empty_argument_is_not_the_current_folder(run):
    assert (
        "'FOLDER': expected a text that is not blank"
        in run("index", "", "--out", "idx", code=2).output
    )


def test_the_bounds_of_numbers_are_part_of_them():
    assert (whole(1, 3)("3"), share("a share in [0, 1)")("0"), amount("0.25")) == (3, 0.0, 0.25)
    assert place("qdrant://host:6333/passages") == "qdrant://host:6333/passages"
