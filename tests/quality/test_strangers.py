"""Texts that say nothing, with a question beside them (benchmarks/quality/questions)."""

import pytest

from benchmarks.quality.strangers import counts_of
from uec_rag import UEC


@pytest.fixture(scope="module")
def counts():
    return counts_of(UEC())


@pytest.mark.parametrize("kind", ["with its words", "on ducks"])
def test_what_answers_by_its_text_is_before_what_only_a_question_beside_it_finds(counts, kind):
    assert counts["none", "right"] == 20
    assert counts[kind, "wrong"] <= 1
    assert counts[kind, "right"] >= 18
    assert counts[kind, "shown"] == 20


def test_a_passage_in_other_words_is_answered_by_an_honest_question_beside_it(counts):
    assert counts["in other words", "right"] >= 14
