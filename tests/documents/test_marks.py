"""Links, icons, crossed-out text and readings of words: what of them is in the text."""

import io

import pytest
from openpyxl import Workbook
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from openpyxl.styles import Font
from pptx import Presentation

from tests.documents.files import write_docx, written
from uec_rag.documents.readers import read_content

ADDRESS = "https://forms.example/k9"
HEAD = "<table><tr><th>Part</th><th>Small</th><th>Large</th></tr><tr><td>Lid</td>"
MAIL = "From: a@x.org\nSubject: Keys\nContent-Type: text/html; charset=utf-8\n\n"
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
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def lead(cell):
    cell.hyperlink = ADDRESS
    cell.value = "by post"


def strike(cell):
    cell.font = Font(strike=True)


PARTS = CellRichText(TextBlock(InlineFont(strike=True), "nine"), " ten")


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("a.html", f"<p>Take form <a href='{ADDRESS}'>K9</a>.", f"form [K9]({ADDRESS})."),
        ("a.html", f"<p><a href='{ADDRESS}'>Form <b>K9</b></a>", f"[Form **K9**]({ADDRESS})"),
        ("a.html", f"<p><a href='{ADDRESS}'><code>k9</code></a>", f"[`k9`]({ADDRESS})"),
        ("a.html", "<p>A <a href='k 9.pdf'>plan</a>.", "A [plan](k%209.pdf)."),
        ("a.html", "<p>A <a href='mailto:k@x.org'>clerk</a>.", "A [clerk](mailto:k@x.org)."),
        ("a.html", f"{HEAD}<td><a href='{ADDRESS}'>K9</a><td>", f"Small: [K9]({ADDRESS})"),
        ("a.eml", f"{MAIL}<p>Form <a href='{ADDRESS}'>K9</a></p>", f"Form [K9]({ADDRESS})"),
        ("a.docx", written(write_docx, FIELD), f"[K9]({ADDRESS})"),
        ("a.pptx", slide(address=ADDRESS), f"From [nine]({ADDRESS})"),
        ("a.xlsx", sheet("", lead), f"When: [by post]({ADDRESS})"),
        ("a.xlsx", sheet(f'=HYPERLINK("{ADDRESS}", "by post")'), f"({ADDRESS})"),
    ],
)
def test_the_address_of_a_link_is_behind_its_text(name, data, text):
    assert text in text_of(name, data)


SAME_SITE = "Take {}.</p><p id='keys'>Keys."
WORD, READ_AS = "次の{}は十時に開く。", "<rp>(</rp><rt>すいぞく</rt><rp>)</rp>"


@pytest.mark.parametrize(
    ("page", "marked", "shown"),
    [
        (SAME_SITE, "<a href='#keys'>Form K9</a>", "Form K9"),
        (SAME_SITE, "<a href='../k9/index.html#top'>Form K9</a>", "Form K9"),
        (SAME_SITE, "<a href='javascript:open()'>Form K9</a>", "Form K9"),
        (SAME_SITE, f"<a href='https://x.org/{'a' * 200}'>Form K9</a>", "Form K9"),
        (SAME_SITE, "<a>Form K9</a>", "Form K9"),
        (WORD, "<ruby>水族館<rt>すいぞくかん</rt></ruby>", "水族館"),
        (WORD, "<ruby>水<rt>すい</rt>族<rt>ぞく</rt>館<rt>かん</rt></ruby>", "水族館"),
        (
            WORD,
            "<ruby>水族<rp>(</rp><rt>すい</rt></ruby><ruby>\n 館 <rt>かん</rt></ruby>",
            "水族館",
        ),
    ],
)
def test_links_within_a_site_and_readings_of_characters_are_left_out(page, marked, shown):
    text = text_of("a.html", f"<p>{page.format(marked)}</p>")
    assert text == page.format(shown).replace("</p><p id='keys'>", "\n\n")
    assert f"Small: {shown}," in text_of("a.html", f"{HEAD}<td>{marked}</td><td>ten</table>")


def test_an_address_that_is_the_text_or_of_a_heading_is_left_out():
    assert text_of("a.html", "<p><a href='mailto:k@x.org'>k@x.org</a>") == "k@x.org"
    assert text_of("a.html", f"<h2><a href='{ADDRESS}'>K9</a></h2>Late.").count("(http") == 0


@pytest.mark.parametrize(
    ("yes", "no"),
    [
        ("<img alt='fits'>", "<img alt='loose'>"),
        ("<svg aria-label='fits'></svg>", "<svg><title>loose</title><path/></svg>"),
        ("<i class='ok' title='fits'></i>", "<span role='img' aria-label='loose'></span>"),
        ("<u><img src='a.png' title='fits'></u>", "<a href='#a'><img alt='loose'></a>"),
    ],
)
def test_an_icon_says_something_in_a_cell_and_beside_words(yes, no):
    assert "Small: fits, Large: loose" in text_of("a.html", f"{HEAD}<td>{yes}</td><td>{no}</table>")
    assert " ".join(text_of("a.html", f"<p>The lid {yes}</p>").split()) == "The lid fits"


@pytest.mark.parametrize(
    "icon",
    [
        "<svg aria-hidden='true'><title>tick</title></svg>",
        "<img alt='logo'>",
        "<img alt='pictures/lid.png'>",
        "<a href='#a'>More <svg><title>arrow</title></svg></a>",
        "<img alt=''>",
        "<i class='tick'></i>",
    ],
)
def test_an_icon_that_decorates_says_nothing(icon):
    text = text_of("a.html", f"<p>The lid {icon} fits.</p><p>{icon}</p>")
    assert {*text.replace("[More](#a)", "").split()} <= {"The", "lid", "fits.", "More"}


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("a.html", "<p>From <strike>nine</strike> ten", "From ~~nine~~ ten"),
        ("a.html", "<p>From <del>nine <b>sharp</b></del> ten", "~~nine~~ **~~sharp~~** ten"),
        ("a.html", "<p>From <i style='text-decoration:red line-through'>nine</i>", "*~~nine~~*"),
        ("a.html", "<ul style='text-decoration-line: line-through'><li>nine", "* ~~nine~~"),
        ("a.html", "<style>.no {text-decoration: line-through}</style><p class=no>9", "~~9~~"),
        ("a.html", f"{HEAD}<td><s>nine</s> ten<td>", "Small: ~~nine~~ ten"),
        ("a.eml", f"{MAIL}From <strike>nine</strike> ten", "From ~~nine~~ ten"),
        ("a.docx", written(write_docx, TWICE), "From ~~nine~~ ten on."),
        ("a.pptx", slide(strike="sngStrike"), "From ~~nine~~"),
        ("a.pptx", slide(strike="noStrike"), "From nine"),
        ("a.xlsx", sheet(9, strike), "When: ~~9~~"),
        ("a.xlsx", sheet(PARTS), "When: ~~nine~~ ten"),
        ("a.html", "<p style='text-decoration: underline'>From nine", "From nine"),
    ],
)
def test_what_is_crossed_out_is_marked(name, data, text):
    assert text in text_of(name, data)
