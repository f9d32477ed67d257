"""Readers that convert the content of files to sections, one for each format."""

from __future__ import annotations

import csv
import io
import itertools
import posixpath
import re
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from textwrap import dedent
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from uec_rag.corpora.document import Section, decoded, has_words

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag
    from docutils import nodes
    from markdown_it.token import Token


_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
# The attributes of a heading, as Pandoc, Python-Markdown, kramdown and Docusaurus write them.
_ATTRIBUTES = re.compile(r"\s*\{(?::?\s*[#.][^{}]*|/\*[^{}]*\*/)\}\s*\Z")
# Tags of Liquid and Hugo, which a site generator replaces, and targets of links that have them or
# that hold data, and of images.
_TEMPLATE_TAG = re.compile(r"\{%[^{}]*%\}|\{\{[<%][^{}]*[>%]\}\}")
_TEMPLATE_LINE = re.compile(rf"^\s*(?:{_TEMPLATE_TAG.pattern})\s*$")
_TARGET = re.compile(rf"(?<=\])\((?:(?:{_TEMPLATE_TAG.pattern})[^()\s]*|[^()\s]{{200,}})\)")
_IMAGE = re.compile(r"!\[([^\[\]]*)\]\([^()\s]*(?:[ \t]+\"[^\"]*\")?\)")
_ANCHOR = re.compile(r"<a\b[^<>]*></a>")
_LAYOUT_TAG = re.compile(
    r"</?(?:center|col|colgroup|details|div|figure|iframe|li|ol|p|section|span|summary|table|tbody"
    r"|td|th|thead|tr|ul)\b[^<>]*>"
)
# In MDX: imports, comments, and tags of components, whose titles and labels are shown.
_MDX_IMPORT = re.compile(
    r"^import\s+(?:[\w$*,{}\s]{1,500}\sfrom\s+(['\"])[^'\"\n]+\1|(['\"])[./][^'\"\n]+\2);?[ \t]*$",
    re.MULTILINE,
)
_MDX = re.compile(
    rf"`[^`]*`|\{{/\*(?s:.*?)(?:\*/\}}|\Z)|</?(?:[A-Z][\w.]*(?:\s[^<>]*)?)?/?>|{_MDX_IMPORT.pattern}",
    re.MULTILINE,
)
_MDX_SHOWN = re.compile(r"\b(?:title|label|description)=([\"'])(.*?)\1", re.DOTALL)
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_ROLE = re.compile(r"(?::[a-zA-Z][\w:+.-]*:)?`([^`]+)`_{0,2}")
_DIRECTIVE = re.compile(r"\.\. +([\w:.+-]+):: *(.*(?:\n[ \t]+(?!:[\w-]+:)\S.*)*)\n?((?s:.*))")
_OPTIONS = re.compile(r"\A(?:[ \t]*:[\w-]+:.*\n?)+")
_CODE = ("code", "code-block", "sourcecode", "doctest", "testcode", "prompt", "graphviz", "mermaid")
_VERSIONS = {
    "versionadded": "Added in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version",
    "versionremoved": "Removed in version",
}
_HTML_FRONT_MATTER = re.compile(rb"\A---\r?\n.*?\n---\r?\n", re.DOTALL)
_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)\n(.*?)\n\1\n", re.DOTALL)
_LINES = ("br", "dd", "dt", "li", "summary", "tr")
_BLOCKS = (
    *("article", "aside", "blockquote", "details", "div", "dl", "figure", "header", "ol"),
    *("p", "pre", "section", "table", "ul", *_HEADINGS),
)
_NO_PROSE = (
    *("button", "footer", "nav", "noscript", "script", "select", "style", "svg", "template"),
    *("title", "a.headerlink"),
)
# Selectors of the element with a page's content: the landmarks of the standard, then names that
# generators use. The first selector that matches exactly one element with text is used.
_MAIN = (
    *("main", "[role=main]", "[itemprop=articleBody]", "#apicontent"),
    *("#content", "article"),
)
# The title and name of an AsciiDoc page, which precede its content element.
_HEAD = "body.manpage > #header, body.article > #header, body.book > #header"
# Navigation, by role and by names that generators use. Names that are also used for content, such
# as "sidebar", are not included.
_NAVIGATION = (
    *("[role=navigation]", "[role=search]", "[role=contentinfo]", "[role=banner]"),
    *("#toc", ".toc", "#footer", ".navheader", ".navfooter"),  # AsciiDoc, DocBook
    *("#top", "#nav-path", "#side-nav", "#MSearchSelectWindow", ".dynheader"),  # Doxygen
    *(".theme-doc-breadcrumbs", ".theme-doc-toc-mobile", ".table-of-contents"),  # Docusaurus
    *(".sub-nav", ".sub-nav-list", ".skip-nav", ".sphinxsidebar", ".related"),  # Javadoc, Sphinx
    *("a.anchor", "a.src", ".out-of-band", "rustdoc-toolbar", "a.mark"),  # rustdoc, Node
    *("#jump-to-nav", "#siteSub", "#contentSub", ".mw-jump-link", ".mw-editsection"),  # MediaWiki
    *(".navbox", ".vertical-navbox", ".printfooter", ".catlinks", ".noprint", ".sistersitebox"),
    *("a[href='#index']", "a[href='../index.html']"),  # man2html
)


def html_sections(markup: str | bytes, *, first_row_names: bool = False) -> list[Section]:
    """Read the headings of a page and the texts below them, without navigation.

    In a table whose first row consists of header cells, values are prefixed with the names of their
    columns. With `first_row_names`, the first row of each table is treated as a header.
    """
    from bs4 import BeautifulSoup

    if isinstance(markup, bytes):
        markup = _HTML_FRONT_MATTER.sub(b"", markup, count=1)
    soup = BeautifulSoup(markup, "html.parser")
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    for tag in soup.select(", ".join((*_NO_PROSE, *_NAVIGATION))):
        tag.decompose()
    if (last := soup.select_one("a[name=index] + h2")) is not None:  # by man2html
        for node in [last, *last.find_all_next(string=True)]:
            node.extract()
    for table in soup.find_all("table"):
        rows = [row.find_all(["td", "th"]) for row in table.find_all("tr")]
        named = rows and (first_row_names or all(cell.name == "th" for cell in rows[0]))
        if named and len(rows) > 1 and table.find(["table", "pre", *_HEADINGS]) is None:
            lines = soup.new_tag("pre")
            lines.string = _table([[cell.get_text(" ") for cell in row] for row in rows])
            table.replace_with(lines)
    sections = _walked(_main(soup))
    top = next((place for place, (name, *_) in enumerate(sections) if name == "h1"), None)
    without = [Section(title, "", is_title=True)] if title and top is None else []
    return without + [
        Section(heading or title, text, is_title=place == top, depth=int(name[1:] or 0))
        for place, (name, heading, text) in enumerate(sections)
    ]


def _main(soup: BeautifulSoup) -> Tag:
    """Find the element that holds a page's content."""
    for selector in _MAIN:
        found = soup.select(selector, limit=2)
        if len(found) == 1 and has_words(found[0].get_text()):
            if (head := soup.select_one(_HEAD)) is not None and found[0] not in head.parents:
                found[0].insert(0, head.extract())
            return found[0]
    return soup.body or soup


def _walked(root: Tag) -> list[tuple[str, str, str]]:
    """Collect the names and texts of headings, and the texts below them.

    It takes linear time even if elements nest deeply.
    """
    from bs4.element import NavigableString, Tag

    sections: list[tuple[str, list[str], list[str]]] = [("", [], [])]
    headings: list[list[str]] = []  # headings that the walk is inside of
    preformatted = 0
    left = [(node, False) for node in reversed(root.contents)]
    while left:
        node, ends = left.pop()
        if isinstance(node, Tag):
            gap = "\n\n" if node.name in _BLOCKS else "\n" if node.name in _LINES else ""
            if not ends:
                if node.name in _HEADINGS:
                    sections.append((node.name, [], []))
                    headings.append(sections[-1][1])
                preformatted += node.name == "pre"
                left.append((node, True))
                left += [(child, False) for child in reversed(node.contents)]
            (headings[-1] if headings else sections[-1][2]).append(gap)
            if ends:
                if node.name in _HEADINGS:
                    headings.pop()
                preformatted -= node.name == "pre"
        # `type`, since comments are subclasses of NavigableString.
        elif type(node) is NavigableString:
            kept = preformatted or node in ("\n", "\n\n")
            text = str(node) if kept else re.sub(r"\s+", " ", node)
            (headings[-1] if headings else sections[-1][2]).append(text)
    return [
        (name, " ".join("".join(heading).split()).strip("§¶ "), _tidy("".join(parts)))
        for name, heading, parts in sections
    ]


def _tidy(text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", lines).strip()


def read_docx(content: bytes) -> list[Section]:
    """Read the headings of a Word document and the texts below them."""
    import mammoth

    # By default, images are embedded as base64.
    ignored = mammoth.images.img_element(lambda image: {"src": ""})
    markup = mammoth.convert_to_html(io.BytesIO(content), convert_image=ignored).value
    return html_sections(markup, first_row_names=True)


def read_pptx(content: bytes) -> list[Section]:
    """Read one section per slide, headed by its title, with texts, tables and speaker notes."""
    from pptx import Presentation
    from pptx.shapes.group import GroupShape

    sections = []
    for number, slide in enumerate(Presentation(io.BytesIO(content)).slides, start=1):
        title = slide.shapes.title
        parts = []
        left = [*slide.shapes]
        while left:
            shape = left.pop(0)
            if title is not None and shape.shape_id == title.shape_id:
                continue
            if isinstance(shape, GroupShape):
                left = [*shape.shapes, *left]
            elif shape.has_text_frame:
                parts.append(shape.text_frame.text)
            elif shape.has_table:
                rows = [[cell.text for cell in row.cells] for row in shape.table.rows]
                parts.append(_table(rows))
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            parts.append(slide.notes_slide.notes_text_frame.text)
        heading = "" if title is None else " ".join(title.text_frame.text.split())
        sections.append(Section(heading, "\n\n".join(part for part in parts if part), number))
    return sections


def read_xlsx(content: bytes) -> list[Section]:
    """Read one section per sheet, headed by its name, with values and cached formula results."""
    from openpyxl import load_workbook

    book = load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    try:
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # some programs save wrong ones, and cells would be missed
        return [
            Section(
                sheet.title,
                _table(
                    ["" if value is None else str(value) for value in row]
                    for row in sheet.iter_rows(values_only=True)
                ),
            )
            for sheet in book.worksheets
        ]
    finally:
        book.close()


def read_csv(content: bytes) -> list[Section]:
    """Read a table as one section with one line per row; without text if it has only a header."""
    text = decoded(content)
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # 131,072 by default
    try:
        dialect: type[csv.Dialect] | csv.Dialect = csv.Sniffer().sniff(text[:10_000], ",;\t|")
    except csv.Error:  # a single column
        dialect = csv.excel
    reader = csv.reader(io.StringIO(text, newline=""), dialect, doublequote=True)
    rows = [row for row in reader if any(map(str.strip, row))]
    header_alone = len(rows) == 1 and len(rows[0]) > 1
    return [Section("", "" if header_alone else _table(rows))]


def read_epub(content: bytes) -> list[Section]:
    """Read the chapters of a book in reading order, with their headings."""
    from bs4 import BeautifulSoup

    with zipfile.ZipFile(io.BytesIO(content)) as book:
        container = BeautifulSoup(book.read("META-INF/container.xml"), "html.parser")
        root = container.find("rootfile")
        if root is None:
            raise ValueError("it names no package of a book")
        package = str(root["full-path"])
        opf = BeautifulSoup(book.read(package), "html.parser")
        href = {str(item["id"]): str(item["href"]) for item in opf.find_all("item")}
        folder = posixpath.dirname(package)
        title = opf.find("dc:title")
        sections = [Section(" ".join(title.get_text().split()), "", is_title=True)] if title else []
        for reference in opf.find_all("itemref"):
            name = posixpath.normpath(
                posixpath.join(folder, unquote(href[str(reference["idref"])]))
            )
            chapter = html_sections(book.read(name))
            sections += [replace(section, is_title=False) for section in chapter]
    return sections


def _table(rows: Iterable[Sequence[str]]) -> str:
    """Format rows as lines of "name: value", with the column names in the first row."""
    kept = [[" ".join(value.split()) for value in row] for row in rows]
    kept = [row for row in kept if any(row)]
    if len(kept) < 2:
        return "\n".join(", ".join(filter(None, row)) for row in kept)
    names, *values = kept
    return "\n".join(
        ", ".join(
            f"{names[place]}: {value}" if place < len(names) and names[place] else value
            for place, value in enumerate(row)
            if value
        )
        for row in values
    )


def _read_text(content: bytes) -> list[Section]:
    return [Section("", decoded(content))]


def _read_mdx(content: bytes) -> list[Section]:
    return _read_markdown(content, is_mdx=True)


def _read_markdown(content: bytes, *, is_mdx: bool = False) -> list[Section]:
    from markdown_it import MarkdownIt

    text = _unix(decoded(content))
    sections, title = [], ""
    if front := _FRONT_MATTER.match(text):  # of site generators
        title, text = _front_title(*front.groups()), text[front.end() :]
    if title:
        sections.append(Section(title, "", is_title=True))
    text = _with_fences_apart(text) if is_mdx else text
    lines = text.split("\n")
    parser = MarkdownIt().enable("strikethrough")
    tokens = (parser.disable(["code", "html_block"]) if is_mdx else parser).parse(text)
    # Docusaurus reads ".md" as MDX, too.
    is_mdx |= any(
        _MDX_IMPORT.match(token.content)
        for token in tokens
        if token.type == "inline" and token.level == 1
    )
    heading, start, is_title, depth = "", 0, False, 0
    for token, inline in itertools.pairwise([*tokens, *tokens[-1:]]):
        if token.map is not None and token.type == "html_block" and _is_comment(token.content):
            lines[slice(*token.map)] = [""] * (token.map[1] - token.map[0])
        if token.map is not None and token.type in ("html_block", "inline"):
            if is_mdx:
                block = "\n".join(lines[slice(*token.map)])
                lines[slice(*token.map)] = _MDX.sub(_shown, block).split("\n")
            for place in range(*token.map):
                if "`" not in lines[place]:
                    line = _LAYOUT_TAG.sub(" ", _ANCHOR.sub("", lines[place]))
                    line = _TARGET.sub("", _IMAGE.sub(r"\1", line))
                    lines[place] = _TEMPLATE_LINE.sub("", line)
        if token.type == "heading_open" and token.level == 0 and token.map is not None:
            body = "\n".join(lines[start : token.map[0]]).strip()
            sections.append(Section(heading, body, is_title=is_title, depth=depth))
            # After another section, a heading of level one is that of an appendix.
            is_title = token.tag == "h1" and not title and not heading
            heading, start, depth = _plain_heading(inline), token.map[1], int(token.tag[1:])
            title = title or (heading if is_title else "")
    body = "\n".join(lines[start:]).strip()
    return [*sections, Section(heading, body, is_title=is_title, depth=depth)]


def _with_fences_apart(text: str) -> str:
    """Insert a blank line before indented fences right behind text, which would be part of it."""
    lines, fence = list[str](), ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and fence:
            closes = mark[1].startswith(fence) and line.strip() == mark[1]
            fence = "" if closes else fence
        elif mark:
            fence = mark[1]
            lines += [""] if lines and lines[-1].strip() and line[:4].isspace() else []
        lines.append(line)
    return "\n".join(lines)


def _front_title(fence: str, matter: str) -> str:
    """Return the title in front matter, YAML or, between "+++", TOML; "" if there is none."""
    if fence == "+++":
        with suppress(tomllib.TOMLDecodeError):
            return str(tomllib.loads(matter).get("title", ""))
        return ""
    named = re.search(r"^title:[ \t]*(.+)$", dedent(matter), re.MULTILINE)
    return named[1].strip(" \"'") if named else ""


def _shown(found: re.Match[str]) -> str:
    """Return what of a component of MDX is shown, on as many lines; code is shown as it is."""
    if found[0].startswith("`"):
        return found[0]
    values = [value for _, value in _MDX_SHOWN.findall(found[0])]
    said = "" if found[0].startswith("{") else " ".join(" ".join(values).split())
    return said + "\n" * found[0].count("\n")


def _is_comment(block: str) -> bool:
    return re.fullmatch(r"\s*<!--.*?-->\s*", block, re.DOTALL) is not None


def _plain_heading(inline: Token) -> str:
    """Return the text of a heading, without markup and attributes such as "{#id .class}"."""
    parts = [
        " "
        if part.type in ("softbreak", "hardbreak")
        else _TEMPLATE_TAG.sub("", part.content)
        if part.type == "text"
        else part.content
        for part in inline.children or ()
        if part.type != "html_inline"
    ]
    return _ATTRIBUTES.sub("", "".join(parts)).strip()


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _read_rst(content: bytes) -> list[Section]:
    first, *others = _rst_sections(_rst_tree(decoded(content)))
    return [replace(first, is_title=first.heading != ""), *others]


def _rst_tree(text: str) -> nodes.document:
    from docutils import nodes
    from docutils.core import publish_doctree

    tree = publish_doctree(
        text,
        settings_overrides={
            "file_insertion_enabled": False,  # a document must not include other files
            "raw_enabled": False,
            "report_level": 5,
            "halt_level": 5,
            "warning_stream": io.StringIO(),
            "_disable_config": True,
        },
    )
    # docutils does not know Sphinx's roles and directives, but its messages have their source.
    for role in [*tree.findall(nodes.problematic)]:
        role.parent.replace(role, nodes.Text(_ROLE.sub(_role_text, role.astext())))
    for message in [*tree.findall(nodes.system_message)]:
        sources = [block.astext() for block in message.findall(nodes.literal_block)]
        texts = [_directive_text(source) for source in sources]
        message.parent.replace(message, [nodes.literal_block("", text) for text in texts if text])
    return tree


def _role_text(role: re.Match[str]) -> str:
    """Return what Sphinx shows for a role: "run" for "~Task.run", "here" for "here <target>"."""
    text = role[1].partition("<")[0].strip() or role[1]
    return text.rpartition(".")[2] if text[0] == "~" else text.lstrip("!@")


def _directive_text(source: str) -> str:
    """Return what a directive of Sphinx shows, its signature together with its description.

    A directive without content, such as ".. setting:: timeout", shows nothing or names what follows
    it, which has a heading that does.
    """
    known = _DIRECTIVE.match(source)
    if known is None:
        return source
    name, argument, body = known.groups()
    content = dedent(_OPTIONS.sub("", body, count=1)).strip("\n")
    if name in _CODE:  # with an option of Sphinx, such as ":caption:"
        return content
    content = _rst_tree(content).astext().strip()
    if name in _VERSIONS:
        return f"{_VERSIONS[name]} {argument}\n{content}".strip()
    if name == "toctree" or not (content or name == "seealso"):
        return ""
    argument = _ROLE.sub(_role_text, " ".join(argument.split()))
    return f"{argument}\n{content}".strip()


def _rst_sections(node: nodes.Element, depth: int = 0) -> Iterator[Section]:
    from docutils import nodes

    heading, parts, inner = "", [], []
    for child in node.children:
        if isinstance(child, nodes.title):
            heading = child.astext()
        elif isinstance(child, nodes.section):
            inner.append(child)
        elif isinstance(child, nodes.topic) and "contents" in child["classes"]:
            continue  # a table of contents repeats the headings
        elif not isinstance(child, (nodes.Invisible, nodes.docinfo)):
            parts.append(child.astext())
    yield Section(heading, "\n\n".join(parts), depth=depth)
    for section in inner:
        yield from _rst_sections(section, depth + 1)


def _read_pdf(content: bytes) -> list[Section]:
    """Read the pages, split at headings of the outline; each page repeats the current heading."""
    from pypdfium2 import PdfDocument

    with PdfDocument(content) as pdf:
        # Join words that are hyphenated at the end of a line.
        pages = [_unix(page.get_textpage().get_text_range()).replace("\ufffe", "") for page in pdf]
        titles = [(mark.get_title(), mark.get_dest()) for mark in pdf.get_toc()]
        headings = [(title, target.get_index()) for title, target in titles if target is not None]
    sections, heading = [], ""
    for number, text in enumerate(pages):
        for title in [title for title, page in headings if page == number]:
            words = r"\s+".join(map(re.escape, title.split()))
            found = re.search(rf"^[\dA-Z.]*\s*{words}\s*$", text, re.MULTILINE)
            if found is not None:
                sections.append(Section(heading, text[: found.start()].strip(), number + 1))
                heading, text = title, text[found.end() :]
        sections.append(Section(heading, text.strip(), number + 1))
    return sections


class Reader(NamedTuple):
    """A function that reads a format, the module that it imports, and the package that has it."""

    read: Callable[[bytes], list[Section]]
    module: str = ""
    package: str = ""


READERS = {
    ".txt": Reader(_read_text),
    ".md": Reader(_read_markdown, "markdown_it", "markdown-it-py"),
    ".markdown": Reader(_read_markdown, "markdown_it", "markdown-it-py"),
    ".mdx": Reader(_read_mdx, "markdown_it", "markdown-it-py"),
    ".rst": Reader(_read_rst, "docutils.core", "docutils"),
    ".html": Reader(html_sections, "bs4", "beautifulsoup4"),  # which detects the encoding
    ".htm": Reader(html_sections, "bs4", "beautifulsoup4"),
    ".pdf": Reader(_read_pdf, "pypdfium2", "pypdfium2"),
    ".docx": Reader(read_docx, "mammoth", "mammoth"),
    ".pptx": Reader(read_pptx, "pptx", "python-pptx"),
    ".xlsx": Reader(read_xlsx, "openpyxl", "openpyxl"),
    ".epub": Reader(read_epub, "bs4", "beautifulsoup4"),
    ".csv": Reader(read_csv),
}
"""The reader of each file extension, in lower case."""
