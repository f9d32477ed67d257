"""Reading of Word, PowerPoint and Excel files and of EPUB books, all of which are zip archives."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

from uec_rag.documents.document import Block, Content, Heading, Page, has_words
from uec_rag.documents.tables import MOST_CELLS, Table, table_of

_LARGEST = 2**29  # bytes that a file may unpack to
_PAGE_NUMBER = re.compile(r"(?i)\W*(?:\w+\W+)?\d+(?:\W+(?:\w+\W+)?\d+)?\W*")
_UNCALCULATED = re.compile(rb"(?:</f>|<f\b[^<>]*/>)\s*(?:<v\s*/>|<v>\s*</v>)?\s*</c>")
_MERGED = re.compile(rb"<mergeCell\b[^<>]*\bref=\"(\w+:\w+)\"")
_DIGITS = re.compile(r"[#0?][#0?,]*(\.[#0?]*)?(E[+-]?0+)?")
_QUOTED = re.compile(r'"([^"]*)"|\\(.)|\[\$([^\]-]*)[^\]]*\]|[_*].')


@contextmanager
def _unzipped(data: bytes) -> Iterator[zipfile.ZipFile]:
    """Open an archive; ValueError if it declares a larger size than can be unpacked."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
        if size > _LARGEST:
            raise ValueError(f"it unpacks to {size:,} bytes, more than {_LARGEST:,}")
        yield archive


def read_docx(data: bytes) -> Content:
    """Read the headings of a Word document, the texts below them, and its headers and footers."""
    import mammoth

    from uec_rag.documents.html import html_blocks

    with _unzipped(data) as archive:
        parts = [name for name in archive.namelist() if re.match(r"word/(?:header|footer)", name)]
        around = [text for name in sorted(parts) for text in _paragraphs(archive.read(name))]
    # By default, images are embedded as base64.
    markup = mammoth.convert_to_html(
        io.BytesIO(data),
        convert_image=mammoth.images.img_element(lambda image: {"src": ""}),
        style_map="p[style-name='Title'] => h1.title:fresh\np[style-name='Subtitle'] => p:fresh",
    ).value
    blocks = html_blocks(markup, pairs=True)
    chapters = sum(isinstance(block, Heading) and block.depth == 1 for block in blocks)
    if chapters > 1 and 'class="title"' not in markup:  # none of them is the document's title
        blocks = [
            Heading(block.text, block.depth + 1) if isinstance(block, Heading) else block
            for block in blocks
        ]
    repeated = [text for text in dict.fromkeys(around) if not _PAGE_NUMBER.fullmatch(text)]
    return Content([Page(["\n\n".join(repeated), *blocks])])


def _paragraphs(xml: bytes) -> Iterator[str]:
    for paragraph in ElementTree.fromstring(xml).iter():
        if _local(paragraph) == "p":
            text = "".join(
                "\t" if _local(part) == "tab" else part.text or ""
                for part in paragraph.iter()
                if _local(part) in ("t", "tab")
            )
            if has_words(text):
                yield " ".join(text.split())


def _local(element: ElementTree.Element) -> str:
    """Return the name of an element without its namespace, which differs between versions."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def read_pptx(data: bytes) -> Content:
    """Read one page per slide, headed by its title, with texts, tables and speaker notes."""
    from pptx import Presentation
    from pptx.shapes.group import GroupShape

    def blocks_of(shapes: Iterable[Any], title: int | None) -> Iterator[Block]:
        for shape in shapes:
            if shape.shape_id == title:
                continue
            if isinstance(shape, GroupShape):
                yield from blocks_of(shape.shapes, title)
            elif shape.has_text_frame:
                yield shape.text_frame.text.replace("\v", "\n")
            elif shape.has_table:
                yield from _slide_table(shape.table)

    with _unzipped(data):
        pass
    pages = []
    for number, slide in enumerate(Presentation(io.BytesIO(data)).slides, start=1):
        title = slide.shapes.title
        heading = "" if title is None else " ".join(title.text_frame.text.split())
        blocks = [Heading(heading, 2), *blocks_of(slide.shapes, title and title.shape_id)]
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            blocks.append(slide.notes_slide.notes_text_frame.text)
        pages.append(Page(blocks, number))
    return Content(pages)


def _slide_table(table: Any) -> Iterator[Table]:  # noqa: ANN401
    grid = [[cell.text for cell in row.cells] for row in table.rows]
    for r, row in enumerate(table.rows):
        for c, cell in enumerate(row.cells):
            if cell.is_merge_origin:
                for below in range(r, min(r + cell.span_height, len(grid))):
                    for beside in range(c, min(c + cell.span_width, len(grid[below]))):
                        grid[below][beside] = cell.text
    is_pairs = not table.first_row and len(table.columns) == 2
    if found := table_of(grid, header=0 if is_pairs else None, pairs=is_pairs):
        yield found


def read_xlsx(data: bytes) -> Content:
    """Read a table per sheet, headed by its name, with values as the sheet shows them."""
    from openpyxl import load_workbook
    from openpyxl.utils import range_boundaries

    blocks, uncalculated = list[Block](), 0
    with _unzipped(data) as archive:
        book = load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # some programs save wrong ones, and cells would be missed
            xml = archive.read(sheet._worksheet_path)
            uncalculated += len(_UNCALCULATED.findall(xml))
            grid = [[_shown(cell) for cell in row] for row in sheet.iter_rows()]
            for reference in _MERGED.findall(xml):
                _fill(grid, range_boundaries(reference.decode()))
            table = table_of(grid)
            blocks += [Heading(sheet.title, 2), *([table] if table else [])]
        book.close()
    note = f"has {uncalculated:,} formulas that were never calculated, which are left out"
    return Content([Page(blocks)], notes=[note] if uncalculated else [])


def _fill(grid: list[list[str]], bounds: tuple[int, int, int, int]) -> None:
    """Repeat the value of a merged cell in all of its places that the grid has."""
    left, top, right, bottom = (bound - 1 for bound in bounds)
    value = grid[top][left] if top < len(grid) and left < len(grid[top]) else ""
    if not value:
        return
    width = max(map(len, grid))
    bottom, right = min(bottom, len(grid) - 1), min(right, width - 1)
    if (bottom - top + 1) * (right - left + 1) > MOST_CELLS:
        raise ValueError(f"it has more than {MOST_CELLS:,} merged cells")
    for row in grid[top : bottom + 1]:
        row += [""] * (right + 1 - len(row))
        row[left : right + 1] = [value] * (right + 1 - left)


def _shown(cell: Any) -> str:  # noqa: ANN401
    """Return the value of a cell about as its format shows it; dates as in ISO 8601."""
    value, shape = cell.value, cell.number_format if cell.value is not None else ""
    match value:
        case None:
            return ""
        case bool():
            return str(value).upper()
        case datetime():
            return value.isoformat(" ", "minutes").removesuffix(" 00:00")
        case date() | time():
            return value.isoformat()
        case timedelta():
            hours, seconds = divmod(round(value.total_seconds()), 3600)
            return f"{hours}:{seconds // 60:02}"
        case int() | float():
            return _number(value, shape)
    return str(value)


def _number(value: float, shape: str) -> str:
    """Write a number as its format says: its decimals, its separators, and what is around it.

    Examples
    --------
    >>> _number(0.475, "0.0%"), _number(1234.5, '#,##0.00 "EUR"'), _number(0.1 + 0.2, "General")
    ('47.5%', '1,234.50 EUR', '0.3')
    """
    kinds = shape.split(";")
    is_of_negative = value < 0 and len(kinds) > 1 and kinds[1] != ""
    shape = re.sub(r"\[[^$\]]*\]", "", kinds[1] if is_of_negative else kinds[0])  # colours
    # What is literal must not be taken for digits, "E" or "%".
    literal = iter(["".join(part) for part in _QUOTED.findall(shape)])
    shape = _QUOTED.sub("\0", shape)
    digits = _DIGITS.search(shape)
    if digits is None or "/" in shape:
        return f"{value:.15g}"
    decimals = len(digits[1] or "") and len(digits[1]) - 1
    value = abs(value) if is_of_negative else value
    value = value * 100 if "%" in shape else value
    if digits[2]:
        text = f"{value:.{decimals}E}"
    else:
        text = f"{value:{',' * (',' in digits[0])}.{decimals}f}"
    shown = f"{shape[: digits.start()]}{text}{shape[digits.end() :]}"
    return re.sub("\0", lambda _: next(literal), shown).strip()


def read_epub(data: bytes) -> Content:
    """Read the chapters of a book in reading order, with their headings."""
    from uec_rag.documents.html import html_blocks

    with _unzipped(data) as book:
        container = ElementTree.fromstring(book.read("META-INF/container.xml"))
        package = next(
            (e.get("full-path") for e in container.iter() if _local(e) == "rootfile"), None
        )
        if package is None:
            raise ValueError("it names no package of a book")
        parts = [*ElementTree.fromstring(book.read(package)).iter()]
        hrefs = {e.get("id"): e.get("href", "") for e in parts if _local(e) == "item"}
        title = next((e.text or "" for e in parts if _local(e) == "title"), "")
        blocks = list[Block]()
        for reference in (e.get("idref") for e in parts if _local(e) == "itemref"):
            name = posixpath.join(posixpath.dirname(package), unquote(hrefs.get(reference, "")))
            if (name := posixpath.normpath(name)) in book.namelist():
                # An empty heading ends the chapter before.
                blocks += [Heading("", 1), *html_blocks(book.read(name).decode("utf-8", "replace"))]
    return Content([Page(blocks)], " ".join(title.split()))
