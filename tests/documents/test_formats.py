"""What files hold beside plain text, as the tools write them, is read or told."""

import io
import re
from copy import deepcopy
from pathlib import Path

import pytest
from lxml import etree
from openpyxl import Workbook
from PIL import Image
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches
from pypdf import PdfWriter
from pypdf.generic import (
    ArrayObject,
    DecodedStreamObject,
    DictionaryObject,
    NameObject,
    NumberObject,
)

from tests.documents.files import (
    docx,
    odf,
    paragraph,
    read,
    unzipped,
    word_table,
    write_pdf,
    write_xlsx,
    written,
    zipped,
)
from tests.helpers import DATA, data_of
from uec_rag.base.text import with_headings
from uec_rag.documents.document import Document, Section, cut
from uec_rag.documents.passages import passages_of
from uec_rag.documents.readers import read_content

HELD = data_of("formats.json")


NAMES = HELD["names"]
ITALIC = "\N{MATHEMATICAL ITALIC SMALL A}\N{MATHEMATICAL ITALIC SMALL B}"
SPACES = " ".join(f'xmlns:{name}="{space}"' for name, space in NAMES.items())


def sections_of(name, data):
    return [(list(one.path), one.text) for one in read(name, data)[1]]


def texts_of(name, data):
    return [text for _, text in sections_of(name, data)]


@pytest.mark.parametrize("row", data_of("word.json"), ids=lambda row: row["says"])
def test_of_word_what_is_shown_is_read(row):
    data = docx(row["body"], numbering=row.get("numbering", ""))
    assert texts_of("a.docx", data) == row["texts"]


def test_headings_of_word_have_the_numbers_of_their_styles():
    row = next(row for row in data_of("word.json") if row["says"] == "headings by their styles")
    data = docx(row["body"], numbering=row["numbering"])
    title, sections = read("a.docx", data)
    assert title == "1 Scope"
    assert [one.path for one in sections] == [
        (),
        ("2 Fees", "2.1 Amount"),
        ("2 Fees", "2.2 Late fees"),
    ]


def test_the_contents_of_word_are_left_out():
    blocks = [paragraph("Fees 3", "TOC1"), paragraph("Fees", "Heading2"), paragraph("Five.")]
    assert sections_of("a.docx", docx(*blocks)) == [(["Fees"], "Five.")]


def test_charts_and_diagrams_of_word_are_tables_and_texts_below_their_paragraphs():
    drawn = "".join(
        f"<w:p><w:r><w:drawing><wp:inline><a:graphic><a:graphicData>{element}</a:graphicData>"
        "</a:graphic></wp:inline></w:drawing></w:r></w:p>"
        for element in ('<c:chart r:id="chart"/>', '<dgm:relIds r:dm="diagramData"/>')
    )
    blocks = [paragraph("Before."), drawn, paragraph("After.")]
    chart, diagram = ((DATA / f"{name}.xml").read_text() for name in ("chart", "diagram"))
    data = docx(*blocks, chart=chart, diagramData=diagram)
    table = "Loans\nCategory: 2024-01, Books: 0.3\nCategory: 2024-02, Books: 7"
    assert texts_of("a.docx", data) == [f"Before.\n\n{table}\n\nAsk\nPay\n\nAfter."]


def test_what_is_not_read_is_counted():
    scan = io.BytesIO()
    Image.new("L", (9, 9)).save(scan, "pdf")
    noted = '<w:p><w:r><w:t>x</w:t></w:r><w:r><w:commentReference w:id="1"/></w:r></w:p>'
    word = docx(noted, '<w:altChunk r:id="x"/>')
    assert read_content("a.docx", word).left_out == {"comment": 1, "embedded document": 1}
    rst = b"Fees.\n\n.. include:: more.rst\n\n.. table::\n   :align: nowhere\n"
    assert read_content("a.rst", rst).left_out == {
        "included file": 1,
        "directive that docutils refuses": 1,
    }
    assert read_content("a.pdf", scan.getvalue()).left_out == {"page without text": 1}


@pytest.mark.parametrize("names", [{"/Encoding": "/Identity-H", "/Subtype": "/Type0"}, {}])
def test_a_page_whose_fonts_do_not_tell_their_letters_is_counted_as_one_without_text(names):
    glyphs = DictionaryObject({NameObject("/Type"): NameObject("/Encoding")})
    shapes = [NumberObject(1), *(NameObject(f"/g{n}") for n in range(1, 60))]
    glyphs[NameObject("/Differences")] = ArrayObject(shapes)
    font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/ABCDEF+Odd"} | names
    fields = DictionaryObject({NameObject(k): NameObject(v) for k, v in font.items()})
    if not names:
        fields[NameObject("/Encoding")] = glyphs
    else:
        inner = {"/Type": "/Font", "/Subtype": "/CIDFontType2", "/BaseFont": "/ABCDEF+Odd"}
        of_letters = DictionaryObject({NameObject(k): NameObject(v) for k, v in inner.items()})
        fields[NameObject("/DescendantFonts")] = ArrayObject([of_letters])
    writer = PdfWriter()
    page, content = writer.add_blank_page(width=612, height=792), DecodedStreamObject()
    fonts = DictionaryObject({NameObject("/F1"): fields})
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    content.set_data(f"BT /F1 12 Tf 72 700 Td <{bytes(range(4, 58)).hex()}> Tj ET".encode())
    page[NameObject("/Contents")] = writer._add_object(content)
    data = io.BytesIO()
    writer.write(data)
    read = read_content("a.pdf", data.getvalue())
    assert read.left_out == {"page without text": 1}
    assert not any(block.strip() for page in read.pages for block in page.blocks)


@pytest.fixture(scope="module")
def slides():
    show = Presentation()
    growth, formula, thanks = (show.slides.add_slide(show.slide_layouts[5]) for _ in range(3))
    growth.shapes.title.text = "Growth"
    chart = CategoryChartData(number_format="0.0%")
    for year in ("2023", "2024"):
        quarters = chart.add_category(year)
        quarters.add_sub_category("Q1")
        quarters.add_sub_category("Q2")
    chart.add_series("Members", (0.1, 0.125, None, 0.2))
    size = [Inches(1), Inches(2), Inches(4), Inches(3)]
    growth.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *size, chart)
    formula.shapes.title.text = "The formula"
    frame = formula.shapes.add_textbox(*size).text_frame
    frame.text = "It is 10"
    run = frame.paragraphs[0].add_run()
    run.text = "6"
    run.font._element.set("baseline", "30000")
    shape = frame._element.getparent()
    in_place(shape)
    thanks.shapes.title.text = "Closed on Mondays"
    hidden = show.slides.add_slide(show.slide_layouts[5])
    hidden.shapes.title.text = "Salaries"
    hidden._element.set("show", "0")
    return written(lambda file: show.save(file))


def in_place(shape):
    """Put a formula into a shape, as PowerPoint does, with a picture for older programs."""
    parent, old = shape.getparent(), deepcopy(shape)
    both = etree.SubElement(parent, f"{{{NAMES['mc']}}}AlternateContent", nsmap=NAMES)
    etree.SubElement(both, f"{{{NAMES['mc']}}}Choice", Requires="a14").append(shape)
    etree.SubElement(both, f"{{{NAMES['mc']}}}Fallback").append(old)
    top, bottom = (f"<m:r><m:t>{letter}</m:t></m:r>" for letter in ITALIC)
    formula = f"<m:f><m:num>{top}</m:num><m:den>{bottom}</m:den></m:f>"
    text = f"<a14:m {SPACES}><m:oMathPara><m:oMath>{formula}</m:oMath></m:oMathPara></a14:m>"
    shape.find(f".//{{{NAMES['a']}}}p").append(etree.fromstring(text))


def test_slides_with_a_chart_a_formula_or_a_title_alone_are_read(slides):
    assert sections_of("a.pptx", slides) == [
        (
            ["Growth"],
            "Category: 2023, Q1, Members: 10.0%\nCategory: 2023, Q2, Members: 12.5%\n"
            "Category: 2024, Q1\nCategory: 2024, Q2, Members: 20.0%",
        ),
        (["The formula"], "It is 10^6a/b"),
        (["Closed on Mondays"], "Closed on Mondays"),
    ]
    assert read_content("a.pptx", slides).left_out == {"hidden slide": 1}


START = "It is 50^1 euros, or 10^6 or 10^−6 of H2O."
END = "well-known multi-purpose characteristics throughout."


@pytest.mark.parametrize("name", ["chromium", "weasyprint", "typst", "reportlab"])
def test_in_pdf_what_is_raised_is_apart_and_parted_words_are_whole(name):
    [text] = texts_of("a.pdf", (DATA / "made" / f"{name}.pdf").read_bytes())
    shown = " ".join(text.split()).replace("-6", "−6")
    assert shown.startswith(START)
    assert name == "reportlab" or END in shown
    assert f"Read on.[{1 if name == 'typst' else 2}] " in shown


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["M\xc8unchen caf\xc2e, na\xc8\xf5ve"], "München café, naïve"),
        (["It organi-", "ses much."], "It organises much."),
    ],
)
def test_accents_that_stand_apart_and_words_that_are_parted_once_are_joined(lines, text):
    assert texts_of("a.pdf", written(write_pdf, [lines])) == [text]


@pytest.mark.parametrize(
    ("title", "lines"),
    [
        ("Fees andcharges", ["2.1 Fees and", "charges"]),
        ("Fees and charges", ["FEES AND CHARGES"]),
        ("Fees and charges", ["2.1", "Fees and charges"]),
    ],
)
def test_a_title_of_an_outline_is_found_whatever_its_blanks_and_case(title, lines):
    pages = [["Before.", *lines, "Five euros."]]
    data = written(write_pdf, pages, outline=[(title, 0)])
    assert sections_of("a.pdf", data) == [([], "Before."), ([title], "Five euros.")]


NOTED = [
    (["Fees"], "The fee is {}[1] or 10^6 of H2O.\n\n[1] Per year.\n\n{}"),
    (["Closed on Mondays"], "Closed on Mondays"),
    (["Other"], "More[2].\n\n[2] Or less."),
]


@pytest.mark.parametrize(
    ("kind", "formula", "boxes"),
    [
        ("docx", "a/b", "☒ paid\n☐ sent"),
        ("html", "\\frac{a}{b}", "* ☒ paid\n* ☐ sent"),
        ("epub", "\\frac{a}{b}", "* ☒ paid\n* ☐ sent"),
    ],
)
def test_formulas_notes_and_boxes_of_pandoc_are_read_and_contents_are_not(kind, formula, boxes):
    read = sections_of(f"a.{kind}", (DATA / "made" / f"pandoc.{kind}").read_bytes())
    # In a book, each chapter counts its notes.
    read = [
        (path, text.replace("[1] Or", "[2] Or").replace("More[1]", "More[2]"))
        for path, text in read
    ]
    assert read == [(path, text.format(formula, boxes)) for path, text in NOTED]


def test_entities_of_word_are_not_expanded():
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
    parts = unzipped(docx(paragraph("&b;")))
    parts["word/document.xml"] = bomb.encode() + parts["word/document.xml"]
    with pytest.raises(Exception, match="undefined entity"):
        read_content("a.docx", zipped(parts))


def test_slides_are_sections_under_their_titles_with_tables_and_notes():
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
    text = "Dough rests.\n\nflour: 500 g, water: 350 g\n\nAnd rises.\n\nSay it slowly."
    data = written(lambda file: show.save(file))
    assert read("a.pptx", data)[1] == (Section(("Bread and butter",), text, 1),)


def test_a_book_is_read_in_the_order_of_its_spine():
    parts = filter(Path.is_file, (DATA / "epub").rglob("*"))
    book = zipped({str(part.relative_to(DATA / "epub")): part.read_bytes() for part in parts})
    chapters = Section(("One",), "Dough."), Section(("Two",), "Crust.")
    assert read("a.epub", book) == ("Bread", chapters)


@pytest.mark.parametrize(("says", "name", "text", "lines"), data_of("tables_with_groups.json"))
def test_rows_of_tables_have_the_group_and_the_units_that_they_stand_below(says, name, text, lines):
    assert texts_of(name, text) == ["\n".join(lines)], says


@pytest.mark.parametrize("merged", [(), ("A2:B2", "A5:B5")])
def test_groups_of_sheets_are_merged_or_not(merged):
    rows = [["Ticket", "Price"], ["Adults", None], ["Single", 5], ["Return", 9]]
    rows += [["Children", None], ["Single", 3], ["Return", 4]]
    [text] = texts_of("a.xlsx", written(write_xlsx, rows, merged))
    assert text.splitlines() == [
        "Adults, Ticket: Single, Price: 5",
        "Adults, Ticket: Return, Price: 9",
        "Children, Ticket: Single, Price: 3",
        "Children, Ticket: Return, Price: 4",
    ]


def test_groups_of_word_are_those_of_its_rows():
    rows = ["Ticket Price Zone", "Adults  ", "Single 5 A", "Return 9 B"]
    rows += ["Children  ", "Single 3 A", "Return 4 B"]
    data = docx(word_table(*(row.split(" ") for row in rows)))
    last = "Children, Ticket: Return, Price: 4, Zone: B"
    assert texts_of("a.docx", data)[0].splitlines()[3] == last


def passages(name, data, size=300):
    title, sections = read(name, data)
    texts = [
        passage.text for passage in passages_of([Document(name, sections, title=title)], size=size)
    ]
    return [text.removeprefix(f"{title}\n\n") for text in texts]


CAPTION = "Prices in thousands of euros"
ROWS = [(f"Desk {n}", f"{n} thousand") for n in range(30)]
LINES = "".join(f"<tr><td>{item}</td><td>{price}</td></tr>" for item, price in ROWS)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (
            "a.html",
            f"<p>Before.</p><table><caption>{CAPTION}</caption><tr><th>Item</th><th>Price</th></tr>"
            f"{LINES}</table><p>After.</p>",
        ),
        ("a.csv", f"{CAPTION},\nItem,Price\n" + "".join(f"{i},{p}\n" for i, p in ROWS)),
        ("a.xlsx", written(write_xlsx, [[CAPTION], ["Item", "Price"], *ROWS], ("A1:B1",))),
    ],
)
def test_each_part_of_a_table_begins_with_its_caption(name, data):
    parts = passages(name, data)
    rows = [part for part in parts if "Item: Desk" in part]
    assert len(rows) > 2
    assert all(part.partition("Item:")[0].endswith(f"{CAPTION}\n") for part in rows)
    assert [part for part in parts if "After" in part] in ([], ["After."])


LEAD = "For a visa you need these documents:"
POINTS = [f"the document of the number {n}, which must be stamped" for n in range(12)]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.md", f"# Travel\n\nHello there. {LEAD}\n\n" + "".join(f"- {one}\n" for one in POINTS)),
        ("a.txt", f"{LEAD}\n" + "".join(f"{n}. {one}\n" for n, one in enumerate(POINTS, 1))),
        ("a.html", f"<p>{LEAD}</p><ol><li>{'<li>'.join(POINTS)}</ol><p>After.</p>"),
        ("a.rst", f"{LEAD}\n\n" + "".join(f"* {one}\n" for one in POINTS)),
    ],
)
def test_each_part_of_a_list_begins_with_its_lead_in_which_is_no_passage_alone(name, data):
    parts = passages(name, data)
    points = [part for part in parts if "the document of" in part]
    assert len(points) > 2
    assert all(part.startswith(LEAD) for part in points)
    assert sum(part.count("the document of") for part in points) == len(POINTS)
    assert not [part for part in parts if LEAD in part and part not in points]


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("\n- Kettle\n- Kettles", "Kettle"),
        ("Kettle &amp; <em>cup</em>", "Kettle & cup"),
        ("Untitled", ""),
    ],
)
def test_the_title_of_front_matter_is_what_a_reader_is_shown(written, title):
    text = f"---\ntitle: {written}\n---\nIt holds two litres.\n"
    assert read_content("a.md", text.encode()).title == title


@pytest.mark.parametrize(("title", "text"), [("Ion", "The version is 2."), ("Art", "Start it.")])
def test_a_title_within_another_word_is_not_in_the_text(title, text):
    [passage] = passages_of([Document("a.md", (Section((), text),), title=title)])
    assert passage.text == f"{title}\n\n{text}"
    assert with_headings({"title": title}, text) == f"{title}\n\n{text}"
    [passage] = passages_of([Document("a.md", (Section((), f"An {title}."),), title=title)])
    assert passage.text == f"An {title}."


def test_rows_of_libreoffice_that_are_hidden_are_left_out():
    book = Workbook()
    for row in (["Item", "Price", "Margin"], ["Desk", 200, 50], ["Chair", 50, 9]):
        book.active.append(row)
    book.active.row_dimensions[3].hidden = True
    book.active.column_dimensions["C"].hidden = True
    parts = unzipped(written(book.save))
    sheet = "xl/worksheets/sheet1.xml"
    parts[sheet] = re.sub(rb"<(row|col) ", rb'<\1 outlineLevel="0" ', parts[sheet])
    content = read_content("a.xlsx", zipped(parts))
    assert cut(content)[1][0].text == "Item: Desk, Price: 200"
    assert content.left_out == {"hidden row": 1, "hidden column": 1}


@pytest.mark.parametrize(("says", "name", "text", "shown"), data_of("forms_and_names.json"))
def test_what_stands_elsewhere_or_in_a_form_is_where_it_is_shown(says, name, text, shown):
    assert texts_of(name, text) == shown, says


FIELDS = ("user-field-get", "variable-get", "date", "author-name", "page-number", "placeholder")
FIELDS += ("conditional-text", "expression", "title", "text-input")


@pytest.mark.parametrize("field", FIELDS)
def test_fields_of_opendocument_are_read_as_they_are_shown(field):
    body = f"<text:p>Valid until <text:{field}>1 May</text:{field}>, or so.</text:p>"
    assert texts_of("a.odt", odf("text", body)) == ["Valid until 1 May, or so."]


def test_boxes_and_shapes_of_opendocument_are_read_below_their_paragraphs():
    box = "<draw:frame><draw:text-box><text:p>In a box.</text:p></draw:text-box></draw:frame>"
    shape = "<draw:custom-shape><text:p>In a shape.</text:p></draw:custom-shape>"
    ruby = "<text:ruby><text:ruby-base>B</text:ruby-base><text:ruby-text>r</text:ruby-text>"
    body = f"<text:p>Before {ruby}</text:ruby>.{box}{shape}</text:p>{box}<text:p>After.</text:p>"
    [text] = texts_of("a.odt", odf("text", body))
    assert text.split("\n\n") == ["Before B.", "In a box.", "In a shape.", "In a box.", "After."]


def sheet_row(*cells, of=""):
    texts = (f"<table:table-cell><text:p>{cell}</text:p></table:table-cell>" for cell in cells)
    return f"<table:table-row {of}>{''.join(texts)}</table:table-row>"


def test_what_sheets_and_slides_of_opendocument_hide_is_left_out_and_counted():
    hidden, filtered = (f'table:visibility="{how}"' for how in ("collapse", "filter"))
    columns = f"<table:table-column/><table:table-column/><table:table-column {hidden}/>"
    rows = sheet_row("Item", "Price", "Margin") + sheet_row("Desk", "5", "1")
    rows += sheet_row("Sofa", "9", "2", of=hidden) + sheet_row("Lamp", "3", "2", of=filtered)
    secret = sheet_row("X", "Y") + sheet_row("Margin", "50")
    body = f'<table:table table:name="A">{columns}{rows}</table:table>'
    body += f'<table:table table:name="B" table:style-name="h">{secret}</table:table>'
    style = '<style:style style:name="h"><style:{0}-properties {1}/></style:style>'
    data = odf("spreadsheet", body, style.format("table", 'table:display="false"'))
    assert texts_of("a.ods", data) == ["Item: Desk, Price: 5\nItem: Lamp, Price: 3"]
    left_out = {"hidden sheet": 1, "hidden row": 1, "hidden column": 1}
    assert read_content("a.ods", data).left_out == left_out
    slide = "<draw:page {}><draw:frame><draw:text-box><text:p>{}</text:p></draw:text-box>"
    slide += "</draw:frame></draw:page>"
    body = slide.format("", "Shown") + slide.format('draw:style-name="h"', "Hidden")
    hides = style.format("drawing-page", 'presentation:visibility="hidden"')
    data = odf("presentation", body, hides)
    assert texts_of("a.odp", data) == ["Shown"]
    assert read_content("a.odp", data).left_out == {"hidden slide": 1}


def test_a_hidden_column_takes_one_of_the_cells_that_are_written_as_one():
    columns = '<table:table-column/><table:table-column table:visibility="collapse"/>'
    same = (
        '<table:table-cell table:number-columns-repeated="2"><text:p>5</text:p></table:table-cell>'
    )
    rows = sheet_row("Price", "Cost", "Size") + f"<table:table-row>{same}</table:table-row>"
    body = f'<table:table table:name="A">{columns}<table:table-column/>{rows}</table:table>'
    assert texts_of("a.ods", odf("spreadsheet", body)) == ["Price: 5"]


OUTLINE = [("1", "1", ".", 1), ("2", "1", "", 2), ("3", "a", ")", 1), ("4", "", "", 1)]


def test_headings_of_opendocument_have_the_numbers_of_its_outline():
    levels = "".join(
        f'<text:outline-level-style text:level="{level}" style:num-format="{shape}"'
        f' style:num-suffix="{after}" text:display-levels="{shown}"/>'
        for level, shape, after, shown in OUTLINE
    )
    headings = [(1, "Scope"), (2, "Parties"), (1, "Fees"), (2, "Amount"), (3, "Net"), (3, "Tax")]
    headings += [(4, "Plain"), (2, "Late")]
    body = "".join(
        f'<text:h text:outline-level="{depth}">{text}</text:h><text:p>Five.</text:p>'
        for depth, text in headings
    )
    styles = f"<text:outline-style>{levels}</text:outline-style>"
    names = [path[-1] for path, _ in sections_of("a.odt", odf("text", body, common=styles))]
    assert names == [
        *("1. Scope", "1.1 Parties", "2. Fees", "2.1 Amount", "a) Net", "b) Tax", "Plain"),
        "2.2 Late",
    ]


RTF = (
    r"{\rtf1\ansi{\stylesheet{\s0 Normal;}{\s1\ilvl0\ls1\outlinelevel0\b heading 1;}"
    r"{\s2\ilvl1\ls1\outlinelevel1 heading 2;}}%s}"
)


@pytest.mark.parametrize(("first", "second", "names"), HELD["headings in lists"])
def test_headings_of_rtf_are_headings_though_they_are_in_a_list(first, second, names):
    text = rf"\pard\plain {first}{{Fees}}\par\pard\plain\s0 Five.\par\pard\plain {second}Kids\par"
    title, sections = read("a.rtf", RTF % (text + r"\pard\plain\s0 None.\par"))
    assert [title, *(section.path[-1] for section in sections[1:])] == names


def rtf_row(*cells):
    """A row of RTF, of cells with the signs before them, where they end, and their texts."""
    ends = "".join(rf"{signs}\cellx{end}000" for signs, end, _ in cells)
    texts = "".join(rf"{text}\cell " for *_, text in cells)
    return rf"\trowd{ends}\pard\intbl {texts}\row"


def test_merged_cells_of_rtf_are_read_in_each_place_that_they_take():
    rows = [
        [("", 1, "Tarif"), ("", 2, "Dauer"), ("", 3, "Preis")],
        [("", 1, "Pro"), ("", 2, "Monat"), ("", 3, "9")],
        [("", 1, "Max"), ("", 3, "99")],
        [("", 1, "Mini"), (r"\clmgf", 2, "1"), (r"\clmrg", 3, "")],
        [(r"\clvmgf", 1, "Plus"), ("", 2, "Monat"), ("", 3, "5")],
        [(r"\clvmrg", 1, ""), ("", 2, "Jahr"), ("", 3, r"50{\v 40}")],
    ]
    table = "".join(rtf_row(*row) for row in rows)
    assert texts_of("a.rtf", RTF % rf"Alt.\par{table}\pard Neu.\par") == [
        "Alt.\n\nTarif: Pro, Dauer: Monat, Preis: 9\nTarif: Max, Dauer: 99, Preis: 99\n"
        "Tarif: Mini, Dauer: 1, Preis: 1\nTarif: Plus, Dauer: Monat, Preis: 5\n"
        "Tarif: Plus, Dauer: Jahr, Preis: 50\n\nNeu."
    ]


@pytest.mark.parametrize(("name", "data", "text"), data_of("left_out.json"))
def test_comments_and_what_has_a_condition_are_left_out_and_the_rest_is_read(name, data, text):
    assert texts_of(name, data) == [text]


def test_boxes_of_a_slide_are_read_from_above_and_then_from_the_left():
    show = Presentation()
    slide = show.slides.add_slide(show.slide_layouts[6])
    group = slide.shapes.add_group_shape()
    for shapes, text, left, top in [
        (slide.shapes, "last", 1, 4),
        (slide.shapes, "right", 5, 1),
        (slide.shapes, "left", 1, 1.1),
        (group.shapes, "below", 1, 3),
        (group.shapes, "above", 2, 2),
    ]:
        box = shapes.add_textbox(Inches(left), Inches(top), Inches(2), Inches(0.5))
        box.text_frame.text = text
    text = "left\n\nright\n\nabove\n\nbelow\n\nlast"
    assert texts_of("a.pptx", written(lambda file: show.save(file))) == [text]
