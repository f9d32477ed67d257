"""The contract of stores: passages with what encoders made of them, which are searched."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Any, Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.errors import FingerprintMismatch
from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.encoders.base import Encoded, Encoder
from uec_rag.stores.encodings import check_encodings
from uec_rag.stores.passage import Checked, Passage, check_passage, hash_text

Probes: TypeAlias = tuple[tuple[float, ...], ...]
"""The vectors of a few texts, by which models are told apart; see `uec_rag.encoders.base.probe`."""

MOST_EXAMPLES = 4096
"""The number of passages, of however many, that questions for a fit are made of."""

Filter: TypeAlias = Mapping[str, Any] | Callable[[Passage], bool]
"""A condition on a passage's metadata (see `uec_rag.stores.filters`), or a predicate."""


class Everyone(Enum):
    """The type of `EVERYONE`."""

    EVERYONE = "everyone"

    def __repr__(self) -> str:
        return self.name


EVERYONE: Final = Everyone.EVERYONE
"""The `tenant` of a call that names none, apart from None, which is a mistake in a program."""


@dataclass(frozen=True, eq=False)
class StoreHits:
    """The hits of n queries, best first, k each or all passages if there are fewer.

    Attributes
    ----------
    columns : int array, shape (n, k)
        Where they are in the view that was searched.
    scores, mu, sigma2 : array, shape (n, k)
        s_hat, and mean and variance of the similarity from which it is computed.
    passages : sequence of n lists of Passage
        Those that were read: all by `View.search`, none by `View.top_k`.
    exact : bool
        Whether no other passage can have a higher score.
    """

    columns: NDArray[np.int64]
    scores: FloatArray
    mu: FloatArray
    sigma2: FloatArray
    passages: Sequence[list[Passage]] = ()
    exact: bool = True


class Searched(ABC):
    """An object that a retriever searches: a `Store`, or a view of its passages at one moment.

    Attributes
    ----------
    is_elsewhere : bool
        Whether its passages are elsewhere, so that candidates are fetched for each query.
    is_incomplete : bool
        Whether passages that match may not have been among the candidates that were fetched last.
    can_look_up : bool
        Whether `get` finds each passage by its id.
    """

    is_elsewhere = is_incomplete = False
    can_look_up = True

    def __str__(self) -> str:
        return f"{len(self)} passages"

    @property
    def changes(self) -> int:
        """The number of additions and deletions so far by all processes; 0 if it is not known."""
        return 0

    def corpus(self) -> str:
        """Return a fingerprint of the passages; of many, or of an engine, it is their number."""
        return f"{len(self)} passages"

    def fingerprints(self, ids: Sequence[str]) -> dict[str, str]:
        """Hash the texts of the passages with the given ids, leaving out unknown ids."""
        return {p.id: hash_text(p.text) for p in self.get(ids)}

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of passages."""

    @abstractmethod
    def snapshot(self, filter: Filter | None = None) -> Searched:
        """Return a read-only view of the passages that match a filter."""

    def of_tenant(self, filter: Filter) -> Searched:
        """Return a view of the passages that match a filter, among which words are counted."""
        return self.snapshot(filter)

    @abstractmethod
    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages with the given ids, in that order, leaving out unknown ids."""

    def twins(self, passages: Sequence[Passage]) -> list[Passage]:
        """Return passages that may have the texts of others, by their ids or, if that is fast, all.

        They must not be changed.
        """
        return self.get([passage.id for passage in passages])

    @abstractmethod
    def vectors(self, ids: Sequence[str]) -> list[Encoded]:
        """Return what each encoder made of ids, but for words; KeyError if an id is unknown."""

    @abstractmethod
    def passages(self, filter: Filter | None = None) -> Iterator[Passage]:
        """Iterate over all passages, or those that a filter selects.

        A local store iterates in the order of insertion, and a source may list none.
        """

    def examples(self, limit: int = MOST_EXAMPLES) -> list[Passage]:
        """Return up to `limit` passages, by default as many as an ensemble is fitted on."""
        return [*islice(self.passages(), limit)]

    @abstractmethod
    def sample(self, count: int) -> list[Encoded]:
        """Return what encoders made of a sample of about `count` passages, or of all if fewer."""

    @property
    def probes(self) -> Probes:
        """The vectors of a few texts by an embedding of its own; none without one."""
        return ()

    def remove_deleted(self) -> None:  # noqa: B027
        """Remove what was deleted from files, if there are any and nobody is in the way."""

    def missed(self, ids: Collection[str]) -> set[str]:
        """Return those of the ids that searches, which found candidates, have not found."""
        del ids
        return set()

    def with_encoders(self, encoders: Sequence[Encoder]) -> Self:
        """Return the store with other objects for its encoders, if it has any."""
        del encoders
        return self


class Store(Searched):
    """A collection of passages and their vectors: a local index, or a source of candidates.

    The first, `uec_rag.stores.LocalStore`, lists and looks up all passages, and is searched
    exactly. Any other is `uec_rag.stores.candidates.CandidateStore`.
    """

    def __copy__(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__ |= self.__dict__
        return twin

    def __deepcopy__(self, memo: object) -> Self:
        """Return the store itself, which copies of what searches it share."""
        return self

    def changing(self) -> AbstractContextManager[object]:
        """Make several calls one transaction, where there are any; see `Retriever.changing`."""
        return nullcontext()

    def compact(self) -> None:
        """Remove what was deleted or replaced from files, if there are any, now."""

    def close(self) -> None:
        """Close the files or the connection, if there are any; the store cannot be used after."""

    @abstractmethod
    def bind(self, fingerprint: str) -> None:
        """Record which encoders made the vectors; FingerprintMismatch if others did."""

    @abstractmethod
    def add(self, passages: Sequence[Passage], encodings: Sequence[Encoded] | Gaussian) -> None:
        """Add passages, replacing those with the same ids.

        `encodings`: what each encoder made of them; or Gaussians, which are searched as they are.
        """

    @abstractmethod
    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages, ignoring unknown ids; return the number removed."""


def check_same(stored: str | None, fingerprint: str) -> None:
    """Raise FingerprintMismatch if stored vectors were made by others than one's own encoders."""
    if stored not in (None, fingerprint):
        raise FingerprintMismatch(
            f"store: it holds vectors of other encoders ({str(stored)[:12]!r}, these are "
            f"{fingerprint[:12]!r}): other models, revisions or last layers. Use those or build "
            "the index again."
        )


def check_addition(
    passages: Sequence[Passage], encodings: Sequence[Encoded] | Gaussian
) -> tuple[list[Passage], list[Encoded]]:
    """Check passages and their encodings, and return both, the metadata copied.

    ValueError if there is not one row per passage, or if an id occurs twice; and as in
    `check_passage` and `uec_rag.stores.encodings.check_encodings`.
    """
    blocks = check_encodings(encodings, len(passages))
    copies = [
        item if isinstance(getattr(item, "metadata", None), Checked) else check_passage(item)
        for item in passages
    ]
    if len({item.id for item in copies}) < len(copies):
        raise ValueError("ids: expected distinct ids in one call.")
    return copies, blocks


class Passages(Sized, Iterable[Passage]):
    """The passages of a store, which each loop reads again.

    Parameters
    ----------
    view : Searched
        A view of the passages, as `Store.snapshot` returns it.
    """

    def __init__(self, view: Searched) -> None:
        self._view = view

    def __len__(self) -> int:
        return len(self._view)

    def __iter__(self) -> Iterator[Passage]:
        return self._view.passages()
