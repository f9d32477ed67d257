"""Links, icons, crossed-out text and readings of words: what of them is in the text."""

import pytest
from openpyxl import Workbook
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from openpyxl.styles import Font
from pptx import Presentation

from tests.documents.files import docx, written
from tests.helpers import data_of
from uec_rag.documents.readers import read_content

MARKS = data_of("marks.json")
ADDRESS = "https://forms.example/k9"
HEAD = "<table><tr><th>Part</th><th>Small</th><th>Large</th></tr><tr><td>Lid</td>"
FIELD = (
    '<w:p><w:r><w:t>Form</w:t></w:r><w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>'
    f' HYPERLINK "{ADDRESS}" </w:instrText></w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r>'
    '<w:r><w:t>K9</w:t></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r></w:p>'
)
TWICE = (
    "<w:p><w:r><w:t>From </w:t></w:r><w:r><w:rPr><w:dstrike/></w:rPr><w:t>nine</w:t></w:r>"
    "<w:r><w:t> ten on.</w:t></w:r></w:p>"
)


def text_of(name, data):
    content = read_content(name, data if isinstance(data, bytes) else data.encode())
    blocks = [block for page in content.pages for block in page.blocks]
    return "\n".join(one.text() if hasattr(one, "names") else str(one) for one in blocks)


def slide(**looks):
    """A slide with a run that looks so."""
    shown = Presentation()
    frame = shown.slides.add_slide(shown.slide_layouts[1]).placeholders[1].text_frame
    frame.paragraphs[0].add_run().text = "From "
    run = frame.paragraphs[0].add_run()
    run.text = "nine"
    run.hyperlink.address = looks.pop("address", None)
    for key, value in looks.items():
        run._r.get_or_add_rPr().set(key, value)  # of which python-pptx has no setter
    return written(lambda file: shown.save(file))


def sheet(value, change=lambda cell: None):
    """A sheet whose last cell has a value and looks so."""
    book = Workbook()
    book.active.append(["Form", "When"])
    book.active.append(["K9", value])
    change(book.active["B2"])
    return written(book.save)


def lead(cell):
    cell.hyperlink = ADDRESS
    cell.value = "by post"


def strike(cell):
    cell.font = Font(strike=True)


PARTS = CellRichText(TextBlock(InlineFont(strike=True), "nine"), " ten")


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        *MARKS["links"],
        ("a.docx", docx(FIELD), f"[K9]({ADDRESS})"),
        ("a.pptx", slide(address=ADDRESS), f"From [nine]({ADDRESS})"),
        ("a.xlsx", sheet("", lead), f"When: [by post]({ADDRESS})"),
        ("a.xlsx", sheet(f'=HYPERLINK("{ADDRESS}", "by post")'), f"({ADDRESS})"),
    ],
)
def test_the_address_of_a_link_is_behind_its_text(name, data, text):
    assert text in text_of(name, data)


@pytest.mark.parametrize(("page", "marked", "shown"), MARKS["left out"])
def test_links_within_a_site_and_readings_of_characters_are_left_out(page, marked, shown):
    text = text_of("a.html", f"<p>{page.format(marked)}</p>")
    assert text == page.format(shown).replace("</p><p id='keys'>", "\n\n")
    assert f"Small: {shown}," in text_of("a.html", f"{HEAD}<td>{marked}</td><td>ten</table>")


def test_an_address_that_is_the_text_or_of_a_heading_is_left_out():
    assert text_of("a.html", "<p><a href='mailto:k@x.org'>k@x.org</a>") == "k@x.org"
    assert text_of("a.html", f"<h2><a href='{ADDRESS}'>K9</a></h2>Late.").count("(http") == 0


@pytest.mark.parametrize(("yes", "no"), MARKS["icons"])
def test_an_icon_says_something_in_a_cell_and_beside_words(yes, no):
    assert "Small: fits, Large: loose" in text_of("a.html", f"{HEAD}<td>{yes}</td><td>{no}</table>")
    assert " ".join(text_of("a.html", f"<p>The lid {yes}</p>").split()) == "The lid fits"


@pytest.mark.parametrize("icon", MARKS["decoration"])
def test_an_icon_that_decorates_says_nothing(icon):
    text = text_of("a.html", f"<p>The lid {icon} fits.</p><p>{icon}</p>")
    assert {*text.replace("[More](#a)", "").split()} <= {"The", "lid", "fits.", "More"}


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        *MARKS["crossed out"],
        ("a.docx", docx(TWICE), "From ~~nine~~ ten on."),
        ("a.pptx", slide(strike="sngStrike"), "From ~~nine~~"),
        ("a.pptx", slide(strike="noStrike"), "From nine"),
        ("a.xlsx", sheet(9, strike), "When: ~~9~~"),
        ("a.xlsx", sheet(PARTS), "When: ~~nine~~ ten"),
    ],
)
def test_what_is_crossed_out_is_marked(name, data, text):
    assert text in text_of(name, data)
