"""What no passage states is not answered, and what one states in another form is."""

import json
from pathlib import Path

import pytest

from tests.helpers import index_of
from uec_rag import UEC
from uec_rag.evidence.absence import as_written

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
        ("Is Ward 9 open to visitors?", ("Ward 9",)),
    ],
)
def test_a_number_that_none_of_a_family_has_ends_an_answer(wards, question, lacking):
    decision = wards.search([question])[0].decision
    assert (decision.action, decision.code) == ("abstain", "uncertain")
    assert (decision.lacking, decision.suggestions) == (lacking, ())


NAMES = json.loads(Path("benchmarks/quality/questions/names.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("corpus", NAMES, ids=lambda corpus: corpus["set"])
def test_nobody_is_answered_about_a_name_that_no_passage_has(corpus):
    index = index_of(UEC(), corpus["texts"])
    absent = [row["q"] for row in corpus["questions"] if row["kind"] == "nothing"]
    there = [row["q"] for row in corpus["questions"] if row["kind"] == "plain"]
    assert "answer" not in [decision.action for decision in index.search(absent).decisions]
    found = index.search(there)
    assert [decision.lacking for decision in found.decisions] == [()] * len(there)
    assert sum(decision.action == "answer" for decision in found.decisions) >= len(there) - 1


@pytest.mark.parametrize(
    ("question", "text", "name"),
    [
        ("How much does the Nixon D850 cost?", "The Nixon D750 costs 900 euros.", "D850"),
        ("Is Java 21 required?", "Java 17 is required.", "Java 21"),
        ("Does line 9 of the tram run all night?", "Line 7 of the tram runs all night.", "9"),
        ("Is Ubuntu 24.04 supported?", "Ubuntu 22.04 is supported.", "Ubuntu 24.04"),
        ("Is the shop closed on Mondays?", "The shop is closed on Sundays.", "Mondays"),
        ("Who won the prize in 2021?", "Maria Silva won the prize in 2019.", "2021"),
        ("Was the dam built in 1854?", "The dam was built in 1864.", "1854"),
        ("How much oil does the PX-7S need?", "The PX-7 needs two litres of oil.", "PX-7S"),
        ("Is Swift covered in chapter 4?", "Objective-C is covered in chapter 4.", "Swift"),
    ],
)
def test_a_reason_tells_the_name_that_no_passage_has(question, text, name):
    decision = index_of(UEC(), [text, *WARDS]).search([question])[0].decision
    assert (decision.code, decision.lacking) == ("uncertain", (name,))
    assert f'"{name}"' in decision.reason


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Do I get my refund within 20 days?", "Refunds are paid within 14 days."),
        ("Can I borrow 3,000 euros without a guarantor?", "Loans up to 5,000 euros need none."),
        ("Does it run on Python 3.11?", "It runs on Python 3.9 or later."),
        ("Is Windows 11 supported?", "Windows 10 and 11 are supported."),
        ("Does section 5 deal with refunds?", "Sections 3 to 7 deal with refunds."),
        ("When did the Germans join the union?", "Germany joined the union in 1957."),
        ("Do the Scots vote in May?", "Scotland votes in May."),
        ("Is the fee for Thais 9 euros?", "The fee for visitors from Thailand is 9 euros."),
        ("Does the Pole win the race?", "The runner from Poland wins the race."),
        ("Do people from Finland pay a fee?", "Finns pay a fee."),
        ("Do Spanish guests pay a fee?", "Spaniards pay a fee."),
        ("Do PX-7s need oil?", "The PX-7 needs two litres of oil."),
        ("Has it run since 1931?", "It has run since 1924."),
        ("Does the UN pay for the clinic?", "The United Nations pays for the clinic."),
        ("Is the office open on Thursday?", "The office is open from Monday to Friday."),
        ("Is the pool open in July?", "The pool is open from May to September."),
        ("Is the museum open on Tuesday?", "The museum is open every day."),
        ("How do I reset the PIN on my MacBook?", "To reset the PIN, open the settings."),
        ("Does Professor Weber lead the team?", "Prof. Hanna Weber leads the team."),
        ("Does a ticket cost 12 EUR?", "A ticket costs 12 euros."),
    ],
)
def test_what_is_no_such_name_is_not_told(question, text):
    assert index_of(UEC(), [text]).search([question])[0].decision.lacking == ()


def test_a_tenant_has_not_heard_of_the_names_of_others():
    index = index_of(
        UEC(), ["Iran is a member.", "Iraq is a member."], ["a", "b"], [{"t": 1}, {"t": 2}]
    )
    decision = index.search(["Is Iraq a member?"], tenant={"t": 1})[0].decision
    assert (decision.action, decision.lacking) == ("abstain", ("Iraq",))
    assert index.search(["Is Iraq a member?"], tenant={"t": 2})[0].decision.action == "answer"


def test_a_value_that_a_follow_up_exchanges_is_among_all():
    index = index_of(UEC(), ["Orders to all countries take nine days.", *WARDS])
    before = ["How long do orders to Malta take?"]
    decision = index.search(["And to Cyprus?"], history=[before])[0].decision
    assert decision.lacking == ()


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
