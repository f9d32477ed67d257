"""Slides become sections under their titles."""

from pptx import Presentation
from pptx.util import Inches

from tests.documents.files import sections_of
from uec_rag.documents.document import Section


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
