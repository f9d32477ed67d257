"""A folder of files becomes documents; what cannot be read is named and left out."""

import hashlib
import os
import re
import sys
import tempfile
import unicodedata
import warnings
from pathlib import Path

import pytest
from openpyxl import Workbook

from tests.documents.files import read, write_pdf
from tests.helpers import data_of, refused, rows_of
from uec_rag.documents import read_folder
from uec_rag.documents.document import Section
from uec_rag.documents.folder import list_files

PROSE = "Bread wants time. Let the dough rest until it has doubled."


def write(folder, *names, text=PROSE):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def sections_of(folder, source):
    return next(document for document in read_folder(folder) if document.source == source).sections


def test_documents_come_in_the_order_of_their_paths_and_hidden_ones_and_indexes_never(tmp_path):
    names = ("b/two.txt", "a.TXT", "c.md", ".git/notes.txt", ".hidden.md", "x.py", "idx/vocab.txt")
    write(tmp_path, *names)
    (tmp_path / "idx" / "index.db").write_bytes(bytes(68) + b"UECR")
    with pytest.warns(UserWarning, match="left out idx, which is an index or an ensemble") as told:
        sources = [document.source for document in read_folder(tmp_path)]
    assert sources == ["a.TXT", "b/two.txt", "c.md"]
    assert len(told) == 2
    assert str(told[1].message) == "left out 1 file of kinds that are not read: 1 .py"


@pytest.mark.parametrize(("options", "sources"), data_of("patterns.json"))
def test_patterns_select_files_and_changelogs_and_licences_are_left_out(tmp_path, options, sources):
    names = ["a.md", "de/a.md", "de/b.txt", "Changelog.md", "de/LICENCE.txt", "licensing.md"]
    write(tmp_path, *names, "Licences and prices/c.md")
    with warnings.catch_warnings(record=True, action="always") as told:
        found = read_folder(tmp_path, **options)
        assert sorted(list_files(tmp_path, **options).hashes()) == sources
    assert [document.source for document in found] == sources
    if not options:
        assert "left out 2 files (Changelog.md, de/LICENCE.txt), as changelogs and" in str(
            told[0].message
        )
        assert "include=['*'] (--include '*') reads them" in str(told[0].message)


def test_groups_of_files_are_all_files_of_which_earlier_ones_are_not_kept(tmp_path):
    names = [f"{number:02}.txt" for number in range(20)]
    write(tmp_path, *names, "empty.txt", text=PROSE * 10)
    write(tmp_path, "empty.txt", text="  ")
    folder, groups = list_files(tmp_path), list[list[str]]()
    for group in folder.groups(most=4 * len(PROSE * 10)):
        texts = [section.text for document in folder.documents for section in document.sections]
        assert sum(map(bool, texts)) <= len(group) <= 5
        assert all(document.sections for document in group if document.source != "empty.txt")
        groups.append([document.source for document in group])
    assert [source for group in groups for source in group] == [*names, "empty.txt"]
    assert len(groups) > 3
    with pytest.warns(UserWarning, match="left out empty.txt, without a text"):
        folder.tell_left_out()


def test_what_sphinx_puts_beside_its_html_is_left_out_and_counted_once(tmp_path):
    elsewhere, site = tmp_path / "share", tmp_path / "site"
    pages = ("index.html", "3.11.html", "howto/b/index.html")
    write(site, *pages, text=f"<p>{PROSE}</p>")
    write(site / "_sources", "index.rst.txt", "3.11.rst.txt", "howto/b.md.txt", "alone.rst.txt")
    (site / "_static").mkdir()
    for name in ("jquery.js", "font.woff2", "style.css"):
        write(elsewhere, name)
        (site / "_static" / name).symlink_to(elsewhere / name)
    with pytest.warns(UserWarning, match="left out 3 files .* as their HTML") as told:
        found = list_files(site)
    assert found.sources == ["3.11.html", "_sources/alone.rst.txt", "howto/b/index.html", pages[0]]
    assert (found.unreadable, found.other.total()) == ({}, 3)
    assert len(told) == 1
    assert len(list_files(site, include=["*"]).sources) == 7


@pytest.mark.parametrize(
    "row", data_of("sections.json"), ids=lambda row: f"{row['says']}, {row['name']}"
)
def test_a_source_is_cut_at_its_headings_into_what_a_reader_would_see(row):
    title, sections = read(row["name"], row["source"])
    assert title == row["title"]
    assert [[[*s.path], s.text] for s in sections] == row["sections"]


@pytest.mark.parametrize("row", rows_of("titles.csv"), ids=lambda row: row["text"][:40])
def test_a_document_has_the_title_that_its_format_marks_as_such(row):
    assert read(row["name"], row["text"])[0] == row["title"]


@pytest.mark.parametrize("row", rows_of("markup.csv"), ids=lambda row: row["source"][:40])
def test_no_text_of_markdown_and_restructuredtext_is_lost_and_headings_have_no_markup(row):
    title, [section] = read(row["name"], row["source"])
    assert (section.heading or title) == row["heading"]
    assert " ".join(section.text.split()) == row["shown"]


BODY = "<h1>Dough</h1><p>It rests.</p><pre>knead()</pre>"


@pytest.mark.parametrize(
    "row", rows_of("pages_of_generators.csv"), ids=lambda row: row["generator"]
)
def test_of_a_generators_page_the_content_is_read_and_nothing_that_leads_elsewhere(row):
    page = f"<title>A title</title><body>{row['page'].format(BODY)}</body>"
    title, sections = read("a.html", page)
    assert title == "Dough"
    assert [part.text for part in sections] == ["It rests.\n\n```\nknead()\n```"]


def test_a_pdf_with_an_outline_is_cut_at_its_headings_which_go_on_over_the_pages(tmp_path):
    pages = [["Foreword."], ["The end of it.", "1.2 The dough", "It rests."], ["And rests."]]
    write_pdf(tmp_path / "a.pdf", pages, outline=[("The dough", 1), ("Not there", 2)])
    assert sections_of(tmp_path, "a.pdf") == (
        Section((), "Foreword.", page=1),
        Section((), "The end of it.", page=2),
        Section(("The dough",), "It rests.", page=2),
        Section(("The dough",), "And rests.", page=3),
    )


@pytest.mark.parametrize(
    ("name", "make", "reason"),
    [
        ("bad.txt", lambda path: path.write_bytes(b"\x00\x01\x02"), "not a text file"),
        ("bad.txt", lambda path: path.write_bytes(b"\xff\xfeplain"), "begins as UTF-16 does"),
        ("bad.pdf", lambda path: path.write_bytes(b"no pdf at all"), "cannot be read"),
        ("bad.pdf", lambda path: write_pdf(path, [["a"]], password="x"), "cannot be read"),
        ("bad.pdf", lambda path: write_pdf(path, [[""]]), "is it a scan"),
        ("bad.md", lambda path: path.write_text(" \n\n"), "without a text"),
        *(
            (f"bad.{kind}", lambda path: path.write_bytes(b"no such thing"), "cannot be read")
            for kind in ("docx", "pptx", "xlsx")
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_the_others_are_read(tmp_path, name, make, reason):
    (tmp_path / "good.txt").write_text(PROSE)
    make(tmp_path / name)
    with pytest.warns(UserWarning, match=f"left out {name}.*{reason}"):
        documents = read_folder(tmp_path)
    assert [document.source for document in documents] == ["good.txt"]


def test_files_of_nothing_but_a_front_matter_are_said_in_one_line(tmp_path, recwarn):
    write(tmp_path, "good.txt")
    write(tmp_path, *(f"{number}.md" for number in range(9)), text="---\ntitle: Fees\n---\n")
    read_folder(tmp_path)
    [said] = [str(one.message) for one in recwarn]
    assert re.fullmatch(r"left out 9 files \(0\.md, .*, \.\.\.\), without a text to index", said)


@pytest.mark.slow
def test_a_file_that_takes_too_long_or_crashes_is_named_and_the_others_are_read(tmp_path):
    (tmp_path / "a.html").write_text("<p>" + "<b>x</b>" * 400_000)
    (tmp_path / "b.txt").write_text(PROSE)
    with pytest.warns(UserWarning, match=r"left out a\.html.*longer than 4 seconds"):
        documents = list_files(tmp_path).read(seconds=4).documents
    assert [document.source for document in documents] == ["b.txt"]


SPANS = "<td rowspan=65000 colspan=1000>x" * 1000
PARTS = "".join(f"Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n" for n in range(3000))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "ends"),
    [
        ("a.html", "<ul><li>word " * 20_000 + "end", "end"),
        ("a.html", "<ul>" + "<li>word and " * 4000 + "end", "end"),
        ("a.html", "<div>" * 8000 + "end" + "</div>" * 8000, "end"),
        ("a.html", "<p><b><i>" * 4000 + "end", "end"),
        ("a.html", f"<table><tr>{SPANS}</table>" + "<p>end", "end"),
        ("a.html", "<p>" + "a<sup>2</sup> " * 20_000 + "end", "end"),
        ("a.md", "---\na: " + "[" * 15_000 + "\n---\nend", "end"),
        ("a.md", "- " * 20_000 + "end", "end"),
        ("a.rst", ":a" * 40_000 + "\n\nend", "end"),
        ("a.rst", f"{'rest ' * 4000}\n\nend", "end"),
        ("a.rst", "".join(" " * n + f"- {n}\n\n" for n in range(1500)), "recursion"),
        ("a.eml", PARTS, "more than 200 parts"),
        ("a.csv", "name\n" + "\nx\n" * 60_000 + "\nend", "end"),
    ],
)
def test_a_file_that_nests_or_spans_too_much_is_read_or_refused_soon(tmp_path, name, text, ends):
    (tmp_path / name).write_text(text)
    with warnings.catch_warnings(action="ignore"):
        found = list_files(tmp_path).read(seconds=20)
    said = [*found.unreadable.values(), *(one.sections[-1].text for one in found.documents)]
    assert ends in said[0][-60:]


def test_pipes_and_links_are_named_and_not_opened(tmp_path):
    root, secret = tmp_path / "root", tmp_path / "secret"
    write(secret, "secret.txt", text="the secret")
    write(root, "a.txt")
    os.mkfifo(root / "pipe.txt")
    (root / "link.txt").symlink_to(secret / "secret.txt")
    (root / "folder").symlink_to(secret)
    (root / "loop").symlink_to(root)
    (root / "nowhere.md").symlink_to("nowhere")
    (root / "outside.md").symlink_to("../secret/secret.txt")
    with pytest.warns(UserWarning, match="left out") as warned:
        documents = read_folder(root)
    assert [document.source for document in documents] == ["a.txt"]
    names = ("folder", "link.txt", "loop", "nowhere.md", "outside.md")
    links = [f"left out {name}, which is a link" for name in names]
    pipe = "left out pipe.txt, which is no regular file but a pipe"
    assert sorted(str(warning.message) for warning in warned) == [*links, pipe]


def linked(root):
    "As Kubernetes mounts a ConfigMap, with a folder of it."
    write(root / "..2026_01", "fees.md", "more/times.md")
    (root / "..data").symlink_to("..2026_01")
    (root / "fees.md").symlink_to("..data/fees.md")
    (root / "more").symlink_to("..data/more")


def doubled(root):
    "Links beside the files that they lead to, to each other, and around in a circle."
    write(root, "new/fees.md")
    (root / "new" / "back").symlink_to(root / "new")
    (root / "a.md").symlink_to("new/fees.md")
    (root / "b.md").symlink_to("a.md")
    (root / "all").symlink_to("new")


@pytest.mark.parametrize(
    ("make", "sources"), [(linked, ["fees.md", "more/times.md"]), (doubled, ["new/fees.md"])]
)
def test_links_that_stay_within_the_folder_are_read_each_file_once(tmp_path, make, sources):
    make(tmp_path)
    with warnings.catch_warnings(action="error"):
        found = list_files(tmp_path)
        assert [document.source for document in found.read().documents] == sources
        assert [*found.hashes()] == sources


def test_a_bad_line_of_a_table_of_json_costs_only_itself(tmp_path):
    lines = ['{"fee": "twelve"}', '{"fee": "twen', "", '{"fee": "thirty"}', "no", '{"fee": "40"}']
    (tmp_path / "fees.jsonl").write_text("\n".join(lines))
    said = r"left out of fees\.jsonl: 2 lines not in JSON \(2, 5\)"
    with pytest.warns(UserWarning, match=said):
        text = sections_of(tmp_path, "fees.jsonl")[0].text
    assert all(fee in text for fee in ("twelve", "thirty", "40"))
    assert "twen" not in text.replace("twelve", "")


def test_control_characters_in_a_name_are_shown(tmp_path):
    (tmp_path / "good.txt").write_text(PROSE)
    (tmp_path / "evil\x1b[2J.txt").write_text(" ")
    with pytest.warns(UserWarning, match=re.escape(r"left out evil\x1b[2J.txt, without a")):
        read_folder(tmp_path)


@pytest.mark.filterwarnings("ignore:left out")
@pytest.mark.parametrize(("given", "error", "said"), refused("read_folder"))
def test_what_is_no_folder_of_readable_files_is_refused(tmp_path, given, error, said):
    write(tmp_path, "programs/a.py")
    write(tmp_path, "blank/a.txt", text=" ")
    with pytest.raises(error, match=said):
        read_folder(**given | {"folder": tmp_path / given["folder"]})


@pytest.mark.parametrize(
    ("name", "library"), [("a.pdf", "pypdfium2"), ("a.html", "bs4"), ("a.rst", "docutils")]
)
def test_a_missing_library_is_named_with_the_command_that_brings_it(
    tmp_path, monkeypatch, name, library
):
    (tmp_path / f"{library}.py").write_text(f"raise ModuleNotFoundError(name={library!r})")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / name).write_text(PROSE)
    with pytest.raises(ImportError, match=rf'{library}; .* "uec-rag\[documents\]"'):
        read_folder(tmp_path)


def test_kinds_that_are_not_read_are_told_with_the_extra_that_reads_them(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text(PROSE)
    write(tmp_path, "a.msg", "b.odt", "data.json", "ci.yml", "app.log.1", "feed.xml", text="{}")
    (tmp_path / "fees.1").write_text(".TH FEES 1\n.SH NAME\nfees\n")
    monkeypatch.setitem(sys.modules, "pypandoc", None)  # as if it were not installed
    with pytest.warns(UserWarning, match="left out") as told:
        read_folder(tmp_path)
    [said] = [str(one.message) for one in told]
    assert said.startswith("left out 7 files of kinds that are not read: ")
    assert {"2 .1", "1 .msg", "1 .odt", "1 .json"} <= {
        *said.partition(": ")[2].partition(";")[0].split(", ")
    }
    assert said.endswith('; pip install "uec-rag[formats]" reads 2 of them')
    (tmp_path / "a.txt").unlink()
    with pytest.raises(ValueError, match=r'no readable files.*"uec-rag\[formats\]" reads 2'):
        read_folder(tmp_path)


def test_many_files_of_which_parts_are_left_out_are_told_together(tmp_path):
    for number in range(23):
        (tmp_path / f"{number:02}.jsonl").write_text(f'{{"fee": {number}}}\nno\n')
    with pytest.warns(UserWarning, match="left out") as told:
        documents = read_folder(tmp_path)
    assert {tuple(one.left_out.items()) for one in documents} == {(("line not in JSON (2)", 1),)}
    assert len(told) == 21
    assert str(told[-1].message) == ("left out parts of 3 other files, too, see Document.left_out")


def replace_by_link(root, secret):
    (root / "a.txt").unlink()
    (root / "a.txt").symlink_to(secret / "a.txt")


def replace_folder_by_link(root, secret):
    (root / "inner" / "a.txt").unlink()
    (root / "inner").rmdir()
    (root / "inner").symlink_to(secret)


def replace_by_pipe(root, secret):
    (root / "a.txt").unlink()
    os.mkfifo(root / "a.txt")


@pytest.mark.parametrize(
    ("change", "name", "said"),
    [
        (replace_by_link, "a.txt", "cannot be read: it is outside the folder"),
        (replace_folder_by_link, "inner/a.txt", "cannot be read: it is outside the folder"),
        (replace_by_pipe, "a.txt", "is no regular file but a pipe"),
    ],
)
def test_what_takes_a_files_place_after_the_listing_is_not_opened(tmp_path, change, name, said):
    root, secret = tmp_path / "root", tmp_path / "secret"
    write(secret, "a.txt", text="the secret")
    write(root, "a.txt", "b.txt", "inner/a.txt")
    found = list_files(root)
    change(root, secret)
    with pytest.warns(UserWarning, match=f"left out {name}, which {said}"):
        found.read()
    assert {part.text for document in found.documents for part in document.sections} == {PROSE}
    with pytest.warns(UserWarning, match=f"left out {name}, which {said}"):
        assert [*found.hashes()] == [one.source for one in found.documents]
    assert found.unreadable == {name: said}


def test_the_hash_of_a_document_is_that_of_the_content_it_was_read_from(tmp_path):
    (tmp_path / "a.txt").write_text(PROSE)
    [document] = read_folder(tmp_path)
    assert document.sha256 == hashlib.sha256(PROSE.encode()).hexdigest()
    assert list_files(tmp_path).hashes() == {"a.txt": document.sha256}


@pytest.fixture
def folder_of_a_user():
    """A folder of a user whom permissions bind; root, whom they do not, becomes such a one."""
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid() == 0:
            os.chown(folder, 65534, 65534)
            os.seteuid(65534)
        try:
            yield Path(folder)
        finally:
            os.seteuid(os.getuid())


def test_a_folder_that_may_not_be_entered_is_named_and_the_others_are_hashed(folder_of_a_user):
    root = folder_of_a_user
    write(root, "a.txt", "locked/b.txt", "locked/inner/c.txt")
    (root / "locked").chmod(0o644)
    with pytest.warns(UserWarning, match="left out locked"):
        hashes = (found := list_files(root)).hashes()
    assert [*hashes] == ["a.txt"]
    assert found.unreadable == dict.fromkeys(
        ["locked/b.txt", "locked/inner"], "cannot be read: Permission denied"
    )


@pytest.mark.slow
def test_a_file_with_more_text_than_is_allowed_is_named_and_the_others_are_read(tmp_path):
    book = Workbook(write_only=True)
    sheet = book.create_sheet("Stock")
    for _ in range(23_000):
        sheet.append(["x" * 450])
    book.save(tmp_path / "a.xlsx")  # some kilobytes
    (tmp_path / "b.txt").write_text(PROSE)
    said = r"left out a\.xlsx.*holds [\d,]+ characters of text, more than 10,000,000"
    with pytest.warns(UserWarning, match=said):
        documents = list_files(tmp_path).read().documents
    assert [document.source for document in documents] == ["b.txt"]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_patterns_find_names_with_their_accents_joined_or_apart(tmp_path, form):
    for name in ("Geb\u00fchren", "Caf\u00e9", "Zeiten"):
        (tmp_path / f"{unicodedata.normalize(form, name)}.md").write_text("Five euros.")
    for pattern in ("NFC", "NFD"):
        names = [unicodedata.normalize(pattern, name) for name in ("Geb\u00fchren.md", "Caf*")]
        assert list_files(tmp_path, exclude=names).sources == ["Zeiten.md"]
        assert len(list_files(tmp_path, include=names).sources) == 2
