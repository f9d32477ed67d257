"""Reading of Jupyter notebooks: texts, code, and what the code has put out."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from itertools import groupby
from typing import Any

from uec_rag.documents.document import Block, Content, Page
from uec_rag.documents.markdown import read_markdown
from uec_rag.documents.text import fenced

_LONGEST = 4_000  # characters of an output in plain text
_LARGEST = 200_000  # characters of one in HTML
_COLOUR = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_OBJECT = re.compile(r"[\[(]*<[^<>]* at 0x[0-9a-f]+>")  # what Python shows of what has no text


def read_notebook(text: str) -> Content:
    """Read the texts, the code and its outputs, without images and errors."""
    parts, left_out = list[str | list[Block]](), Counter[str]()
    for cell in json.loads(text)["cells"]:
        source = _joined(cell["source"])
        parts.append(fenced(source) if cell["cell_type"] == "code" else source)
        left_out["image"] += len(cell.get("attachments", ()))
        parts += [_output(output, left_out) for output in cell.get("outputs", ())]
    contents = list[Content]()
    for is_text, run in groupby(parts, lambda part: isinstance(part, str)):
        if is_text:
            text = "\n\n".join(part for part in run if part and isinstance(part, str))
            # Only the first text has a front matter.
            contents.append(read_markdown(f"\n{text}" if contents else text))
        else:
            contents.append(Content([Page([block for blocks in run for block in blocks])]))
    for content in contents:
        left_out.update(content.left_out)
    pages = [Page([block for content in contents for block in content.pages[0].blocks])]
    return replace(contents[0] if contents else Content([]), pages=pages, left_out=+left_out)


def _joined(lines: object) -> str:
    return "".join(lines) if isinstance(lines, list) else str(lines)


def _output(output: Mapping[str, Any], left_out: Counter[str]) -> str | list[Block]:
    """Return what an output shows, the richest of its forms that is text."""
    kind = output.get("output_type")
    if kind == "error" or output.get("name") == "stderr":
        left_out["error output"] += 1
        return ""
    if kind == "stream":
        return _plain(_joined(output["text"]), left_out)
    forms = output.get("data", {})
    html = _joined(forms.get("text/html", ""))
    is_drawn = any(
        form.startswith(("application/vnd", "audio/", "image/", "video/")) for form in forms
    )
    if is_drawn and "<table" not in html and "text/markdown" not in forms:
        left_out["image" if "image/png" in forms or "image/svg+xml" in forms else "widget"] += 1
        return ""
    if "text/markdown" in forms:
        return _joined(forms["text/markdown"])
    if html and len(html) <= _LARGEST and find_spec("bs4"):
        from uec_rag.documents.html import html_blocks

        return html_blocks(html)
    return _joined(forms.get("text/latex", "")) or _plain(
        _joined(forms.get("text/plain", "")), left_out
    )


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
