"""Write docs/command-line.md, the reference of the command line, from the commands themselves.

python docs/command_line.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from uec_rag.cli import app

PAGE = Path(__file__).parent / "command-line.md"


def page() -> str:
    """Return the page: each command with its arguments and options."""
    lines = ["# Command line", "", _INTRODUCTION, ""]
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        lines += [f"## uec-rag {name}", "", _plain(command.help), ""]
        lines += ["| | default | |", "|---|---|---|"]
        lines += [*_rows(command), ""]
    return "\n".join(lines).rstrip() + "\n"


_INTRODUCTION = (
    "`uec-rag COMMAND --help` prints the same. This page is written by `docs/command_line.py`."
)


def _rows(command: Any) -> Iterator[str]:  # noqa: ANN401
    for parameter in command.params:
        is_option = parameter.param_type_name == "option"
        name = (
            ", ".join(parameter.opts) if is_option else parameter.metavar or parameter.name.upper()
        )
        default = "" if parameter.default in (None, False, [], ()) else str(parameter.default)
        if isinstance(getattr(parameter, "show_default", None), str):
            default = parameter.show_default
        text = _plain(parameter.help).replace("\n", " ").replace("|", "\\|")
        yield f"| `{name}` | {f'`{default}`' if default else ''} | {text} |"


def _plain(text: str | None) -> str:
    """Return help as paragraphs of one line each."""
    paragraphs = re.split(r"\n\s*\n", (text or "").strip())
    return "\n\n".join(" ".join(one.split()) for one in paragraphs)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
