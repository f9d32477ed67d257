"""Static pages of a server, which contain nothing of an index and load nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response

_FOLDER = Path(__file__).parent / "pages"
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def add_pages(app: Starlette, pages: Mapping[str, str]) -> None:
    """Add paths that each answer with a file of `pages/`, which may load files beside it."""

    def page(request: Request) -> Response:
        file = _FOLDER / pages[request.scope["path"]]
        headers = {"Content-Security-Policy": _POLICY}
        return FileResponse(file, media_type=_TYPES[file.suffix], headers=headers)

    for path in pages:
        app.add_route(path, page, include_in_schema=False)
