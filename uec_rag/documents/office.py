"""Reading of Excel workbooks."""

from __future__ import annotations

import io
import re
from datetime import datetime
from typing import Any

from uec_rag.documents.archive import unzip
from uec_rag.documents.document import MOST_CELLS, Block, Content, Heading, Page, table_of

_UNCALCULATED = re.compile(rb"(?:</f>|<f\b[^<>]*/>)\s*(?:<v\s*/>|<v>\s*</v>)?\s*</c>")
_MERGED = re.compile(rb"<mergeCell\b[^<>]*\bref=\"(\w+:\w+)\"")
_DIGITS = re.compile(r"[#0?][#0?,]*(?:\.([#0?]*))?")
_QUOTED = re.compile(r'"([^"]*)"|\\(.)|\[\$([^\]-]*)[^\]]*\]|\[[^\]]*\]|[_*].')


def read_xlsx(data: bytes) -> Content:
    """Read a table per sheet, headed by its name, with values as the sheet shows them."""
    from openpyxl import load_workbook
    from openpyxl.utils import range_boundaries

    blocks, uncalculated = list[Block](), 0
    archive = unzip(data)
    book = load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    for sheet in book.worksheets:
        sheet.reset_dimensions()  # some programs save wrong ones, and cells would be missed
        xml = archive.read(sheet._worksheet_path)
        uncalculated += len(_UNCALCULATED.findall(xml))
        grid = [[_shown(cell) for cell in row] for row in sheet.iter_rows()]
        for reference in _MERGED.findall(xml):
            _fill(grid, *range_boundaries(reference.decode()))
        table = table_of(grid)
        blocks += [Heading(sheet.title, 2), *([table] if table else [])]
    left_out = {"formula never calculated": uncalculated} if uncalculated else {}
    return Content([Page(blocks)], left_out=left_out)


def _fill(grid: list[list[str]], left: int, top: int, right: int, bottom: int) -> None:
    """Repeat the value of a merged cell in all of its places that the grid has."""
    rows = grid[top - 1 : bottom]
    value = rows[0][left - 1] if rows and left <= len(rows[0]) else ""
    right = min(right, max(map(len, grid), default=0))
    if value and len(rows) * (right - left + 1) > MOST_CELLS:
        raise ValueError(f"it has more than {MOST_CELLS:,} merged cells")
    for row in rows if value else ():
        row += [""] * (right - len(row))
        row[left - 1 : right] = [value] * (right - left + 1)


def _shown(cell: Any) -> str:  # noqa: ANN401
    """Return the value of a cell about as its format shows it; dates as in ISO 8601."""
    value = cell.value
    if isinstance(value, datetime):
        return value.isoformat(" ", "minutes").removesuffix(" 00:00")
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float):
        return _number(value, cell.number_format)
    return "" if value is None else str(value)


def _number(value: float, shape: str) -> str:
    """Write a number as its format says: its decimals, its separators, and what is around it.

    Examples
    --------
    >>> _number(0.475, "0.0%"), _number(1234.5, '#,##0.00 "EUR"'), _number(0.1 + 0.2, "General")
    ('47.5%', '1,234.50 EUR', '0.3')
    """
    shape = _QUOTED.sub(r"\1\2\3", shape.split(";")[0])
    digits = _DIGITS.search(shape)
    if digits is None or "/" in shape or "E" in shape[digits.end() :][:1]:
        return f"{value:.15g}"
    value = value * 100 if "%" in shape else value
    text = f"{value:{',' * (',' in digits[0])}.{len(digits[1] or '')}f}"
    return f"{shape[: digits.start()]}{text}{shape[digits.end() :]}".strip()
