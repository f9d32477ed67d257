"""Word, slides, spreadsheets and books become sections with their headings."""

import io
import re
import zipfile

import pytest
from openpyxl import Workbook
from pptx import Presentation
from pptx.util import Inches

from tests.helpers import DATA
from uec_rag.documents import read_folder
from uec_rag.documents.document import Section


def sections_of(folder):
    [document] = read_folder(folder)
    return list(document.sections)


def zipped(name, path, change=lambda text: text):
    """Zip a folder of tests/data, after a change to each of its files."""
    with zipfile.ZipFile(path, "w") as file:
        for part in (DATA / name).rglob("*"):
            if part.is_file():
                file.writestr(str(part.relative_to(DATA / name)), change(part.read_text()))


def write_docx(path, paragraphs):
    """The least that is a Word document: (style, text) per paragraph."""
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'
        for style, text in paragraphs
    )
    zipped("docx", path, lambda text: text.replace("PARAGRAPHS", body))


def test_a_word_document_keeps_its_headings(tmp_path):
    write_docx(
        tmp_path / "a.docx",
        [("Heading1", "Bread"), ("", "Dough rests."), ("Heading2", "Crust"), ("", "It is brown.")],
    )
    assert sections_of(tmp_path) == [
        Section("Bread", "Dough rests.", is_title=True),
        Section("Crust", "It is brown."),
    ]


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
    assert sections_of(tmp_path) == [Section("Bread and butter", text, 1)]


def test_sheets_are_sections_in_which_values_have_their_columns_names(tmp_path):
    book = Workbook()
    book.active.title = "Stock"
    for row in [("item", "count", None), ("flour", 3, "organic"), (None, None, None), ("yeast", 5)]:
        book.active.append(row)
    book.create_sheet("Empty")
    book.save(tmp_path / "a.xlsx")
    text = "item: flour, count: 3, organic\nitem: yeast, count: 5"
    assert sections_of(tmp_path) == [Section("Stock", text)]


def test_cells_beyond_the_size_that_a_sheet_claims_are_read(tmp_path):
    book, content = Workbook(), io.BytesIO()
    book.active.append(["item", "count"])
    book.active.append(["flour", 3])
    book.save(content)
    with zipfile.ZipFile(content) as saved, zipfile.ZipFile(tmp_path / "a.xlsx", "w") as claimed:
        for name in saved.namelist():
            claimed.writestr(name, re.sub(rb'ref="A1:B2"', b'ref="A1"', saved.read(name)))
    assert sections_of(tmp_path) == [Section("Sheet", "item: flour, count: 3")]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("item;count\nflour;3\nyeast;5\n", "item: flour, count: 3\nitem: yeast, count: 5"),
        ('item,note\nflour,"fine, white"\n', "item: flour, note: fine, white"),
        ("flour\n", "flour"),
        ('item,note\nflour,"white\nfine"\n', "item: flour, note: white fine"),
        ('item,note\nflour,"""fine"" white"\n', 'item: flour, note: "fine" white'),
        (f"item,note\nflour,{'x' * 200_000}\n", f"item: flour, note: {'x' * 200_000}"),
    ],
    ids=["semicolons", "quotes", "one column", "line break", "quoted quotes", "long field"],
)
def test_rows_of_a_csv_file_are_lines(tmp_path, content, text):
    (tmp_path / "a.csv").write_text(content)
    assert sections_of(tmp_path) == [Section("", text)]


def test_a_book_is_read_in_its_order(tmp_path):
    zipped("epub", tmp_path / "a.epub")
    assert sections_of(tmp_path) == [Section("One", "Dough."), Section("Two", "Crust.")]
    assert [document.title for document in read_folder(tmp_path)] == ["Bread"]


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx", "a.epub"])
def test_a_damaged_file_is_left_out_by_name(tmp_path, name):
    (tmp_path / name).write_bytes(b"no such thing")
    (tmp_path / "b.txt").write_text("Dough rests.")
    with pytest.warns(UserWarning, match=f"left out {name}, which cannot be read"):
        assert [document.source for document in read_folder(tmp_path)] == ["b.txt"]
