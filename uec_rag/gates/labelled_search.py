"""Labelled questions, and their searches: what a calibration and a guarantee are made of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import as_list, check_k, check_texts
from uec_rag.base.errors import warn
from uec_rag.base.records import cached_property
from uec_rag.confidence.risk import Guarantee, conformal_threshold, risk_threshold
from uec_rag.gates.policy import Stamp
from uec_rag.questions.answers import TurnLike
from uec_rag.questions.replies import Within
from uec_rag.retrieval.diversity import Diversity
from uec_rag.retrieval.results import Result, SearchResult
from uec_rag.stores.base import EVERYONE, Everyone, Filter, Searched
from uec_rag.stores.filters import all_of, check_tenant
from uec_rag.stores.passage import Passage

WRONG = 0.1
"""The default of `max_wrong`, the largest share of all questions that get a wrong answer."""

_MOST_KEPT = 32  # passages by which a gate notices that its index has others

FEWEST = 20
"""The smallest number of labelled questions to learn from."""


def check_labels(
    queries: Sequence[str],
    relevant_ids: Sequence[Collection[str]],
    store: Searched,
    minimum: int = FEWEST,
) -> list[frozenset[str]]:
    """Check labelled queries before anything is encoded.

    Returns
    -------
    list of frozenset of str
        Ids of the passages that answer each query; empty if none does.

    Raises
    ------
    TypeError, ValueError
        If there is not one collection of ids per query, an id is not in the index, all collections
        are empty, or there are fewer than `minimum` queries.
    """
    check_texts(queries, "queries")
    if len(relevant_ids) != len(queries):
        raise ValueError(
            f"relevant_ids: expected {len(queries)} collections of ids, one per query, got "
            f"{len(relevant_ids)}."
        )
    answers = [
        frozenset(as_list(ids, f"relevant_ids[{row}]")) for row, ids in enumerate(relevant_ids)
    ]
    union = sorted(frozenset().union(*answers), key=str)
    if not union:
        raise ValueError(
            "relevant_ids: no query has a relevant passage; expected at least one that has. "
            "Queries that the corpus does not answer may be included."
        )
    stored = {passage.id for passage in store.get(union)} if store.can_look_up else {*union}
    if unknown := [id_ for id_ in union if id_ not in stored]:
        raise ValueError(
            f"relevant_ids: {len(unknown)} of {len(union)} ids are not in the index, first "
            f"{unknown[0]!r}; use the ids that `add` returned."
        )
    if len(queries) < minimum:
        raise ValueError(
            f"queries: expected at least {minimum} to calibrate on, got {len(queries)}."
        )
    return answers


def warn_of_lost(store: Searched, answers: Sequence[Collection[str]]) -> None:
    """Warn if a source of candidates has not found some of the passages that are labelled.

    `store`: the view that was searched.
    """
    ids = frozenset[str]().union(*answers)
    if lost := store.missed(ids):
        warn(
            f"{len(lost)} of {len(ids)} labelled passages are not among the candidates that the "
            f"store finds ({store}): no answer can come from these. Ask it for more, by "
            "candidates= of `over`."
        )


class Searchable(Protocol):
    """The index whose searches a gate decides, and is made of: `uec_rag.Retriever`."""

    usual_filter: Filter | None

    @property
    def usual_tenant(self) -> Filter | None:
        """The tenant of a call that names none."""

    @property
    def store(self) -> Searched:
        """The store, or the view, with its passages."""

    def stamp(
        self, filter: Filter | None = None, of: Stamp | None = None, *, again: bool = True
    ) -> Stamp:
        """The stamp of everything that its confidence depends on."""

    def passages(
        self, filter: Filter | None = None, *, tenant: Filter | Everyone = EVERYONE
    ) -> Iterable[Passage]:
        """Iterate over its passages."""

    def with_gate(self, gate: Any) -> Self:  # noqa: ANN401
        """Return a view in which another gate decides, or none."""

    def search(
        self,
        queries: Sequence[str],
        k: int = 4,
        *,
        filter: Filter | None = None,
        history: Sequence[Sequence[TurnLike]] | None = None,
        within: Within | None = None,
        diversity: Diversity | None = None,
        tenant: Filter | Everyone = EVERYONE,
    ) -> SearchResult:
        """Search for questions."""


@dataclass(frozen=True, eq=False)
class LabelledSearch:
    """Labelled queries with their search results, for thresholds at any risk from one search.

    Attributes
    ----------
    result : SearchResult
    relevant : list of frozenset of str
        Ids of the passages that answer each query; empty if none does.
    k : int
    search : callable
        Searches for other queries in the same snapshot, with the same filter.
    stamp : Stamp
        That of the index; its passages are some labelled answers and first hits.
    """

    result: SearchResult
    relevant: list[frozenset[str]]
    k: int
    search: Callable[[Sequence[str]], SearchResult]
    stamp: Stamp

    @cached_property
    def confidence(self) -> NDArray[np.float64]:
        """The probability that each question is answered by its first k hits, shape (n,)."""
        return np.array([row.confidence_at(self.k) for row in self.result], dtype=np.float64)

    @cached_property
    def right(self) -> NDArray[np.bool_]:
        """True for each query that one of its first k hits answers, shape (n,)."""
        return self.are_right(self.result)

    def are_right(self, results: Iterable[Result]) -> NDArray[np.bool_]:
        """Return whether the first k hits that are shown for each query answer it, shape (n,)."""
        pairs = zip(results, self.relevant, strict=True)
        return np.array([any(hits.first(self.k).finds(ids)) for hits, ids in pairs], dtype=bool)

    @classmethod
    def from_queries(
        cls,
        retriever: Searchable,
        queries: Sequence[str],
        relevant_ids: Sequence[Collection[str]],
        *,
        k: int = 4,
        filter: Filter | None = None,
        tenant: Filter | Everyone = EVERYONE,
        depth: int = 0,
    ) -> Self:
        """Search labelled queries.

        Parameters
        ----------
        retriever, queries, relevant_ids, k, filter, tenant
            As in `Gate.from_labels`, with the same errors.
        depth : int
            Number of hits that an advisor reads, if these are more.
        """
        check_k(k)
        if not isinstance(getattr(retriever, "store", None), Searched):
            raise TypeError(
                f"retriever: expected a uec_rag.Retriever, got {type(retriever).__name__}; the "
                "UECRetriever of LangChain has it as .index, that of LlamaIndex as .retriever."
            )
        filter = retriever.usual_filter if filter is None else filter
        tenant = usual_tenant(retriever, tenant)
        retriever.passages(filter, tenant=tenant)  # checks them
        scope = all_of(check_tenant(tenant), filter)
        store = retriever.store
        if (of_tenant := check_tenant(tenant)) is not None:
            store = store.snapshot(of_tenant)  # ids of others are unknown
        labels = check_labels(queries, relevant_ids, store, minimum=1)
        view = retriever.with_gate(None)
        result = view.search(queries, max(k, depth), filter=filter, tenant=tenant)
        warn_of_lost(view.store, labels)
        answers = (id_ for ids in labels for id_ in sorted(ids))
        heads = (row.passages[0].id for row in result if row.passages)
        ids = [*dict.fromkeys([*answers, *heads])]
        sample = view.store.fingerprints(ids[:: 1 + (len(ids) - 1) // _MOST_KEPT])
        search = partial(view.search, k=k, filter=filter, tenant=tenant)
        stamp = replace(view.stamp(scope), passages=tuple(sample.items()))
        return cls(result, labels, k, search, stamp)

    def threshold(
        self,
        max_risk: float | None = None,
        certainty: float = 0.95,
        *,
        max_wrong: float | None = None,
    ) -> Guarantee:
        """Find the lowest threshold that keeps a guarantee, as `Gate.from_labels` does."""
        asks = self.asks_back
        if max_risk is not None:
            # The risk is a share of the answers, and a question that is asked back has none.
            is_answered = ~asks if not asks.all() else asks
            return risk_threshold(
                self.confidence[is_answered], self.right[is_answered], max_risk, 1 - certainty
            )
        confidence = np.where(asks, -np.inf, self.confidence)
        return conformal_threshold(
            confidence, ~self.right, WRONG if max_wrong is None else max_wrong
        )

    @cached_property
    def asks_back(self) -> NDArray[np.bool_]:
        """True for each question that gets a clarifying question, shape (n,)."""
        asks = [decision.action == "clarify" for decision in self.result.decisions]
        return np.array(asks, dtype=bool)

    @property
    def sample(self) -> tuple[float, ...]:
        """The confidences in ascending order."""
        return tuple(np.sort(self.confidence).round(4).tolist())


def usual_tenant(retriever: Searchable, tenant: Filter | Everyone) -> Filter | Everyone:
    """Return the tenant of a call, or where it names none that of the index's searches."""
    if tenant is not EVERYONE or retriever.usual_tenant is None:
        return tenant
    return retriever.usual_tenant
