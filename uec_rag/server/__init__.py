"""Serve an index: over HTTP with a page for people, and to agents by the Model Context Protocol.

`http` and `mcp` are the ways in; `running` is the process that serves, `protections` say
who may ask, `schemas` what is sent, `errors` what is said of what fails.
"""

from uec_rag.base.errors import require

require("serve", "fastapi", "mcp", "uvicorn")

from uec_rag.server.http import create_app  # noqa: E402
from uec_rag.server.mcp import create_mcp  # noqa: E402

__all__ = ["create_app", "create_mcp"]
