"""Curvature in parts adds up to that of all pairs."""

import numpy as np
import pytest

from uec_rag.encoders import Encoded, check_vectors
from uec_rag.laplace.fit import Batches, Model, accumulate
from uec_rag.laplace.pairs import LabelledPairs
from uec_rag.laplace.sums import added


def encoded(count, seed):
    rng = np.random.default_rng(seed)
    embedding = check_vectors(rng.standard_normal((count, 6)), rows=count, encoder="random")
    return Encoded(embedding, rng.standard_normal((count, 9)).astype(np.float32))


@pytest.mark.parametrize("structure", ["kron", "diag"])
@pytest.mark.parametrize("likelihood", ["pairs", "in_batch"])
@pytest.mark.parametrize("count", [1, 3, 8, 100])
def test_parts_add_up(structure, likelihood, count):
    rng = np.random.default_rng(1)
    query, passage = rng.integers(0, 40, (2, 300))
    labels = rng.integers(0, 2, 300) if likelihood == "pairs" else np.arange(300) % 32
    pairs = LabelledPairs(query, passage, labels.astype(np.float32))
    batches = Batches(encoded(40, 2), encoded(40, 3), pairs, 32)
    model = Model(rng.uniform(0.5, 2, 6).astype(np.float32), 7.0, -1.0, structure, likelihood)
    whole = accumulate(batches, model)
    parts = [*batches.parts(count)]
    assert sum(len(part.pairs) for part in parts) == 300
    assert len(parts) <= count
    assert all(len(part.queries) <= 40 for part in parts)
    summed = added([accumulate(part, model) for part in parts])
    assert summed.n_data == whole.n_data
    assert float(summed.loss) == pytest.approx(float(whole.loss), rel=1e-5)
    if structure == "diag":
        np.testing.assert_allclose(summed.H, whole.H, rtol=1e-5)
    else:
        for one, other in zip(summed.H_facs.kfacs[0], whole.H_facs.kfacs[0], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5 * float(other.abs().max()))
    assert float(summed.log_marginal_likelihood()) == pytest.approx(
        float(whole.log_marginal_likelihood()), rel=1e-4
    )
