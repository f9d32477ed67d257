"""Reading of Jupyter notebooks: texts, code, and what the code has put out."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from uec_rag.documents.document import Block, Content, Page
from uec_rag.documents.markdown import read_markdown
from uec_rag.documents.plain_text import fenced

_LONGEST = 4_000  # characters of an output in plain text
_LARGEST = 200_000  # characters of one in HTML
_DRAWN = ("application/vnd", "audio/", "image/", "video/")
_COLOUR = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_OBJECT = re.compile(r"[\[(]*<[^<>]* at 0x[0-9a-f]+>")  # what Python shows of what has no text


def read_notebook(text: str) -> Content:
    """Read the texts, the code and its outputs, without images and errors."""
    first, blocks, left_out = Content([]), list[Block](), Counter[str]()
    for number, cell in enumerate(json.loads(text)["cells"]):
        source = _joined(cell["source"])
        left_out["image"] += len(cell.get("attachments", ()))
        if cell["cell_type"] == "code":
            blocks.append(fenced(source))
        elif number:
            blocks += _markdown(source)
        else:
            first = read_markdown(source)
            blocks += first.pages[0].blocks
        for output in cell.get("outputs", ()):
            blocks += _output(output, left_out)
    return replace(first, pages=[Page(blocks)], left_out=left_out)


def _joined(lines: object) -> str:
    return "".join(lines) if isinstance(lines, list) else str(lines)


def _markdown(text: str) -> Sequence[Block]:
    # Only the first text has a front matter.
    return read_markdown(f"<!-- -->\n\n{text}").pages[0].blocks


def _output(output: Mapping[str, Any], left_out: Counter[str]) -> Sequence[Block]:
    """Return what an output shows, the richest of its forms that is text."""
    if output.get("output_type") == "error" or output.get("name") == "stderr":
        left_out["error output"] += 1
        return []
    forms = {form: _joined(lines) for form, lines in output.get("data", {}).items()}
    html = forms.get("text/html", "")
    if "text/markdown" in forms:
        return _markdown(forms["text/markdown"])
    if "<table" not in html and any(form.startswith(_DRAWN) for form in forms):
        left_out["image or widget"] += 1
        return []
    if html and len(html) <= _LARGEST and find_spec("bs4"):
        from uec_rag.documents.html import html_blocks

        return html_blocks(html)
    plain = forms.get("text/plain", _joined(output.get("text", "")))
    return [forms.get("text/latex", "") or _plain(plain, left_out)]


def _plain(text: str, left_out: Counter[str]) -> str:
    """Return a text as a terminal leaves it, cut to a limit."""
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in _COLOUR.sub("", text).split("\n")]
    shown = "\n".join(lines).strip("\n")
    if _OBJECT.match(shown):
        return ""
    if len(shown) > _LONGEST:
        left_out["part of a long output"] += 1
        shown = f"{shown[:_LONGEST].rstrip()} …"
    return fenced(shown)
