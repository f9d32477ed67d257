"""Word, slides, spreadsheets and books become sections with their headings."""

import io
import re
import zipfile
from pathlib import Path

from openpyxl import Workbook
from pptx import Presentation
from pptx.util import Inches

from tests.documents.files import paragraph, write_docx
from tests.helpers import DATA
from uec_rag.documents import read_folder
from uec_rag.documents.document import Section


def sections_of(folder):
    [document] = read_folder(folder)
    return list(document.sections)


def test_a_word_document_keeps_its_headings(tmp_path):
    chapters = [paragraph("Bread", "Heading1"), paragraph("Dough rests.")]
    write_docx(
        tmp_path / "a.docx", *chapters, paragraph("Crust", "Heading2"), paragraph("It is brown.")
    )
    assert sections_of(tmp_path) == [
        Section((), "Dough rests."),
        Section(("Crust",), "It is brown."),
    ]
    assert [document.title for document in read_folder(tmp_path)] == ["Bread"]


def test_slides_are_sections_under_their_titles_with_tables_and_notes(tmp_path):
    show = Presentation()
    slide = show.slides.add_slide(show.slide_layouts[5])
    slide.shapes.title.text = "Bread and\nbutter"
    box = slide.shapes.add_textbox(Inches(1), Inches(2), Inches(4), Inches(1))
    box.text_frame.text = "Dough rests."
    table = slide.shapes.add_table(2, 2, Inches(1), Inches(3), Inches(4), Inches(1)).table
    for row, values in enumerate([("flour", "water"), ("500 g", "350 g")]):
        for column, value in enumerate(values):
            table.cell(row, column).text = value
    within = slide.shapes.add_group_shape().shapes.add_group_shape().shapes
    within.add_textbox(Inches(1), Inches(5), Inches(4), Inches(1)).text_frame.text = "And rises."
    slide.notes_slide.notes_text_frame.text = "Say it slowly."
    show.slides.add_slide(show.slide_layouts[6])
    show.save(tmp_path / "a.pptx")
    text = "Dough rests.\n\nflour: 500 g, water: 350 g\n\nAnd rises.\n\nSay it slowly."
    assert sections_of(tmp_path) == [Section(("Bread and butter",), text, 1)]


def test_cells_beyond_the_size_that_a_sheet_claims_are_read(tmp_path):
    book, content = Workbook(), io.BytesIO()
    book.active.append(["item", "count"])
    book.active.append(["flour", 3])
    book.save(content)
    with zipfile.ZipFile(content) as saved, zipfile.ZipFile(tmp_path / "a.xlsx", "w") as claimed:
        for name in saved.namelist():
            claimed.writestr(name, re.sub(rb'ref="A1:B2"', b'ref="A1"', saved.read(name)))
    assert sections_of(tmp_path) == [Section(("Sheet",), "item: flour, count: 3")]


def test_a_book_is_read_in_its_order(tmp_path):
    parts = DATA / "epub"
    with zipfile.ZipFile(tmp_path / "a.epub", "w") as book:
        for part in filter(Path.is_file, parts.rglob("*")):
            book.write(part, part.relative_to(parts))
    assert sections_of(tmp_path) == [Section(("One",), "Dough."), Section(("Two",), "Crust.")]
    assert [document.title for document in read_folder(tmp_path)] == ["Bread"]
