"""`uec-rag mcp`: an index as tools of agents."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Annotated, Any

import typer

from uec_rag.cli.console import Index, open_index


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
