"""Making, fitting and filling an index with progress bars, for `demo` and `index`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from uec_rag.base.checks import pluralize
from uec_rag.base.files import ENSEMBLE, is_saved
from uec_rag.base.progress import progress_bar
from uec_rag.cli.console import note, own_encoders, say

if TYPE_CHECKING:
    from uec_rag.ensemble import UEC
    from uec_rag.retrieval import Retriever
    from uec_rag.retrieval.gate import Gate
    from uec_rag.stores.base import Passage


_AT_ONCE = 64  # passages per step of a progress bar


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


def load_ensemble(path: Path) -> UEC:
    """Load the ensemble that --uec names; FileNotFoundError if there is none."""
    if not (path / ENSEMBLE).is_file():
        raise FileNotFoundError(
            f"--uec: there is no ensemble in {str(path)!r}; expected a folder that UEC.save wrote"
        )
    say(f"Loading the ensemble {path} ...")
    from uec_rag.ensemble import UEC

    return UEC.load(path)


def fit_ensemble(uec: UEC, pairs: Sequence[tuple[object, ...]]) -> None:
    """Fit an ensemble on validated (query, passage[, label]) pairs."""
    say(f"Fitting the ensemble on {len(pairs)} (question, passage) pairs ...")
    uec.fit(pairs)


def add_passages(retriever: Retriever, passages: Sequence[Passage]) -> None:
    """Add passages with a progress bar."""
    say(f"Indexing {pluralize(len(passages), 'passage')} ...")
    with progress_bar("Indexing passages", len(passages)) as bar:
        for start in range(0, len(passages), _AT_ONCE):
            some = passages[start : start + _AT_ONCE]
            retriever.add(
                [passage.text for passage in some],
                ids=[passage.id for passage in some],
                metadatas=[passage.metadata for passage in some],
            )
            bar.update(len(some))


def check_writable(folder: Path, argument: str) -> None:
    """Raise an error if a folder cannot be created or written to, before any work is done."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise NotADirectoryError(f"{argument}: expected a folder, got {str(folder)!r}, a file")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"{argument}: {str(folder)!r} cannot be written; choose another path")


def check_output(path: Path, argument: str = "--out") -> None:
    """Raise an error if a path would replace anything that uec-rag did not save."""
    if path.exists() and not is_saved(path) and (path.is_file() or any(path.iterdir())):
        raise FileExistsError(
            f"{argument}: {str(path)!r} exists and was not made by uec-rag; choose another path"
        )
    check_writable(path, argument)


def gate_of(index: Retriever, other: Retriever) -> tuple[Gate | None, bool]:
    """Load the gate of an index, and return whether it fits another; False if it is damaged.

    If there is no gate, it is None and fits.
    """
    from uec_rag.retrieval.gate import Gate

    try:
        gate = Gate.load_from(index.folder)
        return gate, gate is None or gate.fits(other)
    except ValueError:  # damaged
        return None, False


def overwrite_index(retriever: Retriever, to: Path) -> None:
    """Save an index in place of any other, and remove a gate that was made for that one."""
    retriever.save(to)
    from uec_rag.retrieval.gate import GATE_FILE

    if not gate_of(retriever, retriever)[1]:
        (to / GATE_FILE).unlink()
        note(
            f"removed {to / GATE_FILE}, the gate of the index that was there, whose guarantee does "
            "not hold for this one; make it again with 'uec-rag gate'"
        )
