"""One embedding of a framework's own, where an ensemble is expected: a plain vector search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeGuard

from uec_rag.encoders import EncoderLike
from uec_rag.ensemble.uec import UEC


class Wrapper(Protocol):
    """A framework's embedding around an ensemble."""

    @property
    def uec(self) -> UEC: ...  # noqa: D102


class PlainEnsemble(UEC):
    """An ensemble of one encoder that nobody has forgotten to fit: it does not warn."""

    def _warn_unfitted(self) -> None:
        pass


def as_ensemble(
    value: object,
    wrapper: type[Wrapper],
    is_embedding: Callable[[object], TypeGuard[EncoderLike]],
    *,
    argument: str,
    expected: str,
) -> UEC:
    """Return the ensemble that a value stands for.

    None stands for `UEC()`. An embedding becomes an ensemble of one member that is not fitted: a
    plain vector search, variance 0.

    Parameters
    ----------
    value : UEC, wrapper, embedding or None
    wrapper : type
        The framework's embedding around an ensemble.
    is_embedding : callable
        Whether a value is an embedding of the framework.
    argument, expected : str
        For the error: the argument's name, and what it may be beside a UEC.

    Raises
    ------
    TypeError
        If it is none of these.
    """
    if value is None:
        return UEC()
    if isinstance(value, UEC):
        return value
    if isinstance(value, wrapper):
        return value.uec
    if not is_embedding(value):
        raise TypeError(
            f"{argument}: expected a UEC, {expected}, got {type(value).__name__} {value!r:.60}; "
            "make an ensemble with UEC([encoder, ...])."
        )
    return PlainEnsemble([value])
