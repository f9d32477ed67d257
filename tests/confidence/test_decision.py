"""What is done about a question, from its confidence and the posterior at its hits."""

import numpy as np
import pytest

from uec_rag.base.errors import InternalError
from uec_rag.confidence.decision import ambiguities, decide_one, outcome

IDS = [["a", "b", "c"]]


def ambiguity(posterior, in_corpus=1.0):
    """Whether hits of these shares compete."""
    return ambiguities(np.float32([posterior]), IDS, np.float32([in_corpus]))[0]


@pytest.mark.parametrize("numbers", [(np.nan, 1.0), (0.5, np.nan)])
def test_a_confidence_that_is_no_number_is_a_defect_of_ours(numbers):
    with pytest.raises(InternalError, match="a confidence is not a number"):
        decide_one(numbers[0], None, in_corpus=numbers[1])


def test_answer_above_the_threshold_only():
    assert decide_one(0.71, None, threshold=0.7).action == "answer"
    assert decide_one(0.70, None, threshold=0.7).action == "abstain"


def test_several_passages_that_share_the_posterior_ask_back():
    decision = decide_one(0.3, ambiguity([0.5, 0.48, 0.01]))
    assert decision.action == "clarify"
    assert decision.candidates == ("a", "b")
    assert "2 passages compete" in decision.reason


@pytest.mark.parametrize(
    "posterior",
    [
        [0.9, 0.05, 0.01],  # a clear winner
        [0.6, 0.14, 0.14],  # others far behind it
        [0.1, 0.09, 0.08],  # spread over the rest of the corpus
    ],
)
def test_passages_that_do_not_compete_for_the_posterior_abstain(posterior):
    decision = decide_one(0.1, ambiguity(posterior))
    assert decision.action == "abstain"
    assert decision.candidates == ()
    assert "0.10" in decision.reason


def test_an_infinite_threshold_never_answers():
    decision = decide_one(1.0, None, threshold=np.inf)
    assert decision.action == "abstain"
    assert "no threshold keeps the risk" in decision.reason


def test_passages_that_compete_are_not_asked_back_about_where_none_is_plausible():
    rivals = [0.5, 0.48, 0.01]
    assert ambiguity(rivals, in_corpus=0.1) is None
    assert ambiguity(rivals, in_corpus=0.4) is not None


def test_what_competes_is_told_of_an_answer_too():
    assert decide_one(0.9, ambiguity([0.5, 0.48, 0.01])).candidates == ("a", "b")


def test_the_reason_says_which_of_the_two_questions_is_doubtful():
    assert "corpus hardly holds an answer" in decide_one(0.1, None, in_corpus=0.15).reason
    assert "hardly among these hits" in decide_one(0.1, None, in_corpus=0.8).reason
    assert "not sure enough" in decide_one(0.4, None, in_corpus=0.6).reason


def test_what_is_strange_about_a_question_is_said_and_changes_nothing():
    decision = decide_one(0.9, None, unfamiliar="the question is in Thai")
    assert decision.action == "answer"
    assert decision.reason.endswith("; the question is in Thai")


def test_a_trace_tells_of_one_decision_a_number_and_of_several_a_list():
    one, two = decide_one(0.9, None, in_corpus=0.95), decide_one(0.1, None, in_corpus=0.2)
    assert outcome([one]) == {"decision": "answer", "confidence": 0.9, "in_corpus": 0.95}
    assert outcome([one, two])["decision"] == ["answer", "abstain"]
