"""Reading of EPUB books."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote
from xml.etree import ElementTree

from uec_rag.documents.archive import unzip
from uec_rag.documents.document import Block, Content, Heading, Page
from uec_rag.documents.html import html_blocks

_LINKS = 0.5  # share of the words of a page of navigation that are in links


def _is_navigation(page: str) -> bool:
    """Return whether links have most of the words of a page, which may also be a chapter's."""
    from lxml import html

    body = html.document_fromstring(page.encode()).find("body")
    if body is None:
        return True
    linked = sum(len(link.text_content().split()) for link in body.iter("a") if link.get("href"))
    return linked >= _LINKS * len(body.text_content().split())


def read_epub(data: bytes) -> Content:
    """Read the chapters of a book in reading order, with their headings."""
    book, blocks = unzip(data), list[Block]()
    container = ElementTree.fromstring(book.read("META-INF/container.xml"))
    path = next(container.iterfind(".//{*}rootfile")).attrib["full-path"]
    package = ElementTree.fromstring(book.read(path))
    references = package.iterfind(".//{*}reference[@type='toc']")
    tables = {one.get("href", "").partition("#")[0] for one in references}
    items = {item.get("id"): item for item in package.iterfind(".//{*}item")}
    for reference in package.iterfind(".//{*}itemref"):
        if (item := items.get(reference.get("idref"))) is None:
            continue
        href = item.get("href", "")
        name = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(href)))
        if name not in book.namelist():
            continue
        page = book.read(name).decode("utf-8", "replace")
        may_be_table = "nav" in item.get("properties", "").split() or href in tables
        if not (may_be_table and _is_navigation(page)):
            # An empty heading ends the chapter before.
            blocks += [Heading("", 1), *html_blocks(page)]
    title = package.findtext(".//{*}title", "")
    return Content([Page(blocks)], " ".join(title.split()))
