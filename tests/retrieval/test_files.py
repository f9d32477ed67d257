"""Files in place of what an index knows of them."""

import pytest

from tests.helpers import bag_of_words
from uec_rag import UEC, Retriever
from uec_rag.documents.document import Document, Section
from uec_rag.retrieval.files import changes_since, replace_files


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
    [passage] = retriever.get(["a.md#part-0"])
    assert (passage.metadata["file_sha256"], passage.metadata["file_passages"]) == ("ab", 1)


@pytest.mark.parametrize("source", [None, "a.md", ["a.md"], {"file": "a.md"}, 3])
def test_only_files_are_replaced_and_removed_whatever_the_source_of_other_passages(
    retriever, source
):
    retriever.add(["a note"], ["note"], [{} if source is None else {"source": source}])
    replace_files(retriever, [document("a.md", "five")], gone=["b.md"])
    assert {p.id for p in retriever.passages()} == {"a.md#part-0", "note"}
    changes = changes_since(retriever, {"c.md": "cd"})
    assert (changes.new, changes.removed) == ({"c.md"}, {"a.md"})
