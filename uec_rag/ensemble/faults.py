"""Tolerance of members that fail on some texts, for `on_error="drop"`.

The mean of a member that has failed on a text is zero, while others have length 1. Its similarities
are then 0, its coefficient is set to 0, and the metadata of stored passages record it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.encoders.base import BadRows, Encoded, Encoder, Role, TermEncoder
from uec_rag.ensemble.convolution import present
from uec_rag.laplace.posterior import Posterior

OnError: TypeAlias = Literal["raise", "drop"]
"""The reaction to a member that raises, or returns no vector."""

MISSING = "uec_missing"
"""The metadata key for the names of the members that a passage is stored without."""

_log = logging.getLogger(__name__)


def missing_members(metadata: Mapping[str, object]) -> set[str]:
    """Return the names of the members that a passage is stored without."""
    names = metadata.get(MISSING)
    # Other programs may write any value to a store.
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()


def encode_all(
    encoders: Sequence[Encoder],
    posteriors: Sequence[Posterior] | None,
    texts: list[str],
    role: Role,
    *,
    show_progress: bool = False,
) -> list[Encoded]:
    """Encode texts with each member, with zeros in place of failures.

    Raises the error of a member only if all members have failed, its dimension is unknown, or it
    has no vectors.
    """
    encodes = [partial(e.encode, role=role, show_progress=show_progress) for e in encoders]
    outcomes = [_attempt(encode, texts) for encode in encodes]
    return _without_failures(outcomes, encoders, posteriors, len(texts))


async def aencode_all(
    encoders: Sequence[Encoder],
    posteriors: Sequence[Posterior] | None,
    texts: list[str],
    role: Role,
) -> list[Encoded]:
    """Run `encode_all` without blocking the event loop; members run concurrently."""
    encodes = [partial(e.aencode, role=role) for e in encoders]
    outcomes = await asyncio.gather(*(_aattempt(encode, texts) for encode in encodes))
    return await asyncio.to_thread(_without_failures, outcomes, encoders, posteriors, len(texts))


def _attempt(encode: Callable[[list[str]], Encoded], texts: list[str]) -> Encoded | Exception:
    """Encode texts with a member: zeros for texts without a vector, an exception if all fail."""
    try:
        try:
            return _checked(encode(texts))
        except BadRows as error:
            good = _good(error, texts)
            return _spread(_checked(encode([texts[row] for row in good])), good, len(texts))
    except Exception as error:  # whatever an API's client raises
        return error


async def _aattempt(
    encode: Callable[[list[str]], Awaitable[Encoded]], texts: list[str]
) -> Encoded | Exception:
    """`_attempt` for an asynchronous call."""
    try:
        try:
            return _checked(await encode(texts))
        except BadRows as error:
            good = _good(error, texts)
            return _spread(_checked(await encode([texts[row] for row in good])), good, len(texts))
    except Exception as error:
        return error


def _without_failures(
    outcomes: Sequence[Encoded | Exception],
    encoders: Sequence[Encoder],
    posteriors: Sequence[Posterior] | None,
    rows: int,
) -> list[Encoded]:
    """Replace the vectors of failed members by zeros, and log the failures."""
    failed = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    if len(failed) == len(outcomes):
        raise failed[0]
    encoded = []
    for k, (outcome, encoder) in enumerate(zip(outcomes, encoders, strict=True)):
        found, reason = outcome, "no vector for them"
        if isinstance(found, Exception):
            if isinstance(encoder, TermEncoder):
                raise found  # zeros cannot mark missing terms
            d, m = _widths(encoder, None if posteriors is None else posteriors[k], found)
            reason = f"{type(found).__name__}: {found}"
            found = Encoded(np.zeros((rows, d), np.float32), np.zeros((rows, m), np.float32))
        encoded.append(found)
        missing = rows - int(present([found.embedding]).sum())
        if missing:
            _log.warning(
                "encoder %r is left out for %d of %d texts: %s", encoder.name, missing, rows, reason
            )
    answered = present([e.embedding for e in encoded]).any(axis=1)
    if not answered.all():
        raise ValueError(
            f"texts: no encoder returned vectors for {rows - int(answered.sum())} of {rows} texts, "
            f"first for texts[{int(np.argmin(answered))}]."
        )
    return encoded


def _checked(encoded: Encoded) -> Encoded:
    """Check that all numbers are finite, since custom encoders may return anything."""
    both = np.concatenate([encoded.embedding, encoded.features], axis=1)
    good: NDArray[np.bool_] = np.isfinite(both).all(axis=1)
    if not good.all():
        raise BadRows("it returned NaN or infinity", ~good)
    return encoded


def _good(error: BadRows, texts: list[str]) -> NDArray[np.intp]:
    """Return the rows to try again; raise the error if they are unknown or there are none."""
    if len(error.rows) != len(texts) or error.rows.all():
        raise error
    return np.flatnonzero(~error.rows)


def _spread(encoded: Encoded, good: NDArray[np.intp], rows: int) -> Encoded:
    def spread(values: FloatArray) -> FloatArray:
        out = np.zeros((rows, values.shape[1]), dtype=np.float32)
        out[good] = values
        return out

    embedding = spread(encoded.embedding)
    if encoded.features is encoded.embedding:
        return Encoded(embedding, embedding)
    return Encoded(embedding, spread(encoded.features))


def _widths(encoder: Encoder, posterior: Posterior | None, failure: Exception) -> tuple[int, int]:
    """Return d and m of a member, from the fit if possible, since the member may be unreachable."""
    if posterior is not None:
        m = len(posterior.covariance)
        kron = posterior.structure == "kron"
        return (posterior.profile if kron else posterior.covariance).shape[1], m
    try:
        return encoder.dimension, encoder.feature_dimension
    except Exception:
        raise failure from None
