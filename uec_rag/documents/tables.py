"""The tables of HTML, and so of what other readers convert to it: Word, Markdown, e-mail, books.

Those that only arrange what they hold are none. `uec_rag.documents.document` has what a table is.
"""

from collections.abc import Iterator
from dataclasses import replace

from bs4 import Tag

from uec_rag.documents.document import Table, spread, table_of
from uec_rag.documents.plain_text import to_integer
from uec_rag.documents.shown import HEADINGS

_WIDEST = 100  # columns that a cell spans
_LONGEST_CELL = 200  # characters on average, of a table without a header that is no layout


def take_tables(root: Tag, *, pairs: bool) -> Iterator[Table]:
    """Yield the tables that are no layout, and replace them by marks."""
    count = 0
    for tag in root.find_all("table"):
        is_layout = not {"presentation", "none"}.isdisjoint(
            str(tag.get("role", "")).lower().split()
        )
        is_layout |= tag.find(["table", "pre", *HEADINGS]) is not None
        table = None if is_layout else _table(tag, pairs=pairs)
        if table is None:
            parts = tag.find_all(["thead", "tbody", "tfoot", "tr", "td", "th"])
            for part in [tag, *(inner for inner in parts if inner.find_parent("table") is tag)]:
                part.name = "div"
            continue
        tag.name, tag.string = "p", f"\ue0000{count}\ue001"
        count += 1
        yield table


def _table(tag: Tag, *, pairs: bool) -> Table | None:
    """Return the table that an element holds; None if it only arranges what it holds."""
    rows = [row.find_all(["td", "th"], recursive=False) for row in tag.find_all("tr")]
    marked = [bool(row) and all(cell.name == "th" for cell in row) for row in rows]
    several_at = next((n for n, row in enumerate(rows) if len(row) > 1), 0)
    # Below the names, a row of a single one is the head of a group.
    heads = (is_head and (n <= several_at or len(rows[n]) > 1) for n, is_head in enumerate(marked))
    header = next((n for n, is_head in enumerate(heads) if not is_head), len(marked))
    header = header if any(len(row) > 1 for row in rows[:header]) or header == len(marked) else 0
    names = [row[0].name == "th" for row in rows[header:] if row]
    is_named = bool(names) and all(names) and not header
    cells = [
        [(_text(td), _span(td, "rowspan"), _span(td, "colspan")) for td in row] for row in rows
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
    count = to_integer(str(cell.get(name, "1")).strip(), 1)
    return max(1, min(count, _WIDEST) if name == "colspan" else count)
