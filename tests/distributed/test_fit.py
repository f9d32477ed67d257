"""A fit on several nodes is the fit of one."""

import numpy as np
import pytest

from tests.distributed.encoders import Words
from tests.helpers import LinearHead, pairs
from uec_rag import UEC
from uec_rag.distributed import Resources, fit

pytestmark = pytest.mark.slow


def shared_by(posterior):
    """What does not depend on the sign of an eigenvector: A^-1 and not its root."""
    root = posterior.covariance
    return [root @ root.T if posterior.structure == "kron" else root, posterior.profile]


@pytest.mark.parametrize("structure", ["kron", "diag"])
def test_it_is_the_fit_of_one_machine(cluster, tmp_path, structure):
    encoders = [Words(16, "small", 0, str(tmp_path)), LinearHead(), "bm25"]
    here = UEC(encoders, structure=structure).fit(pairs(700))
    there = fit(UEC(encoders, structure=structure), pairs(700), Resources(workers=1, num_cpus=0.5))
    for one, other in zip(here.posteriors, there.posteriors, strict=True):
        for value, found in zip(shared_by(one), shared_by(other), strict=True):
            largest = np.abs(value).max(initial=1e-12)
            np.testing.assert_allclose(found, value, atol=1e-5 * largest)
        for name in ("slope", "intercept", "scale", "nll", "prior_precision"):
            expected = pytest.approx(getattr(one.summary, name), rel=1e-5)
            assert getattr(other.summary, name) == expected, name
    queries = [query for query, _ in pairs(20, seed=1)]
    one, other = here.embed(queries, "query"), there.embed(queries, "query")
    np.testing.assert_allclose(one.mean, other.mean, atol=1e-6)
    np.testing.assert_allclose(other.variance, one.variance, atol=1e-5 * one.variance.max())
