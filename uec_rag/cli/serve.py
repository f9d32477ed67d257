"""`uec-rag serve`: an index over HTTP, for programs."""

from __future__ import annotations

from typing import Annotated

import typer

from uec_rag.cli.address import HOST, PORT, Host, Names, Port, Token, server_names
from uec_rag.cli.console import (
    GatePath,
    Index,
    StoreUrl,
    Threshold,
    Trust,
    check_deciding,
    open_index,
)


def serve(
    index: Index,
    host: Host = HOST,
    port: Port = PORT,
    token: Token = None,
    allow_host: Names = [],  # noqa: B006
    cors: Annotated[
        list[str],
        typer.Option(
            metavar="ORIGIN", help="Allow requests by pages of an origin, https://app.example.com."
        ),
    ] = [],  # noqa: B006
    write: Annotated[
        bool, typer.Option("--write", help="Let requests change passages, labels and gate.")
    ] = False,
    gate: GatePath = None,
    threshold: Threshold = None,
    store: StoreUrl = None,
    trust: Trust = False,
) -> None:
    """Answer questions over HTTP: /ask, /index, /healthz, /readyz, /metrics, /openapi.json.

    In a browser, / asks questions, and /docs shows these paths and lets you try them.

    What other processes write to the index is found without a restart.

    Example: uec-rag serve idx; curl localhost:8000/ask --json '{"question": "Who may park here?"}'
    """
    check_deciding(index, gate, threshold)
    origins = [origin.rstrip("/") for origin in cors]
    names = server_names(host, token, allow_host, origins)
    from uec_rag.server import create_app
    from uec_rag.server.running import serve as run

    opened = open_index(index, store, trust, gate, threshold)
    app = create_app(opened, write, token, names=names, origins=origins)
    run(app, opened, host, port, "serving on %s")
