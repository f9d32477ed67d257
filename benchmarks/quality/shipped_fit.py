"""Fit the embedded ensemble, and put that fit into the package, `uec_rag/ensemble/shipped/english`.

    python -m benchmarks.quality.shipped_fit DATA

Fitted on the training pairs of TyDi QA GoldP in English (Apache-2.0). DATA is a folder of test
collections (see `benchmarks.paper.data`), or set UEC_DATA.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from benchmarks.paper.data import load_collection
from benchmarks.quality.shared import Data, unfitted
from benchmarks.tables import run_script
from uec_rag import UEC
from uec_rag.confidence.model import ConfidenceModel, shipped_model
from uec_rag.encoders import Encoder
from uec_rag.encoders.base import LEAST_SAME, Role, probe
from uec_rag.encoders.packages import PRESETS
from uec_rag.ensemble.ensemble_file import PROBED, SHIPPED_FITS, save_ensemble

FIT, LICENCE = "tydiqa_goldp_en", "TyDi QA GoldP, English, train; Apache-2.0"


def main(data: Data) -> None:
    """Fit, print the report, and write the fit into the package."""
    uec = unfitted(PRESETS["english"])
    pairs = load_collection(data / FIT, "train").pairs()
    with patch("uec_rag.ensemble.fit.shipped_fit", return_value=None):  # it has no level to keep
        uec.fit(pairs)
    print(uec.report)
    model = replace(shipped_model("words"), temperature=uec.fitted.confidence_model.temperature)
    save_fit("english", uec, model, f"{len(pairs):,} pairs ({LICENCE})")


def save_fit(preset: str, uec: UEC, model: ConfidenceModel, pairs: str) -> None:
    """Write a fit into the package, with a confidence model and what it was fitted on."""
    source = f"as it comes with uec-rag, fitted on {pairs}"
    report = replace(uec.report, seconds=0.0, source=source)
    fitted, folder = (
        replace(uec.fitted, report=report, confidence_model=model),
        SHIPPED_FITS / preset,
    )
    folder.mkdir(parents=True, exist_ok=True)
    save_ensemble(folder, uec.encoders, fitted)
    save_probes(folder, uec.encoders[0])


def save_probes(folder: Path, model: Encoder) -> None:
    """Write the vectors of a few texts, by which the model is known under another name.

    In another precision, they differ as much as two models do not.
    """
    roles: tuple[Role, ...] = ("passage", "query")
    known = {
        role: [*(round(one, 4) for one in probe(model, role)[:-1]), LEAST_SAME] for role in roles
    }
    (folder / PROBED).write_text(f"{json.dumps(known)}\n", encoding="utf-8")


if __name__ == "__main__":
    run_script(main)
