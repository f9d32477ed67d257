"""Fit the preset "static", token vectors and words, and learn its confidence.

    python -m benchmarks.quality.static fit DATA MANUALS [--write]
    python -m benchmarks.quality.static ranking DATA

Both as for "english", by `shipped_fit` and `shipped_confidence`, whose table is printed; what hits
usually have as logits, by `tenants`. With --write fit and confidence go into the package. DATA is a
folder of test collections, or set UEC_DATA; MANUALS are the twelve of `manuals`. `ranking` prints
nDCG@10 of "static", of the default and of "multilingual".
"""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

from benchmarks.paper.data import load_collection
from benchmarks.quality.first_week import corpora_of
from benchmarks.quality.shared import Data, Manuals, ndcg10, sampled, shipped, write_learned
from benchmarks.quality.shipped_confidence import ALL, DOMAINS, QUESTIONS, SETS, run
from benchmarks.quality.shipped_fit import FIT, LICENCE, save_fit
from benchmarks.quality.tenants import profile
from benchmarks.tables import print_table, run_script
from uec_rag import UEC
from uec_rag.confidence.model import shipped_model
from uec_rag.encoders.packages import DEFAULT_PRESET, PRESETS

_PRESET = "static"
OTHER_LANGUAGES = ("belebele_de", "xquad_ru", "xquad_ar", "xquad_zh")
COLLECTIONS = (*DOMAINS, "xquad_en", *OTHER_LANGUAGES)
_ASKED = 100  # questions of a manual at most


def ranking(data: Data) -> None:
    """Print nDCG@10 on collections by preset."""
    rows = []
    for name in COLLECTIONS:
        collection = sampled(load_collection(data / name), QUESTIONS)
        # These languages are those of the preset "multilingual" alone.
        presets = _PRESET, "multilingual" if name in OTHER_LANGUAGES else DEFAULT_PRESET
        found = [ndcg10(shipped(preset), collection) for preset in presets]
        rows.append([name, *(f"{each:.3f}" for each in found), f"{found[0] / found[1]:.2f}"])
    print_table("nDCG@10", ["collection", "static", "UEC()", "to it"], rows)


def fit(data: Data, folder: Manuals, write: bool = False) -> None:
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
    run_script(fit, ranking)
