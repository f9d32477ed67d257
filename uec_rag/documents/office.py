"""Reading of the old formats of Office, and of OpenDocument's sheets and slides, by anydoc."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from uec_rag.documents.document import Block, Content, Heading, Page, table_of, tables_of
from uec_rag.documents.opendocument import simplify

if TYPE_CHECKING:
    import anydoc


def read_office(data: bytes, form: str) -> Content:
    """Read a file of a format of anydoc, such as "doc"."""
    left_out = Counter[str]()
    if form in ("ods", "odp"):
        data, _ = simplify(data, left_out)
    document = _parse(data, form)
    parts = chain(document.blocks, *(note.blocks for note in document.notes))
    return Content([Page([*_blocks(parts, left_out)])], left_out=left_out)


def tables_with_spans(data: bytes, form: str) -> list[Sequence[Block]]:
    """Return what each table of a file holds, nothing of those without merged cells."""
    tables = [part.table for part in _parse(data, form).blocks if part.table is not None]
    is_merged = (any(slot.cell is None for slot in chain(*table.grid)) for table in tables)
    merged = zip(tables, is_merged, strict=True)
    return [[*_table(table, Counter())] if spans else [] for table, spans in merged]


def _parse(data: bytes, form: str) -> anydoc.Document:
    import anydoc

    try:
        return anydoc.to_document(data, form)  # type: ignore[arg-type]
    except anydoc.ConvertError as error:
        raise ValueError(f"anydoc: {error}") from error


def _blocks(parts: Iterable[anydoc.Block], left_out: Counter[str]) -> Iterator[Block]:
    """Yield headings, tables, and all other blocks as Markdown."""
    for part in parts:
        if part.kind == "heading":
            yield Heading(_text(part.content, left_out), part.level or 1)
        elif part.table is not None:
            yield from _table(part.table, left_out)
        elif part.list is not None:
            yield "\n".join(_items(part.list, left_out))
        elif part.blocks:
            yield from _blocks(part.blocks, left_out)
        elif part.kind == "code_block":
            yield f"```{part.lang or ''}\n{part.text}\n```"
        elif part.kind == "math":
            yield f"$${part.text}$$"
        elif text := _text(part.content, left_out):
            yield text


def _text(inlines: Iterable[anydoc.Inline] | None, left_out: Counter[str]) -> str:
    """Return the text of inlines, without what they look like."""
    parts = list[str]()
    for inline in inlines or ():
        if inline.kind == "image":
            left_out["image"] += not inline.alt
            parts.append(inline.alt or "")
        elif inline.kind == "line_break":
            parts.append("\n")
        elif inline.kind == "checkbox":
            parts.append("☒ " if inline.checked else "☐ ")
        elif inline.kind == "math":
            parts.append(f"${inline.text}$")
        else:
            parts.append(_text(inline.content, left_out) if inline.content else inline.text or "")
    return "".join(parts).strip()


def _items(items: anydoc.List, left_out: Counter[str], depth: int = 0) -> Iterator[str]:
    for number, item in enumerate(items.items, start=items.start):
        mark = "-" if items.marker == "bullet" else f"{item.marker_label or number}."
        for part in item.blocks:
            if part.list is not None:
                yield from _items(part.list, left_out, depth + 1)
            else:
                texts = map(_as_text, _blocks([part], left_out))
                yield from (f"{'  ' * depth}{mark} {text}" for text in texts)


def _table(table: anydoc.Table, left_out: Counter[str]) -> Iterator[Block]:
    """Yield a table, whose merged cells repeat their value, or what a layout's cells hold."""
    cells = [[slot.cell for slot in row if slot.cell is not None] for row in table.grid]
    if table.kind == "layout":
        for cell in chain(*cells):
            yield from _blocks(cell.blocks, left_out)
        return

    def text(slot: anydoc.CellSlot) -> str:
        if slot.cell is None:
            slot = table.grid[slot.origin_row or 0][slot.origin_col or 0]
        return " ".join(map(_as_text, _blocks(slot.cell.blocks if slot.cell else (), left_out)))

    grid = [[text(slot) for slot in row] for row in table.grid]
    if not table.header_rows:
        yield from tables_of(grid)
    elif (whole := table_of(grid, header=table.header_rows)) is not None:
        yield whole


def _as_text(block: Block) -> str:
    if isinstance(block, str):
        return block
    return block.text if isinstance(block, Heading) else block.text()
