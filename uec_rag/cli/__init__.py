"""The command line interface `uec-rag`, with its commands `demo`, `index`, `ask`, `serve`, ..."""

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from uec_rag.base.version import __version__
from uec_rag.cli import (
    ask,
    check,
    demo,
    evaluate,
    explore,
    gate,
    index,
    mcp,
    models,
    questions,
    serve,
)
from uec_rag.cli.console import ENCODERS, readable_errors

app = typer.Typer(
    name="uec-rag",
    help="Search documents and decide whether to answer, clarify or abstain.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class _Command(TyperCommand):
    """A command that rejects blank values, since an empty path would mean the current folder."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401
        fields = self.make_parser(ctx).parse_args([*args])[0]
        for parameter in self.get_params(ctx):
            values = fields.get(str(parameter.name))
            for value in values if isinstance(values, list) else [values]:
                if isinstance(value, str) and not value.strip():
                    wrong: Any = parameter
                    raise typer.BadParameter("expected a text that is not blank", ctx, wrong)
        return super().parse_args(ctx, args)


for command in (
    demo.demo,
    index.index,
    ask.ask,
    gate.gate,
    questions.questions,
    check.check,
    serve.serve,
    explore.explore,
    mcp.mcp,
    evaluate.evaluate,
    models.fetch,
):
    app.command(cls=_Command)(readable_errors(command))


def _print_version(wanted: bool) -> None:
    if wanted:
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
    ENCODERS.set(encoder or ())
    # Progress bars and advice of libraries would be mixed with the output.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def main() -> None:
    """Run the command line, with a question mark for characters that the terminal cannot show."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app()
