"""The readers of all formats, and those of the plainest."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping
from email import message_from_bytes, policy
from email.message import EmailMessage
from importlib import import_module
from typing import NamedTuple

from uec_rag.documents.document import Block, Content, Page
from uec_rag.documents.encodings import decode
from uec_rag.documents.tables import table_of


def read_text(data: bytes) -> Content:
    """Read a text without headings."""
    text, notes = decode(data)
    return Content([Page([text.strip()])], notes=notes)


def read_csv(data: bytes) -> Content:
    """Read a table whose columns are separated by commas, semicolons, tabs or bars."""
    text, notes = decode(data)
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # 131,072 by default
    text, separator = _without_separator(text)
    try:
        dialect = csv.Sniffer().sniff(text[:10_000], separator or ",;\t|")
    except csv.Error:  # a single column
        dialect = csv.excel
    delimiter = separator or dialect.delimiter
    lines = io.StringIO(text, newline="")
    return _table(csv.reader(lines, dialect, doublequote=True, delimiter=delimiter), notes)


def _without_separator(text: str) -> tuple[str, str]:
    """Return a text without the line by which it tells Excel its separator, and that, or ""."""
    line = re.match(r"sep=(.)\n", text)
    return (text[line.end() :], line[1]) if line else (text, "")


def read_tsv(data: bytes) -> Content:
    """Read a table whose columns are separated by tabs."""
    text, notes = decode(data)
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    return _table(csv.reader(io.StringIO(text, newline=""), csv.excel_tab), notes)


def _table(rows: Iterable[list[str]], notes: list[str], header: int | None = None) -> Content:
    table = table_of(rows, header=header)
    return Content([Page([table] if table else [])], notes=notes)


def read_json_lines(data: bytes) -> Content:
    """Read a table of objects, one in each line."""
    text, notes = decode(data)
    rows = list[dict[str, str]]()
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"line {number} is not JSON ({error.msg})") from None
        fields = value if isinstance(value, dict) else {"": value}
        rows.append({key: _as_text(one) for key, one in fields.items()})
    names = [*dict.fromkeys(name for row in rows for name in row)]
    grid = [names, *([row.get(name, "") for name in names] for row in rows)]
    return _table(grid, notes, header=1)


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and not any(isinstance(one, list | dict) for one in value):
        return ", ".join(map(_as_text, value))
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def read_notebook(data: bytes) -> Content:
    """Read the texts and the code of a Jupyter notebook."""
    from uec_rag.documents.markdown import markdown_content

    text, notes = decode(data)
    book = json.loads(text)
    information = book.get("metadata", {}).get("language_info", {})
    language = str(information.get("name", "python"))
    cells = book.get("cells") or [c for sheet in book.get("worksheets", []) for c in sheet["cells"]]
    return markdown_content(
        "\n\n".join(filter(None, (_cell(cell, language) for cell in cells))), notes
    )


def _cell(cell: Mapping[str, object], language: str) -> str:
    source = cell.get("source", cell.get("input", ""))
    text = "".join(source) if isinstance(source, list) else str(source)
    if cell.get("cell_type") != "code" or not text.strip():
        return text
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def read_email(data: bytes) -> Content:
    """Read a message: its subject is the title; attachments are only named."""
    message = message_from_bytes(data, policy=policy.default)
    assert isinstance(message, EmailMessage)
    headers = {name: str(message[name]) for name in ("from", "to", "date") if message[name]}
    attached = [part.get_filename() or "without a name" for part in message.iter_attachments()]
    body = message.get_body(("plain", "html"))
    text = "" if body is None else str(body.get_content())
    blocks: list[Block] = ["\n".join(f"{name.title()}: {value}" for name, value in headers.items())]
    if body is not None and body.get_content_subtype() == "html":
        from uec_rag.documents.html import html_blocks

        blocks += html_blocks(text)
    else:
        blocks.append(text.replace("\r\n", "\n"))
    note = f"has attachments that were not read: {', '.join(attached)}"
    return Content(
        [Page(blocks)], str(message["subject"] or ""), headers, [note] if attached else []
    )


class Reader(NamedTuple):
    """The location of the function that reads a format, and the libraries that it imports."""

    module: str
    function: str
    libraries: Mapping[str, str] = {}

    def read(self, data: bytes) -> Content:
        """Read a file; any error means that it is damaged."""
        content: Content = getattr(
            import_module(f"uec_rag.documents.{self.module}"), self.function
        )(data)
        return content


_HTML = {"bs4": "beautifulsoup4", "lxml": "lxml", "markdownify": "markdownify"}
_MARKDOWN = Reader("markdown", "read_markdown")
_PAGE = Reader("html", "read_html", _HTML)

READERS = {
    ".txt": Reader("readers", "read_text"),
    ".md": _MARKDOWN,
    ".markdown": _MARKDOWN,
    ".mdx": Reader("markdown", "read_mdx"),
    ".ipynb": Reader("readers", "read_notebook"),
    ".csv": Reader("readers", "read_csv"),
    ".tsv": Reader("readers", "read_tsv"),
    ".jsonl": Reader("readers", "read_json_lines"),
    ".ndjson": Reader("readers", "read_json_lines"),
    ".rst": Reader("rst", "read_rst", {**_HTML, "docutils": "docutils"}),
    ".html": _PAGE,
    ".htm": _PAGE,
    ".xhtml": _PAGE,
    ".eml": Reader("readers", "read_email", _HTML),
    ".pdf": Reader("pdf", "read_pdf", {"pypdfium2": "pypdfium2"}),
    ".docx": Reader("office", "read_docx", {**_HTML, "mammoth": "mammoth"}),
    ".pptx": Reader("office", "read_pptx", {"pptx": "python-pptx"}),
    ".xlsx": Reader("office", "read_xlsx", {"openpyxl": "openpyxl"}),
    ".epub": Reader("office", "read_epub", _HTML),
}
"""The reader of each file extension, in lower case."""
