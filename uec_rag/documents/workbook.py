"""Reading of Excel workbooks, as their sheets are shown."""

import io
import re
from collections import Counter
from collections.abc import Iterator
from datetime import date, time, timedelta
from html import unescape
from typing import Any
from zipfile import ZipFile

from openpyxl import load_workbook
from openpyxl.packaging.relationship import get_dependents, get_rels_path
from openpyxl.utils.cell import coordinate_to_tuple, range_boundaries
from openpyxl.utils.datetime import MAC_EPOCH, to_excel

from uec_rag.documents.archive import replaced, unzip
from uec_rag.documents.document import (
    MOST_CELLS,
    Block,
    Content,
    Heading,
    Page,
    tables_of,
    value_of,
)
from uec_rag.documents.number_formats import show
from uec_rag.documents.plain_text import linked, struck

# Of a sheet's XML, whose names may have a prefix.
_FORMULA = re.compile(
    rb"<(?:\w+:)?c\b([^<>]*)>\s*<(?:\w+:)?f\b[^<>]*(?:/>|>[^<]*</(?:\w+:)?f>)\s*"
    rb"(?:<(?:\w+:)?v\b[^<>]*(?:/>|>([^<]*)</(?:\w+:)?v>)\s*)?</(?:\w+:)?c>"
)
_LINE = re.compile(rb"<(?:\w+:)?(row|col)\b([^<>]*)>")
_ATTRIBUTE = re.compile(rb"\b(\w+)=\"([^\"]*)\"")
_LINK = re.compile(rb"<(?:\w+:)?hyperlink\b([^<>]*)>")
_LINK_FORMULA = re.compile(
    rb"<(?:\w+:)?c\b([^<>]*)>\s*<(?:\w+:)?f>\s*HYPERLINK\((?:\"|&quot;)(.+?)(?:\"|&quot;)"
)
# A part of a cell that is crossed out: the end of how it looks, and its text.
_STRUCK = re.compile(
    rb"(<(?:\w+:)?strike(?: val=\"(?:1|true)\")?\s*/>(?:(?!</(?:\w+:)?rPr>).)*</(?:\w+:)?rPr>"
    rb"\s*<(?:\w+:)?t\b[^<>]*>\s*)([^<]*[^<\s])",
    re.DOTALL,
)
_FILTER = re.compile(rb"<(?:\w+:)?filterColumn\b")
_MERGED = re.compile(rb"<(?:\w+:)?mergeCell\b[^<>]*\bref=\"(\w+:\w+)\"")
_ON_LOAD = re.compile(rb"\bfullCalcOnLoad=\"(?:1|true)\"")
_NEVER = "never calculated"
# What a workbook has beside cells: the names of its parts, and what to count in them.
_BESIDE = (
    ("chart", re.compile(r"xl/charts/chart\d+\.xml"), rb"^"),
    ("image", re.compile(r"xl/media/.+"), rb"^"),
    ("comment", re.compile(r"xl/comments/?[^/]*\.xml"), rb"<(?:\w+:)?comment\b"),
    ("text box", re.compile(r"xl/drawings/[^/]+\.xml"), rb"<(?:\w+:)?txBody\b"),
)


def read_xlsx(data: bytes) -> Content:
    """Read a table per sheet, headed by its name, with values as the sheet shows them.

    What is hidden is left out, but for rows that a filter or an outline hides, which come and go.
    """
    blocks, left_out = list[Block](), Counter[str]()
    archive = unzip(data)
    parts = {name: archive.read(name) for name in archive.namelist() if name.endswith(".xml")}
    struck_in = [name for name, part in parts.items() if b"strike" in part and _STRUCK.search(part)]
    marked = {name: _STRUCK.sub(rb"\1~~\2~~", parts[name]) for name in struck_in}
    workbook = replaced(archive, marked) if marked else io.BytesIO(data)
    book = load_workbook(workbook, read_only=True, data_only=True)
    book._date_formats, book._timedelta_formats = set(), set()  # a date stays a number of days
    on_load = any(_ON_LOAD.search(parts[name]) for name in parts if name.endswith("workbook.xml"))
    for sheet in book.worksheets:
        if sheet.sheet_state != "visible":
            left_out["hidden sheet"] += 1
            continue
        sheet.reset_dimensions()  # some programs save wrong ones, and cells would be missed
        xml = archive.read(sheet._worksheet_path)
        grid = [[_shown(cell, book.epoch) for cell in row] for row in sheet.iter_rows()]
        left_out["formula never calculated"] += _name_uncalculated(grid, xml, on_load=on_load)
        for row, column, address in _links(archive, sheet._worksheet_path, xml):
            if row <= len(grid) and column <= len(grid[row - 1]):
                grid[row - 1][column - 1] = linked(grid[row - 1][column - 1], address)
        first_row, merged = next((n for n, row in enumerate(grid, 1) if any(row)), 0), False
        for reference in _MERGED.findall(xml):
            bounds = range_boundaries(reference.decode())
            merged |= bounds[1] <= first_row <= bounds[3]
            _fill(grid, *bounds)
        unhidden = _without_hidden(grid, xml, left_out)
        blocks += [Heading(sheet.title, 2), *tables_of(unhidden, merged=merged)]
    for noun, names, pattern in _BESIDE:
        for name in filter(names.fullmatch, archive.namelist()):
            left_out[noun] += len(re.findall(pattern, archive.read(name)))
    return Content([Page(blocks)], left_out=left_out)


def _shown(cell: Any, epoch: Any) -> str:  # noqa: ANN401
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, date | time | timedelta):
        value = to_excel(value, epoch)
    text = value_of(show(value, cell.number_format, from_1904=epoch == MAC_EPOCH))
    return struck(text) if cell.font.strike else text


def _links(archive: ZipFile, path: str, xml: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield the rows and columns of a sheet's links, and where they lead."""
    part, links = get_rels_path(path), [*map(_attributes, _LINK.findall(xml))]
    relations = get_dependents(archive, part) if part in archive.namelist() else ()
    targets = {relation.Id.encode(): relation.Target for relation in relations}
    places = [(link.get(b"ref"), targets.get(link.get(b"id"))) for link in links]
    for cell, address in _LINK_FORMULA.findall(xml):
        places.append((_attributes(cell).get(b"r"), unescape(address.decode())))
    for place, address in places:
        if place and address:
            yield *coordinate_to_tuple(place.decode().partition(":")[0]), address


def _attributes(element: bytes) -> dict[bytes, bytes]:
    return dict(_ATTRIBUTE.findall(element))


def _name_uncalculated(grid: list[list[str]], xml: bytes, *, on_load: bool) -> int:
    """Name formulas that no program has calculated, and count them.

    They have no value or, if the file asks to be calculated `on_load`, the 0 that tools write.
    """
    count = 0
    for head, value in _FORMULA.findall(xml):
        attributes = _attributes(head)
        is_empty = not value.strip() and attributes.get(b"t") != b"str"
        if not is_empty and not (on_load and value.strip() in (b"", b"0")):
            continue
        count += 1
        row, column = coordinate_to_tuple(attributes.get(b"r", b"A0").decode())
        if 0 < row <= len(grid):
            grid[row - 1] += [""] * (column - len(grid[row - 1]))
            grid[row - 1][column - 1] = _NEVER
    return count


def _fill(grid: list[list[str]], first_column: int, top: int, right: int, bottom: int) -> None:
    """Repeat the value of a merged cell in all of its places that the grid has."""
    rows = grid[top - 1 : bottom]
    value = rows[0][first_column - 1] if rows and first_column <= len(rows[0]) else ""
    right = min(right, max(map(len, grid), default=0))
    if value and len(rows) * (right - first_column + 1) > MOST_CELLS:
        raise ValueError(f"it has more than {MOST_CELLS:,} merged cells")
    for row in rows if value else ():
        row += [""] * (right - len(row))
        row[first_column - 1 : right] = [value] * (right - first_column + 1)


def _without_hidden(grid: list[list[str]], xml: bytes, left_out: Counter[str]) -> list[list[str]]:
    """Return the rows and columns of a grid that are shown, and count the others with values."""
    rows, columns, width = set[int](), set[int](), max(map(len, grid), default=0)
    is_filtered = _FILTER.search(xml) is not None
    for kind, attributes_text in _LINE.findall(xml):
        attributes = _attributes(attributes_text) if b"hidden" in attributes_text else {}
        is_outlined = attributes.get(b"outlineLevel", b"0") != b"0"  # LibreOffice writes 0 anywhere
        if is_outlined or attributes.get(b"hidden") not in (b"1", b"true"):
            continue
        if kind == b"col":
            columns |= {*range(int(attributes[b"min"]) - 1, min(int(attributes[b"max"]), width))}
        elif not is_filtered:
            rows.add(int(attributes.get(b"r", 0)) - 1)
    columns_used = {n for row in grid for n, value in enumerate(row) if value} if columns else set()
    left_out["hidden column"] += len(columns & columns_used)
    left_out["hidden row"] += sum(n in rows and any(row) for n, row in enumerate(grid))
    shown = [row for n, row in enumerate(grid) if n not in rows]
    return [[value for n, value in enumerate(row) if n not in columns] for row in shown]
