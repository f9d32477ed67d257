"""What a file of an old or rare form shows is read, and what it hides is not."""

from functools import partial

import pytest

from tests.documents.files import odf, write_xlsx, written, zipped
from tests.helpers import data_of
from uec_rag.documents import read_folder

MAIL = "Subject: Öffnung\nContent-Type: text/plain; charset=%s\n\nAb zehn, Grüße.\n"


def book(table, properties="", reference="chapter.xhtml#toc"):
    """An EPUB of a page whose table of contents is in it, as its guide says, and another."""
    links = "<p><a href='#one'>The first chapter</a> <a href='#two'>The second one</a></p>"
    files = "<rootfiles><rootfile full-path='book.opf'/></rootfiles>"
    package = (
        "<package xmlns='http://www.idpf.org/2007/opf'><manifest>"
        f"<item id='a' href='chapter.xhtml' properties='{properties}'/>"
        "<item id='b' href='last.xhtml'/></manifest>"
        "<spine><itemref idref='a'/><itemref idref='b'/></spine>"
        f"<guide><reference type='toc' href='{reference}'/></guide></package>"
    )
    return zipped(
        {
            "META-INF/container.xml": f"<container>{files}</container>",
            "book.opf": package,
            "chapter.xhtml": f"<html><body>{links}{table}</body></html>",
            "last.xhtml": "<html><body><p>The end.</p></body></html>",
        }
    )


HIDES = '<style:text-properties text:display="none"/>'
SECRET = f'<style:style style:name="Secret" style:family="paragraph">{HIDES}</style:style>'
OFFICE = partial(partial, odf, common=f"<office:styles>{SECRET}</office:styles>")
MAKE = {
    "epub": book,
    "odt": OFFICE("text"),
    "ods": OFFICE("spreadsheet"),
    "odp": OFFICE("presentation"),
}


@pytest.mark.parametrize("row", data_of("shown.json"), ids=lambda row: row["says"])
def test_what_is_shown_is_read_and_nothing_else(row, tmp_path):
    (tmp_path / f"a.{row['kind']}").write_bytes(MAKE[row["kind"]](*row["given"]))
    [document] = read_folder(tmp_path)
    assert (row["text"] in str(document.sections)) == row["is shown"]
    assert document.sections


@pytest.mark.parametrize("said", ["utf-8", '"utf-16"', "unicode"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-32"])
def test_mail_is_read_in_its_encoding_whatever_it_says(encoding, said, tmp_path):
    (tmp_path / "a.eml").write_bytes((MAIL % said).encode(encoding))
    [document] = read_folder(tmp_path)
    assert "Ab zehn, Grüße." in str(document.sections)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_value_that_a_sheet_repeats_in_its_first_rows_is_kept(rows, tmp_path):
    grid = [["x"] * 26] * rows + [[*"abcdefghijklmnopqrstuvwxyz"]]
    (tmp_path / "a.xlsx").write_bytes(written(write_xlsx, grid))
    assert str(read_folder(tmp_path)[0].sections).count("x") >= 26
    (tmp_path / "a.xlsx").write_bytes(
        written(write_xlsx, [["Stock", "", ""], ["a", "b", "c"], ["1", "2", "3"]], ["A1:C1"])
    )
    assert "a: 1, b: 2, c: 3" in str(read_folder(tmp_path)[0].sections)


ABOUT = "<h1>Guide</h1><p>" + "Members ask for many things at the desk of the club. " * 3 + "</p>"


@pytest.mark.parametrize(("markup", "texts"), data_of("documents_shown.json"))
def test_a_page_is_read_as_it_is_shown(markup, texts, tmp_path):
    (tmp_path / "a.html").write_text(f"<main>{ABOUT}{markup}</main>", encoding="utf-8")
    [document] = read_folder(tmp_path)
    whole = "\n\n".join(section.text for section in document.sections)
    assert all(text in whole for text in texts)


def test_buttons_and_the_foot_of_a_page_are_left_out(tmp_path):
    foot = "<button>Buy now</button><p><button>Yes</button></p><footer>Imprint of us</footer>"
    (tmp_path / "a.html").write_text(f"<body>{ABOUT}{foot}</body>", encoding="utf-8")
    [document] = read_folder(tmp_path)
    assert not {"Buy", "Yes", "Imprint"} & {*str(document.sections).split()}
