"""One reader per kind of file: a path becomes sections."""

import io
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from uec_rag.corpora.decode import decoded
from uec_rag.corpora.document import Section
from uec_rag.corpora.html import html_sections
from uec_rag.corpora.office import read_csv, read_docx, read_epub, read_pptx, read_xlsx

if TYPE_CHECKING:
    from docutils import nodes


def _read_text(path: Path) -> list[Section]:
    return [Section("", decoded(path))]


def _read_markdown(path: Path) -> list[Section]:
    from markdown_it import MarkdownIt

    # Site generators keep a block of YAML at the top.
    text = re.sub(r"\A---\n.*?\n---\n", "", _unix(decoded(path)), count=1, flags=re.DOTALL)
    lines = text.split("\n")
    tokens = MarkdownIt().parse(text)
    sections, heading, start = [], "", 0
    for token, content in itertools.pairwise(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map is not None:
            sections.append(Section(heading, "\n".join(lines[start : token.map[0]]).strip()))
            heading, start = content.content, token.map[1]
    return [*sections, Section(heading, "\n".join(lines[start:]).strip())]


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _read_rst(path: Path) -> list[Section]:
    from docutils.core import publish_doctree

    tree = publish_doctree(
        decoded(path),
        settings_overrides={
            "file_insertion_enabled": False,  # a document must not read other files
            "raw_enabled": False,
            "report_level": 5,
            "halt_level": 5,
            "warning_stream": io.StringIO(),
            "_disable_config": True,
        },
    )
    return list(_rst_sections(tree))


def _rst_sections(node: "nodes.Element") -> Iterator[Section]:
    from docutils import nodes

    heading, parts, inner = "", [], []
    for child in node.children:
        if isinstance(child, nodes.title):
            heading = child.astext()
        elif isinstance(child, nodes.section):
            inner.append(child)
        elif isinstance(child, nodes.system_message):
            # docutils does not know Sphinx's directives; it keeps their source in its message.
            parts += [block.astext() for block in child.findall(nodes.literal_block)]
        elif isinstance(child, nodes.topic) and "contents" in child["classes"]:
            continue  # the headings once more
        elif not isinstance(child, (nodes.Invisible, nodes.docinfo)):
            parts.append(child.astext())
    yield Section(heading, "\n\n".join(parts))
    for section in inner:
        yield from _rst_sections(section)


def _read_html(path: Path) -> list[Section]:
    return html_sections(path.read_bytes())  # the parser finds out the encoding by itself


def _read_pdf(path: Path) -> list[Section]:
    from pypdf import PdfReader

    pages = PdfReader(path).pages
    return [Section("", page.extract_text(), number) for number, page in enumerate(pages, 1)]


READERS: dict[str, Callable[[Path], list[Section]]] = {
    ".txt": _read_text,
    ".md": _read_markdown,
    ".markdown": _read_markdown,
    ".rst": _read_rst,
    ".html": _read_html,
    ".htm": _read_html,
    ".pdf": _read_pdf,
    ".docx": read_docx,
    ".pptx": read_pptx,
    ".xlsx": read_xlsx,
    ".epub": read_epub,
    ".csv": read_csv,
}
"""File ending, in lower case -> reader."""

NEEDS = {
    ".md": ("markdown_it", "markdown-it-py"),
    ".markdown": ("markdown_it", "markdown-it-py"),
    ".rst": ("docutils.core", "docutils"),
    ".html": ("bs4", "beautifulsoup4"),
    ".htm": ("bs4", "beautifulsoup4"),
    ".pdf": ("pypdf", "pypdf"),
    ".docx": ("mammoth", "mammoth"),
    ".pptx": ("pptx", "python-pptx"),
    ".xlsx": ("openpyxl", "openpyxl"),
    ".epub": ("bs4", "beautifulsoup4"),
}
"""File ending -> module that its reader imports, and the package that has it."""
