"""One reader per kind of file: a path becomes sections."""

import io
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from uec_rag.corpora.document import Section

if TYPE_CHECKING:
    from bs4 import Tag
    from docutils import nodes


def _decode(path: Path) -> str:
    """Decode as UTF-8, as UTF-16 where it says so, else as what old Windows files are in."""
    data = path.read_bytes()
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16")
    if b"\0" in data:
        raise ValueError("it is not a text file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")


def _read_text(path: Path) -> list[Section]:
    return [Section("", _decode(path))]


def _read_markdown(path: Path) -> list[Section]:
    from markdown_it import MarkdownIt

    # Site generators keep a block of YAML at the top.
    text = re.sub(r"\A---\n.*?\n---\n", "", _unix(_decode(path)), count=1, flags=re.DOTALL)
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
        _decode(path),
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


_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_LINES = ("br", "dd", "dt", "li", "summary", "tr")
_BLOCKS = (
    *("article", "aside", "blockquote", "details", "div", "dl", "figure", "header", "ol"),
    *("p", "pre", "section", "table", "ul", *_HEADINGS),
)
_NO_PROSE = (
    *("button", "footer", "nav", "noscript", "script", "select", "style", "svg", "template"),
    *("title", "a.headerlink"),
)


def _read_html(path: Path) -> list[Section]:
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(path.read_bytes(), "html.parser")  # finds out the encoding by itself
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    for tag in soup.select(", ".join(_NO_PROSE)):
        tag.decompose()
    sections = _html_sections(soup.find("main") or soup.body or soup)
    return [Section(heading or title, text) for heading, text in sections]


def _html_sections(root: "Tag") -> list[tuple[str, str]]:
    """Headings and the texts under them, in one walk that takes as long at any depth."""
    from bs4.element import NavigableString, Tag

    sections: list[tuple[list[str], list[str]]] = [([], [])]
    headings: list[list[str]] = []  # those that are open
    preformatted = 0
    left = [(node, False) for node in reversed(root.contents)]
    while left:
        node, ends = left.pop()
        if isinstance(node, Tag):
            gap = "\n\n" if node.name in _BLOCKS else "\n" if node.name in _LINES else ""
            if not ends:
                if node.name in _HEADINGS:
                    sections.append(([], []))
                    headings.append(sections[-1][0])
                preformatted += node.name == "pre"
                left.append((node, True))
                left += [(child, False) for child in reversed(node.contents)]
            (headings[-1] if headings else sections[-1][1]).append(gap)
            if ends:
                if node.name in _HEADINGS:
                    headings.pop()
                preformatted -= node.name == "pre"
        # A comment is a NavigableString too, of a class of its own.
        elif type(node) is NavigableString:
            kept = preformatted or node in ("\n", "\n\n")
            text = str(node) if kept else re.sub(r"\s+", " ", node)
            (headings[-1] if headings else sections[-1][1]).append(text)
    return [
        (" ".join("".join(heading).split()).strip("§¶ "), _tidy("".join(parts)))
        for heading, parts in sections
    ]


def _tidy(text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", lines).strip()


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
}
"""File ending, in lower case -> reader."""

NEEDS = {
    ".md": ("markdown_it", "markdown-it-py"),
    ".markdown": ("markdown_it", "markdown-it-py"),
    ".rst": ("docutils.core", "docutils"),
    ".html": ("bs4", "beautifulsoup4"),
    ".htm": ("bs4", "beautifulsoup4"),
    ".pdf": ("pypdf", "pypdf"),
}
"""File ending -> module that its reader imports, and the package that has it."""
