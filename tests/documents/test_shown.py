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


@pytest.mark.parametrize(
    ("markup", "texts"),
    [
        (
            "<table role='none presentation'><tr><th>Parcel 83</th><th>On its way</th></tr><tr><td>"
            "Parcel 84</td><td>Returned</td></tr></table>",
            ["Parcel 83\n\nOn its way\n\nParcel 84\n\nReturned"],
        ),
        (
            "<table role='none'><tr><td>Parcel 81</td><td>Sent on Monday</td></tr><tr><td>Parcel 82"
            "</td><td>Not paid</td></tr></table>",
            ["Parcel 81\n\nSent on Monday\n\nParcel 82\n\nNot paid"],
        ),
        (
            "<p>Pets: <input type='radio'> allowed <input type='radio' checked> refused</p>",
            ["Pets: ☐ allowed ☒ refused"],
        ),
        ("<div role='checkbox' aria-checked='false'>Send a receipt</div>", ["☐ Send a receipt"]),
        ("<span role='radio' aria-checked='true'>By post</span>", ["☒ By post"]),
        ("<button role='switch' aria-checked='true'>Night light</button>", ["☒ Night light"]),
        ("<ul><li role='menuitemradio' aria-checked='false'>Tea</li></ul>", ["☐ Tea"]),
        (
            "<table class='rouge-table'><tr><td class='rouge-gutter gl'><pre class='lineno'>1\n2"
            "</pre></td><td><pre>make one\n  make two</pre></td></tr></table>",
            ["```\nmake one\n  make two\n```"],
        ),
        (
            "<pre><span class='lineno'>9 </span>make one\n<span class='lineno'>10 </span>make two"
            "</pre>",
            ["```\nmake one\nmake two\n```"],
        ),
        (
            "<table><tr><td class='hljs-ln-numbers'>1</td><td>if on:</td></tr>"
            "<tr><td class='hljs-ln-numbers'>2</td><td>    stop()</td></tr></table>",
            ["```\nif on:\n    stop()\n```"],
        ),
        (
            "<div class='card'><p>Pupils</p><div class='panel-footer'>4 euros a term</div></div>"
            "<blockquote>It is fine.<footer>the mayor</footer></blockquote>",
            ["4 euros a term", "It is fine.", "the mayor"],
        ),
        (
            "<button aria-controls='a7'>Is there a locker?</button><div id=a7>In the cellar.</div>",
            ["Is there a locker?\n\nIn the cellar."],
        ),
        ("<p>Press <button>Renew</button> to keep it for a week.</p>", ["Press Renew to keep it"]),
        ("<dl><dt><button>May I swap?</button></dt><dd>Once.</dd></dl>", ["May I swap?", "Once."]),
        (
            "<details><summary><button>Size</button></summary>Six litres.</details>",
            ["Size", "Six litres."],
        ),
    ],
)
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
