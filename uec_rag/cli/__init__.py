"""The command line interface `uec-rag`, with its commands `demo`, `index`, `ask`, `serve`, ..."""

import os
from typing import Annotated

import typer

from uec_rag.base import __version__
from uec_rag.base.progress import IN_LINES
from uec_rag.cli import ask_index, make_index, use_labels
from uec_rag.cli.console import ENCODERS, print_what_can_be, readable_errors, take_help
from uec_rag.cli.parameters import PlainCommand, PlainGroup

app = typer.Typer(
    name="uec-rag",
    cls=PlainGroup,
    help="Search documents and decide whether to answer, clarify or abstain.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


for command in (
    *(ask_index.demo, make_index.index, ask_index.ask),
    *(use_labels.gate, use_labels.questions, make_index.check),
    *(ask_index.serve, ask_index.explore, ask_index.mcp, use_labels.evaluate),
):
    app.command(cls=PlainCommand, help=take_help(command))(readable_errors(command))


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"uec-rag {__version__}")
        raise typer.Exit


@app.callback()
def options(
    encoder: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="A function of yours that returns an embedding of the index, before the command: "
            "uec-rag --encoder my_models:embedding ask INDEX QUESTION. Repeatable.",
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Prepare the environment of all commands; help shows the text of `app`, not this docstring."""
    print_what_can_be()
    ENCODERS.set(encoder or ())
    IN_LINES.set(True)
    # Progress bars and advice of libraries would be mixed with the output.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def main() -> None:
    """Run the command line."""
    print_what_can_be()  # also for its help
    app()
