"""Reading of Word, PowerPoint and PDF files and of EPUB books."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

from uec_rag.documents.document import Block, Content, Heading, Page, spread, table_of
from uec_rag.documents.text import has_words

_HYPHEN = "\ufffe"  # what PDFium puts in place of a hyphen and the end of the line
_PARTED = re.compile(rf"(\w*){_HYPHEN}\s*(\w*)")
_WORD = re.compile(r"\w+")
_LARGER = 1.12  # the size of a heading over that of the text
_LONGEST_HEADING = 150  # characters
_LARGEST = 2**29  # bytes that a file may unpack to


def _unzip(data: bytes) -> zipfile.ZipFile:
    """Open an archive; ValueError if it declares a larger size than can be unpacked."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    if (size := sum(entry.file_size for entry in archive.infolist())) > _LARGEST:
        raise ValueError(f"it unpacks to {size:,} bytes, more than {_LARGEST:,}")
    return archive


def read_docx(data: bytes) -> Content:
    """Read the headings of a Word document, the texts below them, and its headers and footers."""
    import mammoth

    from uec_rag.documents.html import html_blocks

    archive, around = _unzip(data), list[str]()
    for name in sorted(archive.namelist()):
        if re.match(r"word/(?:header|footer)", name):
            for paragraph in ElementTree.fromstring(archive.read(name)).iterfind(".//{*}p"):
                parts = (" " if p.tag.endswith("}tab") else p.text or "" for p in paragraph.iter())
                around.append(" ".join("".join(parts).split()))
    # By default, images are embedded as base64.
    markup = mammoth.convert_to_html(
        io.BytesIO(data),
        convert_image=mammoth.images.img_element(lambda image: {"src": ""}),
        style_map="p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh",
    ).value
    repeated = "\n\n".join(filter(has_words, dict.fromkeys(around)))
    return Content([Page([repeated, *html_blocks(markup, pairs=True)])])


def read_pptx(data: bytes) -> Content:
    """Read one page per slide, headed by its title, with texts, tables and speaker notes."""
    from pptx import Presentation

    _unzip(data)
    pages = []
    for number, slide in enumerate(Presentation(io.BytesIO(data)).slides, start=1):
        title = slide.shapes.title
        heading = "" if title is None else " ".join(title.text_frame.text.split())
        blocks = [Heading(heading, 2), *_shapes(slide.shapes, title and title.shape_id)]
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            blocks.append(slide.notes_slide.notes_text_frame.text)
        pages.append(Page(blocks, number))
    return Content(pages)


def _shapes(shapes: Iterable[Any], title: int | None) -> Iterator[Block]:
    for shape in shapes:
        if shape.shape_id == title:
            continue
        if hasattr(shape, "shapes"):  # a group
            yield from _shapes(shape.shapes, title)
        elif shape.has_text_frame:
            yield shape.text_frame.text.replace("\v", "\n")
        elif shape.has_table:
            rows = [
                [(c.text, c.span_height, c.span_width) for c in row.cells if not c.is_spanned]
                for row in shape.table.rows
            ]
            pairs = not shape.table.first_row and len(shape.table.columns) == 2
            if table := table_of(spread(rows), header=0 if pairs else None, pairs=pairs):
                yield table


def read_epub(data: bytes) -> Content:
    """Read the chapters of a book in reading order, with their headings."""
    from uec_rag.documents.html import html_blocks

    book, blocks = _unzip(data), list[Block]()
    container = ElementTree.fromstring(book.read("META-INF/container.xml"))
    path = next(container.iterfind(".//{*}rootfile")).attrib["full-path"]
    package = ElementTree.fromstring(book.read(path))
    hrefs = {item.get("id"): item.get("href", "") for item in package.iterfind(".//{*}item")}
    for item in package.iterfind(".//{*}itemref"):
        href = unquote(hrefs.get(item.get("idref"), ""))
        name = posixpath.normpath(posixpath.join(posixpath.dirname(path), href))
        if name in book.namelist():
            # An empty heading ends the chapter before.
            blocks += [Heading("", 1), *html_blocks(book.read(name).decode("utf-8", "replace"))]
    title = package.findtext(".//{*}title", "")
    return Content([Page(blocks)], " ".join(title.split()))


def read_pdf(data: bytes) -> Content:
    """Read the pages, cut at the headings of the outline or, if there is none, at larger lines."""
    from pypdfium2 import PdfDocument

    with PdfDocument(data) as pdf:
        pdf.init_forms()
        marks = [(mark.get_title(), mark.get_dest(), mark.level) for mark in pdf.get_toc()]
        outline = [(title, to.get_index(), level) for title, to, level in marks if to is not None]
        pages = [_lines(page) for page in pdf]
    words = Counter(
        word.casefold() for lines in pages for line, _ in lines for word in _WORD.findall(line)
    )
    joined = [[(_join(line, words), size) for line, size in lines] for lines in pages]
    if outline:
        return Content(
            [
                Page([*_by_outline(lines, [o for o in outline if o[1] == number])], number + 1)
                for number, lines in enumerate(joined)
            ]
        )
    sizes = Counter[float]()
    for lines in joined:
        for line, size in lines:
            sizes[size] += len(line)
    body = sizes.most_common(1)[0][0] if sizes else 0
    larger = sorted({size for size in sizes if size > _LARGER * body}, reverse=True)
    return Content(
        [Page([*_by_size(lines, larger)], number) for number, lines in enumerate(joined, start=1)]
    )


def _lines(page: Any) -> list[tuple[str, float]]:  # noqa: ANN401
    """Return the lines of a page, each with the size of its letters."""
    from pypdfium2 import raw

    if page.formenv:
        page.flatten()  # what is filled in becomes text
    textpage = page.get_textpage()
    lines = textpage.get_text_range().replace("\r\n", " \n").replace("\r", "\n").split("\n")
    starts = accumulate((len(line) + 1 for line in lines), initial=0)
    return [
        (line.rstrip(), round(raw.FPDFText_GetFontSize(textpage, start + len(line) // 2), 1))
        for line, start in zip(lines, starts, strict=False)
    ]


def _join(line: str, words: Counter[str]) -> str:
    """Join words that are parted at the end of a line.

    The hyphen stays before a digit or a capital letter, and if the joined word is nowhere else.
    """

    def word(parts: re.Match[str]) -> str:
        before, after = parts.groups()
        hyphen = not after[:1].islower() or not before or (before + after).casefold() not in words
        return f"{before}{'-' * hyphen}{after}"

    return _PARTED.sub(word, line)


def _by_outline(
    lines: list[tuple[str, float]], marks: list[tuple[str, int, int]]
) -> Iterator[Block]:
    text = "\n".join(line for line, _ in lines)
    for title, _, level in marks:
        words = r"\s+".join(map(re.escape, title.split()))
        line = rf"^[\dA-Z.]{{0,20}}[ \t]*\n?[ \t]*{words}[ \t]*$"
        if words and (match := re.search(line, text, re.MULTILINE)):
            yield text[: match.start()].strip()
            yield Heading(title, min(level + 2, 6))
            text = text[match.end() :]
    yield text.strip()


def _by_size(lines: list[tuple[str, float]], larger: list[float]) -> Iterator[Block]:
    """Yield lines of a larger size as headings; consecutive ones of the same size are one."""
    text, heading, last = list[str](), list[str](), 0.0
    for line, size in [*lines, ("", 0.0)]:
        is_heading = size in larger and 2 < len(line) <= _LONGEST_HEADING and has_words(line)
        if heading and (not is_heading or size != last):
            yield "\n".join(text).strip()
            yield Heading(" ".join(heading), min(larger.index(last) + 1, 6))
            text, heading = [], []
        (heading if is_heading else text).append(line)
        last = size
    yield "\n".join(text).strip()
