"""`uec-rag serve`, `mcp` and `explore`: an index for other programs, agents and people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uec_rag.base.environment import require
from uec_rag.cli.console import (
    GatePath,
    Index,
    NoGate,
    StorePlace,
    Threshold,
    Trust,
    check_index,
    note,
    place_of,
    say,
)

if TYPE_CHECKING:
    from uec_rag.retrieval.live import Place
    from uec_rag.server.access import Access

Host = Annotated[str, typer.Option(help="The address to listen on; others need a token.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 for any that is free.")]
Token = Annotated[
    str | None,
    typer.Option(envvar="UEC_TOKEN", show_envvar=True, help="What every request must bring."),
]
Names = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="NAME", help="A name that a proxy is reached by."),
]

Limit = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=NUMBER",
        help="Another limit than usual: body, answer (bytes), connections, headers (seconds), "
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
    limits, others = limits_of(limit or ()), tuple(one.rstrip("/") for one in origins or ())
    access = Access(host, token, allowed, limits=limits, origins=others)
    if access.warning:
        note(access.warning)
    return access


def open_place(place: Place, *packages: str) -> None:
    """Announce what is opened, after a check that it can be."""
    check_index(place.index)
    require("serve", "fastapi", "prometheus-client", "uvicorn", *packages)
    say(f"Opening {place.index.name} ...")


def serve(
    index: Index,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Token = None,
    allow_host: Names = None,
    limit: Limit = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Let pages of https://app.example.com ask, too."),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Let requests add and delete passages.")
    ] = False,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Processes that answer, each with the whole index.")
    ] = 1,
    gate: GatePath = None,
    no_gate: NoGate = False,
    threshold: Threshold = None,
    store: StorePlace = None,
    trust: Trust = False,
) -> None:
    """Answer questions over HTTP: /search, /ask, /healthz, /readyz, /metrics, /openapi.json.

    In a browser / and /docs show these paths, to be tried.

    A new save of the index is taken up while it runs.

    Example: uec-rag serve idx; curl localhost:8000/ask --json '{"question": "Who may park here?"}'
    """
    place = place_of(index, store, trust, gate, no_gate, threshold)
    open_place(place)
    from uec_rag.server.http import run

    access = access_of(host, token, allow_host, limit, cors)
    run(place, access, port, write=write, workers=workers)


def explore(
    index: Index,
    host: Host = "127.0.0.1",
    port: Port = 8001,
    token: Token = None,
    allow_host: Names = None,
    limit: Limit = None,
    gate: Annotated[
        Path | None,
        typer.Option(metavar="GATE", help="File for the gate; by default gate.json in INDEX."),
    ] = None,
    store: StorePlace = None,
    trust: Trust = False,
) -> None:
    """Show an index on a page in the browser: ask, set the threshold, look around, add files.

    Nothing leaves this machine.

    Example: uec-rag explore idx
    """
    place = place_of(index, store, trust, None, no_gate=False, threshold=None)
    open_place(place)
    from uec_rag.server.explore import run

    run(place, access_of(host, token, allow_host, limit), port, gate)


def mcp(
    index: Index,
    name: Annotated[str, typer.Option(help="The server's name, for clients.")] = "uec-rag",
    description: Annotated[
        str | None,
        typer.Option(help="What the documents are about: agents choose between servers by it."),
    ] = None,
    http: Annotated[
        bool, typer.Option("--http", help="Serve at http://HOST:PORT/mcp, not over stdin.")
    ] = False,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Token = None,
    allow_host: Names = None,
    limit: Limit = None,
    gate: GatePath = None,
    no_gate: NoGate = False,
    threshold: Threshold = None,
    store: StorePlace = None,
    trust: Trust = False,
) -> None:
    """Give an index to agents, by the Model Context Protocol: tools to search and to ask.

    Example: uec-rag mcp idx, as the command of a client's configuration.
    """
    place = place_of(index, store, trust, gate, no_gate, threshold)
    open_place(place, "mcp")
    from uec_rag.server.mcp import run

    access = access_of(host, token, allow_host, limit) if http else None
    run(place, access, port, name, description)
