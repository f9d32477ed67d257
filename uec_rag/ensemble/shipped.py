"""The fit that comes with the package, for the embedded ensemble: what `UEC()` starts with."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from uec_rag.base.errors import IndexCorrupted
from uec_rag.base.saved.files import write_json
from uec_rag.confidence.model import ConfidenceModel, shipped_model
from uec_rag.encoders import Encoder
from uec_rag.ensemble.convolution import Evidence, EvidenceWeights
from uec_rag.ensemble.fitted import FitOptions, FitReport, Fitted, TrainingProfile
from uec_rag.ensemble.save import fingerprint
from uec_rag.laplace.posterior import CompactPosterior, PosteriorSummary

_STATE, _TENSORS = "shipped.json", "shipped.safetensors"


@dataclass(frozen=True, eq=False)
class ShippedFit:
    """The fit that ships with the package, made by `benchmarks/quality/shipped_fit.py`.

    Attributes
    ----------
    source : str
        What it was fitted on, for the report.
    options : dict
        How: as in the constructor of `UEC`.
    encoders : list of dict
        Name and revision of each encoder.
    posteriors : tuple of CompactPosterior
        One per encoder.
    temperature : float
        Of the confidence model; the rest of it is `shipped_model`'s.
    fingerprint : str
        Of the ensemble.
    """

    source: str
    options: Mapping[str, object]
    encoders: Sequence[Mapping[str, str]]
    posteriors: tuple[CompactPosterior, ...]
    weights: EvidenceWeights
    temperature: float
    training_profile: TrainingProfile
    fingerprint: str

    @property
    def confidence_model(self) -> ConfidenceModel:
        """The confidence model learned from many collections, at this ensemble's temperature."""
        return replace(shipped_model("words"), temperature=self.temperature)

    def write(self, folder: Path) -> None:
        """Write it into a folder, as JSON and safetensors."""
        from safetensors.numpy import save

        state = {
            "source": self.source,
            "options": self.options,
            "encoders": self.encoders,
            "posteriors": [
                {
                    "step": p.step,
                    "rest": p.rest,
                    "profile": p.profile,
                    "summary": p.summary.metadata(),
                }
                for p in self.posteriors
            ],
            "weights": self.weights.metadata(),
            "temperature": self.temperature,
            "familiar": self.training_profile.metadata(),
            "fingerprint": self.fingerprint,
        }
        write_json(folder / _STATE, state)
        tensors = {str(i): p.directions for i, p in enumerate(self.posteriors)}
        (folder / _TENSORS).write_bytes(save(tensors))


@cache
def shipped_fit() -> ShippedFit:
    """Read the fit that comes with the package."""
    from safetensors.numpy import load

    here = files("uec_rag.ensemble")
    state = json.loads(here.joinpath(_STATE).read_text(encoding="utf-8"))
    tensors = load(here.joinpath(_TENSORS).read_bytes())
    posteriors = tuple(
        CompactPosterior(
            tensors[str(i)],
            saved["step"],
            saved["rest"],
            saved["profile"],
            PosteriorSummary.restore(saved["summary"]),
        )
        for i, saved in enumerate(state.pop("posteriors"))
    )
    weights = EvidenceWeights.restore(state.pop("weights"))
    training_profile = TrainingProfile.restore(state.pop("familiar"))
    return ShippedFit(
        posteriors=posteriors, weights=weights, training_profile=training_profile, **state
    )


def with_shipped_fit(encoders: Sequence[Encoder], unfitted: Fitted, options: FitOptions) -> Fitted:
    """Use the fit that comes with the package if it is of these encoders.

    Parameters
    ----------
    encoders : sequence of Encoder
        The embedded ones.
    options : FitOptions
        How the ensemble would be fitted. If that is not how the package's fit was made, the
        ensemble stays as it is.

    Returns
    -------
    Fitted
        Not fitted, with a warning, if an encoder's revision is not the one that was fitted.

    Raises
    ------
    IndexCorrupted
        If what the package brings is not what was written into it.
    """
    shipped = shipped_fit()
    if any(getattr(options, option) != value for option, value in shipped.options.items()):
        return unfitted
    changed = [
        known["name"]
        for known, encoder in zip(shipped.encoders, encoders, strict=True)
        if known["revision"] != encoder.revision
    ]
    if changed:
        warnings.warn(
            f"The fit shipped with the package is for other revisions of {changed} than those "
            "loaded: this UEC() is not fitted. Call fit(pairs), or install the versions of the "
            "libraries that the package was tested with.",
            UserWarning,
            stacklevel=3,
        )
        return unfitted
    posteriors = tuple(compact.posterior() for compact in shipped.posteriors)
    evidence = unfitted.evidence_weights is None and isinstance(unfitted.rule, Evidence)
    fitted = replace(
        unfitted,
        rule=Evidence(shipped.weights) if evidence else unfitted.rule,
        posteriors=posteriors,
        confidence_model=shipped.confidence_model,
        report=FitReport(
            {name: p.summary for name, p in zip(unfitted.names, posteriors, strict=True)},
            options.structure,
            options.likelihood,
            0.0,
            0.0,
            shipped.source,
        ),
        training_profile=shipped.training_profile,
    )
    if fingerprint(encoders, fitted, "projection") != shipped.fingerprint:
        raise IndexCorrupted("The fit shipped with the package is damaged; install uec-rag again.")
    return fitted
