"""The files of a store in memory, written an addition at a time: for more than memory holds."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.files import GrowingArray
from uec_rag.base.gaussian import Gaussian
from uec_rag.stores.additions import checked_addition
from uec_rag.stores.base import Passage
from uec_rag.stores.graph import Graph
from uec_rag.stores.means import Means, longest
from uec_rag.stores.passages import line_of
from uec_rag.stores.saved import rows_of, write_rest
from uec_rag.stores.scan import Dtype, make_scan
from uec_rag.stores.state import State, bound, check_fits


class StreamedStore:
    """What is added goes to files, which `MemoryStore.load` opens once `finish` has ended them.

    In memory are ids, the postings of words and a graph, where there are any, and no means. Several
    threads may add.

    Parameters
    ----------
    folder : path
        An empty one.
    index, dtype
        As `MemoryStore` takes them.

    Examples
    --------
    >>> import tempfile
    >>> from uec_rag.stores import MemoryStore
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with StreamedStore(Path(folder)) as store:
    ...         store.add([Passage("a", "text")], Gaussian([[1.0, 0.0]], [[0.0, 0.0]]))
    ...         store.add([Passage("b", "text")], Gaussian([[0.6, 0.8]], [[0.0, 0.0]]))
    ...         store.finish()
    ...     len(MemoryStore.load(Path(folder)))
    2
    """

    def __init__(
        self, folder: Path, *, index: Literal["hnsw"] | None = None, dtype: Dtype = "float32"
    ) -> None:
        if index not in (None, "hnsw"):
            raise ValueError(f"index: expected None (exact search) or 'hnsw', got {index!r}.")
        graph = None if index is None else Graph()
        # Of rows that are elsewhere: its means are as wide as theirs, and none.
        self._state = State(scan=make_scan(dtype, None), graph=graph)
        self._folder, self._ids = folder, dict[str, None]()
        self._arrays: dict[str, GrowingArray] = {}
        self._open, self._whole = ExitStack(), True
        self._writing = threading.Lock()
        self._lines = self._open.enter_context((folder / "passages.jsonl").open("wb"))
        self._append({"offsets.npy": np.zeros(1, dtype=np.int64)})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._open.close()

    def __len__(self) -> int:
        return len(self._ids)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        raise AttributeError(
            f"{name}: this index is being filled, and only added to; load it when that has ended."
        )

    @property
    def fingerprint(self) -> str | None:
        """Of the ensemble whose Gaussians are kept; None where there are none."""
        return self._state.fingerprint if self._ids else None

    def bind(self, fingerprint: str) -> None:
        """Note whose Gaussians are kept, or refuse another ensemble's: FingerprintMismatch."""
        with self._writing:
            self._state = bound(self._state, fingerprint)

    def add(self, passages: Sequence[Passage], gaussians: Gaussian) -> None:
        """Write passages behind those that are there.

        Raises
        ------
        ValueError
            If an id was there before, and where `MemoryStore.add` does.
        TypeError
            If metadata cannot be written as JSON.
        RuntimeError
            If an addition ended half-way, or `finish` was called.
        """
        passages = checked_addition(passages, gaussians)
        if not passages:
            return
        with self._writing:
            self._add(passages, gaussians)

    def _add(self, passages: Sequence[Passage], gaussians: Gaussian) -> None:
        self._check_whole()
        if self._lines.closed:
            raise RuntimeError("store: this index has been filled; load it, and add to that.")
        old, start = self._state, len(self._ids)
        check_fits(old, gaussians)
        for passage in passages:
            if passage.id in self._ids:
                raise ValueError(
                    f"ids: {passage.id!r} was added before; an index that is being filled replaces "
                    "nothing. Leave out what comes twice, or load the index first."
                )
        lines = [line_of(passage) for passage in passages]
        widths, rows = old.means.widths if start else gaussians.widths, slice(len(passages))
        means = Means().written(0, gaussians.mean, widths)
        scan = None if old.scan is None else old.scan.written(0, len(passages), means)
        postings = old.postings_with(gaussians.terms)
        self._whole = False  # until all files are as long
        self._append(dict(rows_of(means, gaussians.scales, scan, rows)))
        if old.graph is not None:
            old.graph.add(start, gaussians.mean)
        end = self._lines.tell() + np.cumsum([len(line) for line in lines], dtype=np.int64)
        self._lines.writelines(lines)
        self._append({"offsets.npy": end})
        self._ids |= dict.fromkeys(passage.id for passage in passages)
        self._state = replace(
            old,
            rows=len(self._ids),
            means=means.chosen(slice(0)),
            profile=gaussians.profile,
            longest=max(old.longest, longest(gaussians.mean)),
            scan=None if old.scan is None or scan is None else old.scan.beside(scan),
            postings=postings,
        )
        self._whole = True

    def finish(self) -> None:
        """Write what is not kept row by row.

        Raises
        ------
        RuntimeError
            If an addition ended half-way.
        """
        with self._writing:
            self._check_whole()
            if not self._ids:
                none = rows_of(self._state.means, self._state.scales, self._state.scan, slice(0))
                self._append(dict(none))
            self._open.close()
            write_rest(self._state, [*self._ids], np.arange(len(self._ids)), self._folder)

    def _check_whole(self) -> None:
        if not self._whole:
            raise RuntimeError("store: an addition to this index ended half-way; fill it anew.")

    def _append(self, arrays: dict[str, NDArray[Any]]) -> None:
        for name, rows in arrays.items():
            if name in self._arrays:
                self._arrays[name].append(rows)
            else:
                self._arrays[name] = GrowingArray(self._folder / name, rows)
                self._open.callback(self._arrays[name].close)
