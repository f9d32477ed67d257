"""Counterevidence of first hits."""

import numpy as np
import pytest

from uec_rag.confidence.counterevidence import counterevidence, log_likelihood_ratio


@pytest.mark.parametrize("kind", ["unnamed", "outside"])
def test_a_name_that_most_of_a_corpus_lacks_is_little_evidence(kind):
    most, many, few = (log_likelihood_ratio(kind, share) for share in (0.99, 0.6, 0.1))
    assert few < many < most < 0
    assert most > -0.3 or kind == "outside"


def test_another_of_the_first_texts_may_stand_in_at_the_cost_of_its_similarity():
    near, far = (
        counterevidence(np.array(logits), [-3.0, 0.0]) for logits in ([3.0, 2.5], [3.0, 1.0])
    )
    assert near == pytest.approx(-0.5)
    assert far == pytest.approx(-2.0)
    assert counterevidence(np.array([3.0, 1.0]), [-1.0, 0.0]) == -1.0
    assert counterevidence(np.array([3.0, 1.0]), [0.0, -1.0]) == 0.0
