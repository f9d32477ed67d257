"""The output of commands: results on stdout, everything else on stderr, errors in one line."""

from __future__ import annotations

import functools
import json
import os
import warnings
from collections.abc import Callable
from typing import Annotated, ParamSpec, TypeAlias

import typer
from rich.console import Console
from rich.markup import escape

from uec_rag.base.checks import one_line, visible, visible_json
from uec_rag.base.errors import UECWarning

P = ParamSpec("P")

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

_EXPECTED = (ValueError, TypeError, KeyError, ImportError, OSError)
"""The errors that this package raises, with messages for users; any other is a defect."""

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


def plain(text: str) -> str:
    """Escape markup and control characters, so that neither rich nor the terminal obeys them."""
    return escape(visible(text))


def say(message: str) -> None:
    """Print a line about the work in progress."""
    err.print(plain(message), style="dim", soft_wrap=True)


def note(message: str) -> None:
    """Print a note, which does not require action by the user."""
    err.print(f"[yellow]note:[/] {escape(one_line(message))}", soft_wrap=True)


def print_text(text: str) -> None:
    """Print a result on stdout as it is, with control characters escaped."""
    out.print(visible(text), markup=False, soft_wrap=True)


def print_json(value: object) -> None:
    """Print a value as JSON on stdout."""
    typer.echo(visible_json(json.dumps(value, ensure_ascii=False, indent=2)))


def readable_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Decorate a command to report errors in one line, with exit code 2, and warnings as notes.

    If UEC_DEBUG=1 is in the environment, errors are raised with their traceback.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # warnings of libraries are for developers
                warnings.filterwarnings("always", category=UECWarning)
                warnings.showwarning = lambda message, *_, **__: note(str(message))
                command(*args, **kwargs)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if os.environ.get("UEC_DEBUG") == "1":
                raise
            text = one_line(str(error.args[0] if isinstance(error, KeyError) else error))
            if not isinstance(error, _EXPECTED):
                text = (
                    f"{type(error).__name__}: {text} (a defect of uec-rag: please report it; with "
                    "UEC_DEBUG=1 in the environment the traceback is printed)"
                )
            err.print(f"[bold red]error:[/] {plain(text)}", soft_wrap=True)
            raise typer.Exit(2) from None

    return run
