"""What comes with the package for ensembles that know no better."""

import numpy as np
import pytest

from uec_rag.confidence.model import features, shipped_model


@pytest.mark.parametrize("kind", ["fitted", "words", "unfitted"])
def test_it_knows_a_clear_answer_from_none(kind):
    model = shipped_model(kind)
    rng = np.random.default_rng(0)
    crowd = -np.sort(-rng.normal(0 if kind == "unfitted" else -6, 1, (1, 30)), axis=1)
    clear = crowd.copy()
    clear[0, 0] = 6.0
    sure = []
    for logits in (clear.astype(np.float32), crowd.astype(np.float32)):
        seen = features(logits, np.zeros_like(logits), logits[:, :1], model.temperature)
        sure.append(model.probabilities(seen))
    assert sure[0].confidence[0] > 0.7
    assert sure[1].confidence[0] < 0.4


def test_only_the_unfitted_ones_logits_are_standardised():
    assert shipped_model("unfitted").standardised
    assert not shipped_model("fitted").standardised
    assert not shipped_model("words").standardised
