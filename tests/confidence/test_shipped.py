"""What comes with the package for ensembles that know no better."""

import numpy as np
import pytest

from uec_rag.confidence.features import summarise
from uec_rag.confidence.shipped import shipped_model


@pytest.mark.parametrize("kind", ["fitted", "unfitted"])
def test_it_knows_a_clear_answer_from_none(kind):
    model = shipped_model(kind)
    rng = np.random.default_rng(0)
    crowd = rng.normal(-6 if kind == "fitted" else 0, 1, (1, 200)).astype(np.float32)
    clear = crowd.copy()
    clear[0, 7] = 6.0
    sure = []
    for logits in (clear, crowd):
        hits = -np.sort(-logits, axis=1)[:, :4]
        sure.append(model.certainty(summarise(logits, model.temperature), hits))
    assert sure[0].confidence[0] > 0.7
    assert sure[1].confidence[0] < 0.4


def test_only_the_unfitted_ones_logits_are_standardised():
    assert shipped_model("unfitted").standardised
    assert not shipped_model("fitted").standardised
