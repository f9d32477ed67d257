"""One form for values that are written in several: days, months, times, quantities."""

import pytest

from tests.helpers import data_of
from uec_rag.encoders.lexical import written_words
from uec_rag.encoders.notations import in_one_form
from uec_rag.evidence.absence import as_written

ROWS = data_of("values.json")


@pytest.mark.parametrize(("text", "form"), ROWS["days and months"])
def test_short_days_and_months_are_the_long_ones(text, form):
    assert in_one_form(text) == form


@pytest.mark.parametrize("text", ROWS["small words"])
def test_small_words_are_no_days(text):
    assert in_one_form(text) == text


@pytest.mark.parametrize(("text", "others"), ROWS["forms of values"])
def test_a_value_has_the_same_words_however_it_is_written(text, others):
    of_text = [word.casefold() for word in written_words(text)]
    assert [[word.casefold() for word in written_words(other)] for other in others] == [
        of_text
    ] * len(others)


@pytest.mark.parametrize("text", ROWS["other numbers"])
def test_other_numbers_keep_their_form(text):
    assert in_one_form(text) == text


def test_what_lacks_is_told_as_it_was_written():
    question = "Is it open on Sat at 09:30 with 16GB?"
    words = {"Saturday", "9h30", "16"}
    assert as_written(question, words) == ("Sat", "09:30", "16GB")
