"""What no passage states is not answered, and what one states in another form is."""

import pytest

from tests.helpers import index_of
from uec_rag import UEC
from uec_rag.evidence.words import as_written

WARDS = [
    "Ward 3 is open to visitors from 2 pm to 4 pm.",
    "Ward 5 is open to visitors from 10 am to 8 pm.",
    "The pharmacy is in Building A, next to the entrance.",
    "Dr. Miriam Okafor heads Cardiology. Her consultation is on Tuesdays.",
    "The multi-storey car park costs 2 euros an hour.",
    "To change your password, open Settings and choose Security.",
    "St. Luke's Church has a leaning spire.",
    "Version 3.1.0 adds a dark mode.",
    "Version 3.2.0 adds an export to PDF.",
]


@pytest.fixture(scope="module")
def wards():
    index = index_of(UEC(), WARDS)
    return index


@pytest.mark.parametrize(
    ("question", "lacking"),
    [
        ("What does version 3.3.0 add?", ("3.3.0",)),
        ("Is Ward 9 open to visitors?", ("9",)),
    ],
)
def test_a_number_that_none_of_a_family_has_ends_an_answer(wards, question, lacking):
    decision = wards.search([question])[0].decision
    assert (decision.action, decision.code) == ("abstain", "uncertain")
    assert (decision.lacking, decision.suggestions) == (lacking, ())


def test_a_name_that_no_passage_has_ends_no_answer_outside_of_a_family(wards):
    decision = wards.search(["How do I change my password in Zorbex?"])[0].decision
    assert (decision.action, decision.lacking) == ("answer", ("Zorbex",))


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("I have an iPhone, how do I change my password?", WARDS[5]),
        ("Which church has a leaning spire, is it Saint Luke's?", WARDS[6]),
        ("What does version 3.1.0 add?", WARDS[7]),
        ("Which version adds an export to PDF?", WARDS[8]),
    ],
)
def test_another_form_or_what_one_tells_of_oneself_does_not(wards, question, text):
    result = wards.search([question])[0]
    assert (result.decision.action, result.passages[0].text) == ("answer", text)


def test_sections_near_an_answer_are_not_looked_for_where_it_is_sure(wards):
    asked = ["Where is the car park?", "Which version adds an export to PDF?"]
    assert [len(decision.closest) for decision in wards.search(asked).decisions] == [3, 0]


@pytest.mark.parametrize(
    ("question", "words", "written"),
    [
        ("Did it close on 5 March 2025?", {"20250305"}, ("5 March 2025",)),
        ("Is O'Brien here?", {"O", "Brien"}, ("O'Brien",)),
        ("Is there Wi-Fi, or wi-fi?", {"WiFi", "wifi"}, ("Wi-Fi", "wi-fi")),
        ("What is E05 of 3.1.0?", {"E05", "05", "3.1.0", "3.1"}, ("E05", "3.1.0")),
        ("谁是王明？", {"王明"}, ("王明",)),
    ],
)
def test_a_reason_quotes_what_was_written_each_once(question, words, written):
    assert as_written(question, words) == written
