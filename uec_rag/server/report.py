"""The page of an evaluation; how an index is measured is `uec_rag.evaluation.evaluate`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from jinja2 import Environment

from uec_rag.base.checks import visible
from uec_rag.base.version import __version__
from uec_rag.evaluation.evaluate import Evaluation


def report(
    found: Evaluation,
    against: Mapping[str, Any] | None = None,
    *,
    index: str,
    questions: str | None = None,
) -> str:
    """Render one page of HTML with everything in it, plots too; nothing is loaded from elsewhere.

    `against`: of `compared`, with the "index". `index`, `questions`: names of the index and of the
    file of questions, if they are not made up.
    """
    page = files("uec_rag.server").joinpath("pages", "report.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    about = {
        "Index": f"{index}, {found.facts['passages']:,} passages",
        "Ensemble": ", ".join(found.facts["members"]),
        "Questions": questions or "made from the passages, which are harder than users' are",
        "Measured": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, with uec-rag {__version__}",
    }
    about = {name: visible(value) for name, value in about.items()}
    return environment.from_string(page).render(found=found, against=against, about=about)
