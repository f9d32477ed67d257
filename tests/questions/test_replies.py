"""Clarifying questions, and the replies to them."""

import pytest

from tests.helpers import data_of, rows_of
from uec_rag.base.errors import UnknownReading
from uec_rag.base.text import LONGEST_ASKED
from uec_rag.questions.replies import (
    Reading,
    chosen_ids,
    clarifying_list,
    extract_clarifying_question,
    extract_labels,
    find_positions,
    find_readings,
    is_clarifying_question,
)


def readings(*labels):
    return [Reading(label, (label,), 0.3) for label in labels]


def places(reply, labels):
    """The positions from 1 that a reply names, or "none"; "-" for anything else."""
    named = find_positions(reply, labels)
    if named is None:
        return "-"
    return " ".join(str(place + 1) for place in named) or "none"


@pytest.mark.parametrize(
    "row",
    [*rows_of("replies.csv"), *rows_of("replies_in_languages.csv")],
    ids=lambda row: f"{row.get('language', 'en')}: {row['text']}",
)
def test_a_reply_chooses_by_a_number_a_title_both_or_none_in_twelve_languages(row):
    assert places(row["text"], row["labels"].split(" | ")) == row["expected"]


@pytest.mark.parametrize("row", rows_of("clarifying.csv"), ids=lambda row: row["text"])
def test_an_answer_that_is_one_question_is_a_clarifying_question(row):
    asked = extract_clarifying_question(row["text"])
    assert (asked is not None) == (row["expected"] == "yes")
    if asked is not None:
        assert is_clarifying_question(asked)
        assert extract_clarifying_question(asked) == asked


@pytest.mark.parametrize(("labels", "asked"), data_of("clarifying_questions.json"))
def test_one_question_offers_all_readings_and_its_labels_can_be_had_back(labels, asked):
    assert clarifying_list(readings(*labels)) == asked
    assert extract_labels(asked) == ([*labels] if len(labels) > 1 else [])


def test_labels_that_differ_in_case_alone_are_told_apart():
    labels = ("re.Match", "re.match")
    for said in labels:
        [chosen] = find_readings(said, readings(*labels))
        assert chosen.title == said


@pytest.mark.parametrize("labels", [(), ("git", "tar")])
def test_a_reply_that_names_none_of_the_readings_is_refused_with_their_labels(labels):
    with pytest.raises(UnknownReading, match="'git', 'tar'" if labels else "which has none"):
        find_readings("the fifth", readings(*labels))


def test_no_list_is_read_from_another_question_or_one_too_long():
    assert extract_labels("Which one?") == extract_labels("Do you mean " + "a, " * 500 + "?") == []
    asked = "Do you mean a or b?"
    assert extract_clarifying_question(asked) == asked
    assert extract_clarifying_question(asked + " " * LONGEST_ASKED) is None
    endless = "What exactly do you mean?" + "\n- a long title of a section" * 50
    assert extract_labels(endless) == extract_labels("What exactly do you mean?\n- a") == []


def test_the_ids_of_a_chosen_reading_in_every_form():
    [one] = readings("a")
    assert chosen_ids(one) == chosen_ids({"ids": ["a"]}) == chosen_ids(["a"]) == ("a",)


@pytest.mark.parametrize(
    ("within", "error", "message"),
    [
        ("a", TypeError, "within: expected a Reading, a mapping with its ids"),
        ({"label": "a"}, TypeError, "within: expected a Reading, a mapping with its ids"),
        ([7], TypeError, "within: expected a Reading, a mapping with its ids, a list of one id"),
        ([], TypeError, "within: expected a Reading, a mapping with its ids, a list of one id"),
    ],
)
def test_what_is_no_chosen_reading_is_refused(within, error, message):
    with pytest.raises(error, match=message):
        chosen_ids(within)


@pytest.mark.parametrize(("reply", "places"), data_of("replies.json"))
def test_a_reply_of_a_messenger_chooses_as_one_in_words(reply, places):
    assert find_positions(reply, ["ferry", "tram", "bus"]) == places


@pytest.mark.parametrize("titles", [["ferry", "tram"], ["ferry", "tram", "bus", "taxi"]])
def test_of_an_even_number_none_is_in_the_middle(titles):
    assert find_positions("the middle one", titles) is None
