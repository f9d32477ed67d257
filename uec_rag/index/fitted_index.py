"""The index that learns: it fits its ensemble, without labels, and is calibrated with labels."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from functools import partial
from typing import Self

from uec_rag.base.checks import check_k, check_share, check_type
from uec_rag.base.errors import EncoderFailed
from uec_rag.base.files import as_path
from uec_rag.base.loops import beside, waiting
from uec_rag.encoders.calls import patiently
from uec_rag.encoders.loading import EncoderLike
from uec_rag.ensemble.uec import UEC
from uec_rag.gates.labels import check_labels
from uec_rag.index import learn, save
from uec_rag.index.index import Index
from uec_rag.index.learn import FitMode, one_at_a_time
from uec_rag.stores.base import Store
from uec_rag.stores.candidates import saved_store
from uec_rag.stores.local import LocalStore
from uec_rag.stores.passage import Passage
from uec_rag.stores.source import SourceStore

_AGAIN = 60.0  # seconds after which a fit that failed is tried again
_log = logging.getLogger("uec_rag")


class FittedIndex(Index):
    """An index whose ensemble is fitted to its passages, once, when it is first searched."""

    @property
    def _is_unfitted(self) -> bool:
        """True if confidence comes from neither a fit nor a calibration."""
        return self.calibration is None and self.uec.fitted.confidence_model is None

    def calibrate(
        self,
        queries: Sequence[str],
        relevant_ids: Sequence[Collection[str]],
        *,
        unanswerable_rate: float = 0.1,
        k: int = 10,
    ) -> Self:
        """Fit relevance and confidence to labelled queries of this corpus.

        Parameters
        ----------
        queries : sequence of str
            Typical queries of users, ideally a few hundred, including some that the corpus does not
            answer.
        relevant_ids : sequence of collection of str
            Ids of the passages that answer each query; empty if none does.
        unanswerable_rate : float
            Share of the users' queries that the corpus does not answer. It is used if all labelled
            queries have an answer; unanswerable ones are then made by hiding answers.
        k : int
            A query counts as answered if one of its first k hits is relevant.

        Returns
        -------
        self
            With `calibration` and `report` set.

        Raises
        ------
        TypeError, ValueError
            If there is not one collection of ids per query, if an id is not in the index, if no
            query has any ids, or if there are too few queries.
        """
        k = check_k(k)
        check_share(unanswerable_rate, "unanswerable_rate", "a share in [0, 1)")
        self._fit_once()
        store = self.store.snapshot()
        answers = check_labels(queries, relevant_ids, store)
        with patiently():
            self.calibration = learn.calibrate_with_labels(
                self.uec, store, queries, answers, unanswerable_rate=unanswerable_rate, k=k
            )
        home = self._settings.home
        if not home.read_only and not self._is_snapshot:
            home.change_settings({"calibration": self.calibration.metadata()})
            self._settings = self._settings.now()
        return self

    def fit_from(
        self, passages: Sequence[Passage] | None = None, *, show_progress: bool | None = None
    ) -> Self:
        """Fit the ensemble on questions made of passages, without labels, in a copy of its own.

        The questions, 148 at most, are headings and the first sentences of passages, which the rest
        of these answers. Each is embedded once, as is what answers it; the passages of the index
        are not embedded again. The first search does the same by itself unless ``fit=False``, once,
        if there are 64 passages or more that can be listed.

        Parameters
        ----------
        passages : sequence of Passage, optional
            Passages like those of the index; by default its own, which a source of candidates may
            not be able to list.
        show_progress : bool, optional
            Whether to show progress; by default on a terminal, after a second.

        Returns
        -------
        self
            With another `uec`. A calibration or a gate must be made again.

        Raises
        ------
        TypeError
            If one is not a passage.
        ValueError
            If fewer than 32 questions can be made, or no model is the ensemble's whose vectors can
            be fitted as they are: one with the identity as last layer.
        PermissionError
            If the index is only read.
        """
        sample = self.store.examples() if passages is None else [*passages]
        instead = "; a retriever of LangChain or LlamaIndex takes its own kind in its fit_from"
        for passage in sample:
            check_type(passage, Passage, "passages", "Passage objects", instead)
        before = self.uec
        with patiently():
            fitted = learn.fit_without_labels(before, sample, show_progress=show_progress)
        self._use_fit(fitted, sample)
        if isinstance(self.store, SourceStore) and passages is not None:
            learn.remember(before, self.store, self.uec.fitted)
        return self

    def _fit_is_due(self) -> bool:
        """Return whether to fit the ensemble now."""
        state = self._own_fit
        if not state.is_due or self._is_snapshot or time.monotonic() < state.not_before:
            return False
        # Else there may be more passages later.
        is_large_enough = self.store.is_elsewhere or len(self.store) >= learn.ENOUGH
        if self.uec.is_fitted or (is_large_enough and self._must_stay):
            state.is_due = False
        return state.is_due and is_large_enough

    def _fit_once(self) -> bool:
        """Fit an ensemble without a fit at the first search, for which others of this index wait.

        Returns whether it is fitted beside searches now.
        """
        if not self._fit_is_due():
            return False
        in_background = self._own_fit.mode == "background"
        running = self._own_fit.begin(self._fit, here=not in_background)
        if in_background:
            return not running.done()
        with waiting():
            running.result()
        return False

    async def afit_once(self) -> None:
        """Wait for the fit that the first search makes, in a thread that no event loop needs."""
        state = self._own_fit
        if not state.is_due or self._is_snapshot or state.mode == "background":
            return

        def begin() -> Future[None] | None:
            return state.begin(self._fit, here=False) if self._fit_is_due() else None

        running = await beside(begin)
        if running is not None:
            await asyncio.wrap_future(running)

    def _fit(self) -> None:
        """Fit the ensemble; if a service fails, or in the background, it is tried again later.

        What was embedded until then is in the ensemble's cache.
        """
        state = self._own_fit
        is_apart = state.mode == "background"
        try:
            turn = one_at_a_time(learn.key_of(self.uec, self.store))
            with turn, patiently(at_first=is_apart):
                outcome = learn.fit_own(self.uec, self.store)
                if outcome is not None:
                    self._use_fit(*outcome)
        except Exception as error:
            state.not_before = time.monotonic() + _AGAIN
            if not isinstance(error, EncoderFailed) and not is_apart:
                raise
            _log.warning("uec_rag: not fitted, which is tried again later: %s", error)
            return
        state.is_due = False

    @property
    def _must_stay(self) -> bool:
        """True if something was made with the ensemble as it is."""
        gate = self.gate
        is_engine = self.store.is_elsewhere and not isinstance(self.store, SourceStore)
        has_own_gate = gate is not None and gate.max_wrong is None
        is_calibrated = self.calibration is not None or has_own_gate
        home = self._settings.home
        return is_engine or home.read_only or is_calibrated or bool(save.read_labels(home))

    def _use_fit(
        self, uec: UEC, passages: Sequence[Passage], *, must_recount: bool = False
    ) -> None:
        """Take another fit of the ensemble, with which all passages are scored from now on.

        `must_recount`: whether words are counted again.
        """
        home, before = self._settings.home, self.uec
        with ExitStack() as until_swapped:
            if isinstance(self.store, SourceStore):  # it encodes what it finds
                source = self.store.with_ensemble(uec)
                if passages:
                    source.learn_words(passages)
                until_swapped.enter_context(self._own_fit.swapping)
                save.record(home, source, uec, self.calibration)
                self.store = source
            else:
                with self.changing():
                    if isinstance(self.store, LocalStore) and not must_recount:
                        self.store.refit(uec.fingerprint, learn.change_of(before, uec))
                    else:
                        self._add_again(before, uec)
                    save.record_ensemble(home, uec)
                    until_swapped.enter_context(self._own_fit.swapping)  # before others see it
            self.uec, self._posteriors = uec, uec.fitted.posteriors
            self._settings = self._settings.now()

    def _add_again(self, before: UEC, uec: UEC) -> None:
        """Replace all passages by the same with another fit, and with words counted again."""
        view = self.store.snapshot()
        self._written.delete([passage.id for passage in view.passages()])
        self._written.bind(uec.fingerprint)
        for batch, gaussians in learn.recount(view, before, uec):
            self._written.add(batch, gaussians)

    @property
    def report(self) -> str:
        """The description of how relevance and confidence were learned, and of limitations."""
        if self.calibration is not None:
            return str(self.calibration)
        if self._is_unfitted:
            return (
                "The ensemble is not fitted, so confidence is unreliable: it comes from a model "
                "that was learned on other ensembles' similarities, standardised over the corpus. "
                "Call fit_from(passages), which needs 32 questions made of them and no labels, or "
                "calibrate."
            )
        fit = self.uec.report
        source = f"The ensemble is {fit.source}. " if fit is not None and fit.source else ""
        return (
            f"{source}Confidence was learned on other collections and may be off on this one; with "
            "labels, calibrate corrects it."
        )

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        uec: UEC | None = None,
        *,
        read_only: bool = False,
        encoders: Mapping[str, EncoderLike] | None = None,
        store: Store | None = None,
        trust: bool = False,
        fit: FitMode = True,
        tenant_required: bool = False,
    ) -> Self:
        """Open a saved index; what is changed is on disk when the call returns.

        Other processes may write at the same time; a search sees what they have written. `check`
        verifies all checksums, of which opening reads few.

        Parameters
        ----------
        path : path
            The folder; a gate in it, "gate.json", decides in every search.
        uec : UEC, optional
            The ensemble that the index was made with; by default, the saved one is loaded.
        read_only : bool
            Whether the folder is only read, as where nothing can be written.
        encoders : mapping, optional
            As in `UEC.load`, for encoders that cannot be loaded by name.
        store : Store, optional
            The store of an index in an engine, which is never opened from the saved folder alone.
        trust : bool
            Whether to trust the folder and download the models that it names, as in `UEC.load`.
        fit : bool or "background"
            Whether the first search may fit an ensemble that has no fit; never if it is only read.
        tenant_required : bool
            As in the class; also if the index was saved with it.

        Raises
        ------
        FileNotFoundError
            If there is no saved index.
        IndexCorrupted
            If the saved index is damaged.
        FingerprintMismatch
            If `uec` or one of its encoders is not the one that the index was made with.
        PermissionError
            If nothing can be written there, and `read_only` is false.
        ValueError
            If an encoder or the store must be passed, or if a model needs to be downloaded without
            `trust`.
        """
        check_type(uec, UEC | None, "uec", "a UEC or None")
        home = save.open_home(as_path(path), read_only=read_only)
        options = None if uec else {"encoders": encoders or {}, "trust": trust}
        settings = save.Settings(home, options=options)
        try:
            retriever = settings.read_whole(partial(cls._open, uec, store, fit))
        except BaseException:
            home.close()
            raise
        retriever.tenant_required = tenant_required or bool(home.settings.get(save.TENANT_REQUIRED))
        with suppress(OSError, ValueError):  # a damaged gate is reported when it is to decide
            _ = retriever.gate
        return retriever

    @classmethod
    def _open(
        cls, uec: UEC | None, store: Store | None, fit: FitMode, settings: save.Settings
    ) -> Self:
        """Open an index; `uec`: the ensemble that it was made with, None for that in the folder."""
        home, elsewhere = settings.home, saved_store(settings.values, store)
        ensemble = uec or settings.load_ensemble()
        have_other_stems = settings.check_made_with(ensemble)
        retriever = cls(ensemble, fit=fit)
        retriever.store = home if elsewhere is None else elsewhere.with_ensemble(ensemble)
        if len(retriever.store) and not have_other_stems:
            retriever._written.bind(ensemble.fingerprint)
        retriever._settings, retriever.calibration = settings, settings.read_calibration()
        if have_other_stems:
            passages = learn.passages_to_count(ensemble, retriever.store, home)
            retriever._use_fit(ensemble, passages, must_recount=True)
        return retriever
