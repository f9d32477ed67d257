"""Parts that all commands share: opening an index, and output.

Results go to stdout, everything else to stderr, an error in one line.
"""

from __future__ import annotations

import functools
import inspect
import io
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from copy import copy
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeAlias, get_args, get_type_hints

import typer
from rich.console import Console
from rich.markup import escape

from uec_rag.base.checks import one_line, visible, visible_json
from uec_rag.base.errors import UECWarning
from uec_rag.base.files import DATABASE, is_index, refuse_outdated

if TYPE_CHECKING:
    from uec_rag.encoders import Encoder
    from uec_rag.ensemble import UEC
    from uec_rag.index import Retriever

P = ParamSpec("P")

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

_EXPECTED = (ValueError, TypeError, KeyError, ImportError, OSError)
"""The errors that this package raises, with messages for users; any other is a defect."""

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Logs: TypeAlias = Annotated[list[Path] | None, typer.Option(metavar="FILE")]


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
    """Print a value as JSON on stdout, with escapes for what its encoding lacks."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2)
    typer.echo(visible_json(text))


def print_what_can_be() -> None:
    """Let stdout and stderr write "?" for what their encoding lacks, as in pipes on Windows."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def take_help(command: Callable[..., None]) -> str:
    """Give each parameter of a command the help of its docstring; return the command's own."""
    about, _, listed = str(inspect.getdoc(command)).partition("\n\nParameters\n----------\n")
    hints: dict[str, Any] = get_type_hints(command, include_extras=True)
    for name, text in re.findall(r"^(\w+)\n((?: .*\n?)+)", listed, re.MULTILINE):
        default = inspect.signature(command).parameters[name].default
        arg = typer.Argument() if default is inspect.Parameter.empty else typer.Option()
        hint = hints[name] if hasattr(hints[name], "__metadata__") else Annotated[hints[name], arg]
        kind, info = get_args(hint)
        hints[name] = Annotated[kind, twin := copy(info)]
        twin.help = " ".join(text.split())
    command.__annotations__ = hints
    return about


def readable_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Decorate a command to report errors in one line, with exit code 2, and warnings as notes.

    Defects, and all errors if UEC_DEBUG=1 is in the environment, are raised with their traceback.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # warnings of libraries are for developers
                warnings.filterwarnings("always", category=UECWarning)
                warnings.showwarning = lambda message, *_, **__: note(str(message))
                options: Any = {name: _expanded(value) for name, value in kwargs.items()}
                command(*args, **options)
        except _EXPECTED as error:
            if isinstance(error, BrokenPipeError) or os.environ.get("UEC_DEBUG") == "1":
                raise
            text = one_line(str(error.args[0] if isinstance(error, KeyError) else error))
            err.print(f"[bold red]error:[/] {plain(text)}", soft_wrap=True)
            raise typer.Exit(2) from None

    return run


def _expanded(value: object) -> object:
    """Expand "~" in a path, as a client that runs a command without a shell does not."""
    return Path(os.path.expanduser(value)) if isinstance(value, Path) else value


ENCODERS: ContextVar[Sequence[str]] = ContextVar("encoders", default=())
"""The values of --encoder of this call."""

Index: TypeAlias = Annotated[
    Path, typer.Argument(metavar="INDEX", help="A folder that 'uec-rag index' made.")
]


def open_index(index: Path) -> Retriever:
    """Load a saved index."""
    check_index(index)
    say(f"Opening {index.name} ...")
    from uec_rag.index import Retriever

    return Retriever.load(
        index,
        read_only=not all(os.access(path, os.W_OK) for path in (index, index / DATABASE)),
        encoders=own_encoders(),
        fit=False,  # 'uec-rag index' has fitted it, unless there were too few headings
    )


def check_index(index: Path) -> None:
    """Raise FileNotFoundError if a folder is not an index, before anything is loaded."""
    if not is_index(index):
        refuse_outdated(index)
        raise FileNotFoundError(
            f"there is no index in {str(index)!r}; make one: uec-rag index FOLDER --out IDX"
        )


def own_encoders() -> dict[str, Encoder]:
    """Make the encoders that --encoder names, by their own names.

    Raises ValueError if one cannot be imported from here, or does not make an encoder.
    """
    encoders: dict[str, Encoder] = {}
    for name in ENCODERS.get():
        from uec_rag.encoders import load_encoder

        sys.path.insert(0, os.getcwd())
        try:
            encoder = load_encoder(resolve_name(name)())
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise ValueError(
                f"--encoder: expected MODULE:FUNCTION, which returns an embedding, got {name!r} "
                f"({error})"
            ) from error
        finally:
            sys.path.pop(0)
        encoders[encoder.name] = encoder
    return encoders


def build_ensemble(models: Sequence[str] | None) -> UEC:
    """Make an ensemble of models, with words beside them, or of a preset, by default `UEC()`."""
    from uec_rag.encoders.packages import DEFAULT_PRESET, PRESETS
    from uec_rag.ensemble import UEC

    encoders = own_encoders()
    names = [*(models or encoders or [DEFAULT_PRESET])]
    is_preset = names[0] in PRESETS and len(names) == 1
    if not is_preset and "bm25" not in names:
        names.append("bm25")
    say(f"Loading {', '.join(names)} ...")
    return UEC(names[0] if is_preset else [encoders.get(name, name) for name in names])
