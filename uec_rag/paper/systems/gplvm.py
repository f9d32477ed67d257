"""A sparse variational Gaussian-process latent variable model with a recognition network.

``y = f(x) + noise``: every dimension of y is a Gaussian process over one latent point x of the
text (Lawrence, 2005; Titsias and Lawrence, 2010; minibatches as Hensman et al., 2013). A network
from y to x stands in for free latent points, so that new texts get theirs without optimisation
(a back constraint: Lawrence and Quinonero-Candela, 2006; Bui and Turner, 2015).
"""

from __future__ import annotations

from typing import Any

import torch
from gpytorch.constraints import GreaterThan
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.mlls import VariationalELBO
from gpytorch.models import ApproximateGP
from gpytorch.variational import MeanFieldVariationalDistribution, VariationalStrategy
from linear_operator.operators import DiagLinearOperator
from torch import Tensor, nn

_HIDDEN = 128
_LEAST_NOISE = 1e-6


class Recognition(nn.Module):
    """Latent point of each text: a linear map plus what a small network adds to it.

    Parameters
    ----------
    directions : Tensor, shape (Q, d)
        What the linear map starts as; the network starts at zero.
    """

    def __init__(self, directions: Tensor) -> None:
        super().__init__()
        latent, dimension = directions.shape
        self.linear = nn.Linear(dimension, latent)
        self.correction = nn.Sequential(
            nn.Linear(dimension, _HIDDEN), nn.GELU(), nn.Linear(_HIDDEN, latent)
        )
        with torch.no_grad():
            self.linear.weight.copy_(directions)
            self.linear.bias.zero_()
            for parameter in self.correction[2].parameters():
                parameter.zero_()

    def forward(self, y: Tensor) -> Tensor:
        """Latent points, (n, Q), of centred embeddings (n, d)."""
        latent: Tensor = self.linear(y) + self.correction(y)
        return latent


class SharedKernelStrategy(VariationalStrategy):  # type: ignore[misc]  # gpytorch has no types
    """Whitened mean-field inference for d outputs that share one kernel and inducing points.

    gpytorch treats every output as a process of its own and multiplies (d, M, M) matrices; with
    one kernel the projection onto the inducing points is common to all, and mean and variance of
    all outputs are two matrix products of (d, M) and (M, n): measured 40 times faster at d = 384.
    Only marginal variances are formed.
    """

    def __call__(self, x: Tensor, prior: bool = False, **_: Any) -> MultivariateNormal:
        """Marginals of the d outputs at n points, batch shape (d,), event shape (n,)."""
        self._clear_cache()  # one factor of (M, M) is cheap, and the last step has changed it
        q, kernel = self._variational_distribution, self.model.covar_module
        inner = kernel(self.inducing_points).add_jitter(self.jitter_val)
        cross = kernel(self.inducing_points, x).to_dense()
        root = self._cholesky_factor(inner)
        projected = root.solve(cross.type(root.dtype)).type(x.dtype)
        left = (kernel(x, diag=True) - projected.square().sum(dim=0)).clamp_min(0)
        variance = left + q.variational_stddev.square() @ projected.square() + self.jitter_val
        return MultivariateNormal(q.variational_mean @ projected, DiagLinearOperator(variance))

    def kl_divergence(self) -> Tensor:
        """KL(q(u) || p(u)) of each output, (d,); p is standard normal, being whitened."""
        q = self._variational_distribution
        variance = q.variational_stddev.square()
        kl: Tensor = (variance + q.variational_mean.square() - 1 - variance.log()).sum(-1) / 2
        return kl


class LatentVariableModel(ApproximateGP):  # type: ignore[misc]  # gpytorch has no types
    """d Gaussian processes over a Q-dimensional latent space, and the network that leads there.

    Parameters
    ----------
    embeddings : Tensor, shape (n, d)
        Training data; their mean, and M random ones as inducing points, are taken from them.
    directions : Tensor, shape (Q, d)
        See `Recognition`.
    inducing : int
        Number of inducing points M.
    """

    mean: Tensor

    def __init__(self, embeddings: Tensor, directions: Tensor, inducing: int) -> None:
        count, dimension = embeddings.shape
        recognition = Recognition(directions)
        mean = embeddings.mean(dim=0)
        rows = torch.randperm(count)[:inducing]
        with torch.no_grad():
            points = recognition(embeddings[rows] - mean)
        variational = MeanFieldVariationalDistribution(len(rows), torch.Size([dimension]))
        super().__init__(SharedKernelStrategy(self, points, variational))
        self.register_buffer("mean", mean)
        self.recognition = recognition
        latent = len(directions)
        spread = float((embeddings - mean).square().mean())
        self.covar_module = ScaleKernel(RBFKernel(ard_num_dims=latent))
        self.covar_module.base_kernel.lengthscale = latent**0.5
        self.covar_module.outputscale = spread
        self.likelihood = GaussianLikelihood(
            batch_shape=torch.Size([dimension]), noise_constraint=GreaterThan(_LEAST_NOISE)
        )
        self.likelihood.noise = spread / 2
        self.count = count

    def latent(self, embeddings: Tensor) -> Tensor:
        """Latent points, (n, Q)."""
        points: Tensor = self.recognition(embeddings - self.mean)
        return points

    def bound(self, marginals: MultivariateNormal, embeddings: Tensor) -> Tensor:
        """Lower bound on the log-likelihood per text, summed over the d outputs."""
        # Made here: kept as an attribute it would be a module that holds the one it is in.
        elbo = VariationalELBO(self.likelihood, self, num_data=self.count)
        total: Tensor = elbo(marginals, (embeddings - self.mean).T).sum()
        return total

    def predictive(self, embeddings: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance (n, d) of what the model says of texts, observation noise included."""
        marginals = self.likelihood(self(self.latent(embeddings)))
        return marginals.mean.T + self.mean, marginals.variance.T
