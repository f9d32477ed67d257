"""Documents become passages with stable ids, and fitting pairs that give nothing away."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import data_of
from uec_rag.documents import fitting_pairs, passages_of, read_folder
from uec_rag.documents.document import Document, Section

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


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ([("Step", "x"), ("Step 2", "x"), ("Step", "x")], ["step", "step-2", "step-3"]),
        ([("", "x", 3), ("", "x", 3), ("", "x", 4)], ["page-3", "page-3-2", "page-4"]),
        ([("Größe & Preis", "x"), ("数量", "x")], ["größe-preis", "数量"]),
        ([("हिन्दी", "x"), ("हिन्दू", "x")], ["हिन्दी", "हिन्दू"]),
    ],
)
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


PARTS = " ".join(f"The fee of the year {year} is five euros." for year in range(1990, 2040))
STANDING = {
    "a.txt": f"Hello.\r\n\r\n{PARTS}\r\n\r\nBye, all.",
    "a.md": f"---\ntitle: T\n---\n\n# Fees\n\n{PARTS}\n\n## More\n\n- one\n- two\n\nBye, all.\n",
    "a.mdx": f"import X from 'x'\n\n# Fees\n\n{PARTS}\n\nBye, all.\n",
    "a.qmd": f"# Fees\n\n{PARTS}\n\nBye, all.\n",
    "a.rst": f"Fees\n====\n\n{PARTS}\n\nMore\n----\n\nBye, all.\n",
    "a.srt": f"1\n00:00:01,000 --> 00:00:02,000\n{PARTS}\n\n"
    "2\n00:00:03,000 --> 00:00:04,000\nBye, all.\n",
}


@pytest.mark.parametrize("name", STANDING)
def test_passages_of_text_say_where_they_begin(tmp_path, name):
    (tmp_path / name).write_bytes(STANDING[name].encode())
    passages = passages_of(read_folder(tmp_path), size=300)
    text = STANDING[name].replace("\r\n", "\n")
    for passage in passages:
        start = passage.metadata["start_index"]
        own = passage.text.rpartition("\n\n")[2]
        assert own in text[start : start + len(passage.text)]
        assert text[start : start + 5] in passage.text
    assert len({passage.metadata["start_index"] for passage in passages}) == len(passages) > 2


@pytest.mark.parametrize(
    ("name", "text"), [("a.csv", "Item,Price\nDesk,5\n"), ("b.html", "<p>Five.</p>")]
)
def test_passages_whose_text_is_not_in_the_file_as_it_is_do_not(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    [passage] = passages_of(read_folder(tmp_path))
    assert "start_index" not in passage.metadata
