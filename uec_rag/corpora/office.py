"""Readers of what word processors, slides, spreadsheets and e-books are saved as."""

import csv
import io
import posixpath
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote

from uec_rag.corpora.decode import decoded
from uec_rag.corpora.document import Section
from uec_rag.corpora.html import html_sections


def read_docx(path: Path) -> list[Section]:
    """Headings of a Word document and the texts under them."""
    import mammoth

    with path.open("rb") as file:
        # Pictures would be written out as base 64.
        ignored = mammoth.images.img_element(lambda image: {"src": ""})
        return html_sections(mammoth.convert_to_html(file, convert_image=ignored).value)


def read_pptx(path: Path) -> list[Section]:
    """A section per slide, under its title: texts, tables, and what the speaker notes."""
    from pptx import Presentation

    sections = []
    for number, slide in enumerate(Presentation(str(path)).slides, start=1):
        title = slide.shapes.title
        parts = []
        for shape in slide.shapes:
            if title is not None and shape.shape_id == title.shape_id:
                continue
            if shape.has_text_frame:
                parts.append(shape.text_frame.text)
            elif shape.has_table:
                rows = [[cell.text for cell in row.cells] for row in shape.table.rows]
                parts.append(_table(rows))
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            parts.append(slide.notes_slide.notes_text_frame.text)
        heading = "" if title is None else " ".join(title.text_frame.text.split())
        sections.append(Section(heading, "\n\n".join(part for part in parts if part), number))
    return sections


def read_xlsx(path: Path) -> list[Section]:
    """A section per sheet, under its name: the values, of formulas what they last gave."""
    from openpyxl import load_workbook

    book = load_workbook(path, read_only=True, data_only=True)
    try:
        return [
            Section(
                sheet.title,
                _table(
                    ["" if value is None else str(value) for value in row]
                    for row in sheet.iter_rows(values_only=True)
                ),
            )
            for sheet in book.worksheets
        ]
    finally:
        book.close()


def read_csv(path: Path) -> list[Section]:
    """One section: a line per row."""
    text = decoded(path)
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # 131,072 by default
    try:
        dialect: type[csv.Dialect] | csv.Dialect = csv.Sniffer().sniff(text[:10_000], ",;\t|")
    except csv.Error:  # a single column
        dialect = csv.excel
    rows = csv.reader(io.StringIO(text, newline=""), dialect, doublequote=True)
    return [Section("", _table(rows))]


def read_epub(path: Path) -> list[Section]:
    """The chapters of a book in the order of reading: headings, and the texts under them."""
    from bs4 import BeautifulSoup

    with zipfile.ZipFile(path) as book:
        container = BeautifulSoup(book.read("META-INF/container.xml"), "html.parser")
        root = container.find("rootfile")
        if root is None:
            raise ValueError("it names no package of a book")
        package = str(root["full-path"])
        opf = BeautifulSoup(book.read(package), "html.parser")
        href = {str(item["id"]): str(item["href"]) for item in opf.find_all("item")}
        folder = posixpath.dirname(package)
        sections = []
        for reference in opf.find_all("itemref"):
            name = posixpath.normpath(
                posixpath.join(folder, unquote(href[str(reference["idref"])]))
            )
            sections += html_sections(book.read(name))
    return sections


def _table(rows: Iterable[Sequence[str]]) -> str:
    """Rows as lines in which each value has its column's name, that of the first row."""
    kept = [[" ".join(value.split()) for value in row] for row in rows]
    kept = [row for row in kept if any(row)]
    if len(kept) < 2:
        return "\n".join(", ".join(filter(None, row)) for row in kept)
    names, *values = kept
    return "\n".join(
        ", ".join(
            f"{names[place]}: {value}" if place < len(names) and names[place] else value
            for place, value in enumerate(row)
            if value
        )
        for row in values
    )
