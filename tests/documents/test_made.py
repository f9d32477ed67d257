"""Files as tools write them: tests/data/made/make.py tells which."""

import shutil
import warnings

import pytest

from tests.documents.files import read, unzipped, zipped
from tests.helpers import DATA, data_of
from uec_rag.documents import passages_of, read_folder
from uec_rag.documents.readers import read_content

MADE = DATA / "made"
OF_PANDOC = sorted(path.name for path in MADE.glob("rules.*"))
UNTITLED = ("rules.rtf", "rules.mediawiki", "rules.textile")  # which have no place for a title


def read_made(folder, name):
    shutil.copy(MADE / name, folder)
    [document] = read_folder(folder)
    return document


@pytest.fixture(scope="module")
def made():
    """What one process reads of all files, by their names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "left out of", UserWarning)
        return {document.source: document for document in read_folder(MADE)}


@pytest.mark.parametrize("row", data_of("made.json"), ids=lambda row: row["name"])
def test_a_file_is_read_as_its_tool_shows_it(made, row):
    document = made[row["name"]]
    sections = {": ".join(section.path): section.text for section in document.sections}
    assert (document.title, document.left_out) == (row["title"], row["left_out"])
    assert [*sections] == [*row["sections"]]
    for heading, (shown, hidden) in row["sections"].items():
        assert [text for text in shown if text not in sections[heading]] == []
        assert [text for text in hidden if text in sections[heading]] == []


@pytest.mark.parametrize("name", OF_PANDOC)
def test_what_pandoc_converts_keeps_its_headings_its_table_and_its_title(made, name):
    document = made[name]
    below = {section.path: section.text for section in document.sections if section.path}
    assert [*below][:3] == [("Fees",), ("Fees", "Children"), ("Hours",)]
    assert below["Fees",].startswith("Late books cost *five* euros a week.")
    if name != "rules.fb2":  # which has no tables
        assert "Plan: Amber, Price: 12\nPlan: Birch, Price: 20" in below["Fees", "Children"]
    assert document.title == ("" if name in UNTITLED else "Library rules")


@pytest.mark.parametrize(("name", "source", "text"), data_of("of_pandoc.json"))
def test_what_pandoc_would_drop_or_double_is_read_once(name, source, text):
    assert [one.text for one in read(name, source)[1]] == [text]


def test_formulas_stay_tex_and_what_is_lost_of_them_is_told(tmp_path):
    assert r"The area is \(a^2\)." in read_made(tmp_path, "rules.tex").sections[-1].text
    with pytest.warns(UserWarning, match=r"left out of rules\.odt: 1 equation"):
        read_folder(MADE, include=["*.odt"])


def test_a_passage_of_a_mailbox_names_its_message(tmp_path):
    with pytest.warns(UserWarning, match=r"left out of python\.mbox: 1 attachment"):
        passages = passages_of([read_made(tmp_path, "python.mbox")])
    assert [passage.metadata["title"] for passage in passages] == ["Fees", "Hours"]


@pytest.mark.parametrize(
    ("limit", "value", "said"),
    [("_SECONDS", 1e-9, "longer than 1e-09 seconds"), ("_MEMORY", "4m", "pandoc: .*[Hh]eap")],
)
def test_pandoc_has_a_limit_of_time_and_of_memory(monkeypatch, limit, value, said):
    monkeypatch.setattr(f"uec_rag.documents.pandoc.{limit}", value)
    with pytest.raises(ValueError, match=said):
        read_content("a.org", b"* Fees\n\nBooks cost /five/ euros.\n\n" * 10_000)


@pytest.mark.parametrize(("name", "source"), data_of("documents_made.json"))
def test_no_other_file_is_opened_and_that_is_told(tmp_path, monkeypatch, name, source):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    for folder in (tmp_path, tmp_path / "docs"):
        (folder / "secret.txt").write_text("the secret")
    (tmp_path / "docs" / name).write_text(source)
    with pytest.warns(UserWarning, match=f"left out of {name}: 1 included file"):
        [document] = read_folder("docs", include=["a.*"])
    assert [section.text for section in document.sections] == ["Five euros."]


@pytest.mark.parametrize(
    ("name", "source", "texts"),
    [(row["name"], row["source"], row["texts"]) for row in data_of("dialects.json")],
)
def test_columns_are_parted_as_the_table_parts_them(name, source, texts):
    page = read_content(name, source.encode()).pages[0]
    assert [line for block in page.blocks for line in block.text().split("\n")] == texts


MAIN = "application/vnd.openxmlformats-officedocument.%s.main+xml"
WITH_MACROS = {
    "a.docm": ("pandoc.docx", MAIN % "wordprocessingml.document", "vnd.ms-word.document"),
    "a.xlsm": ("polars.xlsx", MAIN % "spreadsheetml.sheet", "vnd.ms-excel.sheet"),
}


@pytest.mark.parametrize(("name", "made"), WITH_MACROS.items())
def test_a_file_with_macros_is_read_as_one_without(name, made):
    other, kind, of_macros = made
    kinds = f"application/{of_macros}.macroEnabled.main+xml".encode()
    without = (MADE / other).read_bytes()
    parts = {n: part.replace(kind.encode(), kinds) for n, part in unzipped(without).items()}
    assert read_content(name, zipped(parts)) == read_content(other, without)


@pytest.mark.parametrize("name", ["a.qmd", "a.rmd"])
def test_code_of_quarto_is_code_and_divisions_are_no_text(name):
    source = (
        "---\ntitle: Fees\n---\n\n## Late\n\n```{r, echo=FALSE}\nx <- 1\n```\n\n"
        "::: {.callout-note}\nFive euros.\n:::\n"
    )
    title, [section] = read(name, source)
    assert (title, section.path) == ("Fees", ("Late",))
    assert section.text == "```r\nx <- 1\n```\n\nFive euros."


def test_subtitles_are_cut_into_sections_that_tell_when_and_who(tmp_path):
    cues = (
        f"00:{n // 60:02}:{n % 60:02}.000 --> 00:{n // 60:02}:{n % 60:02}.900\n"
        f"<v {'Ada' if n % 2 else 'Bo'}>Sentence <i>number</i> {n} &amp; more.</v>\n"
        for n in range(90)
    )
    (tmp_path / "talk.vtt").write_text("WEBVTT\n\nNOTE draft\n\n" + "\n".join(cues))
    [document] = read_folder(tmp_path)
    headings = [section.heading for section in document.sections]
    assert headings[0].startswith("00:00:00 to 00:00:")
    assert headings[-1].endswith(" to 00:01:29")
    lines = [line for section in document.sections for line in section.text.split("\n")]
    assert lines[:2] == ["Bo: Sentence number 0 & more.", "Ada: Sentence number 1 & more."]
    assert len(lines) == 90


def test_a_line_that_stays_on_the_screen_is_said_once(tmp_path):
    cues = ["The fee\nis five", "is five\neuros a week.", "euros a week.\nBO: For all?"]
    text = (f"{n}\n00:00:0{n},000 --> 00:00:0{n},900\n{cue}\n" for n, cue in enumerate(cues, 1))
    (tmp_path / "talk.srt").write_text("\n".join(text))
    [document] = read_folder(tmp_path)
    assert document.sections[0].text == "The fee is five euros a week.\nBO: For all?"


def test_references_of_an_interface_that_lead_in_circles_or_nowhere_end():
    source = """{"swagger": "2.0", "info": {"title": "Shop"}, "host": "a.org", "paths":
    {"/a": {"get": {"parameters": [{"$ref": "#/parameters/a"}, {"in": "body", "name": "b", "schema":
    {"$ref": "#/definitions/Node"}}], "responses": {"200": {"$ref": "b.json#/a"}}}}},
    "parameters": {"a": {"$ref": "#/parameters/a"}},
    "definitions": {"Node": {"properties": {"next": {"$ref": "#/definitions/Node"}}}}}"""
    content = read_content("a.json", source.encode())
    text = "\n".join(b if isinstance(b, str) else b.text for b in content.pages[0].blocks[:3])
    assert "Server: a.org" in text
    assert content.left_out == {"reference to another file": 1}


@pytest.mark.parametrize(
    "source",
    [
        "openapi: 3.1.0\na: &a [1]\nb: *a\n",
        "openapi: 3.1.0\na: " + "[" * 200,
        "a: {openapi: 3.0}\n",
    ],
)
def test_yaml_with_aliases_too_deep_or_of_another_kind_is_refused(source):
    with pytest.raises(ValueError, match=r"aliases|nests too deep|does not describe"):
        read_content("a.yaml", source.encode())
