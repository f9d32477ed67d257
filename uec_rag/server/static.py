"""Self-contained pages: those of the servers, and the report of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from uec_rag.base.checks import visible
from uec_rag.base.version import __version__

if TYPE_CHECKING:
    from uec_rag.evaluation.evaluate import Evaluation


_FOLDER = Path(__file__).parent / "pages"
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def add_pages(app: Starlette, pages: Mapping[str, str]) -> None:
    """Add routes that serve files of `pages/`; a page may only load resources of this server."""

    def page(request: Request) -> Response:
        file = _FOLDER / pages[request.scope["path"]]
        headers = {"Content-Security-Policy": _POLICY}
        return FileResponse(file, media_type=_TYPES[file.suffix], headers=headers)

    for path in pages:
        app.add_route(path, page, include_in_schema=False)


def report(
    evaluation: Evaluation,
    against: Mapping[str, Any] | None = None,
    *,
    index: str,
    questions: str | None = None,
) -> str:
    """Render an evaluation as one self-contained HTML page, including the plots.

    `against`: the result of `compare`, with the name of the other index as "index". `index`: name
    of the index. `questions`: name of the file of questions; None if they were generated.
    """
    from jinja2 import Environment

    page = (_FOLDER / "report.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    about = {
        "Index": f"{index}, {evaluation.facts['passages']:,} passages",
        "Ensemble": ", ".join(evaluation.facts["members"]),
        "Questions": questions or "made from the passages, which are harder than users' are",
        "Measured": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, with uec-rag {__version__}",
    }
    about = {name: visible(value) for name, value in about.items()}
    return environment.from_string(page).render(found=evaluation, against=against, about=about)
