"""What a verifier makes of the first hits of a search: they are ordered anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.similarity import probit
from uec_rag.base.softmax_sums import SoftmaxSums
from uec_rag.ensemble.fitted import Fitted
from uec_rag.ensemble.verifier import Verification, Verified
from uec_rag.retrieval.result import Members
from uec_rag.retrieval.search import Asked, Scale, members_at
from uec_rag.stores.base import Found, Store


@dataclass(frozen=True, eq=False)
class Reread:
    """Hits of which a verifier has read the first v.

    Attributes
    ----------
    found : Found
        The first k hits, those that were read ordered anew, the others after them as they were.
    name : str
        The verifier's.
    verified : Verified
        What it says of them, in the order before.
    before, after : array, shape (n, v)
        Similarities of those that were read, in the order before.
    order : int array, shape (n, k)
        Place before, among the m hits that were searched for, of each.
    """

    found: Found
    name: str
    verified: Verified
    before: FloatArray
    after: FloatArray
    order: NDArray[np.intp]

    def scale(self, scale: Scale) -> Scale:
        """The scale of logits, where every passage has what the worst that was read has."""
        return replace(scale, offset=scale.offset + self.verified.floor)

    def sums(self, sums: SoftmaxSums, slope: float) -> SoftmaxSums:
        """Sums over a corpus, at a slope, with the new similarities of what was read."""
        return sums.replacing(np.float32(slope) * self.before, np.float32(slope) * self.after)

    def members(self, members: Members | None, slope: float) -> Members | None:
        """Who found the hits in their new order, the verifier among them."""
        if members is None:
            return None
        shape, read = members.ranks[:, 0].shape, self.verified.scores.shape[1]
        own = np.full(shape, np.nan, dtype=np.float32)
        ranks, counted = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.float32)
        own[:, :read], ranks[:, :read] = self.verified.scores, self.verified.ranks()
        counted[:, :read] = self.verified.gain / np.float32(slope)
        return members.joined_by(self.name, own, ranks, counted).taking(self.order)


@dataclass(frozen=True, eq=False)
class Reading:
    """Who reads the first hits of some queries.

    Attributes
    ----------
    verification : Verification or None
    queries : sequence of str
    """

    verification: Verification | None
    queries: Sequence[str]

    def fetched(self, k: int) -> int:
        """How many hits to search for where k are wanted."""
        return k if self.verification is None else max(k, self.verification.fitted.k)

    def reread(
        self, fitted: Fitted, found: Found, k: int, hidden: NDArray[np.bool_] | None = None
    ) -> Reread | None:
        """Have the first hits read; None where nobody reads, nothing was found, or it failed.

        None of those that were read falls behind the others: its score is at least that of the
        last of them before.

        Parameters
        ----------
        fitted : Fitted
        found : Found
            m hits.
        k : int
            How many are wanted.
        hidden : array of bool, shape (n, m), optional
            Hits that count as not read.
        """
        if self.verification is None or not found.mu.size:
            return None
        first = slice(0, self.verification.fitted.k)
        texts = [[passage.text for passage in row[first]] for row in found.passages]
        verified = self.verification.verify(
            self.queries, texts, None if hidden is None else hidden[:, first]
        )
        if verified is None:
            return None
        slope = np.float32(fitted.slope)
        mu, sigma2, scores = found.mu.copy(), found.sigma2.copy(), found.scores.copy()
        mu[:, first] += verified.gain / slope
        sigma2[:, first] += verified.variance / slope**2
        last = scores[:, first].min(axis=1, keepdims=True)
        scores[:, first] = np.maximum(probit(mu[:, first], sigma2[:, first], fitted.beta), last)
        order = np.broadcast_to(np.arange(scores.shape[1]), scores.shape).copy()
        order[:, first] = np.argsort(-scores[:, first], axis=1, kind="stable")
        order = order[:, :k]
        moved = Found(
            [
                [row[place] for place in places]
                for row, places in zip(found.passages, order.tolist(), strict=True)
            ],
            np.take_along_axis(scores, order, axis=1),
            np.take_along_axis(mu, order, axis=1),
            np.take_along_axis(sigma2, order, axis=1),
            found.exact,
        )
        name = self.verification.fitted.name
        return Reread(moved, name, verified, found.mu[:, first], mu[:, first], order)


NOBODY = Reading(None, ())


def find(
    reading: Reading, fitted: Fitted, store: Store, asked: Asked, k: int
) -> tuple[Found, Members | None, Reread | None]:
    """Search for k hits and have them read; who found them, and what the verifier made of them.

    Parameters
    ----------
    reading : Reading
    fitted : Fitted
    store : Store
    asked : Asked
    k : int
    """
    fetched = reading.fetched(k)
    found = store.search(asked.query, fetched, beta=fitted.beta, mu=asked.everywhere)
    reread = reading.reread(fitted, found, k)
    if reread is None:
        found = found if fetched == k else first_hits(found, k)
        return found, members_at(fitted, store, asked, found), None
    members = members_at(fitted, store, asked, found)
    return reread.found, reread.members(members, fitted.slope), reread


def first_hits(found: Found, k: int) -> Found:
    """The first k hits."""
    return Found(
        [row[:k] for row in found.passages],
        found.scores[:, :k],
        found.mu[:, :k],
        found.sigma2[:, :k],
        found.exact,
    )
