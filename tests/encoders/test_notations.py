"""In what a text is written: scripts by their letters, English by its small words."""

import pytest

from tests.helpers import rows_of
from uec_rag.encoders import notations


@pytest.mark.parametrize("row", rows_of("notations.csv"), ids=lambda row: row["text"])
def test_a_text_is_written_in_what_most_of_its_letters_are(row):
    assert notations.writing_of(row["text"]) == row["written"]
    assert notations.letters_in(row["text"]) == notations.letters_of(row["written"])


def test_a_name_in_other_letters_does_not_change_what_a_question_is_written_in():
    assert notations.writing_of("Who was Фёдор of Russia?") == notations.LATIN


@pytest.mark.parametrize("text", ["", "42 + 1 = 43", "?!"])
def test_a_text_without_letters_is_written_in_nothing(text):
    assert notations.writing_of(text) is None


def test_texts_are_written_in_what_enough_of_them_are_in_the_most_frequent_first():
    texts = ["这座桥"] * 5 + ["the bridge"] * 94 + ["мост"]
    assert notations.writings(texts) == (notations.LATIN, "Chinese or Japanese characters")
    assert notations.writings(texts, share=0.5) == (notations.LATIN,)
    assert notations.writings(["1984"]) == ()
