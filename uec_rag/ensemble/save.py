"""Save and load ensembles as safetensors and JSON, with encoders by name, without weights."""

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

from uec_rag.base.checks import check_type
from uec_rag.base.environment import TRUSTED, trusted_names
from uec_rag.base.errors import (
    FingerprintMismatch,
    IndexCorrupted,
    as_corrupted,
    as_save_check,
    warn,
)
from uec_rag.base.files import (
    ENSEMBLE,
    is_index,
    is_saved,
    lock_file,
    read_json,
    read_tensors,
    replace_file,
    to_disk,
)
from uec_rag.base.records import Record
from uec_rag.confidence.model import ConfidenceModel, shipped_model
from uec_rag.encoders.base import Encoder, LastLayers
from uec_rag.encoders.lexical import Lexical
from uec_rag.encoders.loading import EncoderLike, load_encoder
from uec_rag.encoders.packages import PRESETS
from uec_rag.ensemble.convolution import Evidence, restore_rule
from uec_rag.ensemble.fitted import FitFacts, FitOptions, FitReport, Fitted, TrainingProfile
from uec_rag.laplace.posterior import Posterior

# Which of the models that a saved ensemble names may be loaded.
#
# A saved folder may come from an untrusted source. Models that it names are fetched, with the
# user's token, only if the user allows it; local and bundled models are always loaded.


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
    return trust or any(fnmatchcase(model, pattern) for pattern in trusted_names())


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
_LOCK, _PATIENCE = ".lock", 10.0  # file that is locked while writing, and seconds to wait for it
_TENSORS = "posteriors-{}.safetensors"


@dataclass(frozen=True)
class SavedEnsemble(Record):
    """The saved state of an ensemble; `tensors`: the SHA-256 of the file of its posteriors."""

    encoders: tuple[SavedModel, ...]
    options: FitOptions
    rule: dict[str, Any]
    vector_fingerprint: str
    posteriors: tuple[dict[str, Any], ...] = ()
    tensors: str = ""
    source: str = ""
    seconds: tuple[float, float] = (0.0, 0.0)
    confidence_model: ConfidenceModel | None = None
    training_profile: TrainingProfile | None = None
    facts: FitFacts | None = None


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
        digest.update(json.dumps(posterior.metadata(), sort_keys=True).encode())
        for array in posterior.arrays().values():
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]


def save_ensemble(
    path: Path, encoders: Sequence[Encoder], fitted: Fitted, options: FitOptions
) -> None:
    """Write an ensemble to a folder of its own; see `UEC.save`."""
    if path.exists() and not (path.is_dir() and (_is_ensemble(path) or not any(path.iterdir()))):
        raise FileExistsError(
            f"path: {str(path)!r} exists and is not a saved {KIND}; choose another path or remove "
            "it."
        )
    path.mkdir(parents=True, exist_ok=True)
    busy = f"path: another process is saving a {KIND} at {str(path)!r}; wait for it."
    with lock_file(path / _LOCK, busy, _PATIENCE):
        write_ensemble(path, encoders, fitted, options)


def _is_ensemble(path: Path) -> bool:
    return (path / ENSEMBLE).is_file() or {file.name for file in path.iterdir()} <= {_LOCK}


def write_ensemble(
    folder: Path,
    encoders: Sequence[Encoder],
    fitted: Fitted,
    options: FitOptions,
) -> None:
    """Write the files of an ensemble into an existing folder, after checking that they load.

    The tensors are in a file that is named after their hash; the description, which names it, is
    replaced at the end, so that a reader finds the ensemble that was there or the new one.

    Raises
    ------
    ValueError
        If the coefficient rule is a custom one.
    RuntimeError
        If the files cannot be read.
    """
    from safetensors.numpy import save

    restore_rule(fitted.rule.metadata())  # raises for a custom rule, which could not be loaded
    state = SavedEnsemble(
        tuple(
            SavedModel(name, encoder.spec, encoder.revision, encoder.dimension)
            for name, encoder in zip(fitted.names, encoders, strict=True)
        ),
        options,
        fitted.rule.metadata(),
        fingerprint(encoders, fitted, options.last_layer),
    )
    if fitted.posteriors is not None and fitted.report is not None:
        report = fitted.report
        state = replace(
            state,
            posteriors=tuple(posterior.metadata() for posterior in fitted.posteriors),
            source=report.source,
            seconds=(report.encoding_seconds, report.fitting_seconds),
            confidence_model=fitted.confidence_model,
            training_profile=fitted.training_profile,
            facts=report.facts,
        )
        tensors = {
            # safetensors ignores strides, and would write a transposed array in the wrong order.
            f"{i}.{key}": np.ascontiguousarray(array)
            for i, posterior in enumerate(fitted.posteriors)
            for key, array in posterior.arrays().items()
        }
        content = save(tensors)
        digest = hashlib.sha256(content).hexdigest()
        file = folder / _TENSORS.format(digest[:16])
        file.write_bytes(content)
        to_disk(file)
        state = replace(state, tensors=digest)
    saved = state.metadata()
    saved["sha256"] = _checksum(saved)
    text = json.dumps(saved, ensure_ascii=False, indent=1)
    models: dict[str, EncoderLike] = dict(zip(fitted.names, encoders, strict=True))
    with as_save_check("ensemble"):
        _load(read_fit(folder, json.loads(text)), folder, models, None, trust=False)
    replace_file(folder / ENSEMBLE, text)
    for file in folder.glob(_TENSORS.format("*")):
        if file.name != _TENSORS.format(state.tensors[:16]):
            file.unlink(missing_ok=True)


def _checksum(state: Mapping[str, object]) -> str:
    """Return the hash of a description without its own."""
    own = {key: value for key, value in state.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class SavedFit:
    """The saved state of an ensemble, without its models."""

    encoders: list[SavedModel]
    fitted: Fitted
    options: FitOptions
    fingerprint: str


def read_fit(folder: Path, state: dict[str, Any] | None = None) -> SavedFit:
    """Read the files of `write_ensemble`; `state`: the description, if it was read already."""
    file = folder / ENSEMBLE
    state = read_json(file) if state is None else state
    with as_corrupted(file):
        if state.pop("sha256", None) != _checksum(state):
            raise ValueError("its checksum differs")
        saved = SavedEnsemble.restore(state)
        names = tuple(encoder.name for encoder in saved.encoders)
        options = saved.options
        fitted = Fitted(names, options.space, restore_rule(saved.rule), options.beta)
        if saved.posteriors:
            tensors = read_tensors(folder / _TENSORS.format(saved.tensors[:16]), saved.tensors)
            posteriors = tuple(
                Posterior.restore(
                    {key: tensors[f"{i}.{key}"] for key in ("covariance", "profile")}, metadata
                )
                for i, metadata in enumerate(saved.posteriors)
            )
            report = FitReport(
                {name: post.summary for name, post in zip(names, posteriors, strict=True)},
                options.structure,
                options.likelihood,
                *saved.seconds,
                saved.source,
                saved.facts,
            )
            fitted = replace(
                fitted,
                posteriors=posteriors,
                report=report,
                confidence_model=saved.confidence_model,
                training_profile=saved.training_profile,
            )
        return SavedFit([*saved.encoders], fitted, options, saved.vector_fingerprint)


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
    try:
        saved = read_fit(folder)
    except IndexCorrupted:  # another process may have replaced the tensors since they were named
        saved = read_fit(folder)
    return _load(saved, folder, own_encoders, device, trust=trust)


def _load(
    saved: SavedFit,
    folder: Path,
    own_encoders: Mapping[str, EncoderLike],
    device: str | None,
    *,
    trust: bool,
) -> tuple[Fitted, dict[str, Any]]:
    """Load the models of a saved ensemble."""
    fitted, options = saved.fitted, saved.options
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
    if fingerprint(encoders, fitted, options.last_layer) != saved.fingerprint:
        raise IndexCorrupted(
            f"path: the ensemble in {str(folder)!r} has another fingerprint than it was saved "
            "with; its files were changed or mixed. Save it again."
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
        fits = [
            (encoder.name, encoder.revision) for encoder in read_fit(SHIPPED_FITS / preset).encoders
        ]
        if fits == [(encoder.name, encoder.revision) for encoder in encoders]:
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
    saved = read_fit(SHIPPED_FITS / preset)
    shipped, model = saved.fitted, saved.fitted.confidence_model
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
    if fingerprint(encoders, fitted, "projection") != saved.fingerprint:
        raise IndexCorrupted("The fit shipped with the package is damaged; install uec-rag again.")
    return fitted
