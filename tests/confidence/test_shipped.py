"""What comes with the package for ensembles that know no better."""

import numpy as np
import pytest

from uec_rag.confidence.model import shipped_model, summarise


@pytest.mark.parametrize("kind", ["fitted", "words", "unfitted"])
def test_it_knows_a_clear_answer_from_none(kind):
    model = shipped_model(kind)
    rng = np.random.default_rng(0)
    crowd = rng.normal(0 if kind == "unfitted" else -6, 1, (1, 200)).astype(np.float32)
    clear = crowd.copy()
    clear[0, 7] = 6.0
    sure = []
    for logits in (clear, crowd):
        hits = -np.sort(-logits, axis=1)[:, :4]
        summary = summarise(logits, model.temperature)
        sure.append(model.certainty(summary, hits, best=logits.max(axis=1)))
    assert sure[0].confidence[0] > 0.7
    assert sure[1].confidence[0] < 0.4


def test_only_the_unfitted_ones_logits_are_standardised():
    assert shipped_model("unfitted").standardised
    assert not shipped_model("fitted").standardised
    assert not shipped_model("words").standardised


def test_members_are_asked_where_words_are_one_of_them():
    assert shipped_model("words").by_member
    assert not shipped_model("fitted").by_member
    assert not shipped_model("unfitted").by_member


def test_where_words_are_one_of_them_only_the_nearest_passages_compete():
    assert shipped_model("words").nearest
    assert not shipped_model("fitted").nearest
    assert not shipped_model("unfitted").nearest
