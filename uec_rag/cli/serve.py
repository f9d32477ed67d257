"""`uec-rag serve`, `explore` and `mcp`: an index over HTTP, on a page, and as tools of agents."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Annotated, Any

import typer

from uec_rag.cli.console import Index, open_index

Port = Annotated[int, typer.Option(min=0, max=65535)]


def serve(
    index: Index,
    host: str = "127.0.0.1",
    port: Port = 8000,
    token: Annotated[str | None, typer.Option(envvar="UEC_TOKEN")] = None,
    allow_host: list[str] = [],  # noqa: B006
    cors: Annotated[list[str], typer.Option(metavar="ORIGIN")] = [],  # noqa: B006
    write: Annotated[bool, typer.Option("--write")] = False,
) -> None:
    """Answer questions over HTTP: /ask, /index, /healthz, /openapi.json.

    In a browser, / asks questions, and /docs shows these paths and lets you try them.

    What other processes write to the index is found without a restart.

    Example: uec-rag serve idx; curl localhost:8000/ask --json '{"question": "Who may park here?"}'

    Parameters
    ----------
    host
        The address to listen on; if others can reach it, --token is required.
    port
        0 for any free port.
    token
        The secret that every request must send.
    allow_host
        A host name of the server, such as that of a proxy.
    cors
        Allow requests by pages of an origin, https://app.example.com.
    write
        Let requests change labels and gate.
    """
    from uec_rag.server import create_app
    from uec_rag.server.access import check_access
    from uec_rag.server.running import serve as run

    names = check_access(host, token, allow_host, cors)
    opened = open_index(index)
    run(create_app(opened, write, token, names=names, origins=cors), host, port)


def explore(index: Index, port: Port = 8001) -> None:
    """Show an index on a page in the browser: ask, label, set the threshold.

    It is the page of 'uec-rag serve --write'. Nothing leaves this machine.

    Example: uec-rag explore idx

    Parameters
    ----------
    port
        0 for any free port.
    """
    serve(index, port=port, write=True)


def mcp(
    index: Index,
    filter: Annotated[
        dict[str, Any] | None, typer.Option(parser=json.loads, metavar="JSON")
    ] = None,
) -> None:
    """Give agents tools to search an index and to read in it, by the Model Context Protocol.

    Example: uec-rag mcp idx, as the command of a client's configuration.

    Parameters
    ----------
    filter
        Show agents only passages with such metadata, such as {"team": "sales"}.
    """
    from uec_rag.server import create_mcp
    from uec_rag.server.running import log_to_stderr

    with closing(open_index(index)) as opened:
        server = create_mcp(opened, filter)
        log_to_stderr()
        server.run("stdio")
