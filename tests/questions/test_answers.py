"""Turns about the answer before them: what it offers, and what takes that up."""

from dataclasses import replace

import pytest

from tests.helpers import data_of, rows_of
from uec_rag.confidence.decision import Evidence, decide
from uec_rag.questions import answers, languages
from uec_rag.questions.replies import Reading

ROWS = data_of("answers.json")


@pytest.mark.parametrize("row", rows_of("about_answers.csv"), ids=lambda row: row["text"])
def test_a_turn_asks_about_the_answer_if_it_has_nothing_but_a_form_or_a_source(row):
    assert answers.asks_about_answer(row["text"]) is (row["expected"] == "yes")


@pytest.mark.parametrize(("turn", "language", "asks"), ROWS["requests"])
def test_a_request_of_one_word_is_in_the_language_of_the_question_before(turn, language, asks):
    assert answers.asks_about_answer(turn, language) is asks


@pytest.mark.parametrize(("turn", "place"), ROWS["places"])
def test_an_earlier_answer_is_asked_for_by_its_place(turn, place):
    assert answers.place_of_answer(turn) == place


@pytest.mark.parametrize(("answer", "offered"), ROWS["offers"])
def test_what_an_answer_lists_is_offered_and_what_has_no_name_is_not(answer, offered):
    assert answers.offers(answer) == offered


@pytest.mark.parametrize("language", languages.languages())
def test_the_sections_that_a_reason_names_as_the_closest_are_offered_as_they_are(language):
    titles = ["Dogs: leads", "“Tea, 2 euros…”", "Sand and gravel", "St. Paul", "1. Harbor 4.3"]
    closest = [Reading(title, ("a",), 0.2) for title in titles]
    evidence = Evidence(confidence=0.2, in_corpus=0.6, closest=tuple(closest), language=language)
    offered = ["Dogs: leads", "Tea, 2 euros", *titles[2:]]
    for change in (
        {},
        {"lacking": ("oak.", "elm")},
        {"searched_as": "Who? “a, b”"},
        {"searched_as": "x.", "unfamiliar": "a, b."},
    ):
        reason = decide(replace(evidence, **change)).reason
        assert answers.offers(reason) == offered
    assert answers.offers(f"{reason}\n- lamps\n- chairs") == ["lamps", "chairs"]


@pytest.mark.parametrize(
    ("reply", "accepted"),
    [("yes please", True), ("oui, merci", True), ("no", False), ("yes, but who pays?", False)],
)
def test_a_reply_takes_up_an_offer_if_it_says_nothing_else(reply, accepted):
    assert answers.accepts(reply) is accepted
