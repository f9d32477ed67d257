"""The readers of all formats, and those of the plainest."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from email import message_from_bytes, policy
from email.message import EmailMessage
from importlib import import_module
from pathlib import PurePath

from uec_rag.documents.document import Block, Content, Page, table_of
from uec_rag.documents.text import decode, fenced

_MOST_PARTS = 200  # of a message, which may nest


def read_text(text: str) -> Content:
    """Read a text without headings."""
    return Content([Page([text.strip()])])


def read_csv(text: str) -> Content:
    """Read a table whose columns are separated by commas, semicolons, tabs or bars."""
    separator = ",;\t|"
    if line := re.match(r"sep=(.)\n", text):  # by which Excel knows it
        text, separator = text[line.end() :], line[1]
    try:
        dialect = csv.Sniffer().sniff(text[:10_000], separator)
        delimiter = dialect.delimiter
    except csv.Error:  # a single column
        dialect, delimiter = csv.excel, separator[0]
    return _table(text, dialect, delimiter)


def read_tsv(text: str) -> Content:
    """Read a table whose columns are separated by tabs."""
    return _table(text, csv.excel_tab, "\t")


def _table(text: str, dialect: type[csv.Dialect], delimiter: str) -> Content:
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # 131,072 by default
    lines = io.StringIO(text, newline="")
    table = table_of(csv.reader(lines, dialect, doublequote=True, delimiter=delimiter))
    return Content([Page([table] if table else [])])


def read_json_lines(text: str) -> Content:
    """Read a table of objects, one in each line."""
    values, bad = list[object](), list[int]()
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            values += [json.loads(line)] if line.strip() else []
        except (ValueError, RecursionError):
            bad.append(number)
    if bad and not values:
        raise ValueError(f"line {bad[0]} is not JSON")
    rows = [value if isinstance(value, dict) else {"": value} for value in values]
    names = [*dict.fromkeys(name for row in rows for name in row)]
    table = table_of([names, *([_as_text(row.get(name)) for name in names] for row in rows)])
    listed = ", ".join(map(str, bad[:3])) + ", ..." * (len(bad) > 3)
    left_out = {f"line not in JSON ({listed})": len(bad)} if bad else {}
    return Content([Page([table] if table else [])], left_out=left_out)


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and not any(isinstance(one, list | dict) for one in value):
        return ", ".join(map(_as_text, value))
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def read_notebook(text: str) -> Content:
    """Read the texts and the code of a Jupyter notebook."""
    from uec_rag.documents.markdown import read_markdown

    cells = list[str]()
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        cells.append(fenced(source) if cell["cell_type"] == "code" else source)
    return read_markdown("\n\n".join(filter(None, cells)))


def read_email(data: bytes) -> Content:
    """Read a message: its subject is the title; attachments are left out."""
    if data.count(b"boundary=") > _MOST_PARTS:
        raise ValueError(f"it has more than {_MOST_PARTS} parts")
    message = message_from_bytes(data, policy=policy.default)
    assert isinstance(message, EmailMessage)
    headers = {name: str(message[name]) for name in ("from", "to", "date") if message[name]}
    attached = [part.get_filename() or "without a name" for part in message.iter_attachments()]
    blocks: list[Block] = ["\n".join(f"{name.title()}: {value}" for name, value in headers.items())]
    if (body := message.get_body(("plain", "html"))) is not None:
        text = str(body.get_content()).replace("\r\n", "\n")
        if body.get_content_subtype() == "html":
            from uec_rag.documents.html import html_blocks

            blocks += html_blocks(text)
        else:
            blocks.append(text)
    left_out = {f"attachment ({', '.join(attached)})": len(attached)} if attached else {}
    return Content([Page(blocks)], str(message["subject"] or ""), headers, left_out=left_out)


READERS = {
    ".txt": "readers:read_text",
    ".md": "markdown:read_markdown",
    ".markdown": "markdown:read_markdown",
    ".mdx": "markdown:read_markdown",
    ".ipynb": "readers:read_notebook",
    ".csv": "readers:read_csv",
    ".tsv": "readers:read_tsv",
    ".jsonl": "readers:read_json_lines",
    ".ndjson": "readers:read_json_lines",
    ".rst": "rst:read_rst",
    ".html": "html:read_html",
    ".htm": "html:read_html",
    ".xhtml": "html:read_html",
    ".eml": "readers:read_email",
    ".pdf": "office:read_pdf",
    ".docx": "office:read_docx",
    ".pptx": "office:read_pptx",
    ".xlsx": "workbook:read_xlsx",
    ".epub": "office:read_epub",
}
"""The module and the function that read files, by their suffix in lower case."""

_BYTES = (".html", ".htm", ".xhtml", ".eml", ".pdf", ".docx", ".pptx", ".xlsx", ".epub")
"""Those whose reader decodes them itself."""


def read_content(name: str, data: bytes) -> Content:
    """Read a file by its suffix.

    Any error means that it is damaged, but for ImportError: the library for its format is missing.
    """
    suffix = PurePath(name).suffix.lower()
    module, _, function = READERS[suffix].partition(":")
    read = getattr(import_module(f"uec_rag.documents.{module}"), function)
    text, notes = (data, []) if suffix in _BYTES else decode(data)
    content: Content = read(text)
    return replace(content, notes=[*content.notes, *notes])
