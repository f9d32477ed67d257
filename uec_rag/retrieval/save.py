"""Saving and loading an ensemble or an index: a folder with safetensors, arrays and JSON."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uec_rag.base.files import read_json, reading, write_json, writing
from uec_rag.confidence.model import ConfidenceModel
from uec_rag.encoders import EncoderLike
from uec_rag.ensemble.report import FitReport
from uec_rag.ensemble.rules import restore_rule
from uec_rag.laplace.posterior import Posterior
from uec_rag.retrieval.calibrate import CorpusCalibration, corpus_fingerprint
from uec_rag.stores.memory import MemoryStore

if TYPE_CHECKING:
    from uec_rag.ensemble import UEC
    from uec_rag.retrieval.retriever import Retriever

KIND = "UEC ensemble"
INDEX = "UEC index"
_OPTIONS = ("space", "structure", "likelihood", "last_layer", "beta", "seed")


def fingerprint(uec: UEC) -> str:
    """Hash of what stored vectors depend on; see `UEC.fingerprint`."""
    state: dict[str, object] = {
        "space": uec.space,
        "last_layer": uec.last_layer,
        # By name only where nothing says more: a callable's own may differ when it is loaded.
        "encoders": [
            [encoder.revision or name, encoder.dimension]
            for name, encoder in zip(uec.names, uec.encoders, strict=True)
        ],
    }
    if uec.space == "shared":
        state["rule"] = uec.rule.metadata()
    digest = hashlib.sha256(json.dumps(state, sort_keys=True).encode())
    for posterior in uec.posteriors or ():
        digest.update(json.dumps(posterior.metadata(), sort_keys=True).encode())
        for array in posterior.arrays().values():
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]


def save_ensemble(uec: UEC, path: str | os.PathLike[str]) -> None:
    """Write `uec` to the folder `path`; see `UEC.save`."""
    with writing(path, KIND) as folder:
        write_ensemble(uec, folder)


def write_ensemble(uec: UEC, folder: Path) -> None:
    """Write the files of `uec` into an existing folder.

    Raises
    ------
    ValueError
        If its rule for the coefficients is not one of this package's.
    """
    from safetensors.numpy import save_file

    state: dict[str, object] = {option: getattr(uec, option) for option in _OPTIONS}
    state["fingerprint"] = uec.fingerprint
    state["coefficients"] = uec.rule.metadata()
    restore_rule(uec.rule.metadata())  # a rule of the user's own would not come back: say so now
    state["encoders"] = [
        {
            "name": name,
            "spec": encoder.spec,
            "revision": encoder.revision,
            "dimension": encoder.dimension,
        }
        for name, encoder in zip(uec.names, uec.encoders, strict=True)
    ]
    if uec.posteriors is not None and uec.report is not None:
        state["posteriors"] = [posterior.metadata() for posterior in uec.posteriors]
        if uec.confidence_model is not None:
            state["confidence"] = uec.confidence_model.metadata()
        state["seconds"] = [uec.report.encoding_seconds, uec.report.fitting_seconds]
        tensors = {
            # safetensors writes the memory as it lies, a transposed array transposed.
            f"{i}.{key}": np.ascontiguousarray(array)
            for i, posterior in enumerate(uec.posteriors)
            for key, array in posterior.arrays().items()
        }
        save_file(tensors, folder / "posteriors.safetensors")
    write_json(folder / "uec.json", state)


def load_ensemble(
    path: str | os.PathLike[str], encoders: Mapping[str, EncoderLike], device: str | None
) -> UEC:
    """Read an ensemble from the folder `path`; see `UEC.load`."""
    return read_ensemble(reading(path, KIND), encoders, device)


def read_ensemble(folder: Path, encoders: Mapping[str, EncoderLike], device: str | None) -> UEC:
    """Read an ensemble from the files in `folder`, checked already."""
    from uec_rag.ensemble import UEC

    state = read_json(folder / "uec.json")
    saved = state["encoders"]
    names = [entry["name"] for entry in saved]
    unknown = sorted(set(encoders) - set(names))
    if unknown:
        raise ValueError(f"encoders: expected names among {names}, got {unknown}.")
    missing = [e["name"] for e in saved if e["spec"] is None and e["name"] not in encoders]
    if missing:
        raise ValueError(
            f"encoders: {missing} cannot be loaded by name (a callable, an API or a model in "
            f"memory); pass them, as in UEC.load(path, encoders={{{missing[0]!r}: ...}})."
        )
    uec = UEC(
        [encoders.get(entry["name"], entry["spec"]) for entry in saved],
        coefficients=restore_rule(state["coefficients"]),
        device=device,
        **{option: state[option] for option in _OPTIONS},
    )
    uec.names = names
    for entry, encoder in zip(saved, uec.encoders, strict=True):
        if entry["revision"] != encoder.revision:
            raise ValueError(
                f"encoders: {entry['name']!r} is not the model that was saved (revision "
                f"{encoder.revision[:12]!r}, expected {entry['revision'][:12]!r}); give the same "
                "weights, or fit and save again."
            )
        if entry["dimension"] != encoder.dimension:
            raise ValueError(
                f"encoders: {entry['name']!r} gives vectors of width {encoder.dimension}, expected "
                f"{entry['dimension']} as when it was saved."
            )
    if "confidence" in state:
        uec.confidence_model = ConfidenceModel.restore(state["confidence"])
    if "posteriors" in state:
        _restore_posteriors(uec, state, folder / "posteriors.safetensors")
    if uec.fingerprint != state["fingerprint"]:
        raise ValueError(
            f"path: the ensemble in {str(folder)!r} does not give the fingerprint it was saved "
            "with; its files were changed or mixed. Save it again."
        )
    return uec


def _restore_posteriors(uec: UEC, state: dict[str, Any], file: Path) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        tensors = load_file(file)
    except SafetensorError as error:
        raise ValueError(f"path: {str(file)!r} cannot be read ({error}); save it again.") from error
    uec.posteriors = [
        Posterior.restore(
            {key: tensors[f"{i}.{key}"] for key in ("covariance", "profile")}, metadata
        )
        for i, metadata in enumerate(state["posteriors"])
    ]
    uec.report = FitReport(
        {n: post.summary for n, post in zip(uec.names, uec.posteriors, strict=True)},
        uec.structure,
        uec.likelihood,
        *state["seconds"],
    )


def save_index(retriever: Retriever, path: str | os.PathLike[str]) -> None:
    """Write a retriever's index to the folder `path`; see `Retriever.save`."""
    with writing(path, INDEX) as folder:
        store, calibration = retriever.store.snapshot(), retriever.calibration
        (folder / "store").mkdir()
        store.save(folder / "store")
        (folder / "ensemble").mkdir()
        write_ensemble(retriever.uec, folder / "ensemble")
        state: dict[str, object] = {"fingerprint": retriever.uec.fingerprint, "calibration": None}
        if calibration is not None:
            state["calibration"] = calibration.metadata()
            state["corpus"] = corpus_fingerprint(store)
        write_json(folder / "index.json", state)


def load_index(
    path: str | os.PathLike[str],
    uec: UEC | None,
    encoders: Mapping[str, EncoderLike],
    device: str | None,
    store_device: str | None,
) -> Retriever:
    """Read an index from the folder `path`; see `Retriever.load`."""
    from uec_rag.retrieval.retriever import Retriever

    folder = reading(path, INDEX)
    state = read_json(folder / "index.json")
    if uec is None:
        uec = read_ensemble(folder / "ensemble", encoders, device)
    if uec.fingerprint != state["fingerprint"]:
        raise ValueError(
            f"uec: its fingerprint {uec.fingerprint[:12]!r} is not that of the index, "
            f"{state['fingerprint'][:12]!r}: other models, revisions or posterior. Load the index "
            "with its own ensemble (uec=None), or build it again with this one."
        )
    retriever = Retriever(uec, MemoryStore.load(folder / "store", device=store_device))
    if state["calibration"] is not None:
        calibration = CorpusCalibration.restore(state["calibration"])
        retriever.set_calibration(calibration, current=calibration.corpus == state["corpus"])
    return retriever
