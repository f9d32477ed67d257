"""Options that several commands have."""

from typing import Annotated, TypeAlias

import typer

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]

Models: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="Hub name, folder or pypi:NAME of a model; repeat for several.",
    ),
]
