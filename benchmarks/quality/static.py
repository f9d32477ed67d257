"""Fit the preset "static", token vectors and words, and learn its confidence.

    python -m benchmarks.quality.static DATA MANUALS [--write]

Both as for "english", by `shipped_fit` and `shipped_confidence`, whose table is printed; what hits
usually have as logits, by `tenants`. With --write fit and confidence go into the package. DATA is a
folder of test collections, or set UEC_DATA; MANUALS are the twelve of `manuals`.
"""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

from benchmarks.paper.data import load_collection
from benchmarks.quality.first_week import corpora_of
from benchmarks.quality.shared import Data, Manuals, write_learned
from benchmarks.quality.shipped_confidence import ALL, QUESTIONS, SETS, run
from benchmarks.quality.shipped_fit import FIT, LICENCE, save_fit
from benchmarks.quality.tenants import profile
from benchmarks.tables import run_script
from uec_rag import UEC
from uec_rag.confidence.model import shipped_model
from uec_rag.encoders.packages import PRESETS

_PRESET = "static"
_ASKED = 100  # questions of a manual at most


def main(data: Data, folder: Manuals, write: bool = False) -> None:
    """Print the table and the report; with --write put fit and confidence into the package."""
    uec = UEC([*PRESETS[_PRESET]])
    with patch("uec_rag.ensemble.fit.shipped_fit", return_value=None):
        learned = run(data, [uec], SETS.split(","), QUESTIONS, ALL)["words"]
    print(uec.report)
    if not write:
        return
    learned |= {"profile": list(shipped_model("words").profile)}
    temperature = uec.fitted.confidence_model.temperature
    pairs = len(load_collection(data / FIT, "train").pairs())
    write_learned("shipped.json", {_PRESET: learned})
    shipped_model.cache_clear()
    model = replace(shipped_model(_PRESET), temperature=temperature, profile=())
    save_fit(_PRESET, uec, model, f"{pairs:,} pairs ({LICENCE})")
    of_manuals = profile(UEC(_PRESET), corpora_of(folder), _ASKED)
    write_learned("shipped.json", {_PRESET: learned | {"profile": of_manuals.round(2).tolist()}})


if __name__ == "__main__":
    run_script(main)
