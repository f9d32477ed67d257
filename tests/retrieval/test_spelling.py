"""Misspelt words of a question are replaced by words of the corpus, and nothing else is."""

import numpy as np
import pytest

from uec_rag import UEC, Retriever
from uec_rag.retrieval.spelling import corrected

TEXTS = [
    "A virtual package is one that other packages provide.",
    "Refunds are paid within fourteen days.",
    "The shell reads what a user types.",
]


def letters(texts):
    return np.array([[text.count("a") + 1.0, text.count("e") + 1.0] for text in texts])


@pytest.fixture
def retriever():
    made = Retriever(UEC(["bm25"]))
    made.add(TEXTS)
    return made


@pytest.mark.parametrize(
    ("question", "read"),
    [
        ("waht is a virtul pacakge", "what is a virtual package"),
        ("Wihtin how many days?", "Within how many days?"),
        ("Are refundds paid?", "Are refunds paid?"),
        ("What is a virtual package?", "What is a virtual package?"),
        ("Wer hat die virtul und die pacakge?", "Wer hat die virtul und die pacakge?"),
        ("VIRTUL virtul2 vir_tul", "VIRTUL virtul2 vir_tul"),
        ("a giraffe", "a giraffe"),
    ],
)
def test_a_word_that_no_passage_has_becomes_the_one_that_is_a_letter_away(
    retriever, question, read
):
    assert retriever.corrected([question]) == [read.replace("Within", "within")]


def test_a_search_reads_the_corrected_question_and_says_so(retriever):
    found = retriever.search(["virtul pacakge"], k=1)
    assert found.queries == ["virtual package"]
    assert found.passages[0][0].text == TEXTS[0]


def test_of_several_words_the_one_that_most_passages_have_is_taken():
    held = {"form": 2, "from": 5}
    said = corrected("frmo", lambda words: np.array([held.get(word, 0) for word in words]))
    assert said == "from"


def test_a_question_with_many_unknown_words_stays(retriever):
    strange = " ".join(f"virtul{letter}" for letter in "bcdefghijk")
    assert retriever.corrected([strange]) == [strange]


def test_a_word_is_known_as_long_as_a_passage_has_it(retriever, tmp_path):
    retriever.save(tmp_path / "index")
    saved = Retriever.load(tmp_path / "index")
    assert saved.corrected(["refudns"]) == ["refunds"]
    saved.delete([passage.id for passage in saved.passages() if "Refunds" in passage.text])
    assert saved.corrected(["refudns"]) == ["refudns"]


def test_without_words_as_a_member_nothing_is_replaced():
    retriever = Retriever(UEC([letters]))
    retriever.add(TEXTS)
    assert retriever.corrected(["virtul"]) == ["virtul"]
