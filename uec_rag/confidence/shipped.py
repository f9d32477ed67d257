"""What many collections taught about confidence, for ensembles that know no better."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Literal

from uec_rag.confidence.model import ConfidenceModel


@cache
def shipped_model(kind: Literal["fitted", "words", "unfitted"]) -> ConfidenceModel:
    """Return the model that comes with the package.

    It was learned by `benchmarks/quality/shipped_confidence.py` on public collections of several
    domains: questions asked of the whole corpus and of small ones cut out of it, of corpora
    without their answers, and of other collections.

    Parameters
    ----------
    kind : {"fitted", "words", "unfitted"}
        From a fitted ensemble's logits, to be used with its own temperature, of encoders with
        vectors alone or with words among them; or from an unfitted one's standardised
        similarities.
    """
    text = files("uec_rag.confidence").joinpath("shipped.json").read_text(encoding="utf-8")
    return ConfidenceModel.restore(json.loads(text)[kind])
