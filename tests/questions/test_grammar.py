"""What the wording of a question says: an accuracy on sentences, not a rule for each."""

import numpy as np
import pytest

from tests.helpers import rows_of
from uec_rag.base.text import LONGEST_ASKED
from uec_rag.questions import grammar

# What the functions get right of tests/data/grammar.csv, rounded down to a per cent.
FLOORS = {
    "lacks_referent": 0.95,
    "refers_back": 0.56,
    "is_question": 1.0,
    "extract_concept": 1.0,
    "complete_question": 0.95,
}


def written(value):
    if isinstance(value, frozenset):
        return " ".join(sorted(value))
    return {True: "yes", False: "no"}.get(value, value)


@pytest.mark.parametrize("name", FLOORS)
def test_sentences_are_read_as_people_mean_them(name):
    rows = [row for row in rows_of("grammar.csv") if row["function"] == name]
    right = [written(getattr(grammar, name)(row["text"])) == row["expected"] for row in rows]
    assert np.mean(right) >= FLOORS[name]


# What each of the functions finds something in.
SAID = {
    "lacks_referent": "How do I repay the loan?",
    "refers_back": "and why?",
    "is_question": "Why?",
    "extract_concept": "What is a gauge?",
}


@pytest.mark.parametrize("name", SAID)
def test_of_a_text_too_long_to_be_said_nothing_is_read(name):
    read, said = getattr(grammar, name), SAID[name]
    assert read(said)
    assert not read(said + " " * LONGEST_ASKED)


def test_a_text_too_long_to_be_said_is_complete():
    text = "What is it? " * 500
    assert grammar.complete_question(text) == text


@pytest.mark.parametrize("row", rows_of("follow_ups.csv"), ids=lambda row: row["question"])
def test_a_follow_up_takes_the_place_of_what_plays_the_same_part(row):
    """The first of the readings in the table is found, and none that is not in it."""
    found, read = grammar.switched(row["question"], row["before"]), row["asked"].split("|")
    assert {*found} <= {*filter(None, read)}
    assert (read[0] in found) is bool(row["asked"])


@pytest.mark.parametrize(
    "question", ["Und in Borg?", "Et avec Borg ?", "¿Y en Borg?", "E no Borg?"]
)
def test_a_follow_up_in_another_language_refers_back(question):
    assert grammar.refers_back(question)
    assert not grammar.complete_question(question)


@pytest.mark.parametrize("question", ["Und wie lange dauert das?", "Et comment ça marche ?"])
def test_a_whole_question_behind_a_conjunction_in_another_language_does_not(question):
    assert not grammar.refers_back(question)
