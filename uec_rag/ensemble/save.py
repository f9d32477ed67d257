"""Save and load ensembles as a file of safetensors, with encoders by name, without weights.

The header of the file has the description of the ensemble as JSON, and its arrays are those of the
posteriors.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import are_finite, check_type
from uec_rag.base.errors import (
    FingerprintMismatch,
    IndexCorrupted,
    as_corrupted,
    warn,
)
from uec_rag.base.files import ENSEMBLE, is_index, is_saved, read_bytes, replace_file
from uec_rag.base.records import Record
from uec_rag.confidence.model import ConfidenceModel, shipped_model
from uec_rag.encoders.base import Encoder, LastLayers
from uec_rag.encoders.lexical import Lexical
from uec_rag.encoders.loading import EncoderLike, load_encoder
from uec_rag.encoders.packages import PRESETS
from uec_rag.ensemble.convolution import Evidence, restore_rule
from uec_rag.ensemble.fitted import FitOptions, FitReport, Fitted, TrainingProfile
from uec_rag.laplace.posterior import Posterior

# Which of the models that a saved ensemble names may be loaded.
#
# A saved folder may come from an untrusted source. Models that it names are fetched, with the
# user's token, only if the user allows it; local and bundled models are always loaded.

TRUSTED = "UEC_TRUSTED"
"""The environment variable that lists hub names, and patterns such as "intfloat/*"."""


def may_fetch(spec: str, *, trust: bool) -> bool:
    """Return whether to use the hub for a model that a saved ensemble names.

    `trust`: whether any model may be fetched. Raises IndexCorrupted if the model is a folder inside
    a saved folder, which has no models.
    """
    name = spec.removeprefix("hf:")
    if name.startswith("pypi:"):  # contents are pinned by hashes
        return True
    folder = Path(name).expanduser()
    if folder.is_dir():
        _check_outside(folder)
        return True
    model = name.partition("@")[0]
    listed = os.environ.get(TRUSTED, "").split(",")
    return trust or any(fnmatchcase(model, pattern.strip()) for pattern in listed)


def _check_outside(folder: Path) -> None:
    path = folder.resolve()
    for outer in (path, *path.parents):
        if is_saved(outer):
            raise IndexCorrupted(
                f"encoders: the saved ensemble names the folder {str(folder)!r}, which lies inside "
                f"the saved folder {str(outer)!r}; such a model is not loaded. Give the encoder, "
                "as in encoders={...: ...}, if you trust it."
            )


@dataclass(frozen=True)
class SavedModel(Record):
    """The saved state of an encoder, without its weights."""

    name: str
    spec: str | None
    revision: str
    dimension: int

    def load(
        self,
        own_encoders: Mapping[str, EncoderLike],
        *,
        trust: bool,
        **settings: Any,
    ) -> Encoder:
        """Load the encoder, or use the given one; `settings` as in `load_encoder`.

        Raises ValueError if the model may not be fetched, FingerprintMismatch if it differs from
        the saved one.
        """
        named = self.name not in own_encoders
        spec = str(self.spec) if named else own_encoders[self.name]
        fetch = not named or may_fetch(str(spec), trust=trust)
        try:
            model = load_encoder(spec, fetch=fetch, **settings)
        except OSError as error:
            if fetch:
                raise
            name = str(spec).removeprefix("hf:")
            raise ValueError(
                f"encoders: the saved ensemble names {name!r}, which is not on this machine. If "
                f"you trust it, load with trust=True, or list it in the variable {TRUSTED} (as in "
                f"{TRUSTED}='intfloat/*'); or pass the encoder, as in encoders={{...: ...}}."
            ) from error
        if model.revision != self.revision:
            advice = "use the same weights, or fit and save again."
            if isinstance(model, Lexical):
                advice = (
                    "it splits texts into other terms, because of another tokenizer, setting or "
                    "version of PyStemmer, regex or uec-rag: restore that, or fit and index again."
                )
            raise FingerprintMismatch(
                f"encoders: {self.name!r} is not the model that was saved (revision "
                f"{model.revision[:12]!r}, expected {self.revision[:12]!r}); {advice}"
            )
        return model


KIND = "UEC ensemble"
_DESCRIPTION = "uec"  # the key of the description in the header of the file


@dataclass(frozen=True)
class SavedEnsemble(Record):
    """The saved state of an ensemble, besides the arrays of its posteriors.

    `vector_fingerprint`: see `UEC.fingerprint`. `sha256`: of all the rest, arrays included.
    """

    encoders: tuple[SavedModel, ...]
    options: FitOptions
    rule: dict[str, Any]
    vector_fingerprint: str
    report: FitReport | None = None
    confidence_model: ConfidenceModel | None = None
    training_profile: TrainingProfile | None = None
    sha256: str = ""

    def fitted(self, arrays: Mapping[str, NDArray[Any]]) -> Fitted:
        """Rebuild the ensemble without its encoders."""
        names = tuple(encoder.name for encoder in self.encoders)
        posteriors, options = None, self.options
        if self.report is not None:
            posteriors = tuple(
                Posterior(
                    options.structure,
                    arrays[f"{position}.covariance"],
                    arrays[f"{position}.profile"],
                    self.report.encoders[name],
                )
                for position, name in enumerate(names)
            )
        return Fitted(
            names,
            options.space,
            restore_rule(self.rule),
            options.beta,
            posteriors,
            self.confidence_model,
            self.report,
            self.training_profile,
        )


def fingerprint(encoders: Sequence[Encoder], fitted: Fitted, last_layer: LastLayers) -> str:
    """Compute the hash of everything that stored vectors depend on; see `UEC.fingerprint`."""
    state: dict[str, object] = {
        "space": fitted.space,
        "last_layer": last_layer,
        # By name only if there is no revision.
        "encoders": [
            [encoder.revision or name, encoder.dimension]
            for name, encoder in zip(fitted.names, encoders, strict=True)
        ],
    }
    if fitted.space == "shared":
        state["rule"] = fitted.rule.metadata()
    return _hash(json.dumps(state, sort_keys=True), fitted.posteriors or ())


@lru_cache(maxsize=4)
def _hash(state: str, posteriors: tuple[Posterior, ...]) -> str:
    """Hash a state and posteriors; cached, since every addition and snapshot needs it."""
    digest = hashlib.sha256(state.encode())
    for posterior in posteriors:
        known = {"structure": posterior.structure, "summary": posterior.summary.metadata()}
        digest.update(json.dumps(known, sort_keys=True).encode())
        for array in (posterior.covariance, posterior.profile):
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]


def save_ensemble(
    path: Path, encoders: Sequence[Encoder], fitted: Fitted, options: FitOptions
) -> None:
    """Write an ensemble to a folder of its own; see `UEC.save`."""
    if path.exists() and not (path.is_dir() and _is_ours(path)):
        raise FileExistsError(
            f"path: {str(path)!r} exists and is not a saved {KIND}; choose another path or remove "
            "it."
        )
    path.mkdir(parents=True, exist_ok=True)
    write_ensemble(path, encoders, fitted, options)


def _is_ours(folder: Path) -> bool:
    """Return whether a folder holds an ensemble, or nothing but what a killed save has left."""
    return (folder / ENSEMBLE).is_file() or all(
        file.name.startswith(f".{ENSEMBLE}.") for file in folder.iterdir()
    )


def write_ensemble(
    folder: Path,
    encoders: Sequence[Encoder],
    fitted: Fitted,
    options: FitOptions,
) -> None:
    """Write the file of an ensemble into an existing folder, after checking that it loads.

    It replaces the file that was there as a whole, so that a reader finds one ensemble or the
    other.

    Raises
    ------
    ValueError
        If the coefficient rule is a custom one.
    RuntimeError
        If the file cannot be read.
    """
    restore_rule(fitted.rule.metadata())  # raises for a custom rule, which could not be loaded
    state = SavedEnsemble(
        tuple(
            SavedModel(name, encoder.spec, encoder.revision, encoder.dimension)
            for name, encoder in zip(fitted.names, encoders, strict=True)
        ),
        options,
        fitted.rule.metadata(),
        fingerprint(encoders, fitted, options.last_layer),
        fitted.report,
        fitted.confidence_model,
        fitted.training_profile,
    )
    arrays = {
        f"{position}.{name}": getattr(posterior, name)
        for position, posterior in enumerate(fitted.posteriors or ())
        for name in ("covariance", "profile")
    }
    content = pack(state.metadata(), arrays)
    models: dict[str, EncoderLike] = dict(zip(fitted.names, encoders, strict=True))
    try:
        _load(*_restore(content, folder / ENSEMBLE), folder, models, None, trust=False)
    except Exception as error:
        raise RuntimeError(
            f"path: the ensemble does not load again ({error}). Nothing was saved, "
            "and the previous save is unchanged; please report this."
        ) from error
    replace_file(folder / ENSEMBLE, content)


def pack(state: Mapping[str, object], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the content of the file of an ensemble: safetensors, with the state in the header."""
    from safetensors.numpy import save

    # safetensors ignores strides, and would write a transposed array in the wrong order.
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    text = json.dumps({**state, "sha256": _checksum(state, whole)}, ensure_ascii=False)
    return save(whole, {_DESCRIPTION: text})


def unpack(content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the state and the arrays that `pack` put into a file; ValueError if they are damaged.

    KeyError or TypeError for other contents.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(content)
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    state = json.loads(header["__metadata__"][_DESCRIPTION])
    if state["sha256"] != _checksum(state, arrays):
        raise ValueError("its checksum differs")
    for name, array in arrays.items():
        if not are_finite(array):
            raise ValueError(f"{name!r} holds NaN or infinity")
    return state, arrays


def _checksum(state: Mapping[str, object], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the hash of a description, without its own hash, and of arrays."""
    own = {key: value for key, value in state.items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps(own, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def read_fit(folder: Path) -> tuple[SavedEnsemble, Fitted]:
    """Read the file of `write_ensemble`, without loading models."""
    return _restore(read_bytes(folder / ENSEMBLE), folder / ENSEMBLE)


def _restore(content: bytes, file: Path) -> tuple[SavedEnsemble, Fitted]:
    with as_corrupted(file):
        state, arrays = unpack(content)
        saved = SavedEnsemble.restore(state)
        return saved, saved.fitted(arrays)


def read_ensemble(
    folder: Path, own_encoders: Mapping[str, EncoderLike], device: str | None, *, trust: bool
) -> tuple[Fitted, dict[str, Any]]:
    """Read a fit, and the arguments of its `UEC`, from the files in a folder; see `UEC.load`.

    `own_encoders`: encoders, by name. FileNotFoundError if there is no ensemble.
    """
    if not os.path.lexists(folder / ENSEMBLE):
        if is_index(folder):
            raise IndexCorrupted(f"path: {str(folder)!r} holds an index, expected a {KIND}.")
        raise FileNotFoundError(
            f"path: no saved {KIND} at {str(folder)!r}; expected {ENSEMBLE} there."
        )
    expected = "a mapping of names to encoders, such as {'my-model': model}"
    check_type(own_encoders, Mapping, "encoders", expected)
    return _load(*read_fit(folder), folder, own_encoders, device, trust=trust)


def _load(
    saved: SavedEnsemble,
    fitted: Fitted,
    folder: Path,
    own_encoders: Mapping[str, EncoderLike],
    device: str | None,
    *,
    trust: bool,
) -> tuple[Fitted, dict[str, Any]]:
    """Load the models of a saved ensemble."""
    options = saved.options
    names = [model.name for model in saved.encoders]
    unknown = sorted({*own_encoders} - {*names})
    if unknown:
        raise ValueError(f"encoders: expected names among {names}, got {unknown}.")
    missing = [
        model.name
        for model in saved.encoders
        if model.spec is None and model.name not in own_encoders
    ]
    if missing:
        raise ValueError(
            f"encoders: {missing} cannot be loaded by name (a callable, an API or a model in "
            f"memory); pass them, as in UEC.load(path, encoders={{{missing[0]!r}: ...}})."
        )
    encoders: list[Encoder] = []
    for entry in saved.encoders:
        encoder = entry.load(
            own_encoders, trust=trust, device=device, last_layer=options.last_layer
        )
        encoders.append(encoder)
        if entry.dimension != encoder.dimension:
            raise FingerprintMismatch(
                f"encoders: {entry.name!r} returns vectors of dimension {encoder.dimension}, "
                f"expected {entry.dimension} as when it was saved."
            )
    if fingerprint(encoders, fitted, options.last_layer) != saved.vector_fingerprint:
        raise IndexCorrupted(
            f"path: the ensemble in {str(folder)!r} has another fingerprint than it was saved "
            "with; its file was changed. Save it again."
        )
    return fitted, {"encoders": encoders, "coefficients": fitted.rule, "options": options}


SHIPPED_FITS = Path(__file__).with_name("shipped")
"""The folder of the fits that come with the package, one for each preset of `UEC`.

They were made by `benchmarks/quality/shipped_fit.py`. A posterior is an approximation of the fitted
one that differs from a multiple of the identity in 64 directions.
"""


_CONFIDENCE: dict[str, Literal["words", "multilingual"]] = {
    "multilingual": "multilingual",
    "english": "words",
}


def shipped_fit(
    encoders: Sequence[Encoder], unfitted: Fitted, options: FitOptions
) -> Fitted | None:
    """Return the shipped fit if there is one for these encoders and options; None otherwise."""
    for preset in PRESETS:
        saved, _ = read_fit(SHIPPED_FITS / preset)
        fitted_on = [(encoder.name, encoder.revision) for encoder in saved.encoders]
        if fitted_on == [(encoder.name, encoder.revision) for encoder in encoders]:
            rule = Evidence() if isinstance(unfitted.rule, Evidence) else unfitted.rule
            plain = replace(unfitted, rule=rule, posteriors=None)
            fitted = with_shipped_fit(preset, encoders, plain, options)
            return None if fitted.posteriors is None else fitted
    return None


def with_shipped_fit(
    preset: str, encoders: Sequence[Encoder], unfitted: Fitted, options: FitOptions
) -> Fitted:
    """Return the shipped fit of a preset if it is for these encoders and options.

    Its confidence model is the shipped one, which was learned from many collections, at the
    temperature of this ensemble.

    Parameters
    ----------
    preset : str
    encoders : sequence of Encoder
        The encoders of the preset.
    options : FitOptions
        The options of the ensemble. If they differ from those of the shipped fit, `unfitted` is
        returned.

    Returns
    -------
    Fitted
        The shipped fit; `unfitted`, with a warning, if the revision of an encoder differs.

    Raises
    ------
    IndexCorrupted
        If the files of the shipped fit are damaged.
    """
    saved, shipped = read_fit(SHIPPED_FITS / preset)
    model = shipped.confidence_model
    alike = replace(saved.options, temperature=options.temperature, beta=options.beta)
    if replace(alike, seed=options.seed) != options:
        return unfitted
    changed = [
        known.name
        for known, encoder in zip(saved.encoders, encoders, strict=True)
        if known.revision != encoder.revision
    ]
    if changed:
        warn(
            f"The fit shipped with the package is for other revisions of {changed} than those "
            "loaded: this UEC is not fitted. Call fit(pairs), or install the versions of the "
            "libraries that the package was tested with."
        )
        return unfitted
    assert model is not None
    evidence = unfitted.evidence_weights is None and isinstance(unfitted.rule, Evidence)
    fitted = replace(
        shipped,
        names=unfitted.names,
        rule=shipped.rule if evidence else unfitted.rule,
        beta=unfitted.beta,
        confidence_model=replace(shipped_model(_CONFIDENCE[preset]), temperature=model.temperature),
    )
    if fingerprint(encoders, fitted, "projection") != saved.vector_fingerprint:
        raise IndexCorrupted("The fit shipped with the package is damaged; install uec-rag again.")
    return fitted
