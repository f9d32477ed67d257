"""Whether a text states anything, by its form."""

import pytest

from tests.helpers import rows_of
from uec_rag.confidence.statements import kind_of_text, log_likelihood_ratio


@pytest.mark.parametrize("row", rows_of("statements.csv"), ids=lambda row: row["text"][:40])
def test_the_form_of_a_text_tells_whether_it_states_anything(row):
    assert kind_of_text(row["text"].replace("\\n", "\n")) == row["kind"]


def test_what_states_something_is_no_evidence_and_a_question_is_the_strongest():
    asks, lists, states = (
        log_likelihood_ratio(kind_of_text(text), ["states"] * 9)
        for text in ("Who pays?", "1 Fees 2 Returns 3 Repairs", "The buyer pays.")
    )
    assert asks < lists < states == 0


def test_what_most_of_a_corpus_looks_like_is_little_evidence():
    rows = [f"Amber {n}\nBirch {n}\nCedar {n}" for n in range(30)]
    first, *others = map(kind_of_text, rows)
    few, many = (log_likelihood_ratio(first, some) for some in (others[:2], others))
    assert log_likelihood_ratio(first, []) < few < many < 0
    assert many > -0.3
