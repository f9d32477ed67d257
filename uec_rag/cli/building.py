"""What `demo`, `fit` and `index` share: making, fitting and filling, under progress bars."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from uec_rag.base.manifest import MANIFEST
from uec_rag.cli.console import progress, say

if TYPE_CHECKING:
    from uec_rag.encoders import Role
    from uec_rag.ensemble import UEC
    from uec_rag.retrieval import Retriever
    from uec_rag.stores.base import Passage

_AT_ONCE = 64  # texts between two steps of a progress bar


def build_ensemble(models: Sequence[str] | None) -> "UEC":
    """Load models, by name or folder, behind the embedding cache; without any those of `UEC()`.

    An interrupted run goes on where it was, and a text is encoded once for fitting and indexing.
    """
    from uec_rag.encoders import EMBEDDED, CachedEncoder
    from uec_rag.encoders.artifacts import cache_folder
    from uec_rag.encoders.base import WithoutVectors
    from uec_rag.ensemble import UEC

    say(f"Loading {', '.join(models or EMBEDDED)} ...")
    uec = UEC(models)
    folder = cache_folder() / "embeddings"
    uec.encoders = [
        encoder if isinstance(encoder, WithoutVectors) else CachedEncoder(encoder, folder)
        for encoder in uec.encoders
    ]
    return uec


def fit_ensemble(uec: "UEC", pairs: Sequence[tuple[object, ...]]) -> None:
    """Fit on checked pairs of (query, passage[, label]), with a progress bar on the encoding."""
    from uec_rag.laplace.fit import require_laplace

    require_laplace()  # before minutes of encoding, not after
    say(f"Fitting the ensemble on {len(pairs)} (question, passage) pairs ...")
    _encode_ahead(uec, [str(pair[0]) for pair in pairs], "query")
    _encode_ahead(uec, [str(pair[1]) for pair in pairs], "passage")
    uec.fit(pairs)


def _encode_ahead(uec: "UEC", texts: Sequence[str], role: "Role") -> None:
    """Bring texts into the encoders' caches."""
    from uec_rag.encoders import CachedEncoder

    by_length = sorted(set(texts), key=len, reverse=True)
    with progress() as bar:
        for encoder in uec.encoders:
            if not isinstance(encoder, CachedEncoder):
                continue
            task = bar.add_task(f"Encoding, {encoder.name}", total=len(by_length))
            for start in range(0, len(by_length), _AT_ONCE):
                some = by_length[start : start + _AT_ONCE]
                encoder.encode(some, role)
                bar.advance(task, len(some))


def add_passages(retriever: "Retriever", passages: Sequence["Passage"]) -> None:
    """Add passages under a progress bar."""
    say(f"Indexing {len(passages):,} passages ...")
    with progress() as bar:
        task = bar.add_task("Encoding passages", total=len(passages))
        for start in range(0, len(passages), _AT_ONCE):
            some = passages[start : start + _AT_ONCE]
            retriever.add(
                [passage.text for passage in some],
                ids=[passage.id for passage in some],
                metadatas=[passage.metadata for passage in some],
            )
            bar.advance(task, len(some))


def check_output(path: Path) -> None:
    """Refuse to write over what is not a saved folder of ours, before any work is done."""
    if (
        path.exists()
        and not (path / MANIFEST).is_file()
        and (path.is_file() or any(path.iterdir()))
    ):
        raise FileExistsError(
            f"--out: {str(path)!r} exists and was not made by uec-rag; choose another path"
        )
