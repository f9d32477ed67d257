"""Files in place of what an index knows of them."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import bag_of_words
from uec_rag import UEC, Retriever
from uec_rag.base.errors import SavedMeanwhile
from uec_rag.documents.document import Document, Section
from uec_rag.retrieval.files import EncodedFiles, changes_since


def document(source, *texts):
    return Document(
        source, tuple(Section((f"Part {i}",), text) for i, text in enumerate(texts)), "ab"
    )


def encoded(retriever, *documents):
    return EncodedFiles.from_documents(retriever, documents)


@pytest.fixture
def retriever():
    made = Retriever(UEC([bag_of_words(16, "words")]))
    encoded(made, document("a.md", "one", "two", "three"), document("b.md", "four")).replace_in(
        made
    )
    return made


def test_a_file_takes_the_place_of_what_was_known_of_it(retriever):
    files = encoded(retriever, document("a.md", "five"), document("c.md", "six"))
    assert (len(files), files.replace_in(retriever)) == (2, 3)
    assert sorted(p.text.split()[-1] for p in retriever.passages()) == ["five", "four", "six"]
    [passage] = retriever.get(["a.md#part-0"])
    assert (passage.metadata["file_sha256"], passage.metadata["file_passages"]) == ("ab", 1)


@pytest.mark.parametrize("source", [None, "a.md", ["a.md"], {"file": "a.md"}, 3])
def test_only_files_are_replaced_and_removed_whatever_the_source_of_other_passages(
    retriever, source
):
    retriever.add(["a note"], ["note"], [{} if source is None else {"source": source}])
    files = EncodedFiles.from_documents(retriever, [document("a.md", "five")], gone=["b.md"])
    assert files.replace_in(retriever) == 4
    assert {p.id for p in retriever.passages()} == {"a.md#part-0", "note"}
    changes = changes_since(retriever, {"c.md": "cd"})
    assert (changes.new, changes.removed) == ({"c.md"}, {"a.md"})


def test_of_two_who_change_a_file_the_second_is_told_and_nothing_is_changed(retriever):
    first, second = (
        encoded(retriever, replace(document("a.md", text), sha256=text)) for text in ("xx", "yy")
    )
    first.replace_in(retriever)
    with pytest.raises(SavedMeanwhile):
        second.replace_in(retriever)
    assert retriever.get(["a.md#part-0"])[0].text.endswith("xx")
    first.replace_in(retriever)  # the same once more is no conflict


def test_files_of_another_ensemble_are_refused_and_nothing_is_changed(retriever):
    other = Retriever(UEC([bag_of_words(16, "other", seed=1)]))
    with pytest.raises(ValueError, match="the index now has another ensemble"):
        encoded(other, document("a.md", "five")).replace_in(retriever)
    assert len(retriever) == 4


@pytest.mark.parametrize("others", [[], ["bm25"]], ids=["vectors", "words, also"])
def test_a_passage_whose_text_is_unchanged_keeps_its_vectors_wherever_it_moved(others):
    texts_encoded, bag = [], bag_of_words(16, "bag")

    def logged(texts):
        texts_encoded.extend(texts)
        return bag(texts)

    made = Retriever(UEC([logged, *others]))
    texts = [f"door {i}, lock {i * 7 % 5}" for i in range(9)]
    encoded(made, document("a.md", *texts), document("b.md", "key", "bolt")).replace_in(made)
    texts_encoded.clear()
    sections = [Section((f"Part {i}",), text) for i, text in enumerate(texts)]
    sections[4] = Section(("Part 4",), "hinge 4")
    moved = Document("c.md", (Section(("Part 0",), "key"), sections.pop()))
    first = Document("a.md", (*reversed(sections), Section(("Part 1",), "bolt")))
    files = EncodedFiles.from_documents(made, [first, moved], gone=["b.md"])
    files.replace_in(made)
    assert texts_encoded == ["Part 4\n\nhinge 4"]
    assert (files.encoded, len(files)) == (1, 11)
    fresh = Retriever(UEC([logged, *others]))
    encoded(fresh, first, moved).replace_in(fresh)
    assert {p.id: p.text for p in made.passages()} == {p.id: p.text for p in fresh.passages()}
    for query in ("door 3", "key", "hinge 4", "bolt"):
        assert made.search([query]).ids == fresh.search([query]).ids
        np.testing.assert_allclose(
            made.search([query]).scores, fresh.search([query]).scores, atol=1e-5
        )


@pytest.mark.parametrize("change", ["clear", "replace"])
def test_vectors_of_passages_that_another_process_changed_are_not_taken(retriever, change):
    class Changed(Retriever):
        """An index that another process changes after its passages were read."""

        def vectors(self, ids):
            self.clear() if change == "clear" else self.add(["other"], ids)
            return super().vectors(ids)

    with pytest.raises(SavedMeanwhile):
        encoded(Changed(retriever.uec, retriever.store), document("a.md", "one"))
