"""`uec-rag serve` and `uec-rag explore`: an index over HTTP, and on a page in the browser."""

from __future__ import annotations

from typing import Annotated

import typer

from uec_rag.cli.console import Index, Threshold, open_index

Port = Annotated[int, typer.Option(min=0, max=65535, help="0 for any free port.")]


def serve(
    index: Index,
    host: Annotated[
        str,
        typer.Option(help="The address to listen on; if others can reach it, --token is required."),
    ] = "127.0.0.1",
    port: Port = 8000,
    token: Annotated[
        str | None,
        typer.Option(envvar="UEC_TOKEN", help="The secret that every request must send."),
    ] = None,
    allow_host: Annotated[
        list[str], typer.Option(help="A host name of the server, such as that of a proxy.")
    ] = [],  # noqa: B006
    cors: Annotated[
        list[str],
        typer.Option(
            metavar="ORIGIN", help="Allow requests by pages of an origin, https://app.example.com."
        ),
    ] = [],  # noqa: B006
    write: Annotated[
        bool, typer.Option("--write", help="Let requests change labels and gate.")
    ] = False,
    threshold: Threshold = None,
) -> None:
    """Answer questions over HTTP: /ask, /index, /healthz, /openapi.json.

    In a browser, / asks questions, and /docs shows these paths and lets you try them.

    What other processes write to the index is found without a restart.

    Example: uec-rag serve idx; curl localhost:8000/ask --json '{"question": "Who may park here?"}'
    """
    from uec_rag.server import create_app
    from uec_rag.server.access import check_access
    from uec_rag.server.running import serve as run

    names = check_access(host, token, allow_host, cors)
    opened = open_index(index, threshold)
    run(create_app(opened, write, token, names=names, origins=cors), host, port)


def explore(index: Index, port: Port = 8001) -> None:
    """Show an index on a page in the browser: ask, label, set the threshold.

    It is the page of 'uec-rag serve --write'. Nothing leaves this machine.

    Example: uec-rag explore idx
    """
    serve(index, port=port, write=True)
