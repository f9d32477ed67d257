"""An index that is searched: by text, by vector, for hits that differ; as it is now or was."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Self

import numpy as np

from uec_rag.base.checks import check_k, check_texts, check_unanswerable
from uec_rag.base.gaussian import Gaussian, as_matrix
from uec_rag.base.spans import span
from uec_rag.ensemble.coefficients import Uniform, make_rule
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.calibrated import Calibrated
from uec_rag.retrieval.diversity import maximal_marginal_relevance, term_vectors
from uec_rag.retrieval.judge import as_result, judge, unjudged
from uec_rag.retrieval.preferences import Preferences, preferred
from uec_rag.retrieval.result import SearchResult, joined
from uec_rag.retrieval.search import ask, ask_nearest, queries_at_once
from uec_rag.retrieval.verify import Reading, find
from uec_rag.stores.base import Filter, Store
from uec_rag.stores.engine import EngineStore
from uec_rag.stores.filters import parse
from uec_rag.stores.memory import MemoryStore


class Searcher(Calibrated):
    """An index of passages that is asked queries; `Retriever` is one that learns of its corpus.

    Parameters
    ----------
    uec : UEC
    store : Store, optional
        Where the Gaussians are kept; in memory by default.
    unanswerable : float, optional
        Share of the questions to come that the corpus does not answer, in [0, 1), where it is
        known; `adapt` estimates it. By default the share that confidence was learned with.
    """

    def __init__(
        self, uec: UEC, store: Store | None = None, *, unanswerable: float | None = None
    ) -> None:
        super().__init__(uec, MemoryStore() if store is None else store, unanswerable)
        self._level: tuple[Preferences | None, int, float] = None, 0, 0.0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} passages, {self.uec!r})"

    def search(
        self,
        queries: Sequence[str],
        k: int = 10,
        *,
        filter: Filter | None = None,
        prefer: Preferences | None = None,
        unanswerable: float | None = None,
    ) -> SearchResult:
        """Find the k passages of the highest s_hat for each query.

        Parameters
        ----------
        queries : sequence of str
        k : int
            Where fewer passages match, all of them come back.
        filter : mapping or callable, optional
            Metadata values that must be equal, or operators (`uec_rag.stores.filters` says which),
            or a predicate on a `Passage`. A key that no passage has is warned of, once.
        prefer : Preferences, optional
            What counts beside similarity: sources that must not crowd out others, boosts.
        unanswerable : float, optional
            Share of the questions that the corpus does not answer, in [0, 1): the odds of
            `in_corpus` shift with it, and confidence as much. By default the retriever's own
            `unanswerable`.

        Returns
        -------
        SearchResult

        Raises
        ------
        TypeError, ValueError
            If a query is empty or not a string, k < 1, or `filter` or `prefer` is none.
        """
        checked = check_texts(queries, "queries")
        told = self._check_asked(k, filter, prefer, unanswerable)
        parts = self.uec.encode(checked, "query")
        return self._search(checked, parts, k, filter, prefer, told)

    async def asearch(
        self,
        queries: Sequence[str],
        k: int = 10,
        *,
        filter: Filter | None = None,
        prefer: Preferences | None = None,
        unanswerable: float | None = None,
    ) -> SearchResult:
        """`search` without blocking the event loop."""
        checked = check_texts(queries, "queries")
        told = self._check_asked(k, filter, prefer, unanswerable)
        parts = await self.uec.aencode(checked, "query")
        return await asyncio.to_thread(self._search, checked, parts, k, filter, prefer, told)

    def search_encoded(
        self,
        queries: Sequence[str],
        parts: Sequence[Gaussian],
        k: int = 10,
        *,
        filter: Filter | None = None,
        prefer: Preferences | None = None,
        unanswerable: float | None = None,
    ) -> SearchResult:
        """`search` for queries that are encoded already.

        Parameters
        ----------
        queries : sequence of str
            For the result, and what a verifier reads.
        parts : sequence of Gaussian
            Each encoder's own Gaussians of the queries, as `UEC.encode` returns them.
        k : int
        filter : mapping or callable, optional
        prefer : Preferences, optional
        unanswerable : float, optional
            As in `search`.
        """
        told = self._check_asked(k, filter, prefer, unanswerable)
        return self._search(queries, parts, k, filter, prefer, told)

    def check_filter(self, filter: Filter | None) -> None:
        """Check what a search is to be restricted by, before anything is encoded for it.

        Raises
        ------
        TypeError, ValueError
            If it is no filter, or one that the store cannot run.
        """
        if filter is None:
            return
        condition = parse(filter)
        if isinstance(self.store, EngineStore):
            self.store.check(condition)

    def _check_asked(
        self,
        k: int,
        filter: Filter | None,
        prefer: Preferences | None,
        unanswerable: float | None,
    ) -> float | None:
        """Check what a search is asked for; returns the share without an answer that counts."""
        check_k(k)
        self.check_filter(filter)
        if not isinstance(prefer, Preferences | None):
            raise TypeError(f"prefer: expected Preferences or None, got {type(prefer).__name__}.")
        if prefer is not None and prefer.boosts and not self.uec.is_fitted:
            raise ValueError(
                "prefer: boosts are log-odds, which an ensemble that is not fitted does not know; "
                "call UEC.fit(pairs) first."
            )
        return self.unanswerable if unanswerable is None else check_unanswerable(unanswerable)

    def _search(
        self,
        queries: Sequence[str],
        parts: Sequence[Gaussian],
        k: int,
        filter: Filter | None,
        prefer: Preferences | None,
        told: float | None,
    ) -> SearchResult:
        """`search_encoded` of what was checked."""
        if prefer is not None:
            return self._search_preferring(queries, parts, k, filter, prefer, told)
        self._check_fit()
        store = self.store.snapshot(filter)
        self._follow(store)
        self._warn_changed()
        rows = queries_at_once(len(store), len(parts))
        starts = range(0, max(1, len(queries)), rows)
        result = joined(
            [
                self._search_block(
                    store,
                    list(queries[start : start + rows]),
                    [part[start : start + rows] for part in parts],
                    k,
                    told,
                )
                for start in starts
            ]
        )
        return replace(result, basis=self.basis(filter, told, verified=result.verified))

    def _search_preferring(
        self,
        queries: Sequence[str],
        parts: Sequence[Gaussian],
        k: int,
        filter: Filter | None,
        prefer: Preferences,
        unanswerable: float | None,
    ) -> SearchResult:
        self._warn_changed()
        view = self.snapshot()
        if prefer.boosts and self._level[:2] != (prefer, self._changes):
            self._level = prefer, self._changes, prefer.level(view.passages())
        level = self._level[2] if prefer.boosts else 0.0
        return preferred(
            lambda count: view._search(queries, parts, count, filter, None, unanswerable),
            k,
            prefer,
            slope=self.uec.fitted.slope,
            level=level,
        )

    def _search_block(
        self,
        store: Store,
        queries: list[str],
        parts: list[Gaussian],
        k: int,
        unanswerable: float | None,
    ) -> SearchResult:
        fitted, weights = self.uec.fitted, self.evidence_weights
        reading = Reading(self.uec.verification, queries)
        with span("search", queries=len(queries), k=k, passages=len(store)):
            asked = (ask_nearest if store.approximate else ask)(fitted, weights, store, parts)
            found, members, reread = find(reading, fitted, store, asked, k)
            failed = reread is None and reading.verification is not None and found.mu.size > 0
            model = self._model(not failed)
            labelled = self.calibration is not None and self.calibration.source == "labels"
            told = None if labelled else queries
            judged = judge(fitted, model, store, asked, found, members, unanswerable, told, reread)
        result = as_result(fitted, queries, found, asked.coefficients, judged, members)
        return replace(result, verified=not failed)

    def search_vector(
        self, embedding: Sequence[float], k: int = 10, *, filter: Filter | None = None
    ) -> SearchResult:
        """Find the k passages of the highest s_hat for one query given as a vector.

        A vector does not tell the query's own variance: it is taken as 0, and sigma_s^2 is that of
        the passages alone. Confidence needs the text: relevance is the similarity itself, and the
        decision says that nothing is known.

        Parameters
        ----------
        embedding : sequence of float, length d
            The mean that `UEC.embed` gives for the query. Where all means have length 1, with one
            encoder or in the shared space, it may be of any length but zero.
        k : int
        filter : Filter, optional

        Raises
        ------
        TypeError, ValueError
            If the vector is of another dimension, zero, or not finite, or k < 1.
        """
        check_k(k)
        mean = as_matrix([embedding], "embedding")
        if mean.shape[1] != self.uec.dimension:
            raise ValueError(
                f"embedding: expected {self.uec.dimension} numbers, the ensemble's dimension, "
                f"got {mean.shape[1]}."
            )
        length = float(np.linalg.norm(mean))
        if not length:
            raise ValueError("embedding: expected a vector with a direction, got zeros.")
        if len(self.uec.encoders) == 1 or self.uec.space == "shared":
            mean = mean / np.float32(length)
        query, fitted = Gaussian(mean, np.zeros_like(mean)), self.uec.fitted
        found = self.store.search(query, k, beta=fitted.beta, filter=filter)
        reason = "a vector does not tell how far to trust its hits: search with the text"
        pi = Uniform()([query] * len(fitted.names))
        result = as_result(fitted, [""], found, pi, unjudged(found, "answer", reason))
        return replace(result, judged=False)

    def search_diverse(
        self,
        queries: Sequence[str],
        k: int = 10,
        *,
        fetch_k: int = 50,
        lambda_mult: float = 0.5,
        filter: Filter | None = None,
    ) -> SearchResult:
        """Find k passages for each query that are relevant and unlike one another.

        Parameters
        ----------
        queries : sequence of str
        k : int
        fetch_k : int
            How many of the highest s_hat to choose from; k at least.
        lambda_mult : float
            1 looks at relevance only, 0 at diversity only.
        filter : Filter, optional
        """
        view, fetched = self.snapshot(), _fetched(k, fetch_k)
        found = view.search(queries, fetched, filter=filter)
        return view.diversify(found, k, lambda_mult)

    async def asearch_diverse(
        self,
        queries: Sequence[str],
        k: int = 10,
        *,
        fetch_k: int = 50,
        lambda_mult: float = 0.5,
        filter: Filter | None = None,
    ) -> SearchResult:
        """`search_diverse` without blocking the event loop."""
        view, fetched = self.snapshot(), _fetched(k, fetch_k)
        found = await view.asearch(queries, fetched, filter=filter)
        return await asyncio.to_thread(view.diversify, found, k, lambda_mult)

    def diversify(self, result: SearchResult, k: int, lambda_mult: float = 0.5) -> SearchResult:
        """Choose k of each query's hits by maximal marginal relevance.

        Parameters
        ----------
        result : SearchResult
            Of this index, or of a snapshot of it where others may delete in between.
        k : int
        lambda_mult : float
            As in `search_diverse`.
        """
        check_k(k)
        places = []
        for ids, scores in zip(result.ids, result.scores, strict=True):
            vectors = self.vectors(ids).mean if ids else np.zeros((0, 1), dtype=np.float32)
            if ids and not self.uec.dimension:  # words alone
                texts = [passage.text for passage in self.get(ids)]
                vectors = term_vectors(self.uec.embed_terms(texts))
            places.append(maximal_marginal_relevance(scores, vectors, k, lambda_mult))
        return result.taking(places)

    def snapshot(self) -> Self:
        """The index as it is now, whatever others add or delete: to search, not to write."""
        view = type(self)(self.uec, self.store.snapshot(), unanswerable=self.unanswerable)
        view._posteriors, view._changes = self._posteriors, self._changes
        view.calibration = self.calibration
        view._changes_at_calibration = self._changes_at_calibration
        view._published = self._published
        return view

    def counting(self, coefficients: Mapping[str, float]) -> Self:
        """The index as it is now, where encoders count as given in every query: to search.

        Parameters
        ----------
        coefficients : mapping of encoder name to float
            At least 0, one for each encoder; 0 leaves one out.
        """
        view, fitted = self.snapshot(), self.uec.fitted
        view.uec = copy(self.uec)
        view.uec.fitted = replace(fitted, rule=make_rule(coefficients, fitted.names, 1.5))
        if view.calibration is not None:
            view.calibration = replace(view.calibration, evidence_weights=None)
        return view


def _fetched(k: int, fetch_k: int) -> int:
    """How many hits to choose k from."""
    check_k(k)
    check_k(fetch_k, "fetch_k")
    return max(k, fetch_k)
