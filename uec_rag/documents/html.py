"""Reading of HTML: the main content of a page, its headings, its tables, and the rest as Markdown.

It also reads what other readers convert to HTML.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from typing import Any

from bs4 import BeautifulSoup, Tag
from markdownify import MarkdownConverter

from uec_rag.documents.document import Block, Content, Heading, Page, has_words
from uec_rag.documents.encodings import decode
from uec_rag.documents.tables import Table, spread, table_of

_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w-]+)", re.IGNORECASE)
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)  # of site generators
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_UNSEEN = ("script", "style", "noscript", "template", "svg", "select", "iframe", "object", "title")
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
_KEYS = ("button", "code", "kbd", "samp")
_DEEPEST = 100  # elements that are in each other
_LONGEST_CELL = 200  # characters on average, of a table without a header that is no layout
_MARK = re.compile("\ue000(\\d)([^\ue001]*)\ue001")
_TRAILING = re.compile(r"[ \t]+$", re.MULTILINE)
_LANGUAGE = re.compile(r"\b(?:language|lang|highlight(?:-source)?)-(\w+)")


def read_html(data: bytes) -> Content:
    """Read the headings of a page, its tables and the texts below them, without navigation."""
    charset = _CHARSET.search(data[:4096])
    text, notes = decode(data, charset and charset[1].decode())
    soup = BeautifulSoup(_FRONT_MATTER.sub("", text, count=1), "lxml")
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
    soup = BeautifulSoup(markup, "lxml")
    _tidy(soup)
    return _blocks(soup.body or soup, pairs=pairs)


def _tidy(soup: BeautifulSoup) -> None:
    """Remove what is not shown, and what nests too deep for a recursive function."""
    for tag in soup.find_all(_UNSEEN):
        tag.decompose()
    for button in soup.find_all("button"):
        if button.find_parent(_HEADINGS) is None and button.find(_HEADINGS) is None:
            button.decompose()
    for text in soup.find_all(string=re.compile("[\ue000\ue001]")):
        text.replace_with(re.sub("[\ue000\ue001]", "", text))
    left = [(child, 1) for child in soup.find_all(True, recursive=False)]
    while left:
        tag, depth = left.pop()
        if depth > _DEEPEST:
            tag.string = tag.get_text(" ")
        left += [(child, depth + 1) for child in tag.contents if isinstance(child, Tag)]


def _main(soup: BeautifulSoup) -> Tag:
    """Find the element with a page's content, and remove the navigation in it and around it."""
    body = soup.body or soup
    mains = [tag for tag in soup.select(_MAIN) if has_words(tag.get_text())]
    mains = [tag for tag in mains if not any(other in tag.parents for other in mains)]
    root = mains[0] if len(mains) == 1 else body
    articles = [tag for tag in root.find_all("article") if tag.find_parent("article") is None]
    if len(articles) == 1:
        # Around an article there may be more of the page, unless it has all of its headings.
        outside = [h for h in root.find_all(_HEADINGS[:2]) if articles[0] not in h.parents]
        words = [len(tag.get_text().split()) for tag in (articles[0], root)]
        if articles[0].find("h1") or (2 * words[0] > words[1] and not outside):
            root = articles[0]
    _drop_navigation(root, is_page=root is body)
    return root


def _drop_navigation(root: Tag, *, is_page: bool) -> None:
    words, linked = _counts_of_words(root)
    selected = {*map(id, root.select(f"{_ASIDE}, {_AROUND}" if is_page else _ASIDE))}
    title = root.find("h1") if is_page else None
    before = {*map(id, title.find_all_previous())} if title else set()
    for tag in root.find_all(True):
        count = words[id(tag)]
        leads_elsewhere = linked[id(tag)] > _LINKS * count and (
            tag.name in ("header", "aside")
            or id(tag) in before
            or (
                words[id(root)] - count >= min(count, _REST)
                and bool(_NAVIGATION.search(_names(tag)))
            )
            or (tag.name in ("ul", "ol", "dl") and _leads_within(tag))
        )
        is_foot = count <= _FOOT and bool(_FOOTER.search(_names(tag))) and not tag.find(_HEADINGS)
        of_text = tag.name == "a" and id(tag) not in before
        drops = id(tag) in selected or ((leads_elsewhere or is_foot) and not of_text)
        if drops and not tag.find(["h1", "main"]) and tag.name not in _HEADINGS:
            tag.clear()
    for link in root.find_all("a"):  # marks such as "#", and those to edit or to view the source
        heading = link.find_parent(_HEADINGS)
        is_mark = heading is not None and heading.get_text().strip() != link.get_text().strip()
        if not has_words(link.get_text()) or (is_mark and _NAVIGATION.search(_names(link))):
            link.decompose()


def _names(tag: Tag) -> str:
    return f"{tag.get('id', '')} {' '.join(tag.get_attribute_list('class'))}"


def _counts_of_words(root: Tag) -> tuple[Counter[int], Counter[int]]:
    """Count the words in each element, and those of links, by the element's identity."""
    words, linked = Counter[int](), Counter[int]()
    for string in root.find_all(string=True):
        inside = [*takewhile(lambda tag: tag is not root, string.parents), root]
        count = len(string.split())
        is_linked = any(tag.name == "a" and tag.get("href") for tag in inside)
        for tag in inside:
            words[id(tag)] += count
            linked[id(tag)] += count * is_linked
    return words, linked


def _leads_within(tag: Tag) -> bool:
    """Return whether all links lead to other parts of the page, as in a table of contents."""
    targets = [str(link.get("href", "")) for link in tag.find_all("a")]
    return len(targets) > 1 and all(target.startswith("#") for target in targets)


class _Writer(MarkdownConverter):
    """Writes Markdown with marks in place of headings and tables."""

    def convert_hN(self, n: int, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"\n\n\ue000{n}{' '.join(el.get_text().split())}\ue001\n\n"

    def convert_pre(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        code = text.strip("\n")
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
        return f"\n\n{fence}{_language(el)}\n{code}\n{fence}\n\n" if code.strip() else ""

    def convert_dt(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"\n\n{text.strip()}\n"

    def convert_dd(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"\n{text.strip()}\n\n"

    def convert_div(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"\n\n{text.strip()}\n\n"

    convert_aside = convert_details = convert_figure = convert_header = convert_main = convert_div
    convert_address = convert_article = convert_legend = convert_section = convert_div
    convert_summary = convert_dl = convert_div


def _language(code: Tag) -> str:
    names = " ".join(
        " ".join(tag.get_attribute_list("class")) for tag in (code, *code.find_all("code"))
    )
    found = _LANGUAGE.search(names)
    return found[1] if found else ""


def _blocks(root: Tag, *, pairs: bool) -> list[Block]:
    tables = [*_take_tables(root, pairs=pairs)]
    for key in root.find_all(_KEYS):  # "Ctrl" and "A" are not one word
        if isinstance(after := key.next_sibling, Tag) and after.name in _KEYS:
            key.insert_after(" ")
    writer: Any = _Writer(
        strip=["a", "img"],
        bullets="*",
        escape_asterisks=False,
        escape_underscores=False,
        wrap=True,
        wrap_width=None,
    )
    text = writer.process_tag(root, parent_tags=set())
    blocks, end = list[Block](), 0
    for mark in _MARK.finditer(text):
        blocks += filter(None, [_tidied(text[end : mark.start()])])
        end = mark.end()
        number, heading = int(mark[1]), mark[2].strip("§¶ ")
        blocks.append(Heading(heading, number) if number else tables[int(mark[2])])
    return [*blocks, _tidied(text[end:])]


def _tidied(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", _TRAILING.sub("", text)).strip("\n")


def _take_tables(root: Tag, *, pairs: bool) -> Iterator[Table]:
    """Yield the tables that are no layout, and replace them by marks."""
    count = 0
    for tag in [*root.find_all("table")]:
        rows = [row for row in tag.find_all("tr") if row.find_parent("table") is tag]
        table = None
        if tag.find(["table", "pre", *_HEADINGS]) is None:
            table = _table(tag, rows, pairs=pairs)
        if table is None:
            for part in [tag, *tag.find_all(["thead", "tbody", "tfoot", "tr", "td", "th"])]:
                part.name = "div"
            continue
        tag.name, tag.string = "p", f"\ue0000{count}\ue001"
        count += 1
        yield table


def _table(tag: Tag, rows: list[Tag], *, pairs: bool) -> Table | None:
    """Return the table that an element holds; None if it only arranges what it holds."""
    cells = [row.find_all(["td", "th"], recursive=False) for row in rows]
    marked = [bool(row) and all(cell.name == "th" for cell in row) for row in cells]
    header = next((n for n, is_header in enumerate(marked) if not is_header), len(marked))
    names = [row[0].name == "th" for row in cells[header:] if row]
    is_named = bool(names) and all(names) and not header
    texts = [[" ".join(cell.get_text(" ").split()) for cell in row] for row in cells]
    if not header and not is_named and not pairs:
        found = [text for row in texts for text in row if text]
        if max(map(len, cells), default=0) < 2 or sum(map(len, found)) > _LONGEST_CELL * len(found):
            return None
    spans, taken = [], set[tuple[int, int]]()
    for r, row in enumerate(cells):
        column = 0
        for cell, text in zip(row, texts[r], strict=True):
            while (r, column) in taken:
                column += 1
            down, across = min(_span(cell, "rowspan"), len(cells) - r), _span(cell, "colspan")
            spans.append((r, column, text, down, across))
            if down > 1:
                taken.update(
                    (below, c)
                    for below in range(r + 1, r + down)
                    for c in range(column, column + across)
                )
            column += across
    grid = spread(spans)
    width = max(map(len, grid), default=0)
    as_pairs = is_named or (pairs and width == 2)
    table = table_of(grid, header=header if header or as_pairs else None, pairs=as_pairs)
    caption = tag.find("caption")
    title = " ".join(caption.get_text(" ").split()) if caption else ""
    return table and replace(table, titles=(*filter(None, [title]), *table.titles))


def _span(cell: Tag, name: str) -> int:
    """Return how many rows or columns a cell spans; browsers also allow 1,000 columns."""
    value = str(cell.get(name, "1")).strip()
    return min(max(int(value), 1), 1000) if value.isdecimal() and len(value) < 6 else 1
