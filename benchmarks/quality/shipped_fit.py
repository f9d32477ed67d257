"""Fit the embedded ensemble, and put that fit into the package, `uec_rag/ensemble/shipped/english`.

    python -m benchmarks.quality.shipped_fit DATA

Fitted on the training pairs of TyDi QA GoldP in English (Apache-2.0). DATA is a folder of test
collections (see `benchmarks.paper.data`), or set UEC_DATA.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from unittest.mock import patch

import typer

from benchmarks.paper.data import load_collection
from benchmarks.quality.shared import Data, unfitted
from uec_rag import UEC
from uec_rag.confidence.model import ConfidenceModel, shipped_model
from uec_rag.encoders.packages import PRESETS
from uec_rag.ensemble.save import SHIPPED_FITS, save_ensemble

FIT, LICENCE = "tydiqa_goldp_en", "TyDi QA GoldP, English, train; Apache-2.0"


def main(data: Data) -> None:
    """Fit, print the report, and write the fit into the package."""
    warnings.simplefilter("ignore")
    uec = unfitted(PRESETS["english"])
    pairs = load_collection(data / FIT, "train").pairs()
    with patch("uec_rag.ensemble.fit.shipped_fit", return_value=None):  # it has no level to keep
        uec.fit(pairs)
    print(uec.report)
    model = replace(shipped_model("words"), temperature=uec.fitted.confidence_model.temperature)
    save_fit("english", uec, model, f"{len(pairs):,} pairs ({LICENCE})")


def save_fit(preset: str, uec: UEC, model: ConfidenceModel, pairs: str) -> None:
    """Write a fit into the package, with a confidence model and what it was fitted on."""
    assert uec.report is not None
    source = f"as it comes with uec-rag, fitted on {pairs}"
    report = replace(uec.report, seconds=0.0, source=source)
    fitted, folder = (
        replace(uec.fitted, report=report, confidence_model=model),
        SHIPPED_FITS / preset,
    )
    folder.mkdir(parents=True, exist_ok=True)
    save_ensemble(folder, uec.encoders, fitted)


if __name__ == "__main__":
    typer.run(main)
