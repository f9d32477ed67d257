"""Making and fitting the ensemble of an index, and the folder that it is saved in."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from uec_rag.base.files import is_saved
from uec_rag.cli.console import say
from uec_rag.cli.opening import own_encoders

if TYPE_CHECKING:
    from uec_rag.documents.document import Document
    from uec_rag.ensemble import UEC

_NO_SLOPE = 0.05  # smaller slopes are shown as 0.0 in the report
_FEWEST_PAIRS = 100  # made from documents; fewer are too few to fit a posterior


def build_ensemble(models: Sequence[str] | None) -> UEC:
    """Make an ensemble of models or of a preset, by default `UEC()`, with an embedding cache.

    Because of the cache, a text is encoded only once for fitting and indexing, and not again after
    an interruption.
    """
    from uec_rag.encoders import CachedEncoder
    from uec_rag.encoders.base import TermEncoder
    from uec_rag.encoders.packages import DEFAULT_PRESET, PRESETS, cache_folder
    from uec_rag.ensemble import UEC

    own = own_encoders()
    names = models or ([*own, "bm25"] if own else [DEFAULT_PRESET])
    say(f"Loading {', '.join(names)} ...")
    is_preset = names[0] in PRESETS and len(names) == 1
    uec = UEC(names[0] if is_preset else [own.get(name, name) for name in names])
    folder = cache_folder() / "embeddings"
    uec.encoders = [
        # Of one without a revision, the cache would not notice that its model has changed.
        encoder
        if isinstance(encoder, TermEncoder) or not encoder.revision
        else CachedEncoder(encoder, folder)
        for encoder in uec.encoders
    ]
    return uec


def fit_ensemble(
    uec: UEC, documents: Sequence[Document], pairs: Sequence[tuple[object, ...]] | None
) -> None:
    """Fit an ensemble on pairs or, if it is not fitted, on headings, if there are enough."""
    from uec_rag.documents import fitting_pairs

    made = fitting_pairs(documents) if pairs is None and not uec.is_fitted else []
    used = made if pairs is None else pairs
    if pairs is None and len(made) < _FEWEST_PAIRS:
        return
    say(f"Fitting the ensemble on {len(used)} (question, passage) pairs ...")
    uec.fit(used)
    slopes = zip(uec.names, uec.fitted.slopes, strict=True)
    if pairs and (lost := [name for name, slope in slopes if slope < _NO_SLOPE]):
        raise ValueError(
            f"--fit: {', '.join(lost)} cannot distinguish these passages from others (slope 0); "
            "expected texts that answer, not ids, in a language that the model knows"
        )


def check_output(path: Path) -> None:
    """Raise an error if a folder cannot be written, or holds what uec-rag did not save."""
    there = next(one for one in (path, *path.absolute().parents) if one.exists())
    if not there.is_dir():
        raise NotADirectoryError(f"--out: expected a folder, got {str(path)!r}, a file")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"--out: {str(path)!r} cannot be written; choose another path")
    if path.exists() and not is_saved(path) and any(path.iterdir()):
        raise FileExistsError(
            f"--out: {str(path)!r} exists and was not made by uec-rag; choose another path"
        )
