"""What an engine has to do to hold passages; `uec_rag.stores.engine` makes a store of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.frequencies import Frequencies
from uec_rag.base.gaussian import FloatArray
from uec_rag.stores.base import Passage
from uec_rag.stores.engine_notes import Notes
from uec_rag.stores.engine_points import Near, Point, Ranking, Wanted
from uec_rag.stores.filters import Condition
from uec_rag.stores.keeping import Stamp


class Engine(ABC):
    """The methods that ask an engine."""

    engine: ClassVar[str]
    """Its name, for messages."""

    @abstractmethod
    def read_notes(self) -> Notes | None:
        """What is noted of the stored Gaussians; None where nothing was ever stored."""

    @abstractmethod
    def make(self, notes: Notes) -> None:
        """Make the place for points, instead of an empty one that is there."""

    @abstractmethod
    def put(self, points: Sequence[Point]) -> None:
        """Write points, replacing those of the same ids."""

    @abstractmethod
    def remove(self, ids: Sequence[str]) -> None:
        """Remove points that are there."""

    @abstractmethod
    def count(self, condition: Condition | None) -> int:
        """How many points a condition holds for."""

    @abstractmethod
    def has_key(self, key: str) -> bool:
        """Whether any passage has a metadata key."""

    @abstractmethod
    def check(self, condition: Condition) -> None:
        """Raise ValueError if the engine cannot run a condition."""

    @abstractmethod
    def points(self, ids: Sequence[str]) -> Mapping[str, Point]:
        """Points of those distinct ids that are there."""

    @abstractmethod
    def passages_of(self, ids: Sequence[str]) -> Mapping[str, Passage]:
        """Passages of those distinct ids that are there."""

    @abstractmethod
    def scan(self, condition: Condition | None, limit: int | None) -> Iterator[Point]:
        """Points in an order of chance, the same for everyone."""

    @abstractmethod
    def scan_passages(self, condition: Condition | None) -> Iterator[Passage]:
        """Passages in the order of `scan`."""

    @abstractmethod
    def frequencies(self, block: int, keys: NDArray[np.uint64]) -> Frequencies:
        """How often distinct terms of a sparse block occur, whatever a filter lets through."""

    @abstractmethod
    def near(
        self,
        condition: Condition | None,
        mean: FloatArray,
        words: Sequence[tuple[Wanted, ...]],
        count: int,
        vectors: FloatArray,
    ) -> list[Near]:
        """The nearest `count` points by each query's mean and words, multiplied with vectors.

        Half of them come by words at most, see `words_among`.

        Parameters
        ----------
        condition : Condition or None
        mean : array, shape (n, d)
        words : sequence of n tuples of Wanted
        count : int
        vectors : array, shape (n, P, d)
        """

    @abstractmethod
    def best(self, condition: Condition | None, ranking: Ranking) -> list[list[Point]]:
        """At least the k points of the highest s_hat among the candidates of each query."""

    @abstractmethod
    def read_stamp(self) -> Stamp:
        """The state of what is stored, at little cost."""

    @abstractmethod
    def keep(self, name: str, data: bytes) -> str:
        """Keep bytes for all processes, under one of the names that there are.

        Returns
        -------
        str
            Their version.
        """

    @abstractmethod
    def kept(self, name: str) -> tuple[str, bytes] | None:
        """The version of what is kept under a name, and the bytes."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write where the passages are into an existing folder; they stay there."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, *, device: str | None = None) -> Self:
        """Open what `save` noted."""
