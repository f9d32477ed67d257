"""In what a text is written: scripts by their letters, English by its small words."""

import pytest

from uec_rag.encoders.lexical import (
    LATIN,
    NOT_ENGLISH,
    letters_in,
    letters_of,
    writing_of,
    writings,
)

IN_EACH = {
    "When was the bridge over the river built?": LATIN,
    "parse_args argv": LATIN,
    "Wann wurde die Brücke gebaut, und von wem?": NOT_ENGLISH,
    "¿Cuándo se construyó el puente sobre el río?": NOT_ENGLISH,
    "Когда построили мост?": "Cyrillic letters",
    "متى بني الجسر؟": "Arabic letters",
    "这座桥是什么时候建的": "Chinese or Japanese characters",
    "いつたてられたのですか": "Japanese characters",
    "पुल कब बना": "Devanagari letters",
}


@pytest.mark.parametrize("text", IN_EACH)
def test_a_text_is_written_in_what_most_of_its_letters_are(text):
    assert writing_of(text) == IN_EACH[text]
    assert letters_in(text) == letters_of(IN_EACH[text])


def test_a_name_in_other_letters_does_not_change_what_a_question_is_written_in():
    assert writing_of("Who was Фёдор of Russia?") == LATIN


@pytest.mark.parametrize("text", ["", "42 + 1 = 43", "?!"])
def test_a_text_without_letters_is_written_in_nothing(text):
    assert writing_of(text) is None


def test_texts_are_written_in_what_enough_of_them_are_in_the_most_frequent_first():
    texts = ["这座桥"] * 5 + ["the bridge"] * 94 + ["мост"]
    assert writings(texts) == (LATIN, "Chinese or Japanese characters")
    assert writings(texts, least=0.5) == (LATIN,)
    assert writings(["1984"]) == ()
