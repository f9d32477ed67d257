"""Counterevidence of first hits."""

import numpy as np
import pytest

from tests.helpers import rows_of
from uec_rag.confidence.counterevidence import (
    counterevidence,
    kind_of_text,
    log_likelihood_ratio,
)


@pytest.mark.parametrize("row", rows_of("statements.csv"), ids=lambda row: row["text"][:40])
def test_the_form_of_a_text_tells_whether_it_states_anything(row):
    assert kind_of_text(row["text"].replace("\\n", "\n")) == row["kind"]


def test_what_states_something_is_no_evidence_and_a_question_is_the_strongest():
    asks, lists, states = (
        log_likelihood_ratio(kind_of_text(text), 0.003)
        for text in ("Who pays?", "1 Fees 2 Returns 3 Repairs", "The buyer pays.")
    )
    assert asks < lists < states == 0


@pytest.mark.parametrize("kind", ["lists", "unnamed", "outside"])
def test_what_most_of_a_corpus_is_like_is_little_evidence(kind):
    most, many, few = (log_likelihood_ratio(kind, share) for share in (0.99, 0.6, 0.1))
    assert few < many < most < 0
    assert most > -0.3 or kind == "outside"


def test_another_of_the_first_texts_may_stand_in_at_the_cost_of_its_similarity():
    question, answer = "How do I reset it?", "Press the button for ten seconds to reset it."
    near, far = (
        counterevidence([question, answer], np.array(each), [0.0, 0.0])
        for each in ([3.0, 2.5], [3.0, 1.0])
    )
    assert near == pytest.approx(-0.5)
    assert far == pytest.approx(-2.0)
    assert counterevidence([answer, question], np.array([3.0, 1.0]), [-1.0, 0.0]) == -1.0
    assert counterevidence([answer, question], np.array([3.0, 1.0]), [0.0, 0.0]) == 0.0
