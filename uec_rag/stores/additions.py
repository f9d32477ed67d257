"""What every store checks of passages before it takes them."""

from __future__ import annotations

from collections.abc import Sequence

from uec_rag.base.gaussian import Gaussian
from uec_rag.stores.base import Passage
from uec_rag.stores.make_passages import keepable


def checked_addition(passages: Sequence[Passage], gaussians: Gaussian) -> list[Passage]:
    """Passages as a store keeps them, their metadata copied.

    Raises
    ------
    ValueError
        If there is not one Gaussian per passage, or an id comes twice.
    TypeError, ValueError
        If a saved index could not keep a passage, see `uec_rag.stores.metadata.kept`.
    """
    if len(passages) != len(gaussians):
        raise ValueError(
            f"gaussians: expected {len(passages)}, one per passage, got {len(gaussians)}."
        )
    seen: set[str] = set()
    for passage in passages:
        if passage.id in seen:
            raise ValueError(
                f"ids: {passage.id!r} is given twice; expected distinct ids in one call."
            )
        seen.add(passage.id)
    return [keepable(passage) for passage in passages]
