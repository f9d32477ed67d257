"""A file with a text that a service refuses is left out of an index, and named; no other is."""

import json

import pytest

from tests.helpers import bag_of_words
from uec_rag import UEC, Retriever
from uec_rag.base.errors import EncoderFailed, UECWarning
from uec_rag.documents import read_folder
from uec_rag.index.updates import replace_files

MOST = 150  # characters that the service reads


class Service:
    def __init__(self):
        self.log, self._words = [], bag_of_words(16, "service")

    def __call__(self, texts):
        if max(map(len, texts)) > MOST:
            raise ValueError("maximum context length exceeded")
        self.log += texts
        return self._words(texts)


@pytest.fixture
def folder(tmp_path):
    for number in range(6):
        text = f"# Hut {number}\n\nThe hut {number} has {number + 2} beds.\n"
        (tmp_path / f"{number}.md").write_text(text)
    return tmp_path


def asking_much(passages):
    """Adds questions longer than the service reads to one file."""
    for passage in passages:
        if passage.metadata["source"] == "3.md":
            passage.metadata["questions"] = [
                f"Who is the guest {row} {'of the hut ' * 14}?" for row in range(9)
            ]


def test_it_is_left_out_and_named_and_nothing_is_embedded_twice(folder):
    service = Service()
    index = Retriever(UEC([service, "bm25"]))
    with pytest.warns(UECWarning, match=r"The file '3\.md' is left out"):
        count = replace_files(index, read_folder(folder), prepare=asking_much)
    assert (count, {p.metadata["source"] for p in index.passages()}) == (
        5,
        {f"{number}.md" for number in (0, 1, 2, 4, 5)},
    )
    assert len(service.log) == len({*service.log}) == 6  # each text, and no question


def test_what_the_index_had_of_it_stays(folder):
    index = Retriever(UEC([Service(), "bm25"]))
    replace_files(index, read_folder(folder))
    (folder / "3.md").write_text("# Hut 3\n\nThe hut 3 is closed.\n")
    with pytest.warns(UECWarning, match=r"'3\.md'"):
        replace_files(index, read_folder(folder), prepare=asking_much)
    assert "5 beds" in json.dumps([p.text for p in index.passages()])


def test_a_service_that_fails_for_all_ends_it(folder):
    def failing(texts):
        raise ConnectionError("401 no such key")

    with pytest.raises(EncoderFailed, match="401"):
        replace_files(Retriever(UEC([failing, "bm25"])), read_folder(folder))


def test_a_refused_question_names_the_passage_that_it_is_of():
    index = Retriever(UEC([Service(), "bm25"]))
    asked = [{}, {"questions": [f"Who is the guest {'of the hut ' * 14}?"]}]
    with pytest.raises(EncoderFailed, match="It is of the passage 'b'; nothing was added"):
        index.add(["The hut has beds.", "The barn has hay."], ["a", "b"], asked)
    assert len(index) == 0
