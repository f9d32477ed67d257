"""What is done about a query, from its confidence and the posterior at its hits."""

import numpy as np
import pytest
from scipy.special import logsumexp

from uec_rag.base.errors import InternalError
from uec_rag.confidence.decision import ambiguities, decide

IDS = [["a", "b", "c"]]


def hits(logits, members=None, rest=-50.0, in_corpus=None):
    """Whether hits of these logits compete, where the rest of the corpus weighs `rest`."""
    row = np.atleast_2d(np.asarray(logits, np.float32))
    if members is None:
        members = np.zeros((1, row.shape[1]))
    normaliser = np.logaddexp(logsumexp(row, axis=1), rest).astype(np.float32)
    there = None if in_corpus is None else np.float32([in_corpus])
    return ambiguities(np.exp(row - normaliser), np.asarray(members, np.float32)[None], IDS, there)


def act(found, sure, threshold=0.5, in_corpus=1.0):
    return decide(np.float32([sure]), found, threshold, np.float32([in_corpus]))[0]


@pytest.mark.parametrize("numbers", [(np.nan, 1.0), (0.5, np.nan)])
def test_a_confidence_that_is_no_number_is_a_defect_of_ours(numbers):
    with pytest.raises(InternalError, match="a confidence is not a number"):
        act([None], *numbers[:1], in_corpus=numbers[1])


def test_answer_above_the_threshold_only():
    found = hits([5.0, 0.0, 0.0])
    assert act(found, 0.71, threshold=0.7).action == "answer"
    assert act(found, 0.69, threshold=0.7).action != "answer"


def test_several_passages_that_share_the_posterior_ask_back():
    decision = act(hits([2.0, 1.9, -4.0]), 0.3)
    assert decision.action == "clarify"
    assert decision.candidates == ("a", "b")
    assert "2 passages compete" in decision.reason


def test_encoders_sure_of_different_passages_ask_back():
    members = [[0.9, 0.05, 0.0], [0.0, 0.1, 0.8]]
    decision = act(hits([1.0, 0.0, 0.9], members, rest=4.0), 0.3)
    assert decision.action == "clarify"
    assert decision.candidates == ("a", "c")
    assert "encoders are sure of different passages" in decision.reason


def test_encoders_sure_of_the_same_passage_do_not_disagree():
    members = [[0.9, 0.0, 0.0], [0.8, 0.1, 0.0]]
    assert act(hits([1.0, -9.0, -9.0], members, rest=4.0), 0.3).action == "abstain"


def test_a_posterior_spread_over_the_rest_of_the_corpus_abstains():
    decision = act(hits([1.0, 0.9, 0.8], rest=6.0), 0.1)
    assert decision.action == "abstain"
    assert decision.candidates == ()
    assert "0.10" in decision.reason


def test_an_infinite_threshold_never_answers():
    assert act(hits([9.0, 0.0, 0.0]), 1.0, threshold=np.inf).action == "abstain"


def test_passages_that_compete_are_not_asked_back_about_where_none_is_plausible():
    rivals = [2.0, 1.9, -4.0]
    assert act(hits(rivals, in_corpus=0.1), 0.1).action == "abstain"
    assert act(hits(rivals, in_corpus=0.4), 0.1).action == "clarify"


def test_the_reason_says_which_of_the_two_questions_is_doubtful():
    none = hits([1.0, 0.9, 0.8], rest=6.0)
    assert "corpus hardly holds an answer" in act(none, 0.1, in_corpus=0.15).reason
    assert "hardly among these hits" in act(none, 0.1, in_corpus=0.8).reason
