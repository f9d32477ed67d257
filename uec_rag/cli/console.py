"""The output of commands: results on stdout, everything else on stderr, errors in one line."""

from __future__ import annotations

import functools
import json
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec, TypeAlias

import typer
from rich.console import Console
from rich.markup import escape

from uec_rag.base.checks import one_line, visible, visible_json
from uec_rag.base.errors import UECWarning
from uec_rag.base.files import DATABASE, is_index
from uec_rag.stores.urls import check_address, open_store

if TYPE_CHECKING:
    from uec_rag.encoders import Encoder
    from uec_rag.retrieval import Retriever


P = ParamSpec("P")

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

_EXPECTED = (ValueError, TypeError, KeyError, ImportError, OSError)
"""The errors that this package raises, with messages for users; any other is a defect."""


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


def print_json(value: object, *, on_one_line: bool = False) -> None:
    """Print a value as JSON on stdout."""
    indent = None if on_one_line else 2
    typer.echo(visible_json(json.dumps(value, ensure_ascii=False, indent=indent)))


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
            err.print(f"[bold red]error:[/] {plain(_message(error))}", soft_wrap=True)
            raise typer.Exit(2) from None

    return run


def _message(error: Exception) -> str:
    text = one_line(str(error.args[0] if isinstance(error, KeyError) and error.args else error))
    if isinstance(error, _EXPECTED):
        return text or type(error).__name__
    return (
        f"{type(error).__name__}: {text} (a defect of uec-rag: please report it; "
        "with UEC_DEBUG=1 in the environment the traceback is printed)"
    )


def _store_url(address: str) -> str:
    """Check the format of a store's address, without opening it."""
    try:
        check_address(address)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return address


Index: TypeAlias = Annotated[
    Path, typer.Argument(metavar="INDEX", help="A folder that 'uec-rag index' made.")
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Models: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        help="english (default), multilingual, or a model's hub name or folder; repeatable.",
    ),
]
Trust: TypeAlias = Annotated[
    bool, typer.Option("--trust", help="Allow downloads of models named in the index.")
]
StoreUrl: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        parser=_store_url,
        help="Where the passages are, if not in the index: qdrant://HOST:PORT/COLLECTION or "
        "qdrant:///FOLDER/COLLECTION.",
    ),
]
GatePath: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--gate",
        help="A gate that 'uec-rag gate' made; by default that of the index, if it has one.",
    ),
]
Threshold: TypeAlias = Annotated[
    float | None,
    typer.Option("--threshold", min=0, max=1, help="Answer above this confidence, without a gate."),
]


def check_deciding(index: Path, gate: Path | None, threshold: float | None) -> None:
    """Check that an index and the gate that decides exist, before anything is loaded.

    Raises ValueError if two options choose what decides or the file has no gate, and
    FileNotFoundError if the index does not exist.
    """
    if gate is not None and threshold is not None:
        raise ValueError("--gate and --threshold: expected one of them; each says what decides")
    check_index(index)
    if gate is not None:
        check_gate(gate)


def check_gate(gate: Path) -> None:
    """Raise ValueError if a file does not contain a gate, before the index is loaded."""
    from uec_rag.retrieval.gate import Gate

    try:
        Gate.load(gate)
    except (ValueError, FileNotFoundError):
        raise ValueError(
            f"--gate: there is no gate in {str(gate)!r}, or a damaged one; make one: uec-rag gate "
            "INDEX QUESTIONS"
        ) from None


def open_index(
    index: Path,
    store: str | None,
    trust: bool,
    gate: Path | None = None,
    threshold: float | None = None,
) -> Retriever:
    """Load a saved index, with its passages in the Qdrant `store` if one is given.

    The gate in the file `gate` or a plain threshold decides instead of the gate of the index.
    """
    say(f"Opening {index.name} ...")
    from uec_rag.retrieval import Gate, Retriever

    engine = None if store is None else open_store(store)
    writable = os.access(index, os.W_OK) and os.access(index / DATABASE, os.W_OK)
    retriever = Retriever.load(
        index,
        read_only=not writable,
        encoders=own_encoders(),
        store=engine,
        trust=trust,
        fit=False,  # 'uec-rag index' has fitted it, unless there were too few headings
    )
    if gate is not None:
        retriever.gate = Gate.load(gate)
    elif threshold is not None:
        retriever.gate = Gate(threshold)
    return retriever


def check_gate_decides(retriever: Retriever, path: Path, *, is_own: bool) -> None:
    """Say which gate decides if it is the index's own, and whether it is outdated.

    Raises ValueError if it abstains on every question.
    """
    from uec_rag.retrieval.gate import OUTDATED

    gate = retriever.gate
    if gate is not None and is_own:
        say(f"The index's gate decides (omit it with --threshold 0.5). {gate.report}")
    if gate is not None and gate.threshold >= 1:
        raise ValueError(
            f"--gate: the gate in {str(path)!r} abstains on every question; make another with "
            "'uec-rag gate', from more questions or with a higher --max-wrong or --max-risk"
        )
    if not retriever.gate_fits():
        note(OUTDATED)


ENCODERS: ContextVar[Sequence[str]] = ContextVar("encoders", default=())
"""The values of --encoder of this call."""


def own_encoders() -> dict[str, Encoder]:
    """Make the encoders that --encoder names, by their own names.

    Raises ValueError if one cannot be imported from here, or does not make an encoder.
    """
    made: dict[str, Encoder] = {}
    for name in ENCODERS.get():
        from uec_rag.encoders import load_encoder

        module, _, function = name.partition(":")
        sys.path.insert(0, os.getcwd())
        try:
            encoder = load_encoder(getattr(import_module(module), function)())
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise ValueError(
                f"--encoder: expected MODULE:FUNCTION, which returns an embedding, got {name!r} "
                f"({error})"
            ) from error
        finally:
            sys.path.pop(0)
        made[encoder.name] = encoder
    return made


def check_file(path: Path, argument: str) -> None:
    """Raise ValueError if a file cannot be written at a path, before any work is done."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ValueError(
            f"{argument}: expected a file in a folder that is there, got {str(path)!r}"
        )


def check_index(index: Path, argument: str = "INDEX") -> None:
    """Raise FileNotFoundError if a folder is not an index, before anything is loaded."""
    if not is_index(index):
        raise FileNotFoundError(
            f"{argument}: there is no index in {str(index)!r}; make one: uec-rag index FOLDER "
            "--out IDX"
        )
