"""Opening an index: the options that say which, and what decides."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from uec_rag.base.files import DATABASE, is_index
from uec_rag.cli.console import say

if TYPE_CHECKING:
    from uec_rag.encoders import Encoder
    from uec_rag.retrieval import Retriever

ENCODERS: ContextVar[Sequence[str]] = ContextVar("encoders", default=())
"""The values of --encoder of this call."""

Index: TypeAlias = Annotated[
    Path, typer.Argument(metavar="INDEX", help="A folder that 'uec-rag index' made.")
]
Trust: TypeAlias = Annotated[
    bool, typer.Option("--trust", help="Allow downloads of models named in the index.")
]
StoreUrl: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
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
    if gate is not None and threshold is not None:
        raise ValueError("--gate and --threshold: expected one of them; each says what decides")
    check_index(index)
    say(f"Opening {index.name} ...")
    from uec_rag.retrieval import Gate, Retriever
    from uec_rag.stores import open_store

    other = None if threshold is None else Gate(threshold)
    if gate is not None:
        try:
            other = Gate.load(gate)
        except (ValueError, FileNotFoundError) as error:
            raise ValueError(f"--gate {gate}: {error}") from None
    retriever = Retriever.load(
        index,
        read_only=not all(os.access(path, os.W_OK) for path in (index, index / DATABASE)),
        encoders=own_encoders(),
        store=None if store is None else open_store(store),
        trust=trust,
        fit=False,  # 'uec-rag index' has fitted it, unless there were too few headings
    )
    if other is not None:
        retriever.gate = other
    return retriever


def check_index(index: Path) -> None:
    """Raise FileNotFoundError if a folder is not an index, before anything is loaded."""
    if not is_index(index):
        raise FileNotFoundError(
            f"there is no index in {str(index)!r}; make one: uec-rag index FOLDER --out IDX"
        )


def own_encoders() -> dict[str, Encoder]:
    """Make the encoders that --encoder names, by their own names.

    Raises ValueError if one cannot be imported from here, or does not make an encoder.
    """
    made: dict[str, Encoder] = {}
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
        made[encoder.name] = encoder
    return made
