"""The state that an index keeps and learns, shared by all of its views."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from uec_rag.encoders.base import Encoded
from uec_rag.ensemble.ensemble_file import fingerprint_of_encoders
from uec_rag.ensemble.uec import UEC
from uec_rag.gates.gate import GATE_FILE, Gate
from uec_rag.index import learn, save
from uec_rag.index.additions import encode_additions, remembering
from uec_rag.index.first_fit import FirstFit, FitMode
from uec_rag.index.save import Settings
from uec_rag.index.saved_labels import labels_alone, read_labels
from uec_rag.retrieval.results import without_findings
from uec_rag.stores.base import Filter, Searched, Store
from uec_rag.stores.candidates import saved_store
from uec_rag.stores.local import LocalStore, View
from uec_rag.stores.local.store import in_memory
from uec_rag.stores.passage import Passage
from uec_rag.stores.source import SourceStore


class Kept:
    """The passages of an index, its ensemble, gate and settings, and how these change.

    Attributes
    ----------
    uec : UEC
    store : Searched
        A view of a store in a snapshot, which is only read.
    language : str or None
    calibration : CorpusCalibration or None
    settings : Settings
    required : bool or None
        Whether a tenant is required; None for what the folder says.
    is_snapshot, is_closed : bool
    first_fit : FirstFit
    is_being_fitted : bool
        Whether it is a snapshot that was taken during a fit beside it.
    living : dict
        Which passages of gates are still there, by these, as far as it was looked up.
    warnings : set
        What was said of gates.
    """

    def __init__(
        self, uec: UEC, store: Searched, language: str | None, fit: FitMode, *, required: bool
    ) -> None:
        self.uec, self.store, self.language = uec, store, language
        self.is_closed = False
        self._posteriors = uec.fitted.posteriors
        if len(store):
            self.written.bind(fingerprint_of_encoders(uec.encoders, uec.fitted))
        self.calibration: learn.CorpusCalibration | None = None
        self.settings = Settings(store if isinstance(store, LocalStore) else LocalStore())
        self._gate: tuple[Gate | None, ...] = ()  # none if it is that of the folder
        self._gate_of_folder = save.SavedGate()
        self.living: dict[object, tuple[tuple[str, str], ...]] = {}
        self.warnings: set[object] = set()
        self.is_snapshot, self.first_fit = False, FirstFit(fit)
        self.is_being_fitted = False
        # An ensemble, its copy that has what was embedded of failed additions, and their texts.
        self._begun: tuple[UEC, UEC, set[str]] | None = None
        self.required: bool | None = required or None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the path of a folder, or the passages of an index in memory."""
        settings = replace(self.settings, values={})
        state = self.__dict__ | {"living": {}, "warnings": set(), "_begun": None}
        state["is_closed"] = False  # it is opened again
        if self.is_snapshot:  # whose store has all that it needs of the folder but these
            settings = Settings(LocalStore())
            settings.home.change_settings(self._settings_alone())
            state["_gate"] = (self.gate,)
        return state | {"settings": settings}

    def _settings_alone(self, tenant: Filter | None = None) -> dict[str, Any]:
        """Return the settings that a copy needs, with the labels of all, or of a tenant."""
        settings = self.settings.home.settings
        values = {save.TENANT_REQUIRED: settings.get(save.TENANT_REQUIRED)}
        return values | labels_alone(settings, tenant)

    def snapshot(self) -> Kept:
        """Return what is kept now, which does not change."""
        twin = object.__new__(Kept)
        twin.__dict__ |= self.__dict__
        twin.store, twin.is_snapshot = self.store.snapshot(), True
        return twin

    def of_tenant(self, tenant: Filter, gate: Gate | None) -> Kept:
        """Return what a pickle of a tenant's view has: nothing of others, but by the fit.

        `gate`: the gate, as the view shows it. An index in a folder is opened again there.
        """
        if self.settings.home.folder is not None and not self.is_snapshot:
            return self
        twin = object.__new__(Kept)
        twin.__dict__ |= self.__dict__ | {"_gate": (gate,), "_gate_of_folder": save.SavedGate()}
        view, settings = self.store.of_tenant(tenant), self._settings_alone(tenant)
        if isinstance(view, View):  # else it does not pickle
            fingerprint = fingerprint_of_encoders(self.uec.encoders, self.uec.fitted)
            home = in_memory(view, settings | {"fingerprint": fingerprint})
            twin.store = home.snapshot() if self.is_snapshot else home
            twin.settings = Settings(home)
        return twin

    @property
    def requires_tenant(self) -> bool:
        """True if a tenant is required, as is saved unless it was set since."""
        if self.required is None:
            return bool(self.settings.home.settings.get(save.TENANT_REQUIRED))
        return self.required

    @property
    def gate(self) -> Gate | None:
        """The gate that was set, or that of the folder."""
        if self._gate:
            return self._gate[0]
        folder = self.settings.home.folder
        if folder is not None and folder.exists():  # a deleted folder removes no gate
            self._gate_of_folder = save.read_gate(folder, self._gate_of_folder)
        return self._gate_of_folder.gate

    def set_gate(self, gate: Gate | None) -> None:
        """Let a gate decide from now on, or none."""
        self._gate = (gate,)

    def encode(
        self, passages: Sequence[Passage], *, show_progress: bool | None = None
    ) -> tuple[list[Passage], list[Encoded]]:
        """Encode passages for `add_encoded`, of which models see each new text once.

        What services embedded before another of their calls failed is kept until these passages
        are added.
        """
        uec, begun = self.uec, self._begun
        if begun is None or begun[0] is not uec:
            self._begun = begun = uec, remembering(uec), set[str]()
        try:
            return encode_additions(begun[1], self.store, passages, show_progress=show_progress)
        except BaseException:
            begun[2].update(passage.searched for passage in passages)
            raise

    def add(self, passages: Sequence[Passage], encodings: Sequence[Encoded]) -> None:
        """Add passages, in a transaction, and forget what was kept of them for another attempt."""
        self.written.bind(fingerprint_of_encoders(self.uec.encoders, self.uec.fitted))
        self.written.add([without_findings(passage) for passage in passages], encodings)
        if (begun := self._begun) is not None:
            if begun[2]:  # else nobody asks for the texts
                begun[2].difference_update(passage.searched for passage in passages)
            self._begun = begun if begun[2] else None

    @property
    def written(self) -> Store:
        """The store, to write to; RuntimeError in a snapshot."""
        self.check_open()
        if not isinstance(self.store, Store):
            raise RuntimeError("this is a snapshot of an index; write to the index itself.")
        return self.store

    def note_fit(self) -> None:
        """Record that the ensemble was fitted in place, where the index is written."""
        is_known = self.uec.fitted.posteriors is self._posteriors
        self._posteriors = self.uec.fitted.posteriors
        if not (is_known or self.is_snapshot or self.settings.home.read_only):
            self.use_fit(self.uec, ())

    def fit_once(self) -> bool:
        """Fit an ensemble without a fit; return whether it is fitted beside searches now."""
        if self.uec.fitted.posteriors is not self._posteriors:
            self.note_fit()
        if not self.first_fit.is_due or self.is_snapshot:
            return False
        return self.first_fit.once(self.uec, self.store, self.must_stay, self.fit)

    def fit(self) -> None:
        """Fit the ensemble, as the first search does."""
        self.first_fit.attempt(self.uec, self.store, self.use_fit)

    def must_stay(self) -> bool:
        """Return whether something was made with the ensemble as it is."""
        gate, home = self.gate, self.settings.home
        is_engine = self.store.is_elsewhere and not isinstance(self.store, SourceStore)
        has_own_gate = gate is not None and gate.max_wrong is None
        is_calibrated = self.calibration is not None or has_own_gate
        return is_engine or home.read_only or is_calibrated or bool(read_labels(home))

    def use_fit(self, uec: UEC, passages: Sequence[Passage]) -> None:
        """Take another fit of the ensemble, with which all passages are scored from now on.

        `passages`: those that it was made on; a source of candidates learns their words.
        """
        store, home = self.written.with_encoders(uec.with_cache().encoders), self.settings.home
        if isinstance(store, SourceStore) and passages:
            store.learn_words(passages)
        with ExitStack() as stack:
            with home.changing():
                save.record(home, store, uec, self.calibration)
                stack.enter_context(self.first_fit.swapping)  # before others see the new fit
            self.store, self.uec, self._posteriors = store, uec, uec.fitted.posteriors
            self.settings = self.settings.now()

    def save(self, target: Path, *, required: bool | None) -> None:
        """Copy all to a folder; see `Retriever.save`.

        `required`: whether the copy requires a tenant; None for as the index that is there does.
        """
        home = self.settings.home
        gate = self.gate if self._gate or home.folder != target else None
        if home.folder == target and not self.is_snapshot:
            with home.changing():
                save.record(home, self.store, self.uec, self.calibration)
                home.change_settings({save.TENANT_REQUIRED: bool(required)})
            store = home
        else:
            content = self.uec, self.store, self.calibration
            store = save.save_index(target, *content, home.settings, required=required)
        if gate is not None:
            gate.save(target / GATE_FILE)
        if store is not home and (self.is_snapshot or home.folder is not None):
            store.close()
            return
        if store is not home:
            home.move_to(store)
        self.settings, self.required = self.settings.now(), None

    @classmethod
    def open(cls, uec: UEC | None, store: Store | None, fit: FitMode, settings: Settings) -> Kept:
        """Open an index; `uec`: the ensemble that it was made with, None for that in the folder."""
        home, elsewhere = settings.home, saved_store(settings.values, store)
        ensemble = uec or settings.load_ensemble()
        settings.check_made_with(ensemble)
        there = (home if elsewhere is None else elsewhere).with_encoders(
            ensemble.with_cache().encoders
        )
        core = cls(ensemble, there, None, fit, required=False)
        core.settings, core.calibration = settings, settings.read_calibration()
        return core

    def check_open(self) -> None:
        """Raise RuntimeError once the index was closed."""
        if self.is_closed:
            raise RuntimeError(
                "this index was closed, and is not searched or written to any more; load it again, "
                "as by Retriever.load(path)."
            )

    def follow(self) -> None:
        """Read what other processes have recorded in the folder: an ensemble, a calibration.

        FingerprintMismatch if the ensemble is another one, and was not loaded from the folder.
        RuntimeError if it was closed.
        """
        self.check_open()
        if self.is_snapshot:
            return
        if self.settings.home.settings is not self.settings.values:
            with self.first_fit.swapping:
                self.settings.read_whole(self.take_over)

    def take_over(self, settings: Settings) -> None:
        """Take the ensemble and the calibration of the folder."""
        values, before = settings.values, self.settings.values
        expected = values.get("ensemble_fingerprint")
        if expected is not None and len(self.store) and expected != self.uec.fingerprint:
            self.uec = settings.load_ensemble()
            self._posteriors = self.uec.fitted.posteriors
            settings.check_made_with(self.uec)
        if values.get("calibration") != before.get("calibration"):
            self.calibration = settings.read_calibration()
        self.settings = settings

    async def afit_once(self) -> None:
        """Wait for the fit that the first search makes, in a thread that no event loop needs."""
        fit = self.first_fit
        if fit.is_due and not self.is_snapshot and fit.mode != "background":
            await fit.aonce(self.uec, self.store, self.must_stay, self.fit)

    def close(self) -> None:
        """Close the files of the index; it cannot be used after."""
        self.is_closed = True
        for store in {id(home): home for home in (self.settings.home, self.store)}.values():
            if isinstance(store, Store):
                store.close()
