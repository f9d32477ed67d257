"""A value is found however it is written: days and months, times, quantities, umlauts."""

import pytest

from tests.helpers import data_of, index_of
from uec_rag import UEC

ROWS = data_of("retrieval_values.json")


TOWN = ROWS["town"]


@pytest.fixture(scope="module")
def town(uec):
    return index_of(uec, TOWN)


@pytest.mark.parametrize(("question", "place"), ROWS["asked in another form"])
def test_what_is_asked_in_another_form_is_answered(town, question, place):
    result = town.search([question])[0]
    assert result.decision.action == "answer"
    assert TOWN[place] in [passage.text for passage in result.passages[:2]]
    assert result.decision.lacking == ()


@pytest.mark.parametrize(
    ("question", "lacking"), [("What leaves at 09:45?", "09:45"), ("What is closed in Nov?", "Nov")]
)
def test_another_value_is_not(town, question, lacking):
    decision = town.search([question])[0].decision
    assert (decision.action, decision.code) == ("abstain", "uncertain")
    assert decision.lacking in ((), (lacking,))


def test_what_is_after_a_time_is_compared_and_not_answered_by_that_time(uec):
    texts = [f"The ferry to {to} leaves at {at}." for to, at in FERRIES]
    for question in ("Which ferry leaves after 17:35?", "Which ferry leaves after 17.35 h?"):
        assert index_of(uec, texts).search([question])[0].decision.action != "answer"


FERRIES = [("Aland", "05:50"), ("Oban", "8:20"), ("Skye", "17:35"), ("Mull", "22:10")]
HOUSE = ROWS["house"]


@pytest.mark.parametrize(("question", "place", "searched_as"), ROWS["umlauts"])
def test_umlauts_and_their_transcriptions_are_one_word(question, place, searched_as):
    result = index_of(UEC("multilingual"), HOUSE).search([question])[0]
    assert (result.decision.action, result.passages[0].text) == ("answer", HOUSE[place])
    assert result.decision.searched_as == searched_as


@pytest.mark.parametrize("question", ["Who is the poet?", "poet", "Poets?", "cheap poet fuel"])
def test_english_words_have_no_umlauts(uec, question):
    texts = ["The pot is hot.", "A ful meal was soft.", "The garden is green."]
    assert index_of(uec, texts).search([question])[0].decision.searched_as == ""
