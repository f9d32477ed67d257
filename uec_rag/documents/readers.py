"""The readers of all formats, and those of the plainest."""

import csv
import io
import json
import re
from _csv import Reader
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from itertools import islice
from pathlib import PurePath

from uec_rag.documents.document import Content, Page, Table, table_of, tables_of, value_of
from uec_rag.documents.encoded import clean, without_encoded
from uec_rag.documents.plain_text import decode

_SEPARATORS = "\t;|,"  # the first of those that fit equally well; a comma is often one in a number
_SEPARATOR = re.compile(r'"?sep=(.)"?(?=\n)', re.IGNORECASE)
_SAMPLE = 1_000  # rows that tell the separator
_MOST = 0.8  # share of the rows below titles that have the columns of a header


def read_text(text: str) -> Content:
    """Read a text without headings."""
    return Content([Page([text.strip()])])


def read_csv(text: str) -> Content:
    """Read a table whose columns are separated by commas, semicolons, tabs or bars."""
    return Content([Page(_tables(rows_of(text)))])


def _tables(rows: Reader) -> list[Table]:
    return tables_of([*map(value_of, row)] for row in rows)


def rows_of(text: str, **options: bool) -> Reader:
    """Return the rows of such a table; `options`: of `csv.reader`."""
    if line := _SEPARATOR.match(text):  # by which Excel knows it
        return _rows(text[line.end() :], line[1], **options)
    return _rows(text, max(_SEPARATORS, key=lambda separator: _columns(text, separator)), **options)


def has_text(row: Sequence[str]) -> bool:
    """Return whether any cell of a row has a text."""
    return any(map(str.strip, row))


def _columns(text: str, separator: str) -> tuple[float, int]:
    """Return how many rows have as many columns as the header, as a share, and their number.

    A header is the first row of several columns. Below titles, most rows must have its columns, and
    a comma must part more than two, unlike in a column of "City" above "Paris, France".
    """
    rows = [row for row in islice(_rows(text, separator), _SAMPLE) if has_text(row)]
    head = next((n for n, row in enumerate(rows) if len(row) > 1), len(rows))
    below = [len(row) for row in rows[head:]]
    like_first = below.count(below[0]) if below else 0
    if head and (like_first < max(2, _MOST * len(below)) or (separator == "," and below[0] < 3)):
        return 0, 1
    return like_first / max(len(rows), 1), below[0] if below else 1


def _rows(text: str, separator: str, *, skipinitialspace: bool = True) -> Reader:
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # 131,072 by default
    quote = "'" if text.startswith("'") and '"' not in text else '"'
    lines = io.StringIO(text, newline="")
    skip = skipinitialspace
    return csv.reader(lines, delimiter=separator, quotechar=quote, skipinitialspace=skip)


def read_tsv(text: str) -> Content:
    """Read a table whose columns are separated by tabs."""
    return Content([Page(_tables(_rows(text, "\t")))])


def read_json_lines(text: str) -> Content:
    """Read a table of objects, one in each line, or documents of LangChain or LlamaIndex."""
    values, bad = list[object](), list[int]()
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            values += [json.loads(line)] if line.strip() else []
        except (ValueError, RecursionError):
            bad.append(number)
    if bad and not values:
        raise ValueError(f"line {bad[0]} is not JSON")
    listed = ", ".join(map(str, bad[:3])) + ", ..." * (len(bad) > 3)
    left_out = {f"line not in JSON ({listed})": len(bad)}
    documents = [*filter(None, map(_page_of, values))]
    if documents and len(documents) == len(values):
        return Content(documents, left_out=left_out)
    rows = [value if isinstance(value, dict) else {"": value} for value in values]
    names = [*dict.fromkeys(name for row in rows for name in row)]
    table = table_of([names, *([_as_text(row.get(name)) for name in names] for row in rows)])
    return Content([Page([table] if table else [])], left_out=left_out)


def _page_of(value: object) -> Page | None:
    """Return a saved document of LangChain or node of LlamaIndex as a page; None if it is none."""
    fields = value if isinstance(value, dict) else {}
    for name in ("kwargs", "node"):  # of what is serialised, or of a hit
        fields = inner if isinstance(inner := fields.get(name), dict) else fields
    resource = fields.get("text_resource")
    is_node = "id_" in fields or "class_name" in fields
    text = fields.get("page_content", fields.get("text") if is_node else None)
    text = resource.get("text") if text is None and isinstance(resource, dict) else text
    metadata = fields.get("metadata", {})
    is_document = isinstance(text, str) and isinstance(metadata, dict)
    return Page([str(text).strip()], metadata=metadata) if is_document else None


def _as_text(value: object) -> str:
    if isinstance(value, str | float):
        return value_of(str(value))
    if isinstance(value, list) and not any(isinstance(element, list | dict) for element in value):
        return ", ".join(map(_as_text, value))
    return "" if value is None else json.dumps(value, ensure_ascii=False)


_TABLE = """
readers:read_text .txt
markdown:read_markdown .md .markdown
markdown:read_mdx .mdx
markdown:read_notebook .ipynb
readers:read_csv .csv
readers:read_tsv .tsv
readers:read_json_lines .jsonl .ndjson
rst:read_rst .rst
html:read_html .html .htm .xhtml
mail:read_email .eml
pdf:read_pdf .pdf
word:read_docx .docx .docm
slides:read_pptx .pptx .pptm
workbook:read_xlsx .xlsx .xlsm
html:read_epub .epub
markdown:read_quarto .qmd .rmd
office:read_office:doc .doc
office:read_office:xlsx .xls
office:read_office:ppt .ppt
office:read_office:ods .ods
office:read_office:odp .odp
calendars:read_calendar .ics
mail:read_mailbox .mbox
subtitles:read_subtitles:vtt .vtt
subtitles:read_subtitles:srt .srt
openapi:read_openapi .json .yaml .yml
pandoc:read_markup:odt .odt
pandoc:read_markup:rtf .rtf
pandoc:read_markup:org .org
pandoc:read_markup:latex .tex .latex
pandoc:read_markup:asciidoc .adoc .asciidoc
pandoc:read_markup:textile .textile
pandoc:read_markup:typst .typ
pandoc:read_markup:docbook .dbk .docbook .xml
pandoc:read_markup:opml .opml
pandoc:read_markup:fb2 .fb2
pandoc:read_markup:mediawiki .mediawiki .wiki
pandoc:read_markup:man .man .1 .2 .3 .4 .5 .6 .7 .8 .9
"""
READERS = {
    suffix: reader
    for reader, *suffixes in map(str.split, _TABLE.strip().split("\n"))
    for suffix in suffixes
}
"""The module and the function that read files, by their suffix in lower case, and its argument.

The argument is the format, as anydoc and pandoc call it.
"""

_OF_BYTES = ("html", "mail", "office", "pandoc", "pdf", "slides", "word", "workbook")
"""The modules whose readers decode a file themselves."""

LIBRARIES = {"office": "anydoc", "pandoc": "pypandoc", "subtitles": "webvtt"}
"""The libraries that modules of the extra "formats" need."""

_OPENAPI = re.compile(rb"(?:^|[{,\s])[\"']?(?:openapi|swagger)[\"']?\s*:\s*[\"']?[23]")
SIGNS = {
    **dict.fromkeys((".json", ".yaml", ".yml"), _OPENAPI),
    ".xml": re.compile(rb"(?i)docbook"),
    **{f".{n}": re.compile(rb"(?m)^\.(?:TH|Dd)\b") for n in range(1, 10)},  # no rotated logs
}
"""The expressions that a file must match to be read, where its suffix does not tell."""


def read_content(name: str, data: bytes) -> Content:
    """Read a file by its suffix.

    Any error means that it is damaged, but for ImportError: the library for its format is missing.
    """
    suffix = PurePath(name).suffix.lower()
    module, function, *form = READERS[suffix].split(":")
    reader = getattr(import_module(f"uec_rag.documents.{module}"), function)
    text, notes = (data, []) if module in _OF_BYTES else decode(data)
    left_out = Counter[str]()
    blanked = ""
    if not isinstance(text, bytes):
        text, blanked = without_encoded(text, left_out)
    content: Content = reader(text, *form)
    pages = [
        replace(page, blocks=[clean(block, left_out) for block in page.blocks])
        for page in content.pages
    ]
    left_out = +Counter({**content.left_out, **left_out})  # what is left out no time is not told
    notes, text = [*content.notes, *notes], blanked or content.text
    return replace(content, pages=pages, notes=notes, left_out=left_out, text=text)
