"""Documents become passages with stable ids, and fitting pairs that give nothing away."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import data_of
from uec_rag.documents import fitting_pairs, passages_of, read_folder
from uec_rag.documents.document import Document, Section, cut
from uec_rag.documents.readers import READERS, read_content

BODY = "Bread wants time. " + "Let the dough rest in a cool place until it has doubled. " * 3


def document(*sections, source="a.md"):
    parts = (Section((heading,) if heading else (), *rest) for heading, *rest in sections)
    return Document(source, tuple(parts))


def sentences(n):
    return " ".join(f"Sentence number {i} speaks about matter {i * 7}." for i in range(n))


def documents_of(row):
    """The documents that a row of data describes."""
    return [
        Document(
            one["source"],
            tuple(Section(**s | {"path": tuple(s["path"])}) for s in one["sections"]),
            title=one["title"],
        )
        for one in row["documents"]
    ]


@pytest.mark.parametrize("row", data_of("passages.json"), ids=lambda row: row["says"])
def test_a_passage_begins_with_its_headings_and_knows_where_it_comes_from(row):
    passages = passages_of(documents_of(row))
    assert [[one.id, one.text, one.metadata] for one in passages] == row["passages"]


@pytest.mark.slow
def test_an_id_is_that_of_the_heading_and_stays_if_sections_are_added_above(tmp_path):
    def ids(text):
        (tmp_path / "a.md").write_text(text)
        return [passage.id.partition("#")[2] for passage in passages_of(read_folder(tmp_path))]

    server = "\n## Server\n\nIt runs.\n\n### Who's admin?\n\nYou.\n"
    backup = "\n## Backup\n\nBy tar.\n\n### Who's admin?\n\nNobody.\n"
    old = ["0", "server", "server/whos-admin", "backup", "backup/whos-admin"]
    assert ids(f"# Manual\n\nAll of it.\n{server}{backup}") == old
    new = f"# Manual\n\nAll of it.\n\n## News\n\nA.\n\n## News\n\nB.\n{server}{backup}"
    assert ids(new) == ["0", "news", "news-2", *old[1:]]
    assert ids(f"---\ntitle: Manual\n---\n# Manual\n\nAll.\n{server}{backup}") == old
    assert ids(f"Before.\n{server}\n## ***\n\nStars.\n") == [*old[:3], "1"]


@pytest.mark.parametrize(("sections", "expected"), data_of("documents_passages.json"))
def test_ids_of_a_document_are_distinct_and_readable(sections, expected):
    passages = passages_of([document(*sections)])
    assert [passage.id for passage in passages] == [f"a.md#{one}" for one in expected]


def test_two_documents_of_one_source_and_sizes_too_small_for_a_sentence_are_refused():
    with pytest.raises(ValueError, match=r"got 'a\.md' twice"):
        passages_of([document(("", "x")), document(("", "y"))])
    for make in (passages_of, fitting_pairs):
        with pytest.raises(ValueError, match="size: expected at least 100, got 20"):
            make([document(("", BODY))], size=20)


def test_fitting_pairs_are_questions_made_of_passages_and_no_text_is_in_two():
    many = [document(("", sentences(200))), document(("", sentences(200)), source="b.md")]
    pairs = fitting_pairs(many, size=400)
    assert len(pairs) == len({passage for _, passage in pairs}) == len(dict(pairs))
    assert fitting_pairs(many, size=400, limit=5) == pairs[:5]


@pytest.mark.parametrize(
    ("begins", "ends"),
    [("~~~sh", "~~~"), ("````md\n```", "````"), ("- ```sh", "  ```"), ("> ```", "> ```")],
)
def test_code_begins_and_ends_with_its_fence_in_every_passage(begins, ends):
    before = "> " if begins[0] == ">" else "  "
    lines = [f"{before}rsync -a {n} | tar x" for n in range(30)]
    code = "\n".join([begins, *lines, ends, "", "And more words. " * 20])
    passages = [passage.text for passage in passages_of([document(("", code))], size=100)]
    fence = begins.split("\n")[0]
    for text in passages:
        is_code = "rsync" in text
        assert (text.startswith(f"{fence}\n") and text.split("\n")[-1] == ends) == is_code
    assert sum(text.count("rsync") for text in passages) == 30


def test_a_head_that_would_fill_a_passage_is_not_repeated_in_each():
    code = "\n".join([f"```sh title={'x' * 60}", *["rsync -a"] * 30, "```"])
    passages = passages_of([document(("", code))], size=100)
    assert [text.text.split("\n")[0] for text in passages[1:]] == ["```"] * (len(passages) - 1)


BLOCKS = [
    *("```", "```sh", "~~~", "| a | b |", "|---|---|"),
    *("", "- ```", "> | a | b |", "1. ~~~", "x"),
]


@given(st.lists(st.sampled_from(BLOCKS) | st.text("ab `|-", max_size=60), max_size=40))
def test_blocks_of_markdown_are_completed_only_if_they_are_cut_and_read_as_markdown(lines):
    text = "\n".join(lines)
    cut, whole, plain = (
        [passage.text for passage in passages_of([document(("", text), source=source)], size=size)]
        for source, size in (("b.md", 100), ("b.md", 4000), ("b.txt", 100))
    )
    assert whole == [text.strip()] * len(whole)
    assert all(any(part in said for part in plain) for said in cut)
    assert all(len(part) <= 100 for part in plain)


YEARS = [f"The fee of the year {year} is five euros." for year in range(1990, 2030)]
PARTS = " ".join(YEARS)
TOLD = "Fees of a library. The art of it.\n\n" + "\n\n".join(
    " ".join(YEARS[n : n + 5]) for n in range(0, 40, 5)
)
SECTION = "<section><title>Fees</title>{}</section>".format
IN_TAGS = "".join(f"<{{0}}>{part}</{{0}}>\n" for part in TOLD.split("\n\n")).format
MESSAGE = f"Subject: Fees\nContent-Type: text/plain; charset=utf-8\n\n{TOLD}\n"
API = {"openapi": "3.0.0", "info": {"title": "Fees", "description": PARTS}, "paths": {}}
CALENDAR = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:Fees\r\nDESCRIPTION:{}\r\nEND:VEVENT\r\n"
SPOKEN = "".join(
    f"{n}\n00:00:{n:02}.000 --> 00:00:{n:02}.900\n{year}\n\n" for n, year in enumerate(YEARS)
)
# Of each reader of texts, by a suffix of its files, a text, and whether passages stand in it.
STANDING = {
    ".txt": (TOLD, True),
    ".md": (f"---\ntitle: T\n---\n\n# Fees\n\n{TOLD}\n\n## More\n\n- one\n- two\n\nBye.\n", True),
    ".mdx": (f"import X from 'x'\n\n# Fees\n\n{TOLD}\n\nBye, all.\n", True),
    ".qmd": (f"# Fees\n\n{TOLD}\n\nBye, all.\n", True),
    ".rst": (f"Fees\n====\n\n{TOLD}\n\nMore\n----\n\nBye, all.\n", True),
    ".html": (f"<html><head><title>Start</title></head><body>{IN_TAGS('p')}</body></html>", True),
    ".eml": (MESSAGE, True),
    ".mbox": (f"From a@b.org Thu Jan  1 00:00:00 2026\n{MESSAGE}", True),
    ".vtt": (f"WEBVTT\n\n{SPOKEN}", False),
    ".srt": (SPOKEN.replace(".000", ",000").replace(".900", ",900"), False),
    ".org": (f"* Fees\n{TOLD}\n", True),
    ".tex": (rf"\section{{Fees}}{TOLD}", True),
    ".adoc": (f"= Fees\n\n{TOLD}\n", True),
    ".textile": (f"h1. Fees\n\n{TOLD}\n", True),
    ".typ": (f"= Fees\n\n{TOLD}\n", True),
    ".mediawiki": (f"== Fees ==\n{TOLD}\n", True),
    ".dbk": (f"<article>{SECTION(IN_TAGS('para'))}</article>", True),
    ".fb2": (f"<FictionBook><body>{SECTION(IN_TAGS('p'))}</body></FictionBook>", True),
    ".rtf": (
        rf"{{\rtf1 {IN_TAGS('x').replace('<x>', '').replace('</x>', chr(92) + 'par ')}}}",
        True,
    ),
    ".1": (f".TH fees 1\n.SH Fees\n{TOLD}\n", True),
    ".opml": (f'<opml><body><outline text="{PARTS}"/></body></opml>', True),
    ".csv": ("Year,Fee\n" + "".join(f"{n},five euros\n" for n in range(40)), False),
    ".tsv": ("Year\tFee\n" + "".join(f"{n}\tfive euros\n" for n in range(40)), False),
    ".jsonl": ("".join(f'{{"year": {n}, "fee": 5}}\n' for n in range(40)), False),
    ".ipynb": (json.dumps({"cells": [{"cell_type": "markdown", "source": [PARTS]}]}), True),
    ".json": (json.dumps(API), True),
    ".ics": (f"{CALENDAR.format(PARTS)}END:VCALENDAR\r\n", True),
}
# Readers of what is no text.
BINARY = {
    *("pdf:read_pdf", "word:read_docx", "slides:read_pptx", "workbook:read_xlsx"),
    *("html:read_epub", "pandoc:read_markup:odt"),
}


def test_each_reader_of_texts_is_asked_where_passages_stand():
    readers = {name for name in READERS.values() if not name.startswith("office:")}
    assert readers - {READERS[suffix] for suffix in STANDING} == BINARY


@pytest.mark.parametrize("suffix", STANDING)
def test_the_text_at_the_place_of_a_passage_is_its_own(suffix):
    source, has_places = STANDING[suffix]
    title, sections = cut(read_content(f"a{suffix}", source.encode()))
    passages = passages_of([Document(f"a{suffix}", sections, title=title)], size=300)
    text = source.replace("\r\n", "\n")
    starts = [one.metadata["start_index"] for one in passages if "start_index" in one.metadata]
    assert len({*starts}) == len(starts)
    assert starts == sorted(starts)
    assert (len(starts) > 2) == has_places
    assert len(passages) > 2
    for passage in passages:
        if (start := passage.metadata.get("start_index")) is not None:
            lines = [0, *(mark.end() for mark in re.finditer("\n", passage.text))]
            assert any(text.startswith(passage.text[line:], start) for line in lines)


def test_a_place_is_not_that_of_letters_within_another_word():
    document = Document("a.txt", cut(read_content("a.txt", b"The start of it.\n\nart"))[1])
    assert passages_of([document])[0].metadata["start_index"] == 0
    html = b"<p>A start.</p><h2>Fees</h2><p>art</p>"
    document = Document("a.html", cut(read_content("a.html", html))[1])
    assert passages_of([document])[1].metadata["start_index"] == html.index(b"art</p>")
