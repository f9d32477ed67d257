"""What users search with: an index that is searched, calibrated on its corpus, saved and loaded."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Self

from uec_rag.base.checks import check_k, check_unanswerable
from uec_rag.confidence.model import shifted
from uec_rag.corpora.questions import QuestionGenerator
from uec_rag.encoders.loading import MemberLike
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.calibrate import (
    calibrate_with_labels,
    check_labels,
    corpus_fingerprint,
)
from uec_rag.retrieval.index import Index
from uec_rag.retrieval.published import publish, written
from uec_rag.retrieval.save import filling_index, load_index, save_index
from uec_rag.retrieval.searcher import Searcher
from uec_rag.retrieval.self_calibrate import self_calibrate
from uec_rag.stores.scan import Dtype

_ROUNDS, _BELIEVED = 200, 20
_APPROXIMATE = (
    " Hits are the best of candidates, and what the corpus says of a query is estimated from these "
    "and a sample of it: the store is searched approximately."
)


class Retriever(Searcher):
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

    def calibrate(
        self,
        queries: Sequence[str],
        relevant_ids: Sequence[Collection[str]],
        *,
        unanswerable: float = 0.1,
        k: int = 10,
    ) -> Self:
        """Fit relevance and confidence to labelled queries of this corpus.

        In a store that several processes search it counts for all of them from then on.

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
        wanted, state = check_labels(queries, relevant_ids, store), written(store)
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
        self._published = publish(self.store, calibration, state)
        return self

    def self_calibrate(
        self,
        generate: QuestionGenerator | None = None,
        *,
        k: int = 10,
        seed: int = 0,
    ) -> Self:
        """Learn from the corpus alone which encoders to trust.

        Questions are made from the passages: a title asks for its passage, or a first sentence for
        the rest. They are not what users ask, so relevance and confidence stay as they are; where
        there are labels, `calibrate` moves them. Questions that `generate` makes are believed to be
        like users': where half of them clearly speak against the fit's confidence, what the
        questions say takes its place.

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
        state = written(store)
        calibration = self_calibrate(self.uec, store, generate, k, corpus_fingerprint(store), seed)
        self.set_calibration(calibration, current=changes == self._changes)
        self._published = publish(self.store, calibration, state)
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

    @property
    def report(self) -> str:
        """What relevance and confidence rest on, in plain words; whether hits are exact."""
        return self._learned + _APPROXIMATE * self.store.approximate

    @property
    def _learned(self) -> str:
        fit = self.uec.report
        notes = [] if fit is None else fit.notes
        if self.calibration is not None:
            rests = str(self.calibration)
            trusted = self.calibration.evidence_weights
            notes = [] if fit is None or trusted is not None else fit.shares_told
        elif self.uec.confidence_model is not None:
            rests = (
                "Relevance and confidence are those of the pairs the ensemble was fitted on; "
                "calibrate fits them to this corpus."
            )
        else:
            rests = (
                "Nothing is known of this ensemble: relevance and confidence are what "
                "similarities, standardised over the corpus, were with others. For better, fit the "
                "ensemble, or calibrate."
            )
        if self.unanswerable is not None:
            notes = [*notes, f"Told: {self.unanswerable:.0%} of the questions have no answer."]
        return " ".join([rests, *notes])

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
    def filling(
        cls,
        path: str | os.PathLike[str],
        uec: UEC,
        *,
        index: Literal["hnsw"] | None = None,
        dtype: Dtype = "float32",
    ) -> AbstractContextManager[Index]:
        """Make a saved index of more passages than memory holds.

        What is added in the block goes to the folder's files as it comes; ids alone stay in memory,
        and the postings of words and the graph where there are ones. When the block ends the index
        is there as if `save` had written it, to be loaded, which maps it; if the block fails `path`
        is as it was. The block only adds, and replaces nothing.

        Parameters
        ----------
        path : path
            Of a saved index, which is replaced, or of nothing.
        uec : UEC
        index, dtype
            As in `MemoryStore`. With "int8" a search reads a quarter of the bytes, and the float32
            means stay on the disk.

        Raises
        ------
        FileExistsError, BlockingIOError
            As in `save`.
        ValueError
            Where `add` does, and if an id was added before, or the ensemble fitted in between.

        Examples
        --------
        >>> import numpy as np, tempfile, warnings
        >>> from uec_rag import UEC
        >>> def letters(texts):
        ...     return np.array([[t.count(c) + 0.1 for c in "abc"] for t in texts])
        >>> with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")  # not fitted: variance 0
        ...     uec = UEC([letters], coefficients="uniform")
        ...     with Retriever.filling(f"{folder}/idx", uec, dtype="int8") as filled:
        ...         ids = filled.add(text for text in ["aa", "bb", "cc"])
        ...     len(Retriever.load(f"{folder}/idx", uec))
        3
        """
        return filling_index(path, uec, index, dtype)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        uec: UEC | None = None,
        *,
        encoders: Mapping[str, MemberLike] | None = None,
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
        if retriever._published is None:  # else others have learned since it was saved
            retriever.set_calibration(saved.calibration, current=saved.current)
        return retriever
