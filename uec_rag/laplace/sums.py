"""Curvature accumulated in parts, put together: its sums are additive over the pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from laplace import KronLaplace
from laplace.utils import Kron

if TYPE_CHECKING:
    from laplace import ParametricLaplace
    from torch import Tensor


def added(parts: Sequence[ParametricLaplace]) -> ParametricLaplace:
    """The Laplace approximation of all pairs, from those of disjoint parts of them.

    G, H and the loss are sums; A is a mean over a part's pairs, and counts with their number.

    Parameters
    ----------
    parts : sequence of ParametricLaplace
        Fitted at the same parameters; the first is changed and returned.
    """
    whole, total = parts[0], sum(part.n_data for part in parts)
    whole.loss = sum(part.loss for part in parts)
    if isinstance(whole, KronLaplace):
        output, features = zip(*map(_factors, parts), strict=True)
        shares = [part.n_data / total for part in parts]
        mean = sum(a * share for a, share in zip(features, shares, strict=True))
        whole.H_facs = Kron([(sum(output), mean)])  # type: ignore[list-item]  # its stub says one
        whole.H = whole.H_facs.decompose(damping=whole.damping)
    else:
        whole.H = sum(part.H for part in parts)
    whole.n_data = total
    return whole


def _factors(part: ParametricLaplace) -> tuple[Tensor, Tensor]:
    """G and A."""
    factors: Any = cast(KronLaplace, part).H_facs
    output, features = factors.kfacs[0]
    return output, features
