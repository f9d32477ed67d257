"""From a query to hits: candidates, exact scores, relevance, confidence. No framework needed."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from uec_rag.base.checks import check_k, check_texts
from uec_rag.base.gaussian import Gaussian
from uec_rag.confidence.model import ConfidenceModel
from uec_rag.corpora.questions import QuestionGenerator
from uec_rag.ensemble.evidence import EvidenceGate
from uec_rag.retrieval.asking import ask, ask_nearest, queries_at_once
from uec_rag.retrieval.calibrate import (
    CorpusCalibration,
    calibrate_with_labels,
    check_labels,
    corpus_fingerprint,
    self_calibrate,
)
from uec_rag.retrieval.index import Index
from uec_rag.retrieval.judging import judge
from uec_rag.retrieval.result import SearchResult, joined
from uec_rag.stores.base import Filter, Store
from uec_rag.stores.memory import MemoryStore

if TYPE_CHECKING:
    from uec_rag.encoders import EncoderLike
    from uec_rag.ensemble import UEC


class Retriever(Index):
    """An index of passages under an ensemble, searched with uncertainty.

    Parameters
    ----------
    uec : UEC
    store : Store, optional
        Where the Gaussians are kept; in memory by default.

    Examples
    --------
    >>> import numpy as np, warnings
    >>> from uec_rag import UEC
    >>> def letters(texts):
    ...     return np.array([[t.count(c) + 0.1 for c in "abc"] for t in texts])
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # not fitted: variance 0
    ...     r = Retriever(UEC([letters], coefficients="uniform"))
    ...     ids = r.add(["aa", "bb", "cc"], ids=["1", "2", "3"])
    ...     result = r.search(["b"], k=2)
    >>> result.ids[0][0], result.scores.shape
    ('2', (1, 2))
    """

    def __init__(self, uec: UEC, store: Store | None = None) -> None:
        super().__init__(uec, MemoryStore() if store is None else store)
        self.calibration: CorpusCalibration | None = None
        self._changes_at_calibration = 0

    def __repr__(self) -> str:
        return f"Retriever({len(self)} passages, {self.uec!r})"

    @property
    def gate(self) -> EvidenceGate | None:
        """What turns evidence into coefficients: `self_calibrate`'s, else the ensemble's."""
        own = None if self.calibration is None else self.calibration.gate
        return own or self.uec.gate

    @property
    def confidence_model(self) -> ConfidenceModel | None:
        """What turns logits into probabilities: `calibrate`'s, else the fitted ensemble's."""
        own = None if self.calibration is None else self.calibration.model
        return own or self.uec.confidence_model

    def search(
        self,
        queries: Sequence[str],
        k: int = 10,
        *,
        filter: Filter | None = None,
    ) -> SearchResult:
        """Find the k passages of the highest s_hat for each query.

        Parameters
        ----------
        queries : sequence of str
        k : int
            Where fewer passages match, all of them come back.
        filter : mapping or callable, optional
            Metadata values that must be equal, or a predicate on a `Passage`.

        Returns
        -------
        SearchResult

        Raises
        ------
        TypeError, ValueError
            If a query is empty or not a string, or k < 1.
        KeyError
            If the filter names a metadata key that no passage has.
        """
        check_k(k)
        checked = check_texts(queries, "queries")
        return self.search_encoded(checked, self.uec.encode(checked, "query"), k, filter=filter)

    async def asearch(
        self,
        queries: Sequence[str],
        k: int = 10,
        *,
        filter: Filter | None = None,
    ) -> SearchResult:
        """`search` without blocking the event loop."""
        check_k(k)
        checked = check_texts(queries, "queries")
        parts = await self.uec.aencode(checked, "query")
        return await asyncio.to_thread(self.search_encoded, checked, parts, k, filter=filter)

    def search_encoded(
        self,
        queries: Sequence[str],
        parts: Sequence[Gaussian],
        k: int = 10,
        *,
        filter: Filter | None = None,
    ) -> SearchResult:
        """`search` for queries that are encoded already.

        Parameters
        ----------
        queries : sequence of str
            For the result only.
        parts : sequence of Gaussian
            Each encoder's own Gaussians of the queries, as `UEC.encode` returns them.
        k : int
        filter : mapping or callable, optional
        """
        check_k(k)
        self._check_fit()
        self._warn_changed()
        store = self.store.snapshot(filter)
        rows = queries_at_once(len(store), len(parts))
        starts = range(0, max(1, len(queries)), rows)
        return joined(
            [
                self._search_block(
                    store,
                    list(queries[start : start + rows]),
                    [part[start : start + rows] for part in parts],
                    k,
                )
                for start in starts
            ]
        )

    def _search_block(
        self, store: Store, queries: list[str], parts: list[Gaussian], k: int
    ) -> SearchResult:
        uec = self.uec
        if store.approximate:
            asked = ask_nearest(uec, self.gate, store, parts)
        else:
            asked = ask(uec, self.gate, store, parts)
        known = asked.similarities if asked.rest is None else None
        found = store.search(asked.query, k, beta=uec.beta, mu=known)
        judged = judge(uec, self.confidence_model, store, asked, found)
        return SearchResult(
            queries=queries,
            passages=found.passages,
            scores=found.scores,
            mu=found.mu,
            sigma2=found.sigma2,
            relevance=judged.relevance,
            coefficients=asked.coefficients,
            confidence=judged.confidence,
            ambiguous=judged.ambiguous,
            decisions=judged.decisions,
            exact=found.exact,
            names=uec.names,
        )

    def calibrate(
        self,
        queries: Sequence[str],
        relevant_ids: Sequence[Collection[str]],
        *,
        unanswerable: float = 0.1,
        k: int = 10,
    ) -> Self:
        """Fit relevance and confidence to labelled queries of this corpus.

        Parameters
        ----------
        queries : sequence of str
            As users ask them; a few hundred are good. Those that the corpus does not answer are
            welcome: they show what that looks like.
        relevant_ids : sequence of collection of str
            Ids of the passages that answer each query; empty where none does.
        unanswerable : float
            Share of your users' queries that the corpus does not answer. Where no labelled query
            is of that kind they are made by hiding answers; else the labels speak for themselves.
        k : int
            A query counts as answered where one of these is among the first k hits.

        Returns
        -------
        self
            With `calibration` and `report` set.

        Raises
        ------
        TypeError, ValueError
            If there is not one collection of ids per query, an id is not in the index, no query
            has any, or there are too few queries.
        """
        check_k(k)
        if not 0 <= unanswerable < 1:
            raise ValueError(f"unanswerable: expected a share in [0, 1), got {unanswerable}.")
        store = self.store.snapshot()
        wanted = check_labels(queries, relevant_ids, store)
        changes = self._changes
        calibration = calibrate_with_labels(
            self.uec,
            self.gate,
            store,
            queries,
            wanted,
            unanswerable=unanswerable,
            k=k,
            fingerprint=corpus_fingerprint(store),
        )
        self.set_calibration(calibration, current=changes == self._changes)
        return self

    def self_calibrate(
        self,
        generate: QuestionGenerator | None = None,
        *,
        k: int = 10,
        seed: int = 0,
    ) -> Self:
        """Learn from the corpus alone which encoders to trust, and relevance and confidence.

        Questions are made from the passages: a title asks for its passage, or a first sentence for
        the rest. They are easier than what users ask; prefer `calibrate` where there are labels.

        Parameters
        ----------
        generate : callable, optional
            Makes the question of a passage instead, from its text: a language model, say.
        k : int
            As in `calibrate`.
        seed : int
            Of the samples.

        Returns
        -------
        self
            With `calibration` and `report` set; the report says that there were no labels.

        Raises
        ------
        ValueError
            If the ensemble is not fitted, or the passages give too few questions.
        """
        check_k(k)
        if not self.uec.is_fitted:
            raise ValueError(
                "self_calibrate: the ensemble is not fitted; call UEC.fit(pairs) first, or "
                "calibrate with labelled queries."
            )
        store, changes = self.store.snapshot(), self._changes
        calibration = self_calibrate(self.uec, store, generate, k, corpus_fingerprint(store), seed)
        self.set_calibration(calibration, current=changes == self._changes)
        return self

    def set_calibration(self, calibration: CorpusCalibration, *, current: bool) -> None:
        """Use a calibration; `current` says whether the corpus is still the calibrated one."""
        self.calibration = calibration
        self._changes_at_calibration = self._changes if current else -1

    @property
    def report(self) -> str:
        """What relevance and confidence rest on, in plain words."""
        if self.calibration is not None:
            return str(self.calibration)
        if self.uec.confidence_model is not None:
            return (
                "Relevance and confidence are those of the pairs the ensemble was fitted on; "
                "calibrate or self_calibrate fits them to this corpus."
            )
        return "Nothing is known of relevance and confidence: fit the ensemble, or calibrate."

    def _warn_changed(self) -> None:
        if self.calibration is not None and self._changes != self._changes_at_calibration:
            self._changes_at_calibration = self._changes
            warnings.warn(
                "The index has changed since it was calibrated: relevance and confidence are those "
                "of the old corpus. Call calibrate or self_calibrate again.",
                UserWarning,
                stacklevel=4,
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save index and ensemble to a folder, atomically.

        Raises
        ------
        FileExistsError
            If `path` is something else than a saved index.
        TypeError
            If metadata cannot be written as JSON.
        """
        from uec_rag.retrieval.save import save_index

        save_index(self, path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        uec: UEC | None = None,
        *,
        encoders: Mapping[str, EncoderLike] | None = None,
        device: str | None = None,
        store_device: str | None = None,
    ) -> Retriever:
        """Load a saved index.

        Parameters
        ----------
        path : path
        uec : UEC, optional
            The ensemble it was made with; by default the one saved inside is loaded.
        encoders : mapping, optional
            As in `UEC.load`, for encoders that no name brings back.
        device : str, optional
            As in `UEC.load`.
        store_device : str, optional
            Where the passages' means are searched: "cuda", say. As in `MemoryStore`.

        Raises
        ------
        FileNotFoundError, ValueError
            If the folder is not a whole saved index, `uec` is not the ensemble it was made with, or
            torch cannot use a device here.
        """
        from uec_rag.retrieval.save import load_index

        return load_index(path, uec, encoders or {}, device, store_device)
