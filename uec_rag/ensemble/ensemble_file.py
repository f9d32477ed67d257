"""Save and load ensembles as a file of safetensors, with encoders by name, without weights.

The header of the file has the description of the ensemble as JSON, and its arrays are those of the
posteriors.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_type
from uec_rag.base.errors import (
    EncoderFailed,
    FingerprintMismatch,
    IndexCorrupted,
    as_corrupted,
    warn,
)
from uec_rag.base.files import ENSEMBLE, is_saved, read_bytes, replace_file
from uec_rag.base.records import Record
from uec_rag.confidence.model import ConfidenceModel, shipped_model
from uec_rag.encoders.base import Encoder, LastLayer, are_of_one_model, probe
from uec_rag.encoders.lexical import NAME as BM25
from uec_rag.encoders.lexical import RULES
from uec_rag.encoders.loading import EncoderLike, load_encoder
from uec_rag.encoders.packages import DEFAULT_PRESET, PRESETS
from uec_rag.ensemble.convolution import Rule
from uec_rag.ensemble.fitted import FitOptions, FitReport, Fitted, TrainingProfile
from uec_rag.laplace.posterior import Posterior


def may_fetch(spec: str, *, trust: bool) -> bool:
    """Return whether to use the hub for a model that a saved ensemble names.

    A saved folder may come from an untrusted source. Models that it names are fetched, with the
    user's token, only if the user allows it; local and bundled models are always loaded.

    `trust`: whether any model may be fetched. Raises IndexCorrupted if the model is a folder inside
    a saved folder, which has no models.
    """
    folder = Path(spec).expanduser()
    if not folder.is_dir():
        return trust or spec.startswith("pypi:")  # whose contents are pinned by hashes
    path = folder.resolve()
    if outer := next(filter(is_saved, (path, *path.parents)), None):
        raise IndexCorrupted(
            f"encoders: the saved ensemble names the folder {str(folder)!r}, which lies inside "
            f"the saved folder {str(outer)!r}; such a model is not loaded. Give the encoder, "
            "as in encoders={...: ...}, if you trust it."
        )
    return True


@dataclass(frozen=True)
class SavedModel(Record):
    """The saved state of an encoder, without its weights.

    One without a revision, as of an API, is known again by its vectors of a few texts (`probe`).
    """

    name: str
    spec: str | None
    revision: str
    dimension: int
    options: Mapping[str, str] = field(default_factory=dict)
    probe: tuple[float, ...] = ()

    def is_like(self, model: Encoder | SavedModel) -> bool:
        """Return whether a fit of this encoder suits another: words may have other stems."""
        length = RULES if self.spec == BM25 else None
        return self.revision[:length] == model.revision[:length]

    def load(self, encoder: EncoderLike | None, last_layer: LastLayer, *, trust: bool) -> Encoder:
        """Load the encoder, or use the given one; `last_layer` as in `load_encoder`.

        Raises ValueError if the model may not be fetched, FingerprintMismatch if it differs from
        the saved one.
        """
        spec = str(self.spec) if encoder is None else encoder
        fetch = encoder is not None or may_fetch(str(self.spec), trust=trust)
        try:
            model = load_encoder(spec, last_layer=last_layer, fetch=fetch)
        except OSError as error:
            if fetch:
                raise
            raise ValueError(
                f"encoders: the saved ensemble names {spec!r}, which is not on this machine. If "
                "you trust it, download it or load with trust=True; or pass the encoder, as in "
                "encoders={...: ...}."
            ) from error
        try:
            is_other = bool(self.probe) and not are_of_one_model(self.probe, probe(model))
            is_like = self.is_like(model) and model.dimension == self.dimension
        except EncoderFailed as error:
            self.inform(model)
            warn(f"{error} Loaded without comparing its vectors with those of the saved model.")
            return model
        if is_other:
            raise FingerprintMismatch(
                f"encoders: {self.name!r} makes other vectors than the model that was saved under "
                "this name: pass that model; or embed the passages again with the new one, and "
                "make the fit and the gate again."
            )
        if not is_like:
            raise FingerprintMismatch(
                f"encoders: {self.name!r} is not the model that was saved (revision "
                f"{model.revision[:12]!r} with {model.dimension} dimensions, expected "
                f"{self.revision[:12]!r} with {self.dimension}); {self._mend(model)}"
            )
        return model

    def inform(self, model: Encoder) -> None:
        """Tell a model that would have to embed a text the dimension of its vectors."""
        if (expect := getattr(model, "expect", None)) is not None:
            expect(self.dimension)

    def _mend(self, model: Encoder) -> str:
        """Say what makes a model the one that was saved."""
        now = getattr(model, "options", {})
        if changed := {key: was for key, was in self.options.items() if now.get(key, was) != was}:
            listed = ", ".join(f"{key}={was} (now {now[key]})" for key, was in changed.items())
            return (
                f"it was saved with {listed}, which its name does not tell: pass the model with "
                f"these options, as in encoders={{{self.name!r}: SentenceTransformer(...)}}."
            )
        return (
            "use the same weights (for 'bm25', the same regex and uec-rag), or fit and save again."
        )


@dataclass(frozen=True)
class SavedEnsemble(Record):
    """The saved state of an ensemble, besides the arrays of its posteriors."""

    encoders: tuple[SavedModel, ...]
    options: FitOptions
    rule: Rule
    report: FitReport | None = None
    confidence_model: ConfidenceModel | None = None
    training_profile: TrainingProfile | None = None

    def fitted(self, arrays: Mapping[str, NDArray[Any]]) -> Fitted:
        """Rebuild the ensemble without its encoders."""
        names = tuple(encoder.name for encoder in self.encoders)
        posteriors = None
        if self.report is not None:
            posteriors = tuple(
                Posterior(
                    self.options.structure,
                    arrays[f"{position}.covariance"],
                    arrays[f"{position}.profile"],
                    self.report.encoders[name],
                )
                for position, name in enumerate(names)
            )
        fields: dict[str, Any] = {name: getattr(self, name) for name in _KEPT}
        return Fitted(names, posteriors=posteriors, **fields)


# of `Fitted`, as they are
_KEPT = ("options", "rule", "report", "confidence_model", "training_profile")


def fingerprint(encoders: Sequence[Encoder | SavedModel], fitted: Fitted) -> str:
    """Compute the hash of everything that stored vectors depend on; see `UEC.fingerprint`."""
    state: dict[str, object] = {
        "space": fitted.options.space,
        "last_layer": fitted.options.last_layer,
        # By name only if there is no revision.
        "encoders": [
            [encoder.revision or name, encoder.dimension]
            for name, encoder in zip(fitted.names, encoders, strict=True)
        ],
    }
    if not fitted.is_direct:
        state["rule"] = fitted.rule.metadata()
    return _hash(json.dumps(state, sort_keys=True), fitted.posteriors or ())


def fingerprint_of_encoders(encoders: Sequence[Encoder], fitted: Fitted) -> str:
    """Compute the hash of everything that stored vectors depend on: the same without a fit."""
    return fingerprint(encoders, replace(fitted, posteriors=None))


@lru_cache(maxsize=4)
def _hash(state: str, posteriors: tuple[Posterior, ...]) -> str:
    """Hash a state and posteriors; cached, since every addition and snapshot needs it."""
    summaries = [posterior.summary.metadata() for posterior in posteriors]
    return _checksum(state + json.dumps(summaries, sort_keys=True), _arrays(posteriors))[:32]


def _arrays(posteriors: Sequence[Posterior]) -> dict[str, NDArray[Any]]:
    # safetensors ignores strides, and would write a transposed array in the wrong order.
    return {
        f"{position}.{name}": np.ascontiguousarray(getattr(posterior, name))
        for position, posterior in enumerate(posteriors)
        for name in ("covariance", "profile")
    }


def save_ensemble(path: Path, encoders: Sequence[Encoder], fitted: Fitted) -> None:
    """Write an ensemble to a folder; see `UEC.save`."""
    path.mkdir(parents=True, exist_ok=True)
    models = tuple(
        SavedModel(
            name,
            encoder.spec,
            encoder.revision,
            encoder.dimension,
            dict(getattr(encoder, "options", {})),
            () if encoder.revision else probe(encoder),
        )
        for name, encoder in zip(fitted.names, encoders, strict=True)
    )
    state = SavedEnsemble(models, **{name: getattr(fitted, name) for name in _KEPT})
    replace_file(path / ENSEMBLE, pack(state.metadata(), _arrays(fitted.posteriors or ())))


def pack(state: Mapping[str, object], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the content of the file of an ensemble: safetensors, with the state in the header."""
    from safetensors.numpy import save

    text = json.dumps(state, ensure_ascii=False)
    return save(dict(arrays), {"uec": text, "sha256": _checksum(text, arrays)})


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
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    if header["sha256"] != _checksum(header["uec"], arrays):
        raise ValueError("its checksum differs")
    return json.loads(header["uec"]), arrays


def _checksum(text: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(text.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def read_fit(folder: Path) -> tuple[SavedEnsemble, Fitted]:
    """Read the file of `save_ensemble`, without loading models."""
    file = folder / ENSEMBLE
    content = read_bytes(file)
    with as_corrupted(file):
        state, arrays = unpack(content)
        saved = SavedEnsemble.restore(state)
        return saved, saved.fitted(arrays)


def read_ensemble(
    folder: Path, overrides: Mapping[str, EncoderLike], *, trust: bool
) -> tuple[list[Encoder], Fitted]:
    """Read the encoders and the fit in a folder; see `UEC.load`.

    `overrides`: encoders, by name. FileNotFoundError if there is no ensemble.
    """
    if not os.path.lexists(folder / ENSEMBLE):
        raise FileNotFoundError(
            f"path: no saved UEC ensemble at {str(folder)!r}; expected {ENSEMBLE} there."
        )
    expected = "a mapping of names to encoders, such as {'my-model': model}"
    check_type(overrides, Mapping, "encoders", expected)
    saved, fitted = read_fit(folder)
    if unknown := sorted({*overrides} - {*fitted.names}):
        raise ValueError(
            f"encoders: expected names among {[*fitted.names]}, of which this was made, got "
            f"{unknown}. Pass those, as encoders={{{fitted.names[0]!r}: embedding}} of this `load` "
            "if it is the same model under another name, or fit again."
        )
    models = saved.encoders
    if missing := [m.name for m in models if m.spec is None and m.name not in overrides]:
        raise ValueError(
            f"encoders: {missing} cannot be loaded by name (a callable, an API or a model in "
            f"memory); pass them, as in UEC.load(path, encoders={{{missing[0]!r}: ...}})."
        )
    layer = saved.options.last_layer
    encoders = [model.load(overrides.get(model.name), layer, trust=trust) for model in models]
    return encoders, fitted


SHIPPED_FITS = Path(__file__).with_name("shipped")
"""The folder of the fits that come with the package, one for each preset of `UEC`.

They were made by `benchmarks/quality/shipped_fit.py`. A posterior is an approximation of the fitted
one that differs from a multiple of the identity in 64 directions.
"""


def shipped_fit(encoders: Sequence[Encoder | SavedModel], unfitted: Fitted) -> Fitted | None:
    """Return the shipped fit for these encoders and options; None if there is none.

    Its confidence model is the shipped one, which was learned from many collections, at the
    temperature of this ensemble. Warns if the fit is for other revisions of the encoders.

    `unfitted`: the ensemble, whose names, options, and rule unless "adaptive", stay.
    """
    options = unfitted.options
    for preset in PRESETS:
        saved, fitted = read_fit(SHIPPED_FITS / preset)
        alike = replace(saved.options, temperature=options.temperature, beta=options.beta)
        names = [model.name for model in saved.encoders]
        if replace(alike, seed=options.seed) != options or names != [e.name for e in encoders]:
            continue
        pairs = zip(saved.encoders, encoders, strict=True)
        if changed := [model.name for model, encoder in pairs if not model.is_like(encoder)]:
            warn(
                f"The fit shipped with the package is for other revisions of {changed} than those "
                "loaded, so that it is not used. Call fit(pairs), or install the versions of the "
                "libraries that the package was tested with."
            )
            return None
        assert fitted.confidence_model is not None
        assert fitted.report is not None
        summaries = [fitted.report.encoders[name] for name in fitted.names]
        of_names = dict(zip(unfitted.names, summaries, strict=True))
        shipped = shipped_model("words" if preset == DEFAULT_PRESET else preset)
        model = replace(shipped, temperature=fitted.confidence_model.temperature)
        return replace(
            fitted,
            names=unfitted.names,
            options=options,
            rule=fitted.rule if unfitted.rule.name == "adaptive" else unfitted.rule,
            confidence_model=model,
            report=replace(fitted.report, encoders=of_names),
        )
    return None


PROBED = "probes.json"
"""The file of a shipped fit with the vectors of a few texts, by role, of the model beside words."""


def fit_of_twin(encoders: Sequence[Encoder], unfitted: Fitted) -> Fitted | None:
    """Return the shipped fit of a model and words, if the model has another name here; else None.

    The model is known by its vectors of a few passages and questions, also in another precision.
    """
    model, *tail = encoders
    of_model = cache(partial(probe, model))  # presets may have the same dimension
    for preset in PRESETS:
        twin, *words = read_fit(SHIPPED_FITS / preset)[0].encoders
        if model.dimension != twin.dimension or len(tail) != len(words):
            continue
        probes = json.loads((SHIPPED_FITS / preset / PROBED).read_text(encoding="utf-8"))
        if all(are_of_one_model(of_role, of_model(role)) for role, of_role in probes.items()):
            return shipped_fit([twin, *tail], unfitted)
    return None
