"""A saved index: the files of the store and of the ensemble, and the calibration."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from uec_rag.base.checks import check_type
from uec_rag.base.errors import FingerprintMismatch, as_corrupted, as_save_check, corruption
from uec_rag.base.saved.files import read_json, write_json
from uec_rag.base.saved.generations import Saved, read_generation, write_generation
from uec_rag.encoders.loading import EncoderLike
from uec_rag.ensemble.save import write_ensemble
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.calibrate import CorpusCalibration, corpus_fingerprint
from uec_rag.retrieval.index import Index
from uec_rag.stores.base import Store
from uec_rag.stores.memory.saved import StreamedStore
from uec_rag.stores.memory.vectors import Dtype
from uec_rag.stores.urls import saved_store

KIND = "UEC index"


@dataclass(frozen=True)
class SavedIndex:
    """The content of a saved index.

    Attributes
    ----------
    current : bool
        Whether the calibration was learned on the corpus as saved; true if there is none.
    generation : Path
        Absolute path of the generation that was loaded (see `Saved`).
    """

    uec: UEC
    store: Store
    calibration: CorpusCalibration | None
    current: bool
    generation: Path


def save_index(
    path: str | os.PathLike[str],
    uec: UEC,
    store: Store,
    calibration: CorpusCalibration | None,
    of: Saved,
) -> None:
    """Write an index to the folder `path`; see `Retriever.save`. `of`: the object saved."""
    with write_generation(path, KIND, of=of) as folder:
        (folder / "store").mkdir()
        store.save(folder / "store")
        corpus = None if calibration is None else corpus_fingerprint(store)
        _write_rest(folder, uec, calibration, corpus)
        _prove(folder, store)


@contextmanager
def filling_index(path: str | os.PathLike[str], uec: UEC, dtype: Dtype) -> Iterator[Index]:
    """Write an index to the folder `path` while it is filled; see `Retriever.filling`."""
    with write_generation(path, KIND) as folder:
        (folder / "store").mkdir()
        with StreamedStore(folder / "store", dtype=dtype) as store:
            yield Index(uec, cast(Store, store))
            if store.fingerprint not in (None, uec.fingerprint):
                raise ValueError(
                    f"uec: it was fitted while {len(store):,} passages were added, whose vectors "
                    "are of the previous fit; fill a new index."
                )
            store.finish()
        _write_rest(folder, uec, None, None)
        _prove(folder, cast(Store, store))


def _write_rest(
    folder: Path, uec: UEC, calibration: CorpusCalibration | None, corpus: str | None
) -> None:
    """Write everything except the store."""
    (folder / "ensemble").mkdir()
    write_ensemble(folder / "ensemble", uec.encoders, uec.fitted, uec.options)
    state: dict[str, object] = {"fingerprint": uec.fingerprint, "calibration": None}
    if calibration is not None:
        state["calibration"] = calibration.metadata()
        state["corpus"] = corpus
    write_json(folder / "index.json", state)


def _prove(folder: Path, store: Store) -> None:
    """Check that the written files load before they replace a saved index; RuntimeError if not."""
    with as_save_check(KIND):
        _read_learned(folder)
        if getattr(store, "remote", False):  # an open engine may refuse to be opened again
            read_json(folder / "store" / "store.json")
        else:
            saved_store(folder / "store")()


def _read_learned(folder: Path) -> tuple[str, CorpusCalibration | None, str | None]:
    """Read the fingerprints of the ensemble and of the saved corpus, and the calibration."""
    state = read_json(folder / "index.json")
    with as_corrupted(folder / "index.json"):
        saved, corpus = state["fingerprint"], state.get("corpus")
        assert isinstance(saved, str)
        if state["calibration"] is None:
            return saved, None, corpus
        return saved, CorpusCalibration.restore(state["calibration"]), corpus


def load_index(
    path: str | os.PathLike[str],
    uec: UEC | None,
    encoders: Mapping[str, EncoderLike],
    device: str | None,
    *,
    store: Store | None,
    trust: bool,
    verify: bool,
) -> SavedIndex:
    """Read an index from the folder `path`; see `Retriever.load`."""
    check_type(uec, UEC | None, "uec", "a UEC or None")
    with read_generation(path, KIND, verify=verify) as folder:
        open_saved = saved_store(folder / "store", store)
        saved, calibration, corpus = _read_learned(folder)
        if uec is None:
            uec = UEC.read(folder / "ensemble", encoders=encoders, device=device, trust=trust)
        if uec.fingerprint != saved:
            raise FingerprintMismatch(
                f"uec: its fingerprint {uec.fingerprint[:12]!r} is not that of the index, "
                f"{saved[:12]!r}: other models, revisions or posterior. Load the index "
                "with its own ensemble (uec=None), or build it again with this one."
            )
        store = open_saved()
        if len(store) and store.sample(1).dimension != uec.dimension:
            raise corruption(
                folder / "store",
                "holds vectors of width "
                f"{store.sample(1).dimension}, expected {uec.dimension} as the ensemble gives: it "
                "is another index's; save the index again.",
            )
    current = calibration is None or calibration.corpus == corpus
    return SavedIndex(uec, store, calibration, current, folder.absolute())
