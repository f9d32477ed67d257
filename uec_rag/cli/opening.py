"""Opening an index, or making its ensemble: the options that say which, and what decides."""

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
    from uec_rag.ensemble import UEC
    from uec_rag.retrieval import Retriever

ENCODERS: ContextVar[Sequence[str]] = ContextVar("encoders", default=())
"""The values of --encoder of this call."""

Index: TypeAlias = Annotated[
    Path, typer.Argument(metavar="INDEX", help="A folder that 'uec-rag index' made.")
]
Threshold: TypeAlias = Annotated[
    float | None,
    typer.Option("--threshold", min=0, max=1, help="Answer above this confidence, without a gate."),
]


def open_index(index: Path, threshold: float | None = None) -> Retriever:
    """Load a saved index; a plain threshold decides instead of its gate if it is given."""
    check_index(index)
    say(f"Opening {index.name} ...")
    from uec_rag.retrieval import Gate, Retriever

    retriever = Retriever.load(
        index,
        read_only=not all(os.access(path, os.W_OK) for path in (index, index / DATABASE)),
        encoders=own_encoders(),
        fit=False,  # 'uec-rag index' has fitted it, unless there were too few headings
    )
    if threshold is not None:
        retriever.gate = Gate(threshold)
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


def build_ensemble(models: Sequence[str] | None) -> UEC:
    """Make an ensemble of models or of a preset, by default `UEC()`."""
    from uec_rag.encoders.packages import DEFAULT_PRESET, PRESETS
    from uec_rag.ensemble import UEC

    own = own_encoders()
    names = models or ([*own, "bm25"] if own else [DEFAULT_PRESET])
    say(f"Loading {', '.join(names)} ...")
    is_preset = names[0] in PRESETS and len(names) == 1
    return UEC(names[0] if is_preset else [own.get(name, name) for name in names])
