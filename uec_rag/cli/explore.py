"""`uec-rag explore`: an index on a page in the browser."""

from __future__ import annotations

from uec_rag.cli.address import HOST, Host, Names, Port, Token, server_names
from uec_rag.cli.console import Index, StoreUrl, Trust, check_index, open_index


def explore(
    index: Index,
    host: Host = HOST,
    port: Port = 8001,
    token: Token = None,
    allow_host: Names = [],  # noqa: B006
    store: StoreUrl = None,
    trust: Trust = False,
) -> None:
    """Show an index on a page in the browser: ask, label, set the threshold.

    It is the page of 'uec-rag serve --write'. Nothing leaves this machine, unless --host or --store
    names another one.

    Example: uec-rag explore idx
    """
    check_index(index)
    names = server_names(host, token, allow_host)
    from uec_rag.server import create_app
    from uec_rag.server.running import serve

    opened = open_index(index, store, trust)
    serve(create_app(opened, True, token, names=names), opened, host, port, "open %s")
