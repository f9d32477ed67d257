"""Reading of the old formats of Office, and of OpenDocument's sheets and slides, by anydoc."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from uec_rag.documents.archive import replaced, unzip
from uec_rag.documents.document import Block, Content, Heading, Page, table_of, tables_of
from uec_rag.documents.plain_text import to_integer

if TYPE_CHECKING:
    import anydoc

_OASIS = "urn:oasis:names:tc:opendocument:xmlns"
_SPACES = {name: f"{_OASIS}:{name}:1.0" for name in ("table", "style", "presentation")}
_SPACES["draw"] = f"{_OASIS}:drawing:1.0"
_VISIBILITY, _REPEATED = (
    f"{{{_OASIS}:table:1.0}}{name}" for name in ("visibility", "number-columns-repeated")
)
_HIDING = (
    "//style:style[*/@table:display='false' or */@presentation:visibility='hidden']/@style:name"
)
# Rows that an outline hides come and go.
_HIDDEN_ROWS = (
    "//table:table-row[@table:visibility='collapse'][not(ancestor::table:table-row-group)]"
)
_STYLED = "@table:style-name|@draw:style-name"
_WIDEST = 16_384  # columns of a sheet


def read_office(data: bytes, form: str) -> Content:
    """Read a file of a format of anydoc, such as "doc"."""
    import anydoc

    left_out = Counter[str]()
    if form in ("ods", "odp"):
        data = _without_hidden(data, left_out)
    try:
        document = anydoc.to_document(data, form)  # type: ignore[arg-type]
    except anydoc.ConvertError as error:
        raise ValueError(f"anydoc: {error}") from error
    blocks = [*_blocks(document.blocks, left_out)]
    for note in document.notes:
        blocks += _blocks(note.blocks, left_out)
    return Content([Page(blocks)], left_out=left_out)


def _without_hidden(data: bytes, left_out: Counter[str]) -> bytes:
    """Return a file of OpenDocument without the sheets, rows, columns and slides that it hides."""
    from lxml import etree

    archive = unzip(data)
    tree = etree.fromstring(archive.read("content.xml"), etree.XMLParser(resolve_entities=False))

    def all_of(path: str, root: Any = tree) -> list[Any]:  # noqa: ANN401
        return [*root.xpath(path, namespaces=_SPACES)]

    hidden = {*all_of(_HIDING)}
    parts = [
        (
            "hidden sheet",
            [one for one in all_of("//table:table") if {*all_of(_STYLED, one)} & hidden],
        ),
        (
            "hidden slide",
            [one for one in all_of("//draw:page") if {*all_of(_STYLED, one)} & hidden],
        ),
        ("hidden row", all_of(_HIDDEN_ROWS)),
    ]
    for table in all_of("//table:table"):
        columns = enumerate(_repeated(all_of(".//table:table-column", table)))
        hides = {n for n, one in columns if one.get(_VISIBILITY) == "collapse"}
        rows = [[*_repeated([*row])] for row in all_of(".//table:table-row", table)]
        for n in hides:
            cells = [row[n] for row in rows if n < len(row)]
            left_out["hidden column"] += any("".join(one.itertext()).strip() for one in cells)
            parts.append(("", cells))
    for noun, found in parts:
        for part in filter(lambda one: one.getparent() is not None, found):
            left_out[noun] += bool("".join(part.itertext()).strip())
            part.getparent().remove(part)
    del left_out[""]  # cells, of columns that are counted
    return replaced(archive, {"content.xml": etree.tostring(tree)}).getvalue()


def _repeated(elements: Iterable[Any]) -> Iterator[Any]:
    """Yield columns or cells, each as often as it says."""
    for one in elements:
        yield from [one] * min(to_integer(one.get(_REPEATED), 1), _WIDEST)


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
