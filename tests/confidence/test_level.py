"""What confidence means on a corpus without labels."""

import numpy as np
import pytest

from uec_rag.confidence.level import shipped_level


def test_fewer_wrong_answers_take_a_higher_threshold():
    shares = np.linspace(0.001, 0.3, 50)
    thresholds = [shipped_level().threshold(share) for share in shares]
    assert np.all(np.diff(thresholds) <= 0)
    assert thresholds[0] > 0.97
    assert shipped_level().threshold(0.1) == pytest.approx(0.829)


def test_it_is_said_of_which_corpora():
    assert shipped_level().report == (
        "On a corpus like the 10 English collections that UEC() was tried on, with 30% of the "
        "questions unanswerable, 0.6 means 0.29 to 0.86 (90% of such corpora)."
    )
