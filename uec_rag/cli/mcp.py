"""`uec-rag mcp`: an index as tools of agents."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Annotated, Any

import typer

from uec_rag.cli.opening import Index, Threshold, open_index
from uec_rag.cli.serve import HOST, PORT, Host, Names, Port, Token


def mcp(
    index: Index,
    description: Annotated[
        str | None,
        typer.Option(help="What the documents are about, for agents that choose between servers."),
    ] = None,
    filter: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help='Show agents only passages with such metadata, such as {"team": "sales"}.',
        ),
    ] = None,
    http: Annotated[
        bool, typer.Option("--http", help="Serve at http://HOST:PORT/mcp, not over stdin.")
    ] = False,
    host: Host = HOST,
    port: Port = PORT,
    token: Token = None,
    allow_host: Names = [],  # noqa: B006
    threshold: Threshold = None,
) -> None:
    """Give agents tools to search an index and to read in it, by the Model Context Protocol.

    Example: uec-rag mcp idx, as the command of a client's configuration.
    """
    if not http and (allow_host or (host, port) != (HOST, PORT)):
        raise ValueError("--host, --port and --allow-host: expected --http with them")
    from uec_rag.server import create_mcp
    from uec_rag.server.access import check_access
    from uec_rag.server.mcp import http_app
    from uec_rag.server.running import log_to_stderr, serve

    names = check_access(host, token if http else None, allow_host)
    conditions = None if filter is None else _conditions(filter)
    opened = open_index(index, threshold)
    server = create_mcp(opened, conditions, description=description)
    try:
        if http:
            serve(http_app(server, token, names), host, port)
        else:
            log_to_stderr()
            server.run("stdio")
    finally:
        opened.close()


def _conditions(text: str) -> dict[str, Any]:
    """Parse a filter; ValueError if it is not a JSON object."""
    with suppress(ValueError):
        if isinstance(conditions := json.loads(text), dict):
            return conditions
    raise ValueError(
        f'--filter: expected a JSON object of metadata, such as {{"team": "sales"}}, got '
        f"{text!r:.60}"
    )
