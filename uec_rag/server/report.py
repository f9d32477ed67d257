"""The page of an evaluation; how an index is measured is `uec_rag.evaluation.evaluate`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment

from uec_rag.evaluation.evaluate import Evaluation


def report(found: Evaluation, against: Mapping[str, Any] | None = None) -> str:
    """One page of HTML with everything in it, its plots too; nothing is loaded from elsewhere."""
    page = files("uec_rag.server").joinpath("pages", "report.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(page).render(found=found, against=against)
