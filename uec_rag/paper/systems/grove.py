"""GroVE: probabilistic embeddings of a frozen encoder by Gaussian processes over latent points.

Venkataramanan, Bodesheim and Denzler (2025), "Probabilistic Embeddings for Frozen Vision-Language
Models: Uncertainty Quantification with Gaussian Process Latent Variable Models" (arXiv 2505.05163).
There an image and its caption share a latent point, from which one process each reconstructs their
frozen embeddings; here a query and its passage do, as the paper that introduces UEC applies it to
text. Two departures make it a matter of seconds: latent points come from a recognition network (the
authors optimise them anew for every text), and the outputs of a process share one kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, Self, get_args

import numpy as np

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.encoders import EncoderLike, Role, load_encoder
from uec_rag.encoders.base import check_role
from uec_rag.laplace.pairs import check_pairs

if TYPE_CHECKING:
    from torch import Tensor

    from uec_rag.paper.systems.gplvm import LatentVariableModel

Means = Literal["process", "frozen"]

_BATCH = 256
_ROWS = 4096
_RATE = 0.05


class Grove:
    """Gaussian embeddings on top of one frozen encoder.

    Parameters
    ----------
    encoder : whatever `load_encoder` takes
    means : {"process", "frozen"}
        "process": the Gaussian processes' means. "frozen": the encoder's own embeddings with the
        processes' variances, which is how the authors' code ranks.
    latent : int
        Dimensions Q of the latent space.
    inducing : int
        Inducing points M of each process.
    epochs : int
        Passes over the pairs.
    alignment : float
        Weight of the alignment of a pair's two Gaussians against their reconstruction.
    seed : int

    Raises
    ------
    ValueError
        If an option is out of range.
    """

    def __init__(
        self,
        encoder: EncoderLike,
        *,
        means: Means = "process",
        latent: int = 128,
        inducing: int = 256,
        epochs: int = 30,
        alignment: float = 0.1,
        seed: int = 0,
    ) -> None:
        if means not in get_args(Means):
            raise ValueError(f"means: expected one of {get_args(Means)}, got {means!r}.")
        for name, value in (("latent", latent), ("inducing", inducing), ("epochs", epochs)):
            if value < 1:
                raise ValueError(f"{name}: expected at least 1, got {value}.")
        if not alignment >= 0:
            raise ValueError(f"alignment: expected a number >= 0, got {alignment}.")
        self.encoder = load_encoder(encoder)
        self.name = f"grove({self.encoder.name})"
        self.means: Means = means
        self.latent = latent
        self.inducing = inducing
        self.epochs = epochs
        self.alignment = alignment
        self.seed = seed
        self.losses: list[float] = []
        self._models: dict[Role, LatentVariableModel] | None = None

    @property
    def dimension(self) -> int:
        """Dimension d of the Gaussians: the encoder's."""
        return self.encoder.dimension

    def fit(self, pairs: Iterable[Sequence[object]], *, show_progress: bool = False) -> Self:
        """Train both processes on pairs of a query and its passage.

        Parameters
        ----------
        pairs : iterable of (query, passage[, label])
            At least 32 positives; pairs of label 0 are not used.
        show_progress : bool
            Show the encoder's progress bar.

        Raises
        ------
        ImportError
            If gpytorch is not installed: pip install "uec-rag[evaluation]".
        """
        checked = check_pairs(pairs)
        positive = checked.labels == 1
        encode = self.encoder.encode
        queries = encode(checked.queries, "query", show_progress=show_progress).embedding
        passages = encode(checked.passages, "passage", show_progress=show_progress).embedding
        return self.fit_embeddings(
            queries[checked.query_index[positive]], passages[checked.passage_index[positive]]
        )

    def fit_embeddings(self, queries: FloatArray, passages: FloatArray) -> Self:
        """Train on the frozen embeddings themselves, (n, d) each; row i answers row i."""
        try:
            import gpytorch  # noqa: F401
        except ModuleNotFoundError as error:
            raise ImportError(
                'GroVE needs gpytorch; install it with: pip install "uec-rag[evaluation]"'
            ) from error
        import torch

        if queries.shape != passages.shape:
            raise ValueError(
                f"passages: expected the shape of queries, {queries.shape}, got {passages.shape}."
            )
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            self._train(torch.from_numpy(queries), torch.from_numpy(passages))
        return self

    def _train(self, queries: Tensor, passages: Tensor) -> None:
        import torch

        from uec_rag.paper.systems.gplvm import LatentVariableModel

        start = principal_directions(queries, passages, self.latent)
        models = [
            LatentVariableModel(side, start, self.inducing).train() for side in (queries, passages)
        ]
        optimiser = torch.optim.Adam([p for m in models for p in m.parameters()], lr=_RATE)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.epochs)
        self.losses = []
        for _ in range(self.epochs):
            total = 0.0
            for rows in torch.split(torch.randperm(len(queries)), _BATCH):
                loss = self._loss(models, [queries[rows], passages[rows]])
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                total += loss.item() * len(rows)
            schedule.step()
            self.losses.append(total / len(queries))
        self._models = {"query": models[0].eval(), "passage": models[1].eval()}

    def _loss(self, models: Sequence[LatentVariableModel], sides: Sequence[Tensor]) -> Tensor:
        """Negative bounds of both reconstructions, the latent prior, and the alignment.

        Per dimension, so that the alignment's weight means the same for any encoder.
        """
        dimension = sides[0].shape[1]
        latents = [model.latent(side) for model, side in zip(models, sides, strict=True)]
        outputs = [model(points) for model, points in zip(models, latents, strict=True)]
        bound = sum(
            model.bound(output, side)
            for model, output, side in zip(models, outputs, sides, strict=True)
        )
        prior = sum(points.square().sum(dim=1).mean() for points in latents) / 2
        query, passage = (
            (output.mean + model.mean[:, None], output.variance)
            for model, output in zip(models, outputs, strict=True)
        )
        apart = symmetric_kl(*query, *passage).sum(dim=0).mean()
        loss: Tensor = (prior - bound + self.alignment * apart) / dimension
        return loss

    def embed(
        self, texts: Sequence[str], role: Role = "passage", *, show_progress: bool = False
    ) -> Gaussian:
        """Embed texts as Gaussians with means of unit length.

        Raises
        ------
        RuntimeError
            Before `fit`.
        """
        check_role(role)
        encoded = self.encoder.encode(texts, role, show_progress=show_progress)
        return self.gaussian(encoded.embedding, role)

    def gaussian(self, embedding: FloatArray, role: Role) -> Gaussian:
        """Gaussians of texts whose frozen embeddings (n, d) are at hand."""
        import torch

        if self._models is None:
            raise RuntimeError("GroVE is not fitted; call fit(pairs) first.")
        model = self._models[role]
        with torch.no_grad():
            parts = [
                model.predictive(rows) for rows in torch.split(torch.from_numpy(embedding), _ROWS)
            ]
        mean, variance = (torch.cat(list(part)).numpy() for part in zip(*parts, strict=True))
        if self.means == "frozen":
            return Gaussian(embedding, variance)
        norm = np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-6)
        return Gaussian(mean / norm, variance / norm**2)


def principal_directions(queries: Tensor, passages: Tensor, count: int) -> Tensor:
    """Directions (Q, d) in which both sides' embeddings vary most, giving unit variance along each.

    At most as many as there are dimensions or texts.
    """
    import torch

    centred = torch.cat([queries - queries.mean(dim=0), passages - passages.mean(dim=0)])
    _, values, directions = torch.linalg.svd(centred, full_matrices=False)
    kept = min(count, int((values > 1e-4 * values[0]).sum()))
    scaled: Tensor = directions[:kept] * (len(centred) ** 0.5 / values[:kept, None])
    return scaled


def symmetric_kl(
    mean: Tensor, variance: Tensor, other_mean: Tensor, other_variance: Tensor
) -> Tensor:
    """KL(a || b) + KL(b || a) of one-dimensional Gaussians, elementwise."""
    square = (mean - other_mean).square()
    divergence: Tensor = (
        (variance + square) / other_variance + (other_variance + square) / variance
    ) / 2 - 1
    return divergence
