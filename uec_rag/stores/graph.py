"""A graph of near neighbours over the stored means (HNSW, by usearch)."""

from __future__ import annotations

import threading
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray

if TYPE_CHECKING:
    from usearch.index import Index

_LINKS = 16  # neighbours of a node; usearch's default
_LOOK_ADDING = 128  # candidates while adding: usearch's default
_GRAPH, _ROWS = "graph.usearch", "graph_rows.npy"


class Graph:
    """Finds rows of high inner product without looking at most of them.

    Nodes hold bfloat16 copies of the means: half the memory of the means themselves, and the hits
    are scored from the means anyway. Nodes are never taken out; a node's row is, and whoever asks
    leaves out rows that are gone.

    Raises
    ------
    ImportError
        If usearch is not installed: pip install "uec-rag[hnsw]".
    """

    def __init__(self) -> None:
        _usearch()
        self._index: Index | None = None
        self._rows: NDArray[np.int64] = np.zeros(0, dtype=np.int64)  # of each node; -1: gone
        self._is_view = False
        self._lock = threading.Lock()

    def add(self, start: int, mean: FloatArray) -> None:
        """Add the rows from `start` on."""
        with self._lock:
            if self._index is None:
                self._index = _usearch().Index(
                    ndim=mean.shape[1],
                    metric="ip",
                    dtype="bf16",
                    connectivity=_LINKS,
                    expansion_add=_LOOK_ADDING,
                )
            elif self._is_view:
                self._index = self._index.copy()
                self._is_view = False
            nodes = np.arange(len(self._rows), len(self._rows) + len(mean))
            self._index.add(nodes.astype(np.uint64), mean)
            self._rows = np.concatenate([self._rows, np.arange(start, start + len(mean))])

    def forget_from(self, row: int) -> None:
        """Take out the rows from this one on; they may be added anew."""
        with self._lock:
            self._rows = np.where(self._rows >= row, -1, self._rows)

    def nearest(self, queries: FloatArray, count: int) -> list[NDArray[np.int64]]:
        """Rows of probably the highest inner products with each query, best first."""
        with self._lock:
            if self._index is None or not len(queries):
                return [np.zeros(0, dtype=np.int64) for _ in queries]
            self._index.expansion_search = count  # type: ignore[misc]  # it has a setter
            matches = self._index.search(queries, count)
            if isinstance(matches, _usearch().BatchMatches):
                nodes = [row[:n] for row, n in zip(matches.keys, matches.counts, strict=True)]
            else:
                nodes = [matches.keys]
            rows = [self._rows[row.astype(np.int64)] for row in nodes]
        return [row[row >= 0] for row in rows]

    def save(self, folder: Path, rows: NDArray[np.int64]) -> None:
        """Write the graph; `rows` are those that are saved, in their new order."""
        with self._lock:
            if self._index is None:
                return
            self._index.save(str(folder / _GRAPH))
            place = np.full(max(int(self._rows.max(initial=0)), int(rows.max(initial=0))) + 1, -1)
            place[rows] = np.arange(len(rows))
            kept = np.where(self._rows >= 0, place[self._rows], -1)
        np.save(folder / _ROWS, kept, allow_pickle=False)

    @classmethod
    def load(cls, folder: Path) -> Graph:
        """Open a graph that `save` wrote; its file is mapped, not read."""
        graph = cls()
        if (folder / _GRAPH).exists():
            graph._index = _usearch().Index.restore(str(folder / _GRAPH), view=True)
            graph._rows = np.load(folder / _ROWS, allow_pickle=False)
            graph._is_view = True
        return graph


def _usearch() -> ModuleType:
    """usearch, where it is installed."""
    # First: with usearch loaded before it, torch.jit.script never returns (seen with torch 2.13 and
    # usearch 2.26), and laplace-torch calls that when it is imported.
    import torch  # noqa: F401

    try:
        import usearch.index
    except ImportError as error:
        raise ImportError("index='hnsw' needs usearch: pip install \"uec-rag[hnsw]\".") from error
    return usearch.index
