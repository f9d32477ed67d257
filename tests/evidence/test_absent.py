"""What no passage states is not answered, and what one states in another form is."""

import json
from pathlib import Path

import pytest

from tests.helpers import data_of, index_of
from uec_rag import UEC
from uec_rag.evidence.absence import as_written

ROWS = data_of("absent.json")


WARDS = ROWS["wards"]


@pytest.fixture(scope="module")
def wards():
    index = index_of(UEC(), WARDS)
    return index


@pytest.mark.parametrize(
    ("question", "lacking"),
    [("What does version 3.3.0 add?", ("3.3.0",)), ("Is Ward 9 open to visitors?", ("Ward 9",))],
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


@pytest.mark.parametrize(("question", "text", "name"), ROWS["lacking names"])
def test_a_reason_tells_the_name_that_no_passage_has(question, text, name):
    decision = index_of(UEC(), [text, *WARDS]).search([question])[0].decision
    assert (decision.code, decision.lacking) == ("uncertain", (name,))
    assert f'"{name}"' in decision.reason


@pytest.mark.parametrize(("question", "text"), ROWS["no such names"])
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
