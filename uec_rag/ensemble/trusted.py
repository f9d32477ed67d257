"""Models that a saved ensemble names: which are loaded unasked.

A saved folder may come from a stranger. What it names is fetched, with the user's own token, only
if the user says so; what is on the machine already, or comes with this package, is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

from uec_rag.base.errors import IndexCorrupted
from uec_rag.base.manifest import MANIFEST, read_manifest
from uec_rag.encoders.hub import SPARSE
from uec_rag.encoders.onnx import BACKENDS

_Member = TypeVar("_Member")

TRUSTED = "UEC_TRUSTED"
"""Variable of the environment: hub names, or patterns such as "intfloat/*", with commas between."""


def load_named(spec: str, load: Callable[[bool], _Member], *, trust: bool) -> _Member:
    """Load an encoder or a verifier that a saved ensemble names.

    Parameters
    ----------
    spec : str
        As it was saved.
    load : callable
        Loads it; is told whether the hub may be asked.
    trust : bool
        Whether to fetch models from the hub.

    Raises
    ------
    IndexCorrupted
        If it is a folder inside a saved folder: those hold no models.
    ValueError
        If it would have to be fetched, and the user has not said so.
    """
    name = spec
    for backend in BACKENDS:
        name = name.removeprefix(f"{backend}:")
    name = name.removeprefix("hf:").removeprefix(SPARSE)
    if name.startswith("pypi:"):  # of known content, whatever is fetched
        return load(True)
    folder = Path(name).expanduser()
    if folder.is_dir():
        _check_outside(folder)
        return load(True)
    model = name.partition("@")[0]
    if trust or any(fnmatchcase(model, pattern) for pattern in trusted()):
        return load(True)
    try:
        return load(False)
    except OSError as error:
        raise ValueError(
            f"encoders: the saved ensemble names {name!r}, which is not on this machine. If you "
            f"trust it, load with trust=True, or list it in the variable {TRUSTED} (as in "
            f"{TRUSTED}='intfloat/*'); or give the encoder, as in encoders={{...: ...}}."
        ) from error


def trusted() -> list[str]:
    """Names and patterns of the models that the user lets be fetched."""
    return [given.strip() for given in os.environ.get(TRUSTED, "").split(",") if given.strip()]


def _check_outside(folder: Path) -> None:
    place = folder.resolve()
    for outer in (place, *place.parents):
        if not (outer / MANIFEST).is_file():
            continue
        try:
            read_manifest(outer)
        except IndexCorrupted:
            continue  # another program's
        raise IndexCorrupted(
            f"encoders: the saved ensemble names the folder {str(folder)!r}, which lies inside the "
            f"saved folder {str(outer)!r}; such a model is not loaded. Give the encoder, as in "
            "encoders={...: ...}, if you trust it."
        )
