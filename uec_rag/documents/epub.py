"""Reading of EPUB books."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote
from xml.etree import ElementTree

from uec_rag.documents.archive import unzip
from uec_rag.documents.document import Block, Content, Heading, Page
from uec_rag.documents.html import html_blocks


def read_epub(data: bytes) -> Content:
    """Read the chapters of a book in reading order, with their headings."""
    book, blocks = unzip(data), list[Block]()
    container = ElementTree.fromstring(book.read("META-INF/container.xml"))
    path = next(container.iterfind(".//{*}rootfile")).attrib["full-path"]
    package = ElementTree.fromstring(book.read(path))
    references = package.iterfind(".//{*}reference[@type='toc']")
    tables = {one.get("href", "").partition("#")[0] for one in references}
    hrefs = {
        item.get("id"): item.get("href", "")
        for item in package.iterfind(".//{*}item")
        if "nav" not in item.get("properties", "").split() and item.get("href") not in tables
    }
    for item in package.iterfind(".//{*}itemref"):
        href = unquote(hrefs.get(item.get("idref"), ""))
        name = posixpath.normpath(posixpath.join(posixpath.dirname(path), href))
        if name in book.namelist():
            # An empty heading ends the chapter before.
            blocks += [Heading("", 1), *html_blocks(book.read(name).decode("utf-8", "replace"))]
    title = package.findtext(".//{*}title", "")
    return Content([Page(blocks)], " ".join(title.split()))
