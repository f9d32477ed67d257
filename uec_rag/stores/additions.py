"""What every store checks of passages before it takes them."""

from __future__ import annotations

from collections.abc import Sequence

from uec_rag.base.gaussian import Gaussian
from uec_rag.stores.base import Passage


def check_addition(passages: Sequence[Passage], gaussians: Gaussian) -> None:
    """Raise ValueError unless there is one Gaussian per passage and no id comes twice."""
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
