"""From a query to hits: candidates, exact scores, relevance, confidence. No framework needed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Self

import numpy as np

from uec_rag.base.checks import check_k, check_texts
from uec_rag.base.gaussian import FloatArray, Gaussian, as_matrix
from uec_rag.base.spans import span
from uec_rag.confidence.model import ConfidenceModel, shifted
from uec_rag.confidence.shipped import shipped_model
from uec_rag.corpora.questions import QuestionGenerator
from uec_rag.encoders.loading import EncoderLike
from uec_rag.ensemble.coefficients import Uniform, make_rule
from uec_rag.ensemble.evidence import EvidenceWeights
from uec_rag.ensemble.fitted import Fitted
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.calibrate import (
    CorpusCalibration,
    calibrate_with_labels,
    check_labels,
    corpus_fingerprint,
)
from uec_rag.retrieval.diversity import maximal_marginal_relevance, term_vectors
from uec_rag.retrieval.index import Index
from uec_rag.retrieval.preferences import Preferences, preferred
from uec_rag.retrieval.result import SearchResult, joined
from uec_rag.retrieval.save import load_index, save_index
from uec_rag.retrieval.search import (
    Judgement,
    ask,
    ask_nearest,
    judge,
    members_at,
    queries_at_once,
    unjudged,
)
from uec_rag.retrieval.self_calibrate import self_calibrate
from uec_rag.stores.base import Filter, Found, Store
from uec_rag.stores.memory import MemoryStore

_ROUNDS, _BELIEVED = 200, 20


class Retriever(Index):
    """An index of passages under an ensemble, searched with uncertainty.

    Parameters
    ----------
    uec : UEC
    store : Store, optional
        Where the Gaussians are kept; in memory by default.
    unanswerable : float, optional
        Share of the questions to come that the corpus does not answer, in [0, 1), where it is
        known; `adapt` estimates it. By default the share that confidence was learned with.

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

    def __init__(
        self, uec: UEC, store: Store | None = None, *, unanswerable: float | None = None
    ) -> None:
        told = None if unanswerable is None else check_unanswerable(unanswerable)
        super().__init__(uec, MemoryStore() if store is None else store)
        self.unanswerable = told
        self.calibration: CorpusCalibration | None = None
        self._changes_at_calibration = 0
        self._level: tuple[Preferences | None, int, float] = None, 0, 0.0

    def __repr__(self) -> str:
        return f"Retriever({len(self)} passages, {self.uec!r})"

    @property
    def evidence_weights(self) -> EvidenceWeights | None:
        """What turns evidence into coefficients: `self_calibrate`'s, else the ensemble's."""
        own = None if self.calibration is None else self.calibration.evidence_weights
        return own or self.uec.fitted.evidence_weights

    @property
    def confidence_model(self) -> ConfidenceModel:
        """What turns logits into probabilities: `calibrate`'s, the fitted ensemble's, or ours."""
        own = None if self.calibration is None else self.calibration.model
        return own or self.uec.confidence_model or shipped_model("unfitted")

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
            If a query is empty or not a string, k < 1, or the filter is none.
        """
        check_k(k)
        checked = check_texts(queries, "queries")
        told = None if unanswerable is None else check_unanswerable(unanswerable)
        parts = self.uec.encode(checked, "query")
        return self.search_encoded(
            checked, parts, k, filter=filter, prefer=prefer, unanswerable=told
        )

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
        check_k(k)
        checked = check_texts(queries, "queries")
        told = None if unanswerable is None else check_unanswerable(unanswerable)
        parts = await self.uec.aencode(checked, "query")
        return await asyncio.to_thread(
            self.search_encoded,
            checked,
            parts,
            k,
            filter=filter,
            prefer=prefer,
            unanswerable=told,
        )

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
            For the result only.
        parts : sequence of Gaussian
            Each encoder's own Gaussians of the queries, as `UEC.encode` returns them.
        k : int
        filter : mapping or callable, optional
        prefer : Preferences, optional
        unanswerable : float, optional
            As in `search`.
        """
        check_k(k)
        told = self.unanswerable if unanswerable is None else check_unanswerable(unanswerable)
        if prefer is not None:
            return self._search_preferring(queries, parts, k, filter, prefer, told)
        self._check_fit()
        self._warn_changed()
        store = self.store.snapshot(filter)
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
        return replace(result, basis=self.basis(filter, told))

    def basis(self, filter: Filter | None = None, unanswerable: float | None = None) -> str:
        """Fingerprint of what confidence rests on, but for the passages themselves.

        Parameters
        ----------
        filter : mapping or callable, optional
            As of the search. Of callables only that they are one is told.
        unanswerable : float, optional
            As of the search.
        """
        weights = self.evidence_weights
        told = self.unanswerable if unanswerable is None else unanswerable
        state = [
            self.confidence_model.metadata(),
            None if weights is None else weights.metadata(),
            told,
            repr(dict(filter)) if isinstance(filter, Mapping) else type(filter).__name__,
        ]
        return hashlib.sha256(json.dumps(state, default=str).encode()).hexdigest()[:16]

    def _search_preferring(
        self,
        queries: Sequence[str],
        parts: Sequence[Gaussian],
        k: int,
        filter: Filter | None,
        prefer: Preferences,
        unanswerable: float | None,
    ) -> SearchResult:
        if prefer.boosts and not self.uec.is_fitted:
            raise ValueError(
                "prefer: boosts are log-odds, which an ensemble that is not fitted does not know; "
                "call UEC.fit(pairs) first."
            )
        self._warn_changed()
        view = self.snapshot()
        if prefer.boosts and self._level[:2] != (prefer, self._changes):
            self._level = prefer, self._changes, prefer.level(view.passages())
        level = self._level[2] if prefer.boosts else 0.0
        return preferred(
            lambda count: view.search_encoded(
                queries, parts, count, filter=filter, unanswerable=unanswerable
            ),
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
        with span("search", queries=len(queries), k=k, passages=len(store)):
            asking = ask_nearest if store.approximate else ask
            asked = asking(fitted, weights, store, parts)
            known = asked.similarities if asked.rest is None else None
            found = store.search(asked.query, k, beta=fitted.beta, mu=known)
            members = members_at(fitted, store, asked, found)
            model = self.confidence_model
            judged = judge(fitted, model, store, asked, found, members, unanswerable)
        result = _result(fitted, queries, found, asked.coefficients, judged)
        return replace(result, members=members)

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
        result = _result(fitted, [""], found, pi, unjudged(found, "answer", reason))
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
        view = self.snapshot()
        found = view.search(queries, max(k, fetch_k), filter=filter)
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
        view = self.snapshot()
        found = await view.asearch(queries, max(k, fetch_k), filter=filter)
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

    def snapshot(self) -> Retriever:
        """The index as it is now, whatever others add or delete: to search, not to write."""
        view = Retriever(self.uec, self.store.snapshot(), unanswerable=self.unanswerable)
        view._posteriors, view._changes = self._posteriors, self._changes
        view.set_calibration(self.calibration, current=False)
        view._changes_at_calibration = self._changes_at_calibration
        return view

    def counting(self, coefficients: Mapping[str, float]) -> Retriever:
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
        check_unanswerable(unanswerable)
        store = self.store.snapshot()
        wanted = check_labels(queries, relevant_ids, store)
        changes = self._changes
        calibration = calibrate_with_labels(
            self.uec,
            self.evidence_weights,
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

    def adapt(self, queries: Sequence[str], k: int = 10) -> Self:
        """Estimate the share of questions that the corpus does not answer, from a log of them.

        Without labels, by what `in_corpus` says of them and how that would change with the share
        itself (expectation maximisation, Saerens et al., 2002), with the share that was learned
        with counting as twenty questions. It is as good as the order of `in_corpus`.

        Parameters
        ----------
        queries : sequence of str
            As users ask them, a hundred or more.
        k : int
            Hits to look at.

        Returns
        -------
        self
            With `unanswerable` set.
        """
        learned = self.confidence_model.unanswerable
        held = self.search(queries, k, unanswerable=learned).in_corpus
        if not len(held):
            raise ValueError("queries: expected at least one, got none.")
        share = learned
        for _ in range(_ROUNDS):
            gone = float((1 - shifted(held, learned, share)).sum())
            share = (gone + _BELIEVED * learned) / (len(held) + _BELIEVED)
        self.unanswerable = share
        return self

    def set_calibration(self, calibration: CorpusCalibration | None, *, current: bool) -> None:
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
        return (
            "Nothing is known of this ensemble: relevance and confidence are what similarities, "
            "standardised over the corpus, were with others. For better, fit the ensemble, or "
            "calibrate."
        )

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
        BlockingIOError
            If another process is saving there.
        """
        save_index(path, self.uec, self.store.snapshot(), self.calibration)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        uec: UEC | None = None,
        *,
        encoders: Mapping[str, EncoderLike] | None = None,
        device: str | None = None,
        store_device: str | None = None,
        trust: bool = False,
        verify: bool = True,
    ) -> Self:
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
        trust, verify : bool
            As in `UEC.load`.

        Raises
        ------
        FileNotFoundError
            If there is no saved index.
        IndexCorrupted
            If it is not whole: see `uec_rag.IndexCorrupted`.
        FingerprintMismatch
            If `uec`, or one of its encoders, is not what the index was made with.
        ValueError
            If an encoder has to be given, or is not to be fetched unasked, or torch cannot use a
            device here.
        """
        saved = load_index(
            path, uec, encoders or {}, device, store_device, trust=trust, verify=verify
        )
        retriever = cls(saved.uec, saved.store)
        retriever.set_calibration(saved.calibration, current=saved.current)
        return retriever


def check_unanswerable(share: float) -> float:
    """Check the share of questions that a corpus does not answer; ValueError outside [0, 1)."""
    if not 0 <= share < 1:
        raise ValueError(f"unanswerable: expected a share in [0, 1), got {share}.")
    return float(share)


def _result(
    fitted: Fitted, queries: list[str], found: Found, coefficients: FloatArray, judged: Judgement
) -> SearchResult:
    return SearchResult(
        queries=queries,
        passages=found.passages,
        scores=found.scores,
        mu=found.mu,
        sigma2=found.sigma2,
        relevance=judged.relevance,
        coefficients=coefficients,
        shares=fitted.shares(coefficients),
        confidence=judged.confidence,
        in_corpus=judged.in_corpus,
        by_cutoff=judged.by_cutoff,
        ambiguous=judged.ambiguous,
        decisions=judged.decisions,
        exact=found.exact,
        names=list(fitted.names),
    )
