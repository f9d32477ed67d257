"""A store whose searches fetch candidates, which are compared and scored in this process."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from uec_rag.base.checks import check_type
from uec_rag.base.gaussian import Gaussian
from uec_rag.stores.base import Filter, Store
from uec_rag.stores.local.view import View


class CandidateStore(Store):
    """The base of stores whose passages are elsewhere; each search is of one query."""

    is_elsewhere = True

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            f"store: {type(self).__name__} does not pickle: its passages are elsewhere, and its "
            "connection works in this process alone. Make the index again where it is needed; or "
            "save it, and load it there with its store: Retriever.load(path, store=...)."
        )

    @abstractmethod
    def snapshot(self, filter: Filter | None = None) -> CandidateStore:
        """Return a read-only view of the passages that match a filter."""

    @abstractmethod
    def fetch(self, questions: Sequence[str], query: Gaussian, count: int) -> View:
        """Return the candidates for a question, of those that this view selects.

        Parameters
        ----------
        questions : sequence of n str
            The ways of asking it; "" if only its vector is known.
        query : Gaussian
            n queries, whose products with stored vectors, side by side, are about mu_s.
        count : int
            The smallest number of candidates for each.
        """

    def texts_to_embed(self, questions: Sequence[str]) -> Sequence[str]:
        """Return the texts of which `fetch` needs a vector by the first encoder, for questions.

        They are embedded together with what is compared.
        """
        del questions
        return ()

    @property
    def vocabulary(self) -> View | None:
        """All passages that this view selects, by whose words questions are spelled, if listed."""
        return None

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what an index says of it: its "address", and what it learned."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take what it learned from what `describe` returned."""
        del state  # most learn nothing


STORE = "store"
"""The setting of an index that says where its passages are, if they are not in the folder."""


def saved_store(settings: Mapping[str, Any], store: Store | None) -> CandidateStore | None:
    """Return the store that an index's settings name; None if its passages are in the folder.

    It must be given, and is never opened because a folder names it: one from an untrusted source
    could name a server that steals the user's key, or a database that executes code when read.

    Raises
    ------
    ValueError
        If the passages are elsewhere and no store is given, or vice versa.
    TypeError
        If `store` is not a store.
    """
    check_type(store, Store | None, "store", "a store, such as LocalStore()")
    state = settings.get(STORE)
    if state is None and store is not None:
        raise ValueError(
            "store: expected none: the folder has its own passages; omit store=, over=."
        )
    if state is None:
        return None
    if not isinstance(store, CandidateStore) or not isinstance(state, dict):
        values = state.values() if isinstance(state, dict) else [state]
        texts = [value for value in values if isinstance(value, str)]
        raise ValueError(
            f"path: the passages of this index are in a store elsewhere ({texts!r:.300}), which is "
            "not opened just because a saved folder names it; if it is yours, pass it: "
            "Retriever.load(path, store=...), or over another package's store "
            "UECRetriever.load(path, over=your_store)."
        )
    store.restore(state)
    return store
