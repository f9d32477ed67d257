"""What a decision rests on, in words."""

import json
import logging

import pytest

from tests.helpers import index_of
from uec_rag import Gate
from uec_rag.confidence.model import log_odds


def last_numbers(lines):
    return [float(line.rpartition(": ")[2]) for line in lines]


def test_what_each_feature_adds_sums_to_the_log_odds_and_names_what_is_missing(with_words):
    index = index_of(with_words, ["Ada led the Elkins mine.", *(f"Field {n}." for n in range(30))])
    for question in ("Did Ada lead the Elkins mine?", "Did Ada lead the Dunville mine in 1912?"):
        [one] = index.search([question])
        assert sum(last_numbers(one.why)) == pytest.approx(
            float(log_odds(one.decision.in_corpus)), abs=0.4
        )
        assert not any(line.endswith("-0.0") for line in one.why)
    assert any("names: Dunville and 1912 are in no hit: -" in line for line in one.why)
    assert one.metadata(0, details=True)["uec_why"] == [*one.why]
    assert "uec_why" not in one.metadata(0)


def test_a_question_is_a_line_of_the_log_if_its_level_asks_for_it(with_words, caplog):
    index = index_of(with_words, ["Ada led the Elkins mine."])
    index.search(["Who led it?"])
    assert not caplog.records
    with caplog.at_level(logging.INFO, "uec_rag.decisions"):
        found = index.search(["Who led the mine?", "Who led Dunville?"])
    lines = [json.loads(record.message) for record in caplog.records]
    assert [line["question"] for line in lines] == found.queries
    for line, one in zip(lines, found, strict=True):
        assert line["decision"] == one.decision.action
        assert line["searched_as"] == one.decision.searched_as
        assert line["confidence"] == one.decision.confidence
        assert line["why"] == [*one.why]


def test_a_line_of_the_log_has_what_an_advisor_said(with_words, caplog):
    index = index_of(with_words, ["Ada led the Elkins mine."])
    index.gate = Gate(0.5, advisor=lambda question, texts: 0.1)
    with caplog.at_level(logging.INFO, "uec_rag.decisions"):
        index.search(["Who led the mine?", "mine", "Is Ada old?", "Who led Dunville?"])
    advised = [line for line in map(json.loads, caplog.messages) if "advice" in line]
    assert {round(line["advice_probability"], 6) for line in advised} == {0.1}


def test_no_question_is_logged_by_an_application_that_logs_at_info(with_words, caplog):
    index = index_of(with_words, ["Ada led the Elkins mine."])
    with caplog.at_level(logging.INFO):  # of the root
        index.search(["Who led it?"])
    assert not caplog.records
