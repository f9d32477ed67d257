"""The folder of an index: the passages, the ensemble and the calibration.

The local index holds what is learned among its settings, and names the folder of the ensemble, so
that a transaction replaces all of it at once. If the passages are in an engine, the index in the
folder has only the settings, of which one says where they are.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from uec_rag.base.errors import FingerprintMismatch, IndexCorrupted, as_corrupted, corruption, warn
from uec_rag.base.files import DATABASE, ENSEMBLE, is_index, replace_file
from uec_rag.encoders.base import TermEncoder
from uec_rag.ensemble.save import fingerprint, read_fit
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.learn import CorpusCalibration
from uec_rag.stores.base import Searched
from uec_rag.stores.candidates import STORE, CandidateStore
from uec_rag.stores.local import LocalStore, View
from uec_rag.stores.local.database import OtherFormat, read_any
from uec_rag.stores.local.store import SEGMENTS, copy_view

LABELS, MADE_WITH = "labels", "made_with"  # the settings
_LASTING: Mapping[str, tuple[Any, str, str]] = {
    LABELS: (dict[str, list[str]] | None, "labels", "label again"),
    MADE_WITH: (dict[str, list[str] | int] | None, "options", "give them again"),
}
_ENSEMBLES = "ensemble"  # the folder of ensembles, of which a setting names the current one


def read_calibration(home: LocalStore) -> CorpusCalibration | None:
    """Return the calibration among the settings of an index, if there is one."""
    state = home.settings.get("calibration")
    if state is None:
        return None
    with as_corrupted((home.folder or Path()) / DATABASE):
        return CorpusCalibration.restore(state)


def read_labels(home: LocalStore) -> dict[str, set[str]]:
    """Return the labels of an index: the ids of the passages that answer each question."""
    return {question: {*ids} for question, ids in (home.settings.get(LABELS) or {}).items()}


def settings_in(folder: Path, *names: str) -> dict[str, dict[str, Any]]:
    """Return settings of a saved index of any format; warn of those that cannot be read.

    `names`: `LABELS`, or how it was made from a folder (`MADE_WITH`).
    """
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        kind, what, do = _LASTING[name]
        sql = f"SELECT value FROM settings WHERE key = '{name}'"
        try:
            values = [value for (value,) in read_any(folder, sql, "settings")] or ["null"]
            found[name] = msgspec.json.decode(values[0], type=kind) or {}
        except (IndexCorrupted, TypeError, msgspec.MsgspecError):
            warn(f"the {what} of {str(folder)!r} cannot be read and are not kept; {do}.")
            found[name] = {}
    return found


def write_label(home: LocalStore, question: str, ids: Collection[str] | None) -> None:
    """Label a question in place of what it had; None removes its label."""
    with home.changing():
        labels = home.settings.get(LABELS) or {}
        others = {asked: ids for asked, ids in labels.items() if asked != question}
        home.change_settings({LABELS: others | ({} if ids is None else {question: sorted(ids)})})


def record(
    home: LocalStore, store: Searched, uec: UEC, calibration: CorpusCalibration | None
) -> None:
    """Write what was learned into the folder of an index, and where its passages are."""
    with home.changing():
        if store is home:
            home.bind(uec.fingerprint)
        elif isinstance(store, CandidateStore):
            home.change_settings({STORE: store.describe()})
        state = None if calibration is None else calibration.metadata()
        home.change_settings({"calibration": state})
        record_ensemble(home, uec)


def record_ensemble(index: LocalStore, uec: UEC) -> None:
    """Write an ensemble into the folder of an index, in place of the one that is there."""
    if index.folder is None:
        return
    ensembles, name = index.folder / _ENSEMBLES, secrets.token_hex(8)
    with index.changing():
        folder = ensembles / name
        folder.mkdir(parents=True)
        try:
            uec.save(folder)
            index.change_settings({"ensemble": name, "ensemble_fingerprint": uec.fingerprint})
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    with suppress(OSError):  # another process may be removing the same ones
        for other in ensembles.iterdir():
            if other.name != index.settings.get("ensemble"):
                shutil.rmtree(other, ignore_errors=True)


def save_index(
    path: Path, uec: UEC, store: Searched, calibration: CorpusCalibration | None
) -> LocalStore:
    """Write an index to a folder; return the open index there. See `Retriever.save`."""
    is_new, (home, old) = not is_index(path), _open_or_replace(path)
    try:
        with home.changing():
            if isinstance(store, LocalStore | View):
                settings = {} if isinstance(store, View) else dict(store.settings)
                settings["fingerprint"] = uec.fingerprint
                settings.setdefault(LABELS, home.settings.get(LABELS))
                copy_view(store.snapshot(), home, settings)
            record(home, store, uec, calibration)
    except BaseException:
        home.close()
        if is_new:
            shutil.rmtree(path, ignore_errors=True)
        elif old is not None:
            shutil.rmtree(_move_index(path, old / "new"))
            _move_index(old, path)
            old.rmdir()
        raise
    home.compact()
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
    return home


def _open_or_replace(path: Path) -> tuple[LocalStore, Path | None]:
    """Open the index in a folder, or make one, in place of an index of another format.

    Returns where that one is kept until the new one is written, too.
    """
    try:
        return LocalStore(path), None
    except OtherFormat:
        labels = settings_in(path, LABELS)[LABELS]
        old = _move_index(path, path / f".outdated-{secrets.token_hex(8)}")
        replace_file(path / DATABASE, b"")  # so that the folder stays that of an index
        home = LocalStore(path)
        home.change_settings({LABELS: labels})
        return home, old


def _move_index(source: Path, target: Path) -> Path:
    """Move the files of an index to another folder, which may be in its own; return that."""
    target.mkdir(exist_ok=True)
    for file in (*source.glob(f"{DATABASE}*"), source / _ENSEMBLES, source / SEGMENTS):
        if file.exists():
            file.rename(target / file.name)
    return target


def open_home(path: Path, *, read_only: bool) -> LocalStore:
    """Open the index in a folder; FileNotFoundError if there is none."""
    if not (path / DATABASE).exists():
        if (path / ENSEMBLE).is_file():
            raise corruption(path, "holds a saved UEC ensemble, expected a saved UEC index.")
        read_only = True  # so that none is made
    return LocalStore(path, read_only=read_only)


def load_ensemble(home: LocalStore, **options: Any) -> UEC:
    """Load the ensemble of an index. `options`: as in `UEC.load`, as are the errors."""
    assert home.folder is not None
    name = home.settings.get("ensemble")
    if not isinstance(name, str) or not name.isalnum():
        raise corruption(
            home.folder / DATABASE,
            "names no ensemble: its first save was interrupted, or it was filled by a store alone; "
            "load it with the ensemble (uec=...), or build it again.",
        )
    return UEC.load(home.folder / _ENSEMBLES / name, **options)


def check_index(path: Path) -> int:
    """Verify all checksums of an index, without loading its models; return its passages.

    IndexCorrupted if something is damaged, FileNotFoundError if there is no index.
    """
    with closing(open_home(path, read_only=True)) as home:
        home.check()
        check_ensemble(home)
        return len(home)


def check_ensemble(home: LocalStore) -> None:
    """Verify the checksums of the ensemble of an index; IndexCorrupted if they differ."""
    name = home.settings.get("ensemble")
    if home.folder is not None and name is not None:
        read_fit(home.folder / _ENSEMBLES / name)


def check_made_with(home: LocalStore, uec: UEC) -> bool:
    """Return whether an index was made with an ensemble that differs in the stems of words alone.

    FingerprintMismatch if it differs otherwise.
    """
    expected = home.settings.get("ensemble_fingerprint") or home.settings.get("fingerprint")
    if expected in (None, uec.fingerprint):
        return False
    if home.folder is not None and (name := home.settings.get("ensemble")) is not None:
        saved = {one.name: one for one in read_fit(home.folder / _ENSEMBLES / name)[0].encoders}
        before = [
            saved.get(each.name, each) if isinstance(each, TermEncoder) else each
            for each in uec.encoders
        ]
        if fingerprint(before, uec.fitted) == expected:
            return True
    raise FingerprintMismatch(
        f"uec: expected the ensemble of the index with its fit, got {uec!r}. Omit uec= to load the "
        "saved one, and pass what has no name by encoders={name: embedding}, or the embedding "
        "alone to a class of LangChain or LlamaIndex; or build the index again."
    )
