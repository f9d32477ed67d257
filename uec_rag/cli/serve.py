"""`uec-rag serve`, `mcp` and `explore`: servers for programs, agents and people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uec_rag.base.environment import require
from uec_rag.cli.console import (
    GatePath,
    Index,
    NoGate,
    StoreUrl,
    Threshold,
    Trust,
    check_deciding,
    check_file,
    check_gate,
    check_index,
    note,
    open_index,
)

if TYPE_CHECKING:
    from uec_rag.server.access import Access

_HOST, _PORT = "127.0.0.1", 8000

Host = Annotated[
    str, typer.Option(help="The address to listen on; if others can reach it, --token is required.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 for any free port.")]
Token = Annotated[
    str | None, typer.Option(envvar="UEC_TOKEN", help="The secret that every request must send.")
]
Names = Annotated[
    list[str] | None,
    typer.Option("--allow-host", help="A host name of the server, such as that of a proxy."),
]
Limit = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=NUMBER",
        help="Change a limit: body, answer (bytes), connections, headers (seconds), "
        "queue, conditions, values, characters. See the guide to serving.",
    ),
]


def access_of(
    host: str,
    token: str | None,
    names: list[str] | None,
    limit: list[str] | None,
    origins: list[str] | None = None,
) -> Access:
    """Make the access rules, and print a note if the network can reach the server."""
    from uec_rag.server.access import Access, limits_of

    allowed = tuple(name.lower() for name in names or ())
    limits, others = limits_of(limit or ()), tuple(origin.rstrip("/") for origin in origins or ())
    access = Access(host, token, allowed, limits=limits, origins=others)
    if access.warning:
        note(access.warning)
    return access


def require_server(*packages: str) -> None:
    """Raise ImportError, which says what to install, if a package of the servers is missing."""
    require("serve", "fastapi", "prometheus-client", "uvicorn", *packages)


def serve(
    index: Index,
    host: Host = _HOST,
    port: Port = _PORT,
    token: Token = None,
    allow_host: Names = None,
    limit: Limit = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN", help="Allow requests by pages of an origin, https://app.example.com."
        ),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Let requests add and delete passages.")
    ] = False,
    gate: GatePath = None,
    no_gate: NoGate = False,
    threshold: Threshold = None,
    store: StoreUrl = None,
    trust: Trust = False,
) -> None:
    """Answer questions over HTTP: /search, /ask, /healthz, /readyz, /metrics, /openapi.json.

    In a browser, / and /docs show these paths and let you try them.

    What other processes write to the index is found without a restart.

    Example: uec-rag serve idx; curl localhost:8000/ask --json '{"question": "Who may park here?"}'
    """
    check_deciding(index, gate, no_gate=no_gate, threshold=threshold)
    require_server()
    access = access_of(host, token, allow_host, limit, cors)
    from uec_rag.server.http import run

    opened = open_index(index, store, trust, gate, no_gate=no_gate, threshold=threshold)
    run(opened, access, port, write=write)


def explore(
    index: Index,
    host: Host = _HOST,
    port: Port = 8001,
    token: Token = None,
    allow_host: Names = None,
    limit: Limit = None,
    gate: Annotated[
        Path | None, typer.Option(help="File for the gate; by default gate.json in INDEX.")
    ] = None,
    store: StoreUrl = None,
    trust: Trust = False,
) -> None:
    """Show an index on a page in the browser: ask, set the threshold, look around.

    Nothing leaves this machine, unless --host or --store names another one.

    Example: uec-rag explore idx
    """
    check_index(index)
    if gate is not None:
        check_file(gate, "--gate")
        if gate.exists():
            check_gate(gate)
    require_server()
    from uec_rag.server.explore import LARGEST_TABLE, run

    access = access_of(host, token, allow_host, [f"body={LARGEST_TABLE}", *(limit or ())])
    run(open_index(index, store, trust), access, port, gate)


def mcp(
    index: Index,
    name: Annotated[str, typer.Option(help="The server's name, for clients.")] = "uec-rag",
    description: Annotated[
        str | None,
        typer.Option(help="What the documents are about, for agents that choose between servers."),
    ] = None,
    http: Annotated[
        bool, typer.Option("--http", help="Serve at http://HOST:PORT/mcp, not over stdin.")
    ] = False,
    host: Host = _HOST,
    port: Port = _PORT,
    token: Token = None,
    allow_host: Names = None,
    limit: Limit = None,
    gate: GatePath = None,
    no_gate: NoGate = False,
    threshold: Threshold = None,
    store: StoreUrl = None,
    trust: Trust = False,
) -> None:
    """Give agents tools to search and ask an index, by the Model Context Protocol.

    Example: uec-rag mcp idx, as the command of a client's configuration.
    """
    if token is not None and not http:
        note("--token, or UEC_TOKEN: not used over stdin; with --http, requests must send it")
    check_deciding(index, gate, no_gate=no_gate, threshold=threshold)
    require_server("mcp")
    if not http and (allow_host or limit or (host, port) != (_HOST, _PORT)):
        raise ValueError("--host, --port, --allow-host and --limit: expected --http with them")
    access = access_of(host, token, allow_host, limit) if http else None
    from uec_rag.server.mcp import run

    opened = open_index(index, store, trust, gate, no_gate=no_gate, threshold=threshold)
    run(opened, access, port, name, description)
