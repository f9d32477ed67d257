"""The first load of very many passages."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from uec_rag.stores.base import Store


def filling(store: Store) -> AbstractContextManager[object]:
    """A block in which a store may put off what it does better once, at the end.

    Parameters
    ----------
    store : Store
        Those that put off anything have a method `filling`: see `PgVectorStore.filling`.
    """
    block: AbstractContextManager[object] = getattr(store, "filling", nullcontext)()
    return block
