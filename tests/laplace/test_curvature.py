"""The closed forms against laplace-torch's own backends."""

import numpy as np
import pytest
import torch
from laplace import DiagLaplace, KronLaplace
from laplace.utils import Kron
from torch import nn

from benchmarks.fit import laplace_torch_curvature
from uec_rag.encoders import Encoded
from uec_rag.laplace import fit_posterior
from uec_rag.laplace.fit_posterior import Layer, accumulate, candidates, distinct
from uec_rag.laplace.pairs import LabelledPairs

N, M, D = 48, 5, 4
STRUCTURES = pytest.mark.parametrize("structure", ["diag", "kron"])


def layer(structure, gain=None, seed=0):
    """A layer in float64, with more pairs than one batch has."""
    rng = np.random.default_rng(seed)
    gain = rng.uniform(0.5, 1.5, D) if gain is None else gain
    weight = rng.standard_normal((M, D))
    features = rng.standard_normal((2, N, M)) / 2
    sides = [Encoded(gain * (h @ weight), h) for h in features]
    labels = rng.integers(0, 2, N).astype(np.float32)
    pairs = LabelledPairs(np.arange(N), rng.permutation(N), labels)
    return Layer(*sides, pairs, gain, 2.0, -0.5, structure)


@pytest.fixture(autouse=True)
def batches_of_20(monkeypatch):
    monkeypatch.setattr(fit_posterior, "BATCH", 20)


@STRUCTURES
def test_pairs_equal_laplace_torch(structure):
    """Of its backends only curvlinops can: others have no rule for a layer that is used twice."""
    given = layer(structure)
    ours, theirs = accumulate(given), laplace_torch_curvature(given)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


def as_laplace_torch(found):
    """The same curvature as laplace-torch holds it."""
    model = nn.Linear(M, D, bias=False, dtype=torch.float64)
    kind = DiagLaplace if len(found) == 1 else KronLaplace
    laplace = kind(
        model,
        "classification",
        prior_mean=nn.utils.parameters_to_vector(model.parameters()).detach(),
    )
    factors = [torch.from_numpy(factor) for factor in found]
    if kind is DiagLaplace:
        laplace.H = factors[0].flatten()
    else:
        laplace.H_facs = Kron([[factors[0], factors[1] / (2 * N)]])
        laplace.H = laplace.H_facs.decompose()
    laplace.mean = nn.utils.parameters_to_vector(model.parameters()).detach()
    laplace.n_data = N
    return laplace


def jacobians(given):
    """Of each query's embedding by the layer's weights, (n, d, d * m)."""
    gain, features = (torch.from_numpy(x) for x in (given.gain, given.queries.features))
    return torch.einsum("jk,nm->njkm", torch.diag(gain), features).flatten(2)


def test_the_predictive_variance_of_a_diagonal_posterior_is_laplace_torchs():
    given = layer("diag")
    found, side = accumulate(given), distinct(given.queries, np.arange(N))
    laplace = as_laplace_torch(found)
    for trial in candidates(given, found, side, side):
        laplace.prior_precision = trial.prior_precision
        expected = laplace.functional_variance(jacobians(given)).diagonal(dim1=1, dim2=2)
        np.testing.assert_allclose(side[0].features ** 2 @ trial.covariance, expected, rtol=1e-6)


def test_the_predictive_variance_of_a_kronecker_posterior_is_laplace_torchs():
    """With its damping, which adds sqrt(delta) to both factors, of one mean eigenvalue here."""
    given = layer("kron")
    found, side = accumulate(given), distinct(given.queries, np.arange(N))
    output, features = found
    even = np.sqrt(np.trace(features) / M / (2 * N) / (np.trace(output) / D))
    factors = torch.from_numpy(output * even), torch.from_numpy(features / even)
    curvature = Kron([[factors[0], factors[1] / (2 * N)]]).decompose()
    for trial in candidates(given, found, side, side):
        precision = curvature + torch.tensor(trial.prior_precision, dtype=torch.float64)
        precision.damping = True  # which its sum forgets
        expected = precision.inv_square_form(jacobians(given)).diagonal(dim1=1, dim2=2)
        leverage = ((side[0].features @ trial.covariance) ** 2).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(leverage * trial.profile, expected, rtol=1e-6)
