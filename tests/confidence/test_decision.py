"""What is done about a question: it is answered, asked back about, or left unanswered."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import decide_on
from uec_rag.base.errors import InternalError
from uec_rag.confidence.decision import CLARIFY_FROM, Criteria, Evidence, decide
from uec_rag.questions.languages import SENTENCES
from uec_rag.questions.replies import (
    Reading,
    extract_clarifying_question,
    extract_labels,
    is_clarifying_question,
)

TWO = (Reading("the printer", ("a", "b"), 0.5), Reading("the scanner", ("c",), 0.4))
NOTHING = Evidence(code="nothing_found")
CLEAR = ((CLARIFY_FROM - 0.01, TWO), (CLARIFY_FROM - 0.01, TWO[:1]), (0.1, ()))


@pytest.mark.parametrize(
    "numbers",
    [
        {"confidence": np.nan},
        {"confidence": 0.5, "underspecified": np.nan},
        {"confidence": 0.5, "in_corpus": np.nan},
    ],
)
def test_a_confidence_that_is_no_number_is_a_defect_of_ours(numbers):
    with pytest.raises(InternalError, match="a confidence is not a number"):
        decide_on(**numbers)


def test_of_several_things_that_cannot_be_named_the_reason_says_that_there_are_several():
    decision = decide_on(0.99, 0.99, TWO[:1])
    assert (decision.code, decision.reason) == ("uncertain", SENTENCES["several"])
    told = decide_on(0.99, 0.99, TWO[:1], language="de")
    assert told.reason.startswith("Das kann mehreres bedeuten")


@pytest.mark.parametrize(
    ("numbers", "readings", "options", "action"),
    [
        ((0.71,), (), {"threshold": 0.7}, "answer"),
        ((0.70,), (), {"threshold": 0.7}, "abstain"),
        ((1.0,), (), {"threshold": np.inf}, "abstain"),
        ((0.9,), (), {"unfamiliar": "the question is in Thai"}, "answer"),
        # Underspecified, however sure its hits are, and if its readings were forgotten.
        ((0.99, CLARIFY_FROM), TWO, {}, "clarify"),
        ((0.9, CLARIFY_FROM), (), {}, "clarify"),
        # It may mean several things, of which one can be named.
        ((0.99, 0.99), TWO[:1], {}, "abstain"),
        # It says what it means.
        *(((0.6, unsaid), some, {}, "answer") for unsaid, some in CLEAR),
        *(((0.4, unsaid), some, {}, "abstain") for unsaid, some in CLEAR),
        # More than twice as likely unanswerable as underspecified.
        ((0.3, 0.9), TWO, {"in_corpus": 0.36}, "clarify"),
        ((0.3, 0.9), TWO, {"in_corpus": 0.35}, "abstain"),
    ],
)
def test_a_question_is_asked_back_about_else_answered_above_the_threshold(
    numbers, readings, options, action
):
    decision = decide_on(*numbers, readings=readings, **options)
    assert (decision.action, decision.readings) == (action, readings)
    asks = action == "clarify"
    assert decision.clarifying_question == (decision.reason if asks else "")
    assert decision.candidates == (("a", "b", "c") if asks and readings else ())


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_higher_threshold_answers_no_more_and_asks_back_as_before(sure, unsaid, one, other):
    low, high = (decide_on(sure, unsaid, TWO, threshold=at) for at in sorted((one, other)))
    assert (low.action == "clarify") == (high.action == "clarify") == (unsaid >= CLARIFY_FROM)
    assert low.action == "answer" or high.action != "answer"


@pytest.mark.parametrize(
    ("decided", "code", "reason"),
    [
        (decide_on(0.9), "answered", "The documents seem to answer this."),
        (decide_on(0.9, 0.9), "underspecified", "What exactly do you mean?"),
        (decide_on(0.9, 0.9, TWO), "underspecified", "Do you mean the printer or the scanner?"),
        (decide_on(0.02, in_corpus=0.03), "no_answer", SENTENCES["no_answer"]),
        (decide_on(0.08, in_corpus=0.1), "uncertain", SENTENCES["uncertain"]),
        (decide(NOTHING), "nothing_found", SENTENCES["nothing_found"]),
        (decide(decide(NOTHING), Criteria(0)), "nothing_found", SENTENCES["nothing_found"]),
        (decide(decide_on(0.9), Criteria(0.95)), "uncertain", SENTENCES["uncertain"]),
        (decide_on(1e-6, in_corpus=1e-6), "off_topic", SENTENCES["off_topic"]),
        (
            decide_on(0.4, in_corpus=0.6, unfamiliar="the question is in Thai"),
            "uncertain",
            "Nothing found answers this with enough certainty. Note: the question is in Thai.",
        ),
        (
            decide_on(0.9, searched_as="a kiln"),
            "answered",
            'The documents seem to answer this. It was searched as "a kiln".',
        ),
        (
            decide_on(0.4, in_corpus=0.6, closest=TWO),
            "uncertain",
            "Nothing found answers this with enough certainty. Closest: the printer, the scanner.",
        ),
        (
            decide_on(0.9, caveat="a model failed"),
            "uncertain",
            "Nothing found answers this with enough certainty. Note: a model failed.",
        ),
    ],
)
def test_the_reason_is_a_sentence_without_figures_and_a_code(decided, code, reason):
    assert (decided.reason, decided.code) == (reason, code)
    assert decided.metadata()["reason_code"] == code


def test_decisions_are_equal_whatever_their_numbers_and_not_whatever_they_say():
    one = decide_on(0.4, in_corpus=0.6)
    numbers = {"confidence": 0.3, "in_corpus": 0.5, "underspecified": 0.2, "advice_calls": 1}
    numbers |= {"threshold": 0.9, "clarify_from": 0.8, "advice_probability": 0.1, "size": 9}
    numbers |= {"advice_tokens": 5, "hits": 4, "shown": 3, "basis": "a", "language": "de"}
    assert replace(one, **numbers, closest=TWO, lacking=("a",), caveat="b", code="") == one
    for said in ("action", "reason", "readings", "unfamiliar", "advice", "searched_as"):
        assert replace(one, **{said: TWO if said == "readings" else "clarify"}) != one


GERMAN = {
    "answered": "Das steht in den Dokumenten.",
    "underspecified": "Meinen Sie {others} oder {last}?",
    "unclear": "Was genau meinen Sie?",
}


def test_sentences_are_phrased_once_and_clarifying_questions_are_still_understood(monkeypatch):
    for code, sentence in GERMAN.items():
        monkeypatch.setitem(SENTENCES, code, sentence)
    assert decide_on(0.9).reason == "Das steht in den Dokumenten."
    assert decide_on(0.9, 0.9).reason == "Was genau meinen Sie?"
    asked = decide_on(0.9, 0.9, TWO).clarifying_question
    assert asked == "Meinen Sie the printer oder the scanner?"
    assert extract_labels(asked) == ["the printer", "the scanner"]
    assert extract_clarifying_question(f"Gern! **{asked}**") == asked
    assert not is_clarifying_question("Do you mean the printer or the scanner?")
