"""The folder of an index: the passages, the ensemble and the calibration.

The local index holds what is learned among its settings, and names the folder of the ensemble, so
that a transaction replaces all of it at once. If the passages are in an engine, the index in the
folder has only the settings, of which one says where they are.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from uec_rag.base.errors import (
    EncoderFailed,
    FingerprintMismatch,
    IndexCorrupted,
    OlderIndex,
    as_corrupted,
    corruption,
)
from uec_rag.base.files import DATABASE, ENSEMBLE, to_disk
from uec_rag.encoders.base import TermEncoder
from uec_rag.encoders.packages import PRESETS
from uec_rag.ensemble.ensemble_file import (
    SHIPPED_FITS,
    SavedEnsemble,
    fingerprint,
    fingerprint_of_encoders,
    read_fit,
)
from uec_rag.ensemble.uec import UEC
from uec_rag.gates.gate import GATE_FILE, Gate
from uec_rag.index.learn import CorpusCalibration
from uec_rag.index.saved_labels import ALL_LABELS
from uec_rag.stores.base import Searched
from uec_rag.stores.candidates import STORE, CandidateStore
from uec_rag.stores.local import LocalStore, View
from uec_rag.stores.local.older import OlderContents
from uec_rag.stores.local.store import copy_view

T = TypeVar("T")

MADE_WITH, TENANT_REQUIRED = "made_with", "tenant_required"  # the settings
_ENSEMBLES = "ensemble"  # the folder of ensembles, of which a setting names the current one


@dataclass(frozen=True)
class Settings:
    """The settings of an index as they were read, and what they name.

    Attributes
    ----------
    home : LocalStore
        The index in the folder, which has the settings; of an engine, one without passages.
    values : mapping
        Those that were read; one names the ensemble.
    options : mapping or None
        Those of `UEC.load`, by which the ensemble is loaded; None if one was passed.
    """

    home: LocalStore
    values: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] | None = None

    def now(self) -> Settings:
        """Return those of now."""
        return replace(self, values=self.home.settings)

    def load_ensemble(self) -> UEC:
        """Load the ensemble; FingerprintMismatch if another one was passed. See `UEC.load`."""
        if self.options is None:
            raise FingerprintMismatch(
                "index: it was built again with another ensemble; load it again."
            )
        assert self.home.folder is not None
        name = self.values.get("ensemble")
        if not isinstance(name, str) or not name.isalnum():
            raise corruption(
                self.home.folder / DATABASE,
                "names no ensemble: its first save was interrupted, or it was filled by a store "
                "alone; load it with the ensemble (uec=...), or build it again.",
            )
        return UEC.load(self.home.folder / _ENSEMBLES / name, **self.options)

    def read_calibration(self) -> CorpusCalibration | None:
        """Return the calibration, if there is one."""
        state = self.values.get("calibration")
        if state is None:
            return None
        with as_corrupted((self.home.folder or Path()) / DATABASE):
            return CorpusCalibration.restore(state)

    def read_fit(self) -> SavedEnsemble | None:
        """Read the ensemble without its models; None if there is none."""
        return None if self.home.folder is None else read_named(self.home.folder, self.values)

    def read_whole(self, load: Callable[[Settings], T]) -> T:
        """Read what those of now name; again if another ensemble is there after it.

        Another process removes an ensemble, and its passages, as soon as it has saved others, and
        passages that were deleted.
        """
        while True:
            settings = self.now()
            try:
                content = load(settings)
            except Exception as error:
                if not settings.has_changed(error):
                    raise
            else:
                if not settings.has_changed():
                    return content

    def has_changed(self, error: Exception | None = None) -> bool:
        """Return whether another ensemble is there now.

        `error`: what reading has raised; what was removed meanwhile looks damaged.
        """
        now = self.home.settings
        was_removed = isinstance(error, IndexCorrupted) and now is not self.values
        return was_removed or now.get("ensemble") != self.values.get("ensemble")

    def check_ensemble(self) -> None:
        """Verify the checksums of the ensemble; IndexCorrupted if they differ."""
        self.read_whole(Settings.read_fit)

    def check_made_with(self, uec: UEC) -> None:
        """Raise FingerprintMismatch if it was made with another ensemble, or other stems."""
        expected, ensemble = self.values.get("ensemble_fingerprint"), self.read_fit()
        try:
            actual = uec.fingerprint
        except EncoderFailed:
            if ensemble is None:
                raise
            for saved_model, model in zip(ensemble.encoders, uec.encoders, strict=False):
                saved_model.inform(model)
            actual = uec.fingerprint
        if expected in (None, actual):
            return
        if ensemble is not None:
            saved = {encoder.name: encoder for encoder in ensemble.encoders}
            before = [
                saved.get(encoder.name, encoder) if isinstance(encoder, TermEncoder) else encoder
                for encoder in uec.encoders
            ]
            if fingerprint(before, uec.fitted) == expected:
                raise FingerprintMismatch(
                    "index: its words were counted with other stems, by another PyStemmer or "
                    "uec-rag. Use that one, or make the index again, elsewhere or after removing "
                    "this: uec-rag index FOLDER --out INDEX."
                )
        raise FingerprintMismatch(
            f"uec: expected the ensemble of the index with its fit, got {uec!r}. Omit uec= to load "
            "the saved one, and pass what has no name by encoders={name: embedding}, or the "
            "embedding alone to a class of LangChain or LlamaIndex; or build the index again."
        )


def read_named(folder: Path, settings: Mapping[str, Any]) -> SavedEnsemble | None:
    """Read the ensemble that settings of a folder's index name; None if they name none."""
    name = settings.get("ensemble")
    return None if name is None else read_fit(folder / _ENSEMBLES / name)[0]


class SavedGate(NamedTuple):
    """The gate that is saved in a folder, if there is one, and by what its file is known."""

    file: tuple[int, ...] = ()
    gate: Gate | None = None


def read_gate(folder: Path, cached: SavedGate) -> SavedGate:
    """Return the gate that decides for every user of an index; what is known if it is the same."""
    path, file = folder / GATE_FILE, tuple[int, ...]()
    with suppress(FileNotFoundError):
        state = path.stat()
        file = state.st_ino, state.st_mtime_ns, state.st_size
    return cached if file == cached.file else SavedGate(file, Gate.load(path) if file else None)


def record(
    home: LocalStore, store: Searched, uec: UEC, calibration: CorpusCalibration | None
) -> None:
    """Write what was learned into the folder of an index, and where its passages are."""
    with home.changing():
        if store is home:
            home.bind(fingerprint_of_encoders(uec.encoders, uec.fitted))
        elif isinstance(store, CandidateStore):
            home.change_settings({STORE: store.describe()})
        state = None if calibration is None else calibration.metadata()
        home.change_settings({"calibration": state})
        if home.folder is None:
            return
        ensembles = home.folder / _ENSEMBLES
        folder = ensembles / secrets.token_hex(8)
        folder.mkdir(parents=True)
        try:
            uec.save(folder)
            to_disk(ensembles)
            settings = {"ensemble": folder.name, "ensemble_fingerprint": uec.fingerprint}
            home.change_settings(settings)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        # While this has the turn to write, no other process has made one that is not named yet.
        for leftover in {*ensembles.iterdir()} - {folder}:
            home.after_commit(partial(shutil.rmtree, leftover, ignore_errors=True))


def save_index(
    path: Path,
    uec: UEC,
    store: Searched,
    calibration: CorpusCalibration | None,
    settings: Mapping[str, Any],
    *,
    required: bool | None,
) -> LocalStore:
    """Write an index to a folder; return the open index there. See `Retriever.save`.

    `settings`: labels and how it was made, also of a snapshot of it. `required`: whether it
    requires a tenant, None for as the index that is there does.
    """
    is_empty = not path.exists() or (path.is_dir() and not any(path.iterdir()))
    parents = [parent for parent in path.parents if not parent.exists()]
    home: LocalStore | None = None
    try:
        home = LocalStore(path)
        with home.changing():
            if required is None:
                required = bool(home.settings.get(TENANT_REQUIRED))
            if isinstance(store, LocalStore | View):
                labels = {name: home.settings.get(name) for name in ALL_LABELS}
                fingerprint = {"fingerprint": fingerprint_of_encoders(uec.encoders, uec.fitted)}
                copy_view(store.snapshot(), home, {**labels, **settings, **fingerprint})
            record(home, store, uec, calibration)
            home.change_settings({TENANT_REQUIRED: required})
    except BaseException:
        if home is not None:
            home.close()
        if is_empty:  # all that is there now is of this save
            shutil.rmtree(path, ignore_errors=True)
            with suppress(OSError):
                for parent in parents:
                    parent.rmdir()
        raise
    home.remove_deleted()
    return home


def open_home(path: Path, *, read_only: bool) -> LocalStore:
    """Open the index in a folder; FileNotFoundError if there is none."""
    if not (path / DATABASE).exists():
        if (path / ENSEMBLE).is_file():
            raise corruption(path, "holds a saved UEC ensemble, expected a saved UEC index.")
        read_only = True  # so that none is made
    return LocalStore(path, read_only=read_only)


def open_saved(path: Path) -> LocalStore | OlderContents:
    """Open the index in a folder to read its passages and settings, also one of an older format."""
    try:
        return open_home(path, read_only=True)
    except OlderIndex:
        return OlderContents(path)


def preset_of(path: Path) -> str | None:
    """Return the preset whose encoders an index was made with; None if they are others."""
    with closing(open_saved(path)) as home, suppress(IndexCorrupted):
        if ensemble := read_named(path, home.settings):
            names = [encoder.name for encoder in ensemble.encoders]
            for preset in PRESETS:
                shipped, _ = read_fit(SHIPPED_FITS / preset)
                if names == [encoder.name for encoder in shipped.encoders]:
                    return preset
    return None


def requires_tenant(path: Path) -> bool:
    """Return whether the index in a folder requires a tenant."""
    with closing(open_saved(path)) as home:
        return bool(home.settings.get(TENANT_REQUIRED))


def close_saved(path: Path) -> None:
    """Let the index in a folder require a tenant."""
    with closing(open_home(path, read_only=False)) as home:
        home.change_settings({TENANT_REQUIRED: True})


def check_index(path: Path) -> int:
    """Verify all checksums of an index, without loading its models; return its passages.

    IndexCorrupted if something is damaged, FileNotFoundError if there is no index.
    """
    with closing(open_home(path, read_only=True)) as home:
        home.check()
        Settings(home).check_ensemble()
        return len(home)
