"""Reading of PowerPoint slides."""

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pptx import Presentation

from uec_rag.documents.archive import A, R, choose_alternatives, parse_xml, unzip
from uec_rag.documents.document import Block, Content, Heading, Page, spread, table_of
from uec_rag.documents.drawings import drawn_text
from uec_rag.documents.formulas import linear
from uec_rag.documents.plain_text import linked, raised, struck

_SAME_LINE = 137_160  # half the height of a line of 18 points, in English metric units


def read_pptx(data: bytes) -> Content:
    """Read one page per slide, headed by its title, with texts, tables and speaker notes."""
    unzip(data)
    pages, left_out = [], Counter[str]()
    for number, slide in enumerate(Presentation(io.BytesIO(data)).slides, start=1):
        if slide._element.get("show") in ("0", "false"):
            left_out["hidden slide"] += 1
            continue
        choose_alternatives(slide._element)
        title = slide.shapes.title
        heading = "" if title is None else " ".join(_text(title.text_frame).split())
        blocks = [Heading(heading, 2), *_shapes(slide.shapes, title and title.shape_id, left_out)]
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            blocks.append(_text(slide.notes_slide.notes_text_frame))
        pages.append(Page(blocks, number))
    return Content(pages, left_out=left_out)


def _shapes(shapes: Iterable[Any], title: int | None, left_out: Counter[str]) -> Iterator[Block]:
    for shape in _in_order(shapes):
        if shape.shape_id == title:
            continue
        if hasattr(shape, "shapes"):  # a group
            yield from _shapes(shape.shapes, title, left_out)
        elif shape.has_text_frame:
            yield _text(shape.text_frame)
        elif shape.has_table:
            cells = [[c for c in row.cells if not c.is_spanned] for row in shape.table.rows]
            rows = [[(_text(c.text_frame), c.span_height, c.span_width) for c in r] for r in cells]
            pairs = not shape.table.first_row and len(shape.table.columns) == 2
            if table := table_of(spread(rows), header=0 if pairs else None, pairs=pairs):
                yield table
        elif shape._element.tag.endswith("}pic"):
            properties = shape._element.find(".//{*}cNvPr")
            text = properties.get("descr", "").strip()
            is_content = properties.find(".//{*}decorative") is None
            left_out["image without alternative text"] += is_content and not text
            yield text
        else:
            yield from _drawn(shape, left_out)


def _in_order(shapes: Iterable[Any]) -> Iterator[Any]:
    """Yield shapes from above, and those that begin at about the same height from the left."""
    row = list[Any]()
    for shape in sorted(shapes, key=lambda shape: shape.top or 0):
        if row and (shape.top or 0) - (row[0].top or 0) > _SAME_LINE:
            yield from sorted(row, key=lambda shape: shape.left or 0)
            row = []
        row.append(shape)
    yield from sorted(row, key=lambda shape: shape.left or 0)


def _drawn(shape: Any, left_out: Counter[str]) -> Iterator[Block]:  # noqa: ANN401
    drawings = shape._element.iter("{*}chart", "{*}relIds")
    ids = [drawing.get(f"{R}id") or drawing.get(f"{R}dm") for drawing in drawings]
    for id_ in filter(None, ids):
        text = drawn_text(parse_xml(shape.part.related_part(id_).blob))
        left_out["drawing without text"] += not text
        yield text
    left_out["embedded object"] += sum(1 for _ in shape._element.iter("{*}oleObj"))


def _text(frame: Any) -> str:  # noqa: ANN401
    """Return the text of a frame, with formulas and with what is raised apart."""
    links = {key: link.target_ref for key, link in frame.part.rels.items() if link.is_external}
    return "\n".join("".join(_runs(paragraph, links)) for paragraph in frame._element.iter(f"{A}p"))


def _runs(paragraph: Any, links: Mapping[str, str]) -> Iterator[str]:  # noqa: ANN401
    before = ""
    for run in paragraph:
        if run.tag == f"{A}br":
            text = "\n"
        elif next(run.iter("{*}oMath"), None) is not None:
            text = " ".join(map(linear, run.iter("{*}oMath")))
        else:
            text = "".join(t.text or "" for t in run.iter(f"{A}t"))
            properties = run.find(f"{A}rPr")
            if properties is not None:
                link = properties.find(f"{A}hlinkClick")
                text = raised(before, text) if int(properties.get("baseline") or 0) > 0 else text
                text = struck(text) if properties.get("strike", "noStrike") != "noStrike" else text
                text = text if link is None else linked(text, links.get(link.get(f"{R}id"), ""))
        yield text
        before = text or before
