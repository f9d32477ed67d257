"""What a file of an old or rare form shows is read, and what it hides is not."""

import io
import zipfile

import pytest

from tests.documents.files import write_xlsx, written
from uec_rag.documents import read_folder

OASIS = "urn:oasis:names:tc:opendocument:xmlns"
MAIL = "Subject: Öffnung\nContent-Type: text/plain; charset=%s\n\nAb zehn, Grüße.\n"


def archive(**files):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, text in files.items():
            file.writestr(name.replace("__", "/").replace("_", "."), text)
    return made.getvalue()


def book(table, properties="", reference="chapter.xhtml#toc"):
    """An EPUB of a page whose table of contents is in it, as its guide says, and another."""
    links = "<p><a href='#one'>The first chapter</a> <a href='#two'>The second one</a></p>"
    package = (
        "<package xmlns='http://www.idpf.org/2007/opf'><manifest>"
        f"<item id='a' href='chapter.xhtml' properties='{properties}'/>"
        "<item id='b' href='last.xhtml'/></manifest>"
        "<spine><itemref idref='a'/><itemref idref='b'/></spine>"
        f"<guide><reference type='toc' href='{reference}'/></guide></package>"
    )
    page = "<html><body>{}</body></html>"
    return archive(
        **{
            "META-INF__container_xml": "<container><rootfiles><rootfile full-path='book.opf'/>"
            "</rootfiles></container>",
            "book_opf": package,
            "chapter_xhtml": page.format(links + table),
            "last_xhtml": page.format("<p>The end.</p>"),
        }
    )


def odt(body, styles=""):
    """A text of OpenDocument with styles of its own."""
    spaces = " ".join(
        f'xmlns:{name}="{OASIS}:{name}:1.0"' for name in ("office", "text", "style", "table")
    )
    return archive(
        mimetype="application/vnd.oasis.opendocument.text",
        content_xml=f"<office:document-content {spaces} office:version='1.2'>"
        f"<office:automatic-styles>{styles}</office:automatic-styles>"
        f"<office:body><office:text>{body}</office:text></office:body></office:document-content>",
        styles_xml=f"<office:document-styles {spaces}><office:styles>"
        '<style:style style:name="Secret" style:family="paragraph">'
        '<style:text-properties text:display="none"/></style:style>'
        "</office:styles></office:document-styles>",
    )


def office(kind, body):
    """A sheet or slides of OpenDocument."""
    names = "office", "text", "table", "presentation"
    spaces = " ".join(f'xmlns:{name}="{OASIS}:{name}:1.0"' for name in names)
    return archive(
        mimetype=f"application/vnd.oasis.opendocument.{kind}",
        content_xml=f'<office:document-content {spaces} xmlns:draw="{OASIS}:drawing:1.0">'
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body>"
        "</office:document-content>",
    )


def row(*cells):
    cell = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
    return f"<table:table-row>{''.join(map(cell.format, cells))}</table:table-row>"


LONG = "<p>Cats purr when they are content, and dogs bark at strangers in the night.</p>"
HIDING = '<style:style style:name="T1"><style:text-properties text:display="none"/></style:style>'
INHERITING = '<style:style style:name="P1" style:parent-style-name="Secret"/>'
SHOWING = (
    '<style:style style:name="P1" style:parent-style-name="Secret">'
    '<style:text-properties text:display="true"/></style:style>'
)
TWO = '<text:p>It is {}open.</text:p><text:p text:style-name="{}">Not for you.</text:p>'
SPAN = '<text:span text:style-name="T1">never </text:span>'
CASES = {
    "a chapter with the table of contents": ("a.epub", book(LONG), "Cats purr", True),
    "a chapter that is the navigation, too": (
        *("a.epub", book(LONG, "nav", "chapter.xhtml")),
        *("Cats purr", True),
    ),
    "a page of navigation": ("a.epub", book("", "nav"), "first chapter", False),
    "a page of navigation of the guide": ("a.epub", book(""), "first chapter", False),
    **{
        f"mail in {encoding} that says {said}": (
            *("a.eml", (MAIL % said).encode(encoding)),
            *("Ab zehn, Grüße.", True),
        )
        for encoding in ("utf-16", "utf-8-sig", "utf-32")
        for said in ("utf-8", '"utf-16"', "unicode")
    },
    "odt, a style of its own": ("a.odt", odt(TWO.format(SPAN, ""), HIDING), "never", False),
    "odt, what is around it": ("a.odt", odt(TWO.format(SPAN, ""), HIDING), "It is open.", True),
    "odt, an inherited style": ("a.odt", odt(TWO.format("", "P1"), INHERITING), "Not", False),
    "odt, a named style": ("a.odt", odt(TWO.format("", "Secret")), "Not", False),
    "odt, shown again": ("a.odt", odt(TWO.format("", "P1"), SHOWING), "Not for you.", True),
    "ods": (
        "a.ods",
        office(
            "spreadsheet",
            '<table:table table:name="Prices">'
            + row("Plan", "Price")
            + row("Basic", "5.50 €")
            + row("Plus", "9.00 €")
            + "</table:table>",
        ),
        *("Plan: Basic, Price: 5.50 €", True),
    ),
    "odp": (
        "a.odp",
        office(
            "presentation",
            '<draw:page draw:name="p"><draw:frame presentation:class="title"><draw:text-box>'
            "<text:p>Fees</text:p></draw:text-box></draw:frame><draw:frame><draw:text-box>"
            "<text:list><text:list-item><text:p>A day late is two euros.</text:p></text:list-item>"
            "</text:list></draw:text-box></draw:frame></draw:page>",
        ),
        *("- A day late is two euros.", True),
    ),
    "odt, a section": (
        "a.odt",
        odt(
            '<text:p>Shown.</text:p><text:section text:display="none" text:name="s">'
            "<text:p>Gone.</text:p></text:section>"
        ),
        *("Gone", False),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_shown_is_read_and_nothing_else(case, tmp_path):
    name, data, text, is_shown = CASES[case]
    (tmp_path / name).write_bytes(data)
    [document] = read_folder(tmp_path)
    assert (text in str(document.sections)) == is_shown
    assert document.sections


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_value_that_a_sheet_repeats_in_its_first_rows_is_kept(rows, tmp_path):
    grid = [["x"] * 26] * rows + [[*"abcdefghijklmnopqrstuvwxyz"]]
    (tmp_path / "a.xlsx").write_bytes(written(write_xlsx, grid))
    assert str(read_folder(tmp_path)[0].sections).count("x") >= 26
    (tmp_path / "a.xlsx").write_bytes(
        written(write_xlsx, [["Stock", "", ""], ["a", "b", "c"], ["1", "2", "3"]], ["A1:C1"])
    )
    assert "a: 1, b: 2, c: 3" in str(read_folder(tmp_path)[0].sections)
