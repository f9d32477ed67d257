"""A saved ensemble's verifier: what was fitted of it, and by what name it is found again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from uec_rag.base.errors import FingerprintMismatch, as_corrupted
from uec_rag.base.files import read_json, read_tensors, write_json
from uec_rag.confidence.model import ConfidenceModel
from uec_rag.encoders.loading import MemberLike
from uec_rag.encoders.verifier import Verifier, VerifierLike, load_verifier
from uec_rag.ensemble.trusted import load_named
from uec_rag.ensemble.verifier import FittedVerifier
from uec_rag.laplace.posterior import Posterior

FILE = "verifier.json"
_TENSORS = "verifier.safetensors"


@dataclass(frozen=True)
class SavedVerifier:
    """What a saved verifier brings back, but for the model.

    Attributes
    ----------
    name, spec, revision
        As of `Verifier`; the name made unique among the encoders'.
    k : int
        How many hits it reads.
    fitted : FittedVerifier or None
    """

    name: str
    spec: str | None
    revision: str
    k: int
    fitted: FittedVerifier | None

    def load(
        self, given: Mapping[str, MemberLike], device: str | Sequence[str] | None, *, trust: bool
    ) -> Verifier:
        """Load the model, or take the one given.

        Raises
        ------
        ValueError
            If it has to be given, or is not to be fetched unasked.
        FingerprintMismatch
            If it is not the one that was saved.
        """
        spec = self.spec
        if self.name in given:
            verifier = load_verifier(cast(VerifierLike, given[self.name]), device=device)
        elif spec is None:
            raise ValueError(
                f"encoders: the verifier {self.name!r} cannot be loaded by name (a callable or a "
                f"model in memory); pass it, as in UEC.load(path, encoders={{{self.name!r}: ...}})."
            )
        else:
            verifier = load_named(
                spec,
                lambda fetch: load_verifier(spec, device=device, fetch=fetch),
                trust=trust,
            )
        if verifier.revision != self.revision:
            raise FingerprintMismatch(
                f"encoders: the verifier {self.name!r} is not the model that was saved (revision "
                f"{verifier.revision[:12]!r}, expected {self.revision[:12]!r}); give the same "
                "weights, or fit and save again."
            )
        return verifier


def write_verifier(
    folder: Path, name: str, k: int, verifier: Verifier, fitted: FittedVerifier | None
) -> None:
    """Write a verifier's files beside an ensemble's.

    Parameters
    ----------
    folder : path
    name : str
        Unique among the members'.
    k : int
    verifier : Verifier
    fitted : FittedVerifier or None
    """
    state: dict[str, object] = {
        "name": name,
        "spec": verifier.spec,
        "revision": verifier.revision,
        "k": k,
    }
    if fitted is not None:
        from safetensors.numpy import save_file

        arrays = fitted.posterior.arrays()
        save_file({n: np.ascontiguousarray(a) for n, a in arrays.items()}, folder / _TENSORS)
        state["fitted"] = {
            "weight": fitted.weight,
            "posterior": fitted.posterior.metadata(),
            "confidence": fitted.confidence_model.metadata(),
        }
    write_json(folder / FILE, state)


def read_verifier(folder: Path) -> SavedVerifier | None:
    """Read what `write_verifier` wrote, checked already; None where there is no verifier."""
    file = folder / FILE
    if not file.is_file():
        return None
    state = read_json(file)
    with as_corrupted(file):
        name, spec, revision, k = (state[key] for key in ("name", "spec", "revision", "k"))
        if not all(isinstance(value, str) for value in (name, spec or "", revision)):
            raise TypeError("a verifier's name, spec and revision are strings")
        fitted = None
        if "fitted" in state:
            saved = state["fitted"]
            fitted = FittedVerifier(
                name,
                int(k),
                float(saved["weight"]),
                Posterior.restore(read_tensors(folder / _TENSORS), saved["posterior"]),
                ConfidenceModel.restore(saved["confidence"]),
            )
        return SavedVerifier(name, spec, revision, int(k), fitted)
