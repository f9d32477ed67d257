"""Reading of HTML: the main content of a page, its headings, its tables, and the rest as Markdown.

It also reads what other readers convert to HTML, and EPUB books, whose chapters are pages. Each
note moves below the first paragraph that refers to it, with its mark as "[1]".
"""

import posixpath
import re
from collections.abc import Iterable
from html import escape
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

from bs4 import BeautifulSoup, Tag
from markdownify import MarkdownConverter

from uec_rag.documents.archive import unzip
from uec_rag.documents.document import Block, Content, Heading, Page
from uec_rag.documents.plain_text import decode, fenced, has_text, linked, tidy_lines
from uec_rag.documents.shown import (
    HEADINGS,
    OPENING,
    is_gone,
    join_written,
    tags_of,
    write,
    write_shown,
)
from uec_rag.documents.tables import take_tables

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
_MOST_LINKED = 0.5  # share of the words of a page of navigation that are in links
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
# What Confluence stores, and what it is in HTML, if anything.
_OF_CONFLUENCE = {"ac:plain-text-body": "pre", "ac:task": "div", "ac:task-status": ""}
_OF_CONFLUENCE |= {"ac:parameter": "", "ac:task-id": ""}
_KEYS = ("button", "code", "kbd", "samp")
_SENTENCES = ("p", "li", "td", "dd", "th", "blockquote", "figcaption")
_OF_CONTENT = ["article", "blockquote", "figure", "table", "li"]  # whose footers are theirs
# Addresses that lead nowhere without their site: of other pages of it, or parts of this one.
_WITHIN = re.compile(
    r"(?:#|(?:javascript|data|blob|cid|about):|(?![a-z][a-z\d+.-]*:|//)"
    r"[^?#]*(?:\.(?:x?html?|php)|[/.])(?:[?#]|\Z))|\Z",
    re.IGNORECASE,
)
_DEEPEST = 100  # elements that are in each other
_MARK = re.compile("\ue000(\\d)([^\ue001]*)\ue001")


def read_html(data: bytes) -> Content:
    """Read the headings of a page, its tables and the texts below them, without navigation."""
    charset = _CHARSET.search(data[:4096])
    text, notes = decode(data, charset and charset[1].decode())
    soup = _parse(_FRONT_MATTER.sub("", text, count=1))
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    _tidy(soup)
    body = soup.body or soup
    mains = [tag for tag in body.select(_MAIN) if has_text(tag.get_text())]
    mains = [tag for tag in mains if not any(outer in tag.parents for outer in mains)]
    root = mains[0] if len(mains) == 1 else body
    _drop_navigation(root, is_page=root is body)
    title_tag = next((h1 for h1 in root.find_all("h1") if has_text(h1.get_text())), None)
    if title_tag is None and (above := soup.find("h1")) is not None:  # such as in the page's header
        root.insert(0, above.extract())
        title_tag = above
    page = Page(_blocks(root, pairs=False))
    return Content([page], "" if title_tag else title, notes=notes, text=_without_tags(text))


def _without_tags(text: str) -> str:
    """Return HTML with blanks in place of tags, and of all above what is shown."""
    body = re.search(r"<body\b", text, re.IGNORECASE)
    above = body.start() if body else 0
    return " " * above + re.sub("<[^<>]*>", lambda tag: " " * len(tag[0]), text[above:])


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
    for tag in soup.find_all([*_OF_CONFLUENCE]) if "<ac:" in markup else ():
        if name := _OF_CONFLUENCE[tag.name]:
            tag.name = name
        elif tag.name == "ac:task-status":
            tag.replace_with("☒ " if tag.get_text().strip() == "complete" else "☐ ")
        elif tag.get("ac:name") != "title":
            tag.decompose()
    return soup


def _tidy(soup: BeautifulSoup) -> None:
    """Remove what nests too deep for a recursive function, and write as text what is shown so."""
    pending = [(child, 1) for child in soup.find_all(True, recursive=False)]
    while pending:
        tag, depth = pending.pop()
        if depth > _DEEPEST:
            tag.string = tag.get_text(" ")
        pending += [(child, depth + 1) for child in tag.contents if isinstance(child, Tag)]
    write_shown(soup)
    move_notes(soup)
    soup.smooth()
    for button in soup.find_all("button"):
        if button.find_parent([*HEADINGS, "dt", "summary"]) is not None or button.find(HEADINGS):
            continue
        if _is_head(button):
            button.name = "p"
        elif _says_only(button, button.parent):
            button.decompose()
        else:
            button.unwrap()


def _is_head(button: Tag) -> bool:
    """Return whether a button of several words, or a question, is the head of a text."""
    opens = any(button.has_attr(name) for name in ("aria-expanded", *OPENING.split()))
    text, after = button.get_text().strip(), button.find_next_sibling()
    is_before = after is not None and after.name in ("div", "section") and text.endswith("?")
    return (opens or is_before) and (text.endswith("?") or " " in text)


def _says_only(button: Tag, place: Tag | None) -> bool:
    """Return whether a button stands alone, or beside others, and not within a sentence."""
    if place is None or place.name not in (*_SENTENCES, *_INLINE):
        return True
    texts = (text for text in place.strings if text.find_parent("button") is None)
    return not any(map(has_text, texts)) and (
        place.name not in _INLINE or _says_only(button, place.parent)
    )


def _drop_navigation(root: Tag, *, is_page: bool) -> None:
    aside = {
        id(tag)
        for tag in root.select(f"{_ASIDE}, {_AROUND}" if is_page else _ASIDE)
        if tag.name != "footer" or (is_page and tag.find_parent(_OF_CONTENT) is None)
    }
    title, total = root.find("h1"), len(root.get_text(" ").split())
    above = {*map(id, title.find_all_previous())} if title and is_page else set()
    for tag in tags_of(root):
        if tag.name in HEADINGS or tag.find(["h1", "main"]):
            continue
        is_foot = is_page and tag.find_parent(_OF_CONTENT) is None
        is_above = id(tag) in above
        if id(tag) in aside or _leads_elsewhere(tag, total, is_above=is_above, is_foot=is_foot):
            tag.clear()
    for link in root.find_all("a"):  # marks such as "#", and those to edit or to view the source
        heading = link.find_parent(HEADINGS)
        is_mark = heading is not None and heading.get_text().strip() != link.get_text().strip()
        if not has_text(link.get_text()) or (is_mark and _NAVIGATION.search(_names(link))):
            link.decompose()


def _leads_elsewhere(tag: Tag, total: int, *, is_above: bool, is_foot: bool) -> bool:
    """Return whether an element is navigation: above the title, or by its name or its links.

    `total`: words of the page, most of which must stay if what is named so goes. `is_foot`: whether
    what is named so may be the foot of the page.
    """
    is_around, is_list = tag.name in ("header", "aside"), tag.name in ("ul", "ol", "dl")
    is_named = tag.name != "a" and bool(_NAVIGATION.search(_names(tag)))
    if not (is_above or is_around or is_list or is_named):
        return False
    count = len(tag.get_text().split())
    if is_foot and count <= _FOOT and _FOOTER.search(_names(tag)) and not tag.find(HEADINGS):
        return True
    links = [tag] if tag.name == "a" else tag.find_all("a", href=True)
    if _count_words(links) <= _LINKS * count:
        return False
    within = len(links) > 1 and all(str(link.get("href")).startswith("#") for link in links)
    rests = total - count >= min(count, _REST)
    return is_above or is_around or (is_named and rests) or (is_list and within)


def _count_words(tags: Iterable[Tag]) -> int:
    return sum(len(tag.get_text().split()) for tag in tags)


def _names(tag: Tag) -> str:
    return f"{tag.get('id', '')} {' '.join(tag.get_attribute_list('class'))}"


class _Writer(MarkdownConverter):
    """Writes Markdown with marks in place of headings and tables."""

    def convert_hN(self, n: int, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"\n\n\ue000{n}{' '.join(el.get_text().split())}\ue001\n\n"

    def convert_sup(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f" {text.strip()}"  # a link of several words

    def convert_li(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        head = next((child for child in el.contents if has_text(child.get_text())), el)
        if isinstance(head, Tag) and head.name in ("ul", "ol"):  # a level without a text
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
    convert_summary = convert_dl = convert_footer = convert_div


def _blocks(root: Tag, *, pairs: bool) -> list[Block]:
    _write_links(root)
    tables = [*take_tables(root, pairs=pairs)]
    for key in root.find_all(_KEYS):  # "Ctrl" and "A" are not one word
        if isinstance(after := key.next_sibling, Tag) and after.name in _KEYS:
            key.insert_after(" ")
    unescaped: dict[str, Any] = {"escape_asterisks": False, "escape_underscores": False}
    writer: Any = _Writer(strip=["a"], bullets="*", wrap=True, wrap_width=None, **unescaped)
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
        markup, texts = linked(text, address), [*filter(has_text, link.strings)]
        if markup == text or _WITHIN.match(address) or link.find_parent(HEADINGS):
            continue
        if len(texts) == 1 and not link.find(_KEYS):
            texts[0].replace_with(linked(texts[0], address))
        elif not link.find(["p", "div", "li", "table", *HEADINGS]):
            link.insert(0, "[")
            link.append(markup[len(text) + 1 :])


_LONGEST_MARK, _LONGEST_RAISED, _LONGEST_NOTE = 5, 12, 5_000  # characters
_REFERENCE, _BACK = re.compile("noteref|footnote"), re.compile("back")  # in attributes
_ARROWS = ("↩", "↩︎", "↑", "^")
_INLINE = ("a", "span", "sup", "b", "strong", "em", "i", "cite")
_HOLDERS = ("li", "aside", "dd", "p", "tr", "div")
_BELOW = ("p", "li", "dd", "blockquote", "pre", "div", "section", "article", *HEADINGS)


def move_notes(root: Tag) -> None:
    """Move notes below what refers to them, and write the marks of references in brackets.

    A link refers to a note if its text is a short mark, and if it is raised or so named, or if the
    note has a link that leads back.
    """
    pairs = [(tag.attrs.get(key), tag) for tag in tags_of(root) for key in ("id", "name")]
    by_name = {str(name): tag for name, tag in reversed(pairs) if name}  # the first of a name
    references = list[Tag]()
    notes_found = dict[int, tuple[Tag, Tag, str]]()  # each note, the first reference and its mark
    for link in root.find_all("a", href=True):
        mark = "" if is_gone(link) else link.get_text().strip("[]() \n")
        sup = link.find_parent("sup") if mark else None
        outer = link if sup is None or len(sup.get_text()) > len(mark) + 4 else sup
        is_raised = outer is sup or link.find("sup") is not None
        longest = _LONGEST_RAISED if is_raised else _LONGEST_MARK
        is_mark = 0 < len(mark) <= longest and (has_text(mark) or mark in "*†‡§")
        if not is_mark or link.find_parent(HEADINGS):
            continue
        attributes = str([value for key, value in link.attrs.items() if key != "href"])
        is_marked = is_raised or bool(_REFERENCE.search(attributes))
        note, names = _note(link, by_name), _names_of(outer)
        anchors = [] if note is None else note.find_all("a")
        leads_back = any(_fragment(anchor) in names for anchor in anchors)
        is_here = is_marked and str(link["href"]).startswith("#")
        if _BACK.search(attributes) or not (is_marked or leads_back):
            continue
        if note is not None and (is_here or leads_back):
            notes_found.setdefault(id(note), (note, outer, mark))
            for anchor in anchors:
                if _fragment(anchor) in names or anchor.get_text().strip() in _ARROWS:
                    anchor.decompose()
        write(outer, f"[{mark}]")
        references.append(outer)
    parents = {id(note.parent): note.parent for note, _, _ in notes_found.values()}
    below = dict[int, tuple[Tag, list[Tag]]]()
    for note, reference, mark in notes_found.values():
        tables = reference.find_parents("table")
        block = tables[-1] if tables else reference.find_parent(_BELOW) or reference
        below.setdefault(id(block), (block, []))[1].append(note)
        _take(note, mark)
    for block, notes in below.values():
        if block.name in ("li", "dd"):
            block.extend(notes)
        else:
            block.insert_after(*notes)
    for parent in parents.values():
        _clear(parent, root)
    join_written(references)


def _note(link: Tag, by_name: dict[str, Tag]) -> Tag | None:
    """Return what a link leads to, with what is around its label; None if it is no note."""
    target = by_name.get(_fragment(link))
    if target is not None and target.name == "dt":
        target = target.find_next_sibling("dd")
    if target is not None and target.name in _INLINE:
        target = target.find_parent(_HOLDERS)
    if target is None or target.name not in (*_HOLDERS, "table", "blockquote"):
        return None
    is_around = target in link.parents or target.find(HEADINGS) is not None
    return None if is_around or len(target.get_text()) > _LONGEST_NOTE else target


def _names_of(outer: Tag) -> set[str]:
    """Return the names by which a note can lead back to a reference."""
    around = [outer, *outer.find_all(True)]
    if outer.parent is not None and outer.parent.name in _INLINE:
        around.append(outer.parent)
    return {str(tag[key]) for tag in around for key in ("id", "name") if tag.has_attr(key)}


def _fragment(link: Tag) -> str:
    return unquote(str(link.get("href", "")).partition("#")[2])


def _take(note: Tag, mark: str) -> None:
    """Take a note from its place, and put its mark before its first words, for the label there."""
    if note.name == "dd" and (label := note.find_previous_sibling("dt")) is not None:
        label.decompose()
    note.extract()
    if note.name in ("table", "tr"):
        note.string = note.get_text(" ")
    note.name, note.attrs = "div", {}
    mark_pattern = rf"(?:{re.escape(mark)}(?=\s*(?:[\]).:]|\Z)))?"
    label_at = re.compile(rf"[\s\[(^,]*{mark_pattern}[\s\]).:^,]*")
    for text in [*note.find_all(string=True)]:
        body = label_at.sub("", str(text), count=1)
        if has_text(body):
            text.replace_with(f"[{mark}] {body}")
            return
        text.extract()


def _clear(parent: Tag | None, root: Tag) -> None:
    """Remove what held notes alone, with the headings in it."""
    while parent is not None and parent is not root and parent.parent is not None:
        texts = (text for text in parent.find_all(string=True) if has_text(text))
        if any(text.find_parent(HEADINGS) is None for text in texts):
            return
        above = parent.parent
        parent.decompose()
        parent = above


def read_epub(data: bytes) -> Content:
    """Read the chapters of a book in reading order, with their headings."""
    book, blocks = unzip(data), list[Block]()
    container = ElementTree.fromstring(book.read("META-INF/container.xml"))
    path = next(container.iterfind(".//{*}rootfile")).attrib["full-path"]
    package = ElementTree.fromstring(book.read(path))
    references = package.iterfind(".//{*}reference[@type='toc']")
    tables = {reference.get("href", "").partition("#")[0] for reference in references}
    items = {item.get("id"): item for item in package.iterfind(".//{*}item")}
    ids = (reference.get("idref") for reference in package.iterfind(".//{*}itemref"))
    for item in (items[id_] for id_ in ids if id_ in items):
        href = item.get("href", "")
        name = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(href)))
        if name not in book.namelist():
            continue
        page = book.read(name).decode("utf-8", "replace")
        if "nav" in item.get("properties", "").split() or href in tables:  # or of a chapter
            soup = _parse(page)
            count = _count_words(soup.find_all("a", href=True))
            if count >= _MOST_LINKED * _count_words(soup("body")):
                continue
        blocks += [Heading("", 1), *html_blocks(page)]  # an empty one ends the chapter before
    title = package.findtext(".//{*}title", "")
    return Content([Page(blocks)], " ".join(title.split()))
