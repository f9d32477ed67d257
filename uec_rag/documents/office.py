"""Reading of the old formats of Office, and of OpenDocument's sheets and slides, by anydoc."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from uec_rag.documents.document import Block, Content, Heading, Page, table_of, tables_of
from uec_rag.documents.opendocument import simplify

if TYPE_CHECKING:
    import anydoc


def read_office(data: bytes, form: str) -> Content:
    """Read a file of a format of anydoc, such as "doc"."""
    import anydoc

    left_out = Counter[str]()
    if form in ("ods", "odp"):
        data, _ = simplify(data, left_out)
    try:
        document = anydoc.to_document(data, form)  # type: ignore[arg-type]
    except anydoc.ConvertError as error:
        raise ValueError(f"anydoc: {error}") from error
    blocks = [*_blocks(document.blocks, left_out)]
    for note in document.notes:
        blocks += _blocks(note.blocks, left_out)
    return Content([Page(blocks)], left_out=left_out)


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
    said = list[str]()
    for one in inlines or ():
        if one.kind == "image":
            left_out["image"] += not one.alt
            said.append(one.alt or "")
        elif one.kind == "line_break":
            said.append("\n")
        elif one.kind == "checkbox":
            said.append("☒ " if one.checked else "☐ ")
        elif one.kind == "math":
            said.append(f"${one.text}$")
        else:
            said.append(_text(one.content, left_out) if one.content else one.text or "")
    return "".join(said).strip()


def _items(items: anydoc.List, left_out: Counter[str], depth: int = 0) -> Iterator[str]:
    for number, item in enumerate(items.items, start=items.start):
        mark = "-" if items.marker == "bullet" else f"{item.marker_label or number}."
        for part in item.blocks:
            if part.list is not None:
                yield from _items(part.list, left_out, depth + 1)
            else:
                yield from (
                    f"{'  ' * depth}{mark} {_as_text(block)}" for block in _blocks([part], left_out)
                )


def _table(table: anydoc.Table, left_out: Counter[str]) -> Iterator[Block]:
    """Yield a table, whose merged cells repeat their value, or what a layout's cells hold."""
    cells = [[slot.cell for slot in row if slot.cell is not None] for row in table.grid]
    if table.kind == "layout":
        for row in cells:
            for cell in row:
                yield from _blocks(cell.blocks, left_out)
        return

    def text(slot: anydoc.CellSlot) -> str:
        if slot.cell is None:
            slot = table.grid[slot.origin_row or 0][slot.origin_col or 0]
        inside = _blocks(slot.cell.blocks, left_out) if slot.cell else ()
        return " ".join(map(_as_text, inside))

    grid = [[text(slot) for slot in row] for row in table.grid]
    if not table.header_rows:
        yield from tables_of(grid)
    elif (made := table_of(grid, header=table.header_rows)) is not None:
        yield made


def _as_text(block: Block) -> str:
    if isinstance(block, str):
        return block
    return block.text if isinstance(block, Heading) else block.text()
