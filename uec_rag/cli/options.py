"""Options and arguments that several commands have."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from uec_rag.base.manifest import MANIFEST

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]

Models: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="Hub name, folder or pypi:NAME of a model; repeat for several.",
    ),
]


def check_index(index: Path) -> None:
    """Refuse a folder that is no index, before anything is loaded."""
    if not (index / MANIFEST).is_file():
        raise FileNotFoundError(
            f"INDEX: there is no index in {str(index)!r}; make one: uec-rag index FOLDER --out IDX"
        )
