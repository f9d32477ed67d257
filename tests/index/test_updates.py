"""Files in place of what an index knows of them."""

import pytest

from tests.helpers import bag_of_words
from uec_rag import UEC, Retriever
from uec_rag.documents.document import Document, Section
from uec_rag.index.updates import changes_since, replace_files


def document(source, *texts):
    return Document(
        source, tuple(Section((f"Part {i}",), text) for i, text in enumerate(texts)), "ab"
    )


@pytest.fixture
def retriever():
    made = Retriever(UEC([bag_of_words(16, "words")]))
    replace_files(made, [document("a.md", "one", "two", "three"), document("b.md", "four")])
    return made


def test_a_file_takes_the_place_of_what_was_known_of_it(retriever):
    assert replace_files(retriever, [document("a.md", "five"), document("c.md", "six")]) == 2
    assert sorted(p.text.split()[-1] for p in retriever.passages()) == ["five", "four", "six"]
    [passage] = retriever.passages({"source": "a.md"})
    assert (passage.metadata["file_sha256"], passage.metadata["file_passages"]) == ("ab", 1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["one", "two", "three"], ["new", "one", "two", "three"]),
        (["one", "two", "three"], ["three", "one"]),
        (["one", "two", "three"], ["one", "changed", "three"]),
        (["one", "one", "two"], ["one", "two", "new", "newer", "newest"]),
    ],
)
@pytest.mark.parametrize("headings", [(), ("Step",), ("Version 2",), ("Fees",)])
def test_an_id_names_one_text_whatever_becomes_of_the_file(before, after, headings):
    made = Retriever(UEC([bag_of_words(16, "words")]))
    own = {}
    for texts in (before, after, [*after, "last"]):
        sections = tuple(Section(headings, text) for text in texts)
        replace_files(made, [Document("a.md", sections, "ab"), document("b.md", "one")])
        for passage in made.passages():
            assert own.setdefault(passage.id, passage.text) == passage.text
        ended = [p.text.split()[-1] for p in made.passages({"source": "a.md"})]
        assert sorted(ended) == sorted(texts)


def test_a_text_that_stays_keeps_its_id_and_a_new_heading_is_an_id(retriever):
    made = [Section((f"Part {i}",), text) for i, text in enumerate(("one", "two", "changed"))]
    again = Document("a.md", (Section(("News",), "new"), *reversed(made)), "cd")
    replace_files(retriever, [again])
    ids = {passage.text.split()[-1]: passage.id for passage in retriever.passages()}
    assert (ids["one"], ids["two"], ids["new"]) == ("a.md#part-0", "a.md#part-1", "a.md#news")
    assert ids["changed"].startswith("a.md#part-2-")


@pytest.mark.parametrize("source", [None, "a.md", ["a.md"], {"file": "a.md"}, 3])
def test_only_files_are_replaced_and_removed_whatever_the_source_of_other_passages(
    retriever, source
):
    retriever.add(["a note"], ["note"], [{} if source is None else {"source": source}])
    replace_files(retriever, [document("a.md", "five")], removals=["b.md"])
    ends = {p.text.split()[-1]: p.metadata.get("source") for p in retriever.passages()}
    assert ends == {"five": "a.md", "note": source}
    changes = changes_since(retriever, {"c.md": "cd"})
    assert (changes.new, changes.removed) == ({"c.md"}, {"a.md"})
