"""The closed forms against autograd in float64, and against laplace-torch's own backends."""

import pytest
import torch
from torch import nn

from uec_rag.base.environment import shield_from_broken_torchvision

shield_from_broken_torchvision()

from laplace import Laplace  # noqa: E402
from laplace.curvature import AsdlGGN, BackPackGGN, CurvlinopsGGN  # noqa: E402

from uec_rag.laplace.curvature import InBatchGGN, InBatchModel, PairGGN, PairModel  # noqa: E402

N, M, D = 24, 5, 4
SLOPE, INTERCEPT = 2.0, -0.5
BOTH = pytest.mark.parametrize(
    ("model_class", "backend"), [(PairModel, PairGGN), (InBatchModel, InBatchGGN)]
)


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


def texts(generator, dtype, gain, weight):
    """Features of both sides beside the embeddings, as `PairModel` takes them; labels."""
    features = torch.randn(N, 2, M, generator=generator, dtype=dtype) / 2
    return features, torch.cat([features, gain * (features @ weight.T)], dim=-1)


def answers(model_class, generator):
    if model_class is InBatchModel:
        return torch.arange(N)
    return torch.randint(0, 2, (N,), generator=generator)


def hessian_of_the_loss(logits):
    """Lambda = diag(p) - p p' of the softmax, (n, C, C)."""
    p = logits.softmax(dim=-1)
    return torch.diag_embed(p) - p[:, :, None] * p[:, None, :]


class InDouble:
    """A pair model in float64 with gains, away from its pre-trained weights."""

    def __init__(self, model_class, backend, generator):
        self.gain = torch.rand(D, generator=generator, dtype=torch.float64) + 0.5
        weight = torch.randn(D, M, generator=generator, dtype=torch.float64)
        self.features, self.x = texts(generator, torch.float64, self.gain, weight)
        self.y = answers(model_class, generator)
        self.model = model_class(D, M, SLOPE, INTERCEPT, self.gain)
        self.model.delta.data = torch.randn(D, M, generator=generator, dtype=torch.float64) / 5
        self.backend = backend(self.model, "classification")

    def logits(self, weights):
        return torch.func.functional_call(self.model, {"delta": weights}, self.x)


@pytest.fixture
def in_double(generator):
    return lambda model_class, backend: InDouble(model_class, backend, generator)


@BOTH
def test_the_diagonal_equals_that_of_the_full_ggn_by_autograd(in_double, model_class, backend):
    case = in_double(model_class, backend)
    jacobian = torch.func.jacrev(case.logits)(case.model.delta.detach()).flatten(2)
    curvature = hessian_of_the_loss(case.model(case.x).detach())
    full = torch.einsum("ncp,ncd,ndq->pq", jacobian, curvature, jacobian)
    _, diagonal = case.backend.diag(case.x, case.y)
    torch.testing.assert_close(diagonal, full.diagonal(), rtol=1e-8, atol=1e-8)


@BOTH
def test_the_kronecker_factors_are_the_second_moments_autograd_finds(
    in_double, model_class, backend
):
    """A: of the layer's inputs, the mean. G: of its output gradients under the loss's curvature.

    G sums over every place where the layer is applied (weight sharing of the "expand" kind:
    Eschenhagen et al., 2023): each side of each pair.
    """
    case = in_double(model_class, backend)
    outputs = case.features @ case.model.delta.detach().T

    def logits_of(outputs):
        z = case.x[..., M:] + case.gain * outputs
        if model_class is InBatchModel:
            return SLOPE * z[:, 0] @ z[:, 1].T
        logit = SLOPE * (z[:, 0] * z[:, 1]).sum(dim=-1, keepdim=True) + INTERCEPT
        return torch.cat([torch.zeros_like(logit), logit], dim=-1)

    torch.testing.assert_close(logits_of(outputs), case.model(case.x).detach())
    gradient = torch.func.jacrev(logits_of)(outputs)  # (n, C, n, 2, D)
    curvature = hessian_of_the_loss(logits_of(outputs))
    expected_g = torch.einsum("ncksi,ncd,ndksj->ij", gradient, curvature, gradient)
    expected_a = torch.einsum("nsi,nsj->ij", case.features, case.features) / (2 * N)

    _, kron = case.backend.kron(case.x, case.y, N=N)
    g, a = kron.kfacs[0]
    torch.testing.assert_close(g, expected_g, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(a, expected_a, rtol=1e-8, atol=1e-8)


@BOTH
def test_the_loss_is_the_negative_log_likelihood(in_double, model_class, backend):
    case = in_double(model_class, backend)
    expected = -case.model(case.x).log_softmax(dim=-1)[torch.arange(N), case.y].sum()
    for loss, _ in (case.backend.diag(case.x, case.y), case.backend.kron(case.x, case.y, N=N)):
        torch.testing.assert_close(loss, expected.detach(), rtol=1e-8, atol=1e-8)


def test_batches_of_pairs_add_up(in_double):
    case = in_double(PairModel, PairGGN)
    parts = [slice(0, 7), slice(7, None)]
    diagonal = sum(case.backend.diag(case.x[p], case.y[p])[1] for p in parts)
    torch.testing.assert_close(diagonal, case.backend.diag(case.x, case.y)[1])
    kron = [case.backend.kron(case.x[p], case.y[p], N=N)[1] for p in parts]
    whole = case.backend.kron(case.x, case.y, N=N)[1].kfacs[0]
    for factor, expected in zip((kron[0] + kron[1]).kfacs[0], whole, strict=True):
        torch.testing.assert_close(factor, expected)


def test_a_full_ggn_is_refused(in_double):
    case = in_double(PairModel, PairGGN)
    with pytest.raises(ValueError, match="structure: expected 'diag' or 'kron'"):
        case.backend.full(case.x, case.y)


class OneLinearLayer(nn.Module):
    """The last layer as torch has it, which laplace-torch's own backends understand."""

    def __init__(self, weight):
        super().__init__()
        self.linear = nn.Linear(M, D, bias=False)
        self.linear.weight.data = weight.clone()


class Siamese(OneLinearLayer):
    """The same logits as `PairModel`, written with one linear layer applied to both sides."""

    def forward(self, x):
        z = self.linear(x)
        logit = SLOPE * (z[:, 0] * z[:, 1]).sum(dim=-1, keepdim=True) + INTERCEPT
        return torch.cat([torch.zeros_like(logit), logit], dim=-1)


class OneAgainstAll(OneLinearLayer):
    """The same logits as a row of `InBatchModel`: a query, then every passage, (n, 1 + n, m)."""

    def forward(self, x):
        z = self.linear(x)
        return SLOPE * (z[:, :1] * z[:, 1:]).sum(dim=-1)


@pytest.fixture
def layer(generator):
    """Weights of a small layer, features of pairs, and the input of `PairModel` for the same."""
    weight = torch.randn(D, M, generator=generator)
    features, x = texts(generator, torch.float32, torch.ones(D), weight)
    return weight, features, x


def pair_backend(backend, model_class):
    return backend(model_class(D, M, SLOPE, INTERCEPT, torch.ones(D)), "classification")


def test_pairs_equal_laplace_torch_with_curvlinops(layer, generator):
    """diag, and both factors of kron: curvlinops' KFAC shares weights in the "expand" way.

    BackPACK has no rule for a layer that is used twice, and ASDL leaves out the product of the two
    sides, so neither can say anything about pairs.
    """
    weight, features, x = layer
    y = answers(PairModel, generator)
    ours, theirs = (
        pair_backend(PairGGN, PairModel),
        CurvlinopsGGN(Siamese(weight), "classification"),
    )
    for one, other in zip(ours.diag(x, y), theirs.diag(features, y, N=N), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    (_, kron), (_, expected) = ours.kron(x, y, N=N), theirs.kron(features, y, N=N)
    for one, other in zip(kron.kfacs[0], expected.kfacs[0], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_the_softmax_over_a_batch_equals_laplace_torch_with_curvlinops(layer):
    """diag, and the factor G. Of A curvlinops would average over n (n + 1) places, each passage
    once per query; ours counts every text once, which is compared with autograd above.
    """
    weight, features, x = layer
    y = torch.arange(N)
    rows = torch.cat([features[:, None, 0], features[None, :, 1].expand(N, N, M)], dim=1)
    ours = pair_backend(InBatchGGN, InBatchModel)
    theirs = CurvlinopsGGN(OneAgainstAll(weight), "classification")
    for one, other in zip(ours.diag(x, y), theirs.diag(rows, y, N=N), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    g = ours.kron(x, y, N=N)[1].kfacs[0][0]
    torch.testing.assert_close(g, theirs.kron(rows, y, N=N)[1].kfacs[0][0], rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.*backward hook")
@pytest.mark.parametrize("other", [BackPackGGN, AsdlGGN, CurvlinopsGGN])
def test_with_one_side_held_fixed_every_backend_of_laplace_torch_agrees(layer, generator, other):
    """Passages with no features: the layer is used once, which all of them can differentiate."""
    weight, features, x = layer
    y = answers(PairModel, generator)
    fixed = torch.randn(D, generator=generator)
    x = x.clone()
    x[:, 1] = torch.cat([torch.zeros(M), fixed])
    to_logits = nn.Linear(D, 2)
    to_logits.weight.data = torch.stack([torch.zeros(D), SLOPE * fixed])
    to_logits.bias.data = torch.tensor([0.0, INTERCEPT])
    first = nn.Linear(M, D, bias=False)
    first.weight.data = weight.clone()
    theirs = other(nn.Sequential(first, to_logits), "classification")
    _, expected = theirs.diag(features[:, 0].contiguous(), y, N=N)
    _, diagonal = pair_backend(PairGGN, PairModel).diag(x, y)
    torch.testing.assert_close(diagonal, expected[: D * M], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("structure", ["diag", "kron"])
def test_the_marginal_likelihood_over_several_batches_is_laplace_torchs_own(
    layer, generator, structure
):
    weight, features, x = layer
    y = answers(PairModel, generator)

    def fitted(model, inputs, backend, prior_mean):
        data = torch.utils.data.TensorDataset(inputs, y)
        laplace = Laplace(
            model,
            "classification",
            subset_of_weights="all",
            hessian_structure=structure,
            backend=backend,
            prior_mean=prior_mean,
        )
        laplace.fit(torch.utils.data.DataLoader(data, batch_size=10))
        return laplace

    model = PairModel(D, M, SLOPE, INTERCEPT, torch.ones(D))
    ours = fitted(model, x, PairGGN, 0.0)
    theirs = fitted(Siamese(weight), features, CurvlinopsGGN, weight.flatten())
    for precision in (0.01, 1.0, 30.0):
        torch.testing.assert_close(
            ours.log_marginal_likelihood(torch.tensor(precision)),
            theirs.log_marginal_likelihood(torch.tensor(precision)),
            rtol=1e-4,
            atol=1e-4,
        )
