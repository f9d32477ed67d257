"""What a store is: passages with Gaussians, searched by the uncertainty-aware score."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self, TypeAlias

import numpy as np

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.terms import Terms


@dataclass(frozen=True)
class Passage:
    """A piece of text that can be found.

    Attributes
    ----------
    id : str
    text : str
    metadata : dict
        Whatever the user keeps beside it.
    """

    id: str
    text: str
    metadata: dict[str, Any] = field(default_factory=dict)


Filter: TypeAlias = Mapping[str, Any] | Callable[[Passage], bool]
"""What must hold of a passage's metadata (`uec_rag.stores.filters` says how), or a predicate."""


@dataclass(frozen=True, eq=False)
class Found:
    """Hits of n queries, best first, k each (or as many passages as there are).

    Attributes
    ----------
    passages : list of list of Passage
    scores, mu, sigma2 : array, shape (n, k)
        s_hat, and the moments of the similarity that it is made of.
    exact : bool
        Whether nothing outside the hits can score higher.
    """

    passages: list[list[Passage]]
    scores: FloatArray
    mu: FloatArray
    sigma2: FloatArray
    exact: bool

    @classmethod
    def nothing(cls, queries: int) -> Self:
        """No hits of so many queries: none is missing."""
        empty = np.zeros((queries, 0), dtype=np.float32)
        return cls([[] for _ in range(queries)], empty, empty, empty, exact=True)


def check_query(query: Gaussian, dimension: int) -> None:
    """Raise ValueError unless queries are of the stored passages' dimension."""
    if query.dimension != dimension:
        raise ValueError(
            f"query: expected dimension {dimension}, as stored, got {query.dimension}."
        )


class Store(Protocol):
    """Passages with their Gaussians."""

    @property
    def approximate(self) -> bool:
        """Whether a search looks at candidates only."""
        ...

    @property
    def remote(self) -> bool:
        """Whether looking at every passage is to be avoided, because they are elsewhere."""
        ...

    def __len__(self) -> int:
        """Return the number of passages."""
        ...

    def snapshot(self, filter: Filter | None = None) -> Store:
        """Return a view, of what a filter lets through, that stays as it is while others write."""
        ...

    def bind(self, fingerprint: str) -> None:
        """Note whose Gaussians are kept; FingerprintMismatch where another ensemble's are."""
        ...

    def add(self, passages: Sequence[Passage], gaussians: Gaussian) -> None:
        """Add passages, replacing those whose id is there already."""
        ...

    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages; ids that are not there are ignored. Returns how many went."""
        ...

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages of those ids that are there, in the order asked."""
        ...

    def vectors(self, ids: Sequence[str]) -> Gaussian:
        """Return the Gaussians of ids; KeyError if one is not there."""
        ...

    def passages(self, filter: Filter | None = None) -> Iterator[Passage]:
        """Iterate over all passages, or those a filter lets through, in the order they came."""
        ...

    def similarities(self, blocks: Sequence[FloatArray | Terms]) -> list[FloatArray]:
        """Inner products of queries with consecutive blocks of what is stored.

        Parameters
        ----------
        blocks : sequence of array, shapes (n, d_k), or of Terms
            The arrays' widths add up to the stored dimension; terms are for the sparse blocks, in
            their order, of which some may be left out at the end.

        Returns
        -------
        list of array, shapes (n, N)
            A column per passage, in the order of `passages`.
        """
        ...

    def contributions(
        self, terms: Sequence[Terms], ids: Sequence[Sequence[str]]
    ) -> list[list[FloatArray]]:
        """What each of the queries' terms adds to the similarity with some passages.

        Parameters
        ----------
        terms : sequence of Terms
            Of n queries, for the sparse blocks in their order.
        ids : sequence of n sequences of str
            Passages of each query.

        Returns
        -------
        list of lists of n arrays, shapes (passages, terms of the query)
        """
        ...

    def similarities_near(
        self, query: Gaussian, count: int, blocks: Sequence[FloatArray | Terms]
    ) -> list[FloatArray]:
        """Similarities to about `count` candidates, probably those of the highest mu_s.

        Parameters
        ----------
        query : Gaussian, n queries
            Whose candidates they are.
        count : int
        blocks : sequence of array, shapes (n, d_k), or of Terms
            As in `similarities`.

        Returns
        -------
        list of array, shapes (n, c)
            For each block, of the same candidates.
        """
        ...

    def sample(self, count: int) -> Gaussian:
        """Return the Gaussians of `count` passages, or of all, that stand for the rest."""
        ...

    def sampled(self, terms: Sequence[Terms], count: int) -> list[FloatArray]:
        """Similarities of queries' terms to the passages of `sample(count)`, for each block."""
        ...

    def search(
        self,
        query: Gaussian,
        k: int,
        *,
        beta: float,
        filter: Filter | None = None,
        mu: FloatArray | None = None,
    ) -> Found:
        """Find the k passages of the highest s_hat.

        Parameters
        ----------
        query : Gaussian, n queries
        k : int
        beta : float
        filter : Filter, optional
        mu : array, shape (n, N), optional
            Similarities, where they are known already from `similarities` of the same view.
        """
        ...

    def save(self, folder: Path) -> None:
        """Write the store's files into an existing folder."""
        ...

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a store from the files that `save` wrote."""
        ...
