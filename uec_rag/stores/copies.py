"""A store as the files that it saves: what `pickle` and `copy` take of it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from uec_rag.stores.base import Store

_S = TypeVar("_S", bound=Store)


def packed(store: Store) -> dict[str, bytes]:
    """Return what `Store.save` writes, by file name.

    Raises
    ------
    TypeError
        If metadata cannot be written as JSON.
    """
    with tempfile.TemporaryDirectory() as folder:
        store.save(Path(folder))
        return {file.name: file.read_bytes() for file in sorted(Path(folder).iterdir())}


def unpacked(kind: type[_S], files: Mapping[str, bytes]) -> _S:
    """Return the store that `packed` took apart."""
    # The files stay mapped when their folder is gone.
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        return kind.load(Path(folder))
