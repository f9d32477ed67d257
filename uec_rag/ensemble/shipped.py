"""The fit that comes with the package, for the embedded ensemble: what `UEC()` starts with.

It is in the folder `shipped`, as `benchmarks/quality/shipped_fit.py` saved it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from uec_rag.base.errors import IndexCorrupted
from uec_rag.confidence.model import shipped_model
from uec_rag.encoders import Encoder
from uec_rag.ensemble.convolution import Evidence
from uec_rag.ensemble.fitted import FitOptions, Fitted
from uec_rag.ensemble.save import fingerprint, read_fit

FOLDER = Path(__file__).with_name("shipped")
"""Its files, as `uec_rag.ensemble.save.write_ensemble` writes them."""


def with_shipped_fit(encoders: Sequence[Encoder], unfitted: Fitted, options: FitOptions) -> Fitted:
    """Use the fit that comes with the package if it is of these encoders.

    Its confidence model is the one learned from many collections, at this ensemble's temperature.

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
    saved = read_fit(FOLDER)
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
        warnings.warn(
            f"The fit shipped with the package is for other revisions of {changed} than those "
            "loaded: this UEC() is not fitted. Call fit(pairs), or install the versions of the "
            "libraries that the package was tested with.",
            UserWarning,
            stacklevel=3,
        )
        return unfitted
    assert model is not None
    evidence = unfitted.evidence_weights is None and isinstance(unfitted.rule, Evidence)
    fitted = replace(
        shipped,
        names=unfitted.names,
        rule=shipped.rule if evidence else unfitted.rule,
        beta=unfitted.beta,
        confidence_model=replace(shipped_model("words"), temperature=model.temperature),
    )
    if fingerprint(encoders, fitted, "projection") != saved.fingerprint:
        raise IndexCorrupted("The fit shipped with the package is damaged; install uec-rag again.")
    return fitted
