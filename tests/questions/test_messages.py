"""What people write: which part of a message asks, and what a turn says of the answer before it."""

from __future__ import annotations

import pytest

from tests.helpers import data_of, rows_of
from uec_rag.questions.answers import asks_about_answer
from uec_rag.questions.messages import asking_part


@pytest.mark.parametrize(("message", "part"), data_of("told.json"))
def test_who_tells_of_a_trouble_asks_and_who_recites_does_not(message, part):
    asked, _ = asking_part(message)
    assert asked == (message if part == "*" else part)


@pytest.mark.parametrize("row", rows_of("about_answers.csv"), ids=lambda row: row["text"])
def test_a_turn_asks_about_the_answer_if_it_has_nothing_but_a_form_or_a_source(row):
    assert asks_about_answer(row["text"]) is (row["expected"] == "yes")
