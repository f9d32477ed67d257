"""What a decision says to people, and its figures."""

import math

import pytest

from uec_rag.confidence.decision import decide_one


@pytest.mark.parametrize(
    ("decided", "reason"),
    [
        (decide_one(0.9), "The documents seem to answer this."),
        (decide_one(0.08, in_corpus=0.1), "The documents do not seem to answer this."),
        (
            decide_one(0.1, in_corpus=0.8),
            "The documents may answer this, but these passages do not seem to.",
        ),
        (
            decide_one(0.4, in_corpus=0.6),
            "It is not certain enough that these passages answer this.",
        ),
        (
            decide_one(0.4, in_corpus=0.6, unfamiliar="the question is in Thai"),
            "It is not certain enough that these passages answer this. "
            "Note: the question is in Thai.",
        ),
    ],
)
def test_the_reason_is_a_sentence_without_figures(decided, reason):
    assert decided.reason == reason


def test_the_figures_are_beside_it():
    said = decide_one(0.08, in_corpus=0.1).figures
    assert said == (
        "confidence 0.08, threshold 0.50; an answer is in the documents with probability 0.10"
    )
    assert "confidence 0.08, no threshold;" in decide_one(0.08, threshold=math.inf).figures
