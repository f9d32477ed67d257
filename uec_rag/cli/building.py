"""Making an index of a folder and its ensemble, and updating it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uec_rag.base.checks import pluralize
from uec_rag.base.files import is_saved
from uec_rag.cli.console import say
from uec_rag.cli.opening import own_encoders
from uec_rag.documents.folder import Folder, list_first

if TYPE_CHECKING:
    from uec_rag.documents.document import Document
    from uec_rag.ensemble import UEC
    from uec_rag.retrieval import Retriever

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


def make_index(
    folder: Path,
    to: Path,
    model: Sequence[str] | None,
    pairs: Sequence[tuple[object, ...]] | None,
    options: Mapping[str, Any],
    store: str | None,
) -> tuple[Retriever, Folder]:
    """Make an index of a folder; return it, and what was found in the folder.

    `options`: how files are selected and split, as `retrieval.files` records it.
    """
    from uec_rag.retrieval import Retriever
    from uec_rag.retrieval.files import chunks_of, list_made_with, record_options, replace_files
    from uec_rag.stores import open_store

    engine = None if store is None else open_store(store)
    if engine is not None and len(engine):
        raise ValueError(
            f"--store: expected an empty store, got one with {len(engine):,} passages; use "
            "--update to bring their index up to date"
        )
    found = list_made_with(folder, options)
    ensemble = build_ensemble(model)
    say(f"Reading {folder} ...")
    found.read()
    if not found.documents:
        left = list_first({**found.empty, **found.unreadable})
        raise ValueError(f"no file in {str(folder)!r} holds text to index{left}")
    fit_ensemble(ensemble, found.documents, pairs)
    say(f"Indexing {pluralize(len(found.documents), 'file')} ...")
    retriever = Retriever(ensemble, engine)
    replace_files(retriever, found.documents, **chunks_of(ensemble, options))
    retriever.save(to)
    record_options(to, options)
    return retriever, found


def update_index(
    folder: Path, retriever: Retriever, given: Mapping[str, Any]
) -> tuple[dict[str, int], Folder]:
    """Update an index from its folder; return what has changed, and what was found."""
    from uec_rag.retrieval.files import options_of, update_files

    assert retriever.folder is not None
    options = options_of(retriever.folder)
    if any(options.get(name) != value for name, value in given.items()):
        raise ValueError(
            f"--update reads files as {str(retriever.folder)!r} was made: expected "
            f"{_shown(options)}, got {_shown(given)}; omit these options, or make the index again "
            "without --update"
        )
    changes, found, encoded = update_files(retriever, folder)
    kinds = ("new", "changed", "removed", "unchanged")
    counts = {name: len(getattr(changes, name)) for name in kinds}
    return {**counts, "passages": len(retriever), "encoded": encoded}, found


def _shown(options: Mapping[str, Any]) -> str:
    """Return options as they are given on the command line."""
    shown = list[str]()
    for name, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            shown.append(f"--{name.replace('_', '-')}" + (f" {one!r}" if one is not True else ""))
    return " ".join(shown) or "none of them"
