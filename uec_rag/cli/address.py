"""The options of commands that listen: where, and who may ask."""

from __future__ import annotations

from typing import Annotated

import typer

from uec_rag.base.environment import require
from uec_rag.cli.console import note

HOST, PORT = "127.0.0.1", 8000

Host = Annotated[
    str, typer.Option(help="The address to listen on; if others can reach it, --token is required.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 for any free port.")]
Token = Annotated[
    str | None, typer.Option(envvar="UEC_TOKEN", help="The secret that every request must send.")
]
Names = Annotated[
    list[str],
    typer.Option("--allow-host", help="A host name of the server, such as that of a proxy."),
]


def server_names(
    host: str, token: str | None, names: list[str], origins: list[str] | None = None
) -> list[str]:
    """Check who may ask a server, and return its names; notes if the network can reach it.

    Raises ImportError, which says what to install, if the libraries of the servers are missing.
    """
    require("serve", "fastapi", "mcp", "prometheus-client", "uvicorn")
    from uec_rag.server.access import check_access, is_local, names_of

    check_access(host, token, names, origins or ())
    if not is_local(host):
        note(
            f"--host {host}: requests, answers and the token are sent unencrypted; put a TLS proxy "
            "in front of the server, and listen on an address that only the proxy can reach"
        )
    return [*names_of(host), *names]
