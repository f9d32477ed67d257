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
from dataclasses import replace
from html import unescape
from textwrap import dedent
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from uec_rag.base.text import ATTRIBUTES
from uec_rag.corpora.document import Section, decode, has_words

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag
    from docutils import nodes
    from markdown_it.token import Token


_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
# Those of other elements in Python-Markdown, "[Start](a.md){ .md-button }", unlike "x_{i=1}"; and
# icons.
_NAMED = r"""[\w:-]+=(?:"[^"{}]*"|'[^'{}]*'|[^\s{}"']+)"""
_LIST = rf"\{{:?(?: ?[.#][A-Za-z][\w:-]*| {_NAMED})(?: +(?:[.#][\w:-]+|{_NAMED}))* ?\}}"
_INLINE_ATTRIBUTES = re.compile(
    rf"(?<=[)\]*_~^]){_LIST}|(?<===){_LIST}|\A\s*{_LIST}\s*\Z"
    rf"|:(?:fontawesome|material|octicons|simple)-[\w-]+:(?:{_LIST})?"
)
_AFTER_CODE = re.compile(rf"\A{_LIST}")
# The first line of an admonition, a collapsible block or a tab of Python-Markdown.
_BLOCK = re.compile(
    r"""( *)(?:(?:!!!|\?\?\?\+?) +([\w-]+)(?: +[\w-]+)*|===[!+]?)(?: +"(.*)")? *\Z"""
)
# Tags of Liquid and Hugo, which a site generator replaces, and targets of links that have them or
# that hold data, and of images.
_TEMPLATE_TAG = re.compile(r"\{%[^{}]*%\}|\{\{[<%][^{}]*[>%]\}\}")
_TARGET = re.compile(rf"(?<=\])\((?:(?:{_TEMPLATE_TAG.pattern})[^()\s]*|[^()\s]{{200,}})\)")
_IMAGE = re.compile(r"!\[([^\[\]]*)\]\([^()\s]*(?:[ \t]+\"[^\"]*\")?\)")
# The attributes of a tag. Other words make it text: "if a <p, x, and b> 3". Those without a value
# are the Boolean ones of HTML, old ones, and those of frameworks.
_VALUELESS = (
    *("allowfullscreen", "async", "autofocus", "autoplay", "border", "checked", "compact"),
    *("controls", "default", "defer", "disabled", "formnovalidate", "hidden", "inert", "ismap"),
    *("itemscope", "loop", "markdown", "multiple", "muted", "nomodule", "noshade", "novalidate"),
    *("nowrap", "open", "playsinline", "readonly", "required", "reversed", "selected"),
)
_TEMPLATE = r"\{[^<>]*\}"
_TAG_ATTRIBUTES = (
    rf"""(?:\s+(?:[^\s"'<>/={{}}]+\s*=\s*(?:"[^"]*"|'[^']*'|{_TEMPLATE}|[^\s"'<>{{}}]+)|{_TEMPLATE}"""
    rf"|(?:{'|'.join(_VALUELESS)}|(?:aria|data|v|x)-[\w-]+)(?![^\s/>])))*\s*/?"
)
_ANCHOR = re.compile(rf"<a{_TAG_ATTRIBUTES}></a>")
_LAYOUT_TAG = re.compile(
    r"</?(?:center|col|colgroup|details|div|figure|iframe|li|ol|p|section|span|summary|table|tbody"
    rf"|td|th|thead|tr|ul){_TAG_ATTRIBUTES}>"
)
_TAG = re.compile(rf"</?[a-z]\w*{_TAG_ATTRIBUTES}>")
# In MDX: imports, comments, and tags of components.
_MDX_IMPORT = re.compile(
    r"^import\s(?:[\w$*,{}\s]{1,500}\sfrom\s+(['\"])[^'\"\n]+\1|(['\"])[./][^'\"\n]+\2);?[ \t]*$",
    re.MULTILINE,
)
_MDX = re.compile(
    rf"`[^`]*`|\{{/\*(?s:.*?)(?:\*/\}}|\Z)|</?(?:[A-Z][\w.]*(?:\s[^<>]*)?)?/?>|{_MDX_IMPORT.pattern}",
    re.MULTILINE,
)
# Arguments of components and template tags, and the names of those that are shown, also if they are
# a single word, or are not, also if they look like prose.
_ARGUMENT = re.compile(r"(?:(?<![\w-])([\w-]+)(?:=\{?|:)\s?|[ \t])([\"'`])(.*?)\2", re.DOTALL)
_SHOWN = (
    *("caption", "content", "description", "header", "heading", "label", "name", "summary"),
    *("text", "title"),
)
_NOT_SHOWN = re.compile(r"(?i).*(?:class|classes|classname|style|src|href|url|link|id|path|icon)")
_CODE_SPAN = re.compile(r"(`[^`]*`)")
_ENTITY = re.compile(r"&#?\w{1,31};")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_ROLE = re.compile(r"``([^`\n]+)``|(?:(?<![\w:+.-]):[a-zA-Z][\w:+.-]*:)?`([^`]+)`_{0,2}")
_DIRECTIVE = re.compile(r"\.\.[ \t]+(?:\|[^|\n]*\|[ \t]+)?([\w:.+-]+)[ \t]?::[ \t]*(.*)")
_PIECE = re.compile(r"\S.{0,1500}(?!\S)|\S{1,1500}")
_OPTION = re.compile(r"[ \t]*:([\w-]+):(?:[ \t]+(.*))?$")
_SHOWN_OPTIONS = ("caption", "title", "type", "value")
_CODE = ("code", "code-block", "sourcecode", "doctest", "testcode", "prompt", "graphviz", "mermaid")
# Directives of which the argument, or nothing at all, is shown.
_UNNAMED = (
    *("cssclass", "default-domain", "figure", "highlight", "ifconfig", "image", "include", "only"),
    *("currentmodule", "py:currentmodule", "module", "py:module", "program", "role", "rst-class"),
    *("index", "literalinclude", "raw", "tabularcolumns", "toctree", *_CODE),
)
_EMPTY = ("image", "include", "index", "literalinclude", "tabularcolumns")
_VERSIONS = {
    "versionadded": "Added in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version",
    "versionremoved": "Removed in version",
}
_HTML_FRONT_MATTER = re.compile(rb"\A---\r?\n.*?\n---\r?\n", re.DOTALL)
_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\n(.*?\n|)\1[ \t]*(?:\n|\Z)", re.DOTALL)
_YAML_LINE = re.compile(r"\s|[\"']?[\w$.@/-][\w $.@/-]*[\"']?:(?:\s|\Z)|-\s|[#}\]]|\Z")
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
    _drop_navigation(soup)
    _write_tables(soup, first_row_names=first_row_names)
    sections = _walk(_main(soup))
    top = next((position for position, (name, *_) in enumerate(sections) if name == "h1"), None)
    without = [Section(title, "", is_title=True)] if title and top is None else []
    return without + [
        Section(heading or title, text, is_title=position == top, depth=int(name[1:] or 0))
        for position, (name, heading, text) in enumerate(sections)
    ]


def _drop_navigation(soup: BeautifulSoup) -> None:
    for tag in soup.select(", ".join((*_NO_PROSE, *_NAVIGATION))):
        tag.decompose()
    if (last := soup.select_one("a[name=index] + h2")) is not None:  # by man2html
        for node in [last, *last.find_all_next(string=True)]:
            node.extract()


def _write_tables(soup: BeautifulSoup, *, first_row_names: bool) -> None:
    """Replace each table that has a header by lines of "name: value"."""
    for table in soup.find_all("table"):
        rows = [row.find_all(["td", "th"]) for row in table.find_all("tr")]
        named = rows and (first_row_names or all(cell.name == "th" for cell in rows[0]))
        if named and len(rows) > 1 and table.find(["table", "pre", *_HEADINGS]) is None:
            lines = soup.new_tag("pre")
            lines.string = _table([[cell.get_text(" ") for cell in row] for row in rows])
            table.replace_with(lines)


def _main(soup: BeautifulSoup) -> Tag:
    """Find the element that holds a page's content."""
    for selector in _MAIN:
        elements = soup.select(selector, limit=2)
        if len(elements) == 1 and has_words(elements[0].get_text()):
            if (head := soup.select_one(_HEAD)) is not None and elements[0] not in head.parents:
                elements[0].insert(0, head.extract())
            return elements[0]
    return soup.body or soup


def _walk(root: Tag) -> list[tuple[str, str, str]]:
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

    def texts(shapes: Iterable[Any], title: int | None) -> Iterator[str]:
        for shape in shapes:
            if shape.shape_id == title:
                continue
            if isinstance(shape, GroupShape):
                yield from texts(shape.shapes, title)
            elif shape.has_text_frame:
                yield shape.text_frame.text
            elif shape.has_table:
                yield _table([cell.text for cell in row.cells] for row in shape.table.rows)

    sections = []
    for number, slide in enumerate(Presentation(io.BytesIO(content)).slides, start=1):
        title = slide.shapes.title
        parts = [*texts(slide.shapes, title and title.shape_id)]
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            parts.append(slide.notes_slide.notes_text_frame.text)
        heading = "" if title is None else " ".join(title.text_frame.text.split())
        sections.append(Section(heading, "\n\n".join(filter(None, parts)), number))
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
    text = decode(content)
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
            f"{names[position]}: {value}" if position < len(names) and names[position] else value
            for position, value in enumerate(row)
            if value
        )
        for row in values
    )


def _read_text(content: bytes) -> list[Section]:
    return [Section("", decode(content))]


def _read_mdx(content: bytes) -> list[Section]:
    return _read_markdown(content, is_mdx=True)


def _read_markdown(content: bytes, *, is_mdx: bool = False) -> list[Section]:
    from markdown_it import MarkdownIt

    title, text = _without_front_matter(_unix(decode(content)))
    text = _with_fences_apart(text) if is_mdx else text
    lines = [*_without_block_markers(text.split("\n"))]
    parser = MarkdownIt().enable("strikethrough")
    parser = parser.disable(["code", "html_block"]) if is_mdx else parser
    tokens = parser.parse("\n".join(lines))
    # Docusaurus also reads ".md" as MDX.
    is_mdx |= any(
        _MDX_IMPORT.match(token.content)
        for token in tokens
        if token.type == "inline" and token.level == 1
    )
    shown = [*lines]
    for token in tokens:
        if token.map is not None and token.type in ("html_block", "inline"):
            block = "\n".join(lines[slice(*token.map)])
            block = _without_comments(block) if token.type == "html_block" else block
            block = _MDX.sub(_show, block) if is_mdx else block
            shown[slice(*token.map)] = map(_shown_line, block.split("\n"))
    return [*_markdown_sections(tokens, shown, title)]


def _markdown_sections(
    tokens: Sequence[Token], lines: Sequence[str], title: str
) -> Iterator[Section]:
    """Split the lines of a page at its headings; `title` is that of its front matter, if any."""
    if title:
        yield Section(title, "", is_title=True)
    heading, start, is_title, depth = "", 0, False, 0
    for token, inline in itertools.pairwise(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map is not None:
            body = "\n".join(lines[start : token.map[0]]).strip()
            yield Section(heading, body, is_title=is_title, depth=depth)
            # After another section, a heading of level one is that of an appendix.
            is_title = token.tag == "h1" and not title and not heading
            heading, start, depth = _plain_heading(inline), token.map[1], int(token.tag[1:])
            title = title or (heading if is_title else "")
    body = "\n".join(lines[start:]).strip()
    yield Section(heading, body, is_title=is_title, depth=depth)


def _shown_line(line: str) -> str:
    """Return what of a line of Markdown is shown: code as it is, the rest without markup."""
    if alone := _TEMPLATE_TAG.fullmatch(line.strip()):
        return _show(alone).strip()
    first, *rest = _CODE_SPAN.split(line)
    texts = [_AFTER_CODE.sub("", text, count=1) for text in rest[1::2]]
    codes = [*rest[::2], ""]
    return "".join(map("".join, zip(map(_without_markup, [first, *texts]), codes, strict=True)))


def _without_markup(text: str) -> str:
    """Remove tags and targets from a part of a line that has no code."""
    text = _LAYOUT_TAG.sub(" ", _ANCHOR.sub("", _INLINE_ATTRIBUTES.sub("", text)))
    text = _TARGET.sub("", _IMAGE.sub(r"\1", text))
    return _ENTITY.sub(lambda entity: unescape(entity[0]), text)


def _without_block_markers(lines: Sequence[str]) -> Iterator[str]:
    """Yield the titles and the texts of admonitions and tabs, without markers and indentation."""
    blank = True  # the line before
    indents, fence = list[int](), ""  # of the texts of the blocks that a line is in
    below = [""] * (len(lines) + 1)  # the next line that is not blank
    for position in reversed(range(len(lines))):
        below[position] = lines[position] if lines[position].strip() else below[position + 1]
    for position, line in enumerate(lines):
        indent = len(line) - len(line.lstrip(" "))
        while indents and line.strip() and indent < indents[-1]:
            indents.pop()
            fence = ""
        shown = line[4 * len(indents) :]
        if mark := _FENCE.match(shown):
            closes = mark[1].startswith(fence) and shown.strip() == mark[1]
            fence = mark[1] if not fence else "" if closes else fence
        block = None if fence else _BLOCK.match(shown)
        after = below[position + 1]
        has_text = len(after) - len(after.lstrip(" ")) >= indent + 4
        if block is None or not (has_text or block[3]) or not (block[2] or block[3]):
            yield shown
            blank = not shown.strip()
            continue
        title = block[2].capitalize() if block[3] is None else block[3]
        if title:
            yield from [""] * (not blank) + [f"{block[1]}{title}"]
        blank = not title
        if has_text and after == lines[position + 1]:  # directly below
            yield ""
            blank = True
        indents.append(indent + 4)


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


def _without_front_matter(text: str) -> tuple[str, str]:
    """Return the title in the front matter of a page, or "", and the text below."""
    front = _FRONT_MATTER.match(text)  # of site generators
    values = _front_matter(*front.groups()) if front else None
    if front is None or values is None:
        return "", text
    return str(values.get("title", "")), text[front.end() :]


def _front_matter(fence: str, matter: str) -> dict[str, object] | None:
    """Return the values of YAML or, between "+++", TOML; None if it is neither, but text."""
    if fence == "+++":
        try:
            return tomllib.loads(matter)
        except tomllib.TOMLDecodeError:
            return None
    lines = dedent(matter).split("\n")
    pairs = [line.partition(":") for line in lines if line[:1].strip(" -#")]
    if not all(map(_YAML_LINE.match, lines)) or bool(pairs) != bool(matter.strip()):
        return None
    return {key.strip("\"'"): value.strip(" \t\"'") for key, _, value in pairs}


def _show(match: re.Match[str]) -> str:
    """Return what of a tag of MDX or of a template is shown, on as many lines; code as it is."""
    tag = match[0]
    if tag.startswith("`"):
        return tag
    if tag.startswith(("{/*", "import")):
        return "\n" * tag.count("\n")
    rest = _ARGUMENT.sub("", tag)
    if any(rest.count(mark) % 2 for mark in "\"'`"):
        return tag  # it ends elsewhere, behind a text
    said = [
        " ".join(value.split())
        for name, _, value in _ARGUMENT.findall(tag)
        if name in _SHOWN
        or (" " in value.strip() and not (_NOT_SHOWN.fullmatch(name) if name else tag[1] == "%"))
    ]
    return "".join(f"{value} " for value in said) + "\n" * tag.count("\n")


def _without_comments(block: str) -> str:
    """Remove comments of HTML, but keep the lines; what is never closed is no comment."""
    *parts, last = block.split("-->")
    kept = []
    for part in parts:
        before, begins, comment = part.partition("<!--")
        kept.append(before + "\n" * comment.count("\n") if begins else f"{part}-->")
    return "".join([*kept, last])


def _plain_heading(inline: Token) -> str:
    """Return the text of a heading, without markup and attributes such as "{#id .class}"."""
    parts = [
        " "
        if part.type in ("softbreak", "hardbreak")
        else _TEMPLATE_TAG.sub(_show, part.content)
        if part.type == "text"
        else part.content
        for part in inline.children or ()
        if part.type != "html_inline" or _is_text(part.content)
    ]
    return ATTRIBUTES.sub("", "".join(parts)).strip()


def _is_text(tag: str) -> bool:
    """Return whether what looks like a tag of HTML has words that are no attributes."""
    return bool(re.match(r"</?[a-z]\w*\s", tag)) and not _TAG.fullmatch(tag)


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _read_rst(content: bytes) -> list[Section]:
    lines = "\n".join(map(_short, _unix(decode(content)).split("\n")))
    first, *others = _rst_sections(_rst_tree(lines))
    return [replace(first, is_title=first.heading != ""), *others]


def _short(line: str) -> str:
    """Cut a line of more than 5,000 characters, which docutils takes the square of its length for.

    It refuses whole files for a line of more than 10,000.
    """
    if len(line) <= 5_000:
        return line
    indent = line[: len(line) - len(line.lstrip())][:100]
    return "\n\n".join(indent + piece for piece in _PIECE.findall(line))


def _rst_tree(text: str) -> nodes.document:
    from docutils import nodes
    from docutils.core import publish_doctree
    from docutils.parsers.rst import Directive, directives
    from docutils.parsers.rst.directives.misc import Class

    class Unknown(Directive):
        has_content = True

        def run(self) -> list[nodes.Node]:
            raise self.error("")

    settings = {
        "docinfo_xform": False,  # it would take the names of fields away
        "file_insertion_enabled": False,  # a document must not include other files
        "raw_enabled": False,
        "report_level": 5,
        "halt_level": 5,
        "warning_stream": io.StringIO(),
        "_disable_config": True,
    }
    directives.register_directive("class", Unknown)  # it is Python's in Sphinx
    try:
        tree = publish_doctree(text, settings_overrides=settings)
    finally:
        directives.register_directive("class", Class)
    # docutils does not know Sphinx's roles and directives, but its messages have their source.
    kinds = (nodes.problematic, nodes.system_message, nodes.field)
    marks = tree.findall(lambda node: isinstance(node, kinds))
    for parent in {id(mark.parent): mark.parent for mark in marks}.values():
        parent[:] = [*_without_marks(parent)][::-1]
    for steps in [*tree.findall(nodes.enumerated_list)]:
        _number_steps(steps)
    return tree


def _number_steps(steps: nodes.enumerated_list) -> None:
    """Write the numbers of a list, which docutils leaves out, in front of its items."""
    from docutils import nodes

    if steps["enumtype"] == "arabic":
        for number, step in enumerate(steps, steps.get("start", 1)):
            if first := step.next_node(nodes.Text):
                first.parent.replace(first, nodes.Text(f"{number}. {first}"))


def _without_marks(parent: nodes.Element) -> Iterator[nodes.Node]:
    """Yield the children of a node in reverse, with what Sphinx shows in place of messages."""
    from docutils import nodes

    after = None
    for child in reversed(parent.children):
        if isinstance(child, nodes.problematic):
            yield nodes.Text(_ROLE.sub(_role_text, child.astext()))
        elif isinstance(child, nodes.system_message):
            for source in [block.astext() for block in child.findall(nodes.literal_block)][::-1]:
                text = _directive_text(source)
                after = after or parent.next_node(descend=False, siblings=True, ascend=True)
                # Such as ".. setting:: timeout": a target that the heading below names.
                title = after[0].astext() if isinstance(after, nodes.section) else ""
                is_target = "\n" not in source.strip() and text.casefold() in title.casefold()
                if text and not is_target:
                    yield nodes.literal_block("", text)
        elif not isinstance(child, nodes.field) or child[1].children:  # ":orphan:" has none
            yield child
            after = after if isinstance(child, nodes.Invisible) else child


def _role_text(role: re.Match[str]) -> str:
    """Return what Sphinx shows for a role: "run" for "~Task.run", "here" for "here <target>"."""
    if role[1]:  # literal
        return role[1]
    text = " ".join(role[2].split())
    text = (text.rpartition(" <")[0] if text.endswith(">") else "") or text
    return text.rpartition(".")[2] if text.startswith("~") else text.lstrip("!@")


def _directive_text(source: str) -> str:
    """Return what a directive of Sphinx shows: its argument, its captions and its content."""
    match = _DIRECTIVE.match(source)
    if match is None:
        return source
    name, argument = match.groups()
    lines = source[match.end() :].removeprefix("\n").split("\n")
    lines = lines if argument or lines[0].strip() else lines[1:]
    end = next((position for position, line in enumerate(lines) if not line.strip()), len(lines))
    options = next(
        (position for position, line in enumerate(lines[:end]) if _OPTION.match(line)), end
    )
    options_set = [one.groups() for one in map(_OPTION.match, lines[options:end]) if one]
    shown = [value for option, value in options_set if option in _SHOWN_OPTIONS and value]
    if argument:
        argument = " ".join(f"{argument} {' '.join(lines[:options])}".split())
        argument = "" if name in _UNNAMED else _ROLE.sub(_role_text, argument)
        lines = lines[end:]
    else:  # the text may begin right below
        lines = lines[:options] + lines[end:]
    content = dedent("\n".join(lines)).strip("\n")
    if name in _EMPTY:
        content = ""
    elif name == "toctree":
        content = "\n".join(line.partition(" <")[0] for line in content.split("\n") if " <" in line)
    elif content and name not in _CODE:
        content = _rst_tree(content).astext().strip()
    argument = f"{_VERSIONS.get(name, '')} {argument}".strip()
    return "\n".join(filter(None, [argument, *shown, content]))


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
        elif not isinstance(child, nodes.Invisible):
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
            line = rf"^[\dA-Z.]{{0,20}}[ \t]*\n?[ \t]*{words}[ \t]*$"
            match = re.search(line, text, re.MULTILINE)
            if match is not None:
                sections.append(Section(heading, text[: match.start()].strip(), number + 1))
                heading, text = title, text[match.end() :]
        sections.append(Section(heading, text.strip(), number + 1))
    return sections


class Reader(NamedTuple):
    """A function that reads a format, the module that it imports, and the package that has it."""

    read: Callable[[bytes], list[Section]]
    module: str = ""
    package: str = ""


READERS = {
    ".txt": Reader(_read_text),
    ".md": Reader(_read_markdown),
    ".markdown": Reader(_read_markdown),
    ".mdx": Reader(_read_mdx),
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
