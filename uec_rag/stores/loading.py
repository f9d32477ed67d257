"""Which class a saved store is of."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, cast

from uec_rag.base.files import read_json

if TYPE_CHECKING:
    from uec_rag.stores.base import Store

GROUP = "uec_rag.stores"
"""Entry points by which other packages name their stores: tag = "module:Class"."""

_OURS = {
    "memory": "uec_rag.stores.memory:MemoryStore",
    "pgvector": "uec_rag.stores.pgvector:PgVectorStore",
    "qdrant": "uec_rag.stores.qdrant:QdrantStore",
}


def load_store(folder: Path, device: str | None = None) -> Store:
    """Open what a store's `save` wrote, by the tag in its ``store.json``.

    Parameters
    ----------
    folder : path
    device : str, optional
        As the store's `load` takes it.

    Raises
    ------
    ValueError
        If no installed package has a store of that tag.
    """
    tag = str(read_json(folder / "store.json").get("store", "memory"))
    if tag in _OURS:
        module, name = _OURS[tag].split(":")
        kind = getattr(import_module(module), name)
    else:
        others = {point.name: point for point in entry_points(group=GROUP)}
        if tag not in others:
            raise ValueError(
                f"path: {str(folder)!r} holds a store of kind {tag!r}; expected one of "
                f"{sorted({*_OURS, *others})}. Install the package that it comes from."
            )
        kind = others[tag].load()
    return cast("Store", kind.load(folder, device=device))
