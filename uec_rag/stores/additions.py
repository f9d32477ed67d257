"""What every store checks of passages before it takes them."""

from __future__ import annotations

from collections.abc import Sequence

from uec_rag.base.gaussian import Gaussian
from uec_rag.stores.base import Passage
from uec_rag.stores.make_passages import keepable

_LARGEST = 1e19  # variance: the product of a query's and a passage's is still a float32


def checked_addition(passages: Sequence[Passage], gaussians: Gaussian) -> list[Passage]:
    """Passages as a store keeps them, their metadata copied.

    Raises
    ------
    ValueError
        If there is not one Gaussian per passage, an id comes twice, or a variance is above 1e19.
    TypeError, ValueError
        If a saved index could not keep a passage, see `uec_rag.stores.metadata.kept`.
    """
    if not isinstance(gaussians, Gaussian):
        raise TypeError(f"gaussians: expected a Gaussian, got {type(gaussians).__name__}.")
    check_range(gaussians, "gaussians")
    if len(passages) != len(gaussians):
        raise ValueError(
            f"gaussians: expected {len(passages)}, one per passage, got {len(gaussians)}."
        )
    kept = [keepable(passage) for passage in passages]
    seen: set[str] = set()
    for passage in kept:
        if passage.id in seen:
            raise ValueError(
                f"ids: {passage.id!r} is given twice; expected distinct ids in one call."
            )
        seen.add(passage.id)
    return kept


def check_range(gaussians: Gaussian, name: str) -> None:
    """Raise ValueError where variances are too large for scores in float32."""
    largest = float(gaussians.scales.max(initial=0.0))
    if gaussians.profile is not None:
        largest *= float(gaussians.profile.max(initial=0.0))
    if largest > _LARGEST:
        raise ValueError(
            f"{name}: expected variances <= {_LARGEST:g}, got {largest:g}: their products are "
            "beyond float32. Fit the ensemble again, or scale the embeddings."
        )
