"""Reading of HTML: the main content of a page, its headings, its tables, and the rest as Markdown.

It also reads what other readers convert to HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from typing import Any

from bs4 import BeautifulSoup, Tag
from markdownify import MarkdownConverter

from uec_rag.documents.document import Block, Content, Heading, Page, Table, spread, table_of
from uec_rag.documents.notes import move_notes
from uec_rag.documents.plain_text import decode, fenced, has_words, linked, tidy_lines, to_integer
from uec_rag.documents.shown import HEADINGS, write_shown

_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w-]+)", re.IGNORECASE)
_FRONT_MATTER = re.compile(r"\A[\s\ufeff]*---\n.*?\n---\n", re.DOTALL)  # of site generators
_MAIN = "main, [role=main], [itemprop=articleBody]"
_ASIDE = "nav, footer, [role=navigation], [role=search], [role=contentinfo], [role=banner]"
_AROUND = "header, aside, [role=complementary]"  # content if they are within the main content
# Names of navigation. Content has them, too, so what they name must consist of links.
_NAVIGATION = re.compile(
    r"(?i)(?:\b|_)(?:nav|menu|toc|contents|breadcrumbs?|sidebar|footer|header|top|pag(?:er|ination)"
    r"|prev|next|related|edit|share|social|skip|index|src|source|anchor)(?:\b|_)"
    r"|nav(?:bar|box|header|footer)|catlinks|editsection|headerlink"
)
_FOOTER = re.compile(r"(?i)footer\b")
_LINKS = 0.6  # share of the words in links, of what leads elsewhere
_REST = 20  # words of a page that must stay if what is named so goes, and is longer
_FOOT = 30  # words of a footer that is named so
# Elements of XHTML that end where they begin, as those of HTML without content alone do.
_SELF_CLOSED = re.compile(
    r"<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr)\b)"
    r"([A-Za-z][\w:.-]*+)([^<>]*)/>"
)
# A section of characters, in which signs are no markup.
_CHARACTERS = re.compile(r"<!\[CDATA\[((?:[^\]<]++|\](?!\]>)|<(?!!\[CDATA\[))*+)\]\]>")
_DECLARATION = re.compile(r"\A\s*<\?xml[^<>]*\?>")
_KEYS = ("button", "code", "kbd", "samp")
# Addresses that lead nowhere without their site: of other pages of it, or parts of this one.
_WITHIN = re.compile(
    r"(?:#|(?:javascript|data|blob|cid|about):|(?![a-z][a-z\d+.-]*:|//)"
    r"[^?#]*(?:\.(?:x?html?|php)|[/.])(?:[?#]|\Z))|\Z",
    re.IGNORECASE,
)
_DEEPEST = 100  # elements that are in each other
_WIDEST = 100  # columns that a cell spans
_LONGEST_CELL = 200  # characters on average, of a table without a header that is no layout
_MARK = re.compile("\ue000(\\d)([^\ue001]*)\ue001")


def read_html(data: bytes) -> Content:
    """Read the headings of a page, its tables and the texts below them, without navigation."""
    charset = _CHARSET.search(data[:4096])
    text, notes = decode(data, charset and charset[1].decode())
    soup = _parse(_FRONT_MATTER.sub("", text, count=1))
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    _tidy(soup)
    root = _main(soup)
    own = next((h1 for h1 in root.find_all("h1") if has_words(h1.get_text())), None)
    if own is None and (above := soup.find("h1")) is not None:  # such as in the page's header
        root.insert(0, above.extract())
        own = above
    return Content([Page(_blocks(root, pairs=False))], "" if own else title, notes=notes)


def html_blocks(markup: str, *, pairs: bool = False) -> list[Block]:
    """Convert HTML that holds no navigation.

    `pairs`: whether tables of two columns without a header are names and values.
    """
    soup = _parse(markup)
    _tidy(soup)
    return _blocks(soup.body or soup, pairs=pairs)


def _parse(markup: str) -> BeautifulSoup:
    """Parse HTML, XHTML with its sections of characters, or what Confluence stores."""
    markup = _CHARACTERS.sub(lambda section: escape(section[1]), markup)
    markup = _DECLARATION.sub("", markup, count=1)
    if "<html xmlns" in markup or "<ac:" in markup:
        markup = _SELF_CLOSED.sub(r"<\1\2></\1>", markup)
    soup = BeautifulSoup(markup, "lxml")
    for tag in soup.find_all(
        ["ac:plain-text-body", "ac:parameter", "ac:task", "ac:task-id", "ac:task-status"]
    ):
        if tag.name == "ac:plain-text-body":
            tag.name = "pre"
        elif tag.name == "ac:task":
            tag.name = "div"
        elif tag.name == "ac:task-status":
            tag.replace_with("☒ " if tag.get_text().strip() == "complete" else "☐ ")
        elif tag.get("ac:name") != "title":
            tag.decompose()
    return soup


def _tidy(soup: BeautifulSoup) -> None:
    """Remove what nests too deep for a recursive function, and write as text what is shown so."""
    left = [(child, 1) for child in soup.find_all(True, recursive=False)]
    while left:
        tag, depth = left.pop()
        if depth > _DEEPEST:
            tag.string = tag.get_text(" ")
        left += [(child, depth + 1) for child in tag.contents if isinstance(child, Tag)]
    write_shown(soup)
    move_notes(soup)
    soup.smooth()
    for button in soup.find_all("button"):
        if button.find_parent(HEADINGS) is None and button.find(HEADINGS) is None:
            button.decompose()


def _main(soup: BeautifulSoup) -> Tag:
    """Find the element with a page's content, and remove the navigation in it and around it."""
    body = root = soup.body or soup
    found = [tag for tag in body.select(_MAIN) if has_words(tag.get_text())]
    found = [tag for tag in found if not any(other in tag.parents for other in found)]
    if len(found) == 1:
        root = found[0]
    _drop_navigation(root, is_page=root is body)
    return root


def _drop_navigation(root: Tag, *, is_page: bool) -> None:
    aside = {*map(id, root.select(f"{_ASIDE}, {_AROUND}" if is_page else _ASIDE))}
    title, total = root.find("h1"), len(root.get_text(" ").split())
    above = {*map(id, title.find_all_previous())} if title and is_page else set()
    for tag in root.find_all(True):
        if tag.name in HEADINGS or tag.find(["h1", "main"]):
            continue
        if id(tag) in aside or _leads_elsewhere(tag, total, is_above=id(tag) in above):
            tag.clear()
    for link in root.find_all("a"):  # marks such as "#", and those to edit or to view the source
        heading = link.find_parent(HEADINGS)
        is_mark = heading is not None and heading.get_text().strip() != link.get_text().strip()
        if not has_words(link.get_text()) or (is_mark and _NAVIGATION.search(_names(link))):
            link.decompose()


def _leads_elsewhere(tag: Tag, total: int, *, is_above: bool) -> bool:
    """Return whether an element is navigation: above the title, or by its name or its links.

    `total`: words of the page, most of which must stay if what is named so goes.
    """
    is_around, is_list = tag.name in ("header", "aside"), tag.name in ("ul", "ol", "dl")
    is_named = tag.name != "a" and bool(_NAVIGATION.search(_names(tag)))
    if not (is_above or is_around or is_list or is_named):
        return False
    count = len(tag.get_text().split())
    if count <= _FOOT and _FOOTER.search(_names(tag)) and not tag.find(HEADINGS):
        return True
    links = [tag] if tag.name == "a" else tag.find_all("a", href=True)
    if sum(len(link.get_text().split()) for link in links) <= _LINKS * count:
        return False
    within = len(links) > 1 and all(str(link.get("href")).startswith("#") for link in links)
    rests = total - count >= min(count, _REST)
    return is_above or is_around or (is_named and rests) or (is_list and within)


def _names(tag: Tag) -> str:
    return f"{tag.get('id', '')} {' '.join(tag.get_attribute_list('class'))}"


class _Writer(MarkdownConverter):
    """Writes Markdown with marks in place of headings and tables."""

    def convert_hN(self, n: int, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"\n\n\ue000{n}{' '.join(el.get_text().split())}\ue001\n\n"

    def convert_sup(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f" {text.strip()}"  # a link of several words

    def convert_li(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        first = next((one for one in el.contents if has_words(one.get_text())), el)
        if isinstance(first, Tag) and first.name in ("ul", "ol"):  # a level without a text
            return f"{text.strip()}\n"
        if not el.has_attr("data-numbered"):
            return str(super().convert_li(el, text, parent_tags))  # type: ignore[misc]
        return text.strip().replace("\n", "\n   ") + "\n"

    def convert_pre(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"\n\n{fenced(text.strip(chr(10)))}\n\n"

    def convert_dt(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"\n\n{text.strip()}\n"

    def convert_dd(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"\n{text.strip()}\n\n"

    def convert_div(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"\n\n{text.strip()}\n\n"

    convert_aside = convert_details = convert_figure = convert_header = convert_main = convert_div
    convert_address = convert_article = convert_legend = convert_section = convert_div
    convert_summary = convert_dl = convert_div


def _blocks(root: Tag, *, pairs: bool) -> list[Block]:
    _write_links(root)
    tables = [*_take_tables(root, pairs=pairs)]
    for key in root.find_all(_KEYS):  # "Ctrl" and "A" are not one word
        if isinstance(after := key.next_sibling, Tag) and after.name in _KEYS:
            key.insert_after(" ")
    writer: Any = _Writer(
        strip=["a"],
        bullets="*",
        escape_asterisks=False,
        escape_underscores=False,
        wrap=True,
        wrap_width=None,
    )
    text, blocks, end = writer.process_tag(root, parent_tags=set()), list[Block](), 0
    for mark in _MARK.finditer(text):
        blocks += filter(None, [tidy_lines(text[end : mark.start()]).strip("\n")])
        number, end = int(mark[1]), mark.end()
        blocks.append(Heading(mark[2].strip("§¶ "), number) if number else tables[int(mark[2])])
    return [*blocks, tidy_lines(text[end:]).strip("\n")]


def _write_links(root: Tag) -> None:
    """Write the addresses of links as Markdown does, but for those within a site."""
    for link in root.find_all("a", href=True):
        address, text = str(link["href"]).strip(), link.get_text().strip()
        shown, texts = linked(text, address), [one for one in link.strings if has_words(one)]
        if shown == text or _WITHIN.match(address) or link.find_parent(HEADINGS):
            continue
        if len(texts) == 1 and not link.find(_KEYS):
            texts[0].replace_with(linked(texts[0], address))
        elif not link.find(["p", "div", "li", "table", *HEADINGS]):
            link.insert(0, "[")
            link.append(shown[len(text) + 1 :])


def _take_tables(root: Tag, *, pairs: bool) -> Iterator[Table]:
    """Yield the tables that are no layout, and replace them by marks."""
    count = 0
    for tag in root.find_all("table"):
        is_layout = tag.find(["table", "pre", *HEADINGS]) is not None
        table = None if is_layout else _table(tag, pairs=pairs)
        if table is None:
            parts = tag.find_all(["thead", "tbody", "tfoot", "tr", "td", "th"])
            for part in [tag, *(one for one in parts if one.find_parent("table") is tag)]:
                part.name = "div"
            continue
        tag.name, tag.string = "p", f"\ue0000{count}\ue001"
        count += 1
        yield table


def _table(tag: Tag, *, pairs: bool) -> Table | None:
    """Return the table that an element holds; None if it only arranges what it holds."""
    rows = [row.find_all(["td", "th"], recursive=False) for row in tag.find_all("tr")]
    marked = [bool(row) and all(cell.name == "th" for cell in row) for row in rows]
    header = next((n for n, is_header in enumerate(marked) if not is_header), len(marked))
    names = [row[0].name == "th" for row in rows[header:] if row]
    is_named = bool(names) and all(names) and not header
    cells = [
        [(_text(cell), _span(cell, "rowspan"), _span(cell, "colspan")) for cell in row]
        for row in rows
    ]
    if not header and not is_named and not pairs:
        texts = [text for row in cells for text, _, _ in row if text]
        if max(map(len, rows), default=0) < 2 or sum(map(len, texts)) > _LONGEST_CELL * len(texts):
            return None
    grid = spread(cells)
    as_pairs = is_named or (pairs and max(map(len, grid), default=0) == 2)
    table = table_of(grid, header=header if header or as_pairs else None, pairs=as_pairs)
    caption = tag.find("caption")
    return table and replace(table, titles=(*([_text(caption)] if caption else []), *table.titles))


def _text(tag: Tag) -> str:
    return " ".join(tag.get_text(" ").split())


def _span(cell: Tag, name: str) -> int:
    """Return how many rows or columns a cell spans."""
    count = to_integer(str(cell.get(name, "1")).strip(), 1)
    return max(1, min(count, _WIDEST) if name == "colspan" else count)
