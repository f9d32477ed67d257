"""A graph of near neighbours over the stored means (HNSW, by usearch)."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from uec_rag.base.checks import check_k
from uec_rag.base.gaussian import FloatArray
from uec_rag.stores.graph_rows import Numbers, RowsOfNodes, contents_of

if TYPE_CHECKING:
    from usearch.index import Index

CANDIDATES = 256
"""Of an approximate search, where nothing else is asked for."""

_LINKS = 16  # neighbours of a node; usearch's default
_LOOK_ADDING = 128  # candidates while adding: usearch's default
# Threads while adding. Several link a graph in another order every time, and nodes that are added
# at the same moment may miss each other: with 16 of them up to a tenth of the neighbours was not
# found among 300 passages, .3 % among 60,000 (usearch 2.26).
_ONE = 1
_GRAPH, _NODES, _HELD = "graph.usearch", "graph_nodes.npy", "graph_contents.npy"
_ROWS = "graph_rows.npy"  # of graphs that had a node for each row


class Graph:
    """Finds rows of high inner product without looking at most of them.

    Nodes hold bfloat16 copies of the means: half the memory of the means themselves, and the hits
    are scored from the means anyway. Rows that are equal in bfloat16 share a node. Nodes are never
    taken out; whoever asks leaves out rows that are gone.

    Parameters
    ----------
    candidates : int
        Of a search, at least.

    Raises
    ------
    ImportError
        If usearch is not installed: pip install "uec-rag[hnsw]".
    TypeError, ValueError
        If candidates is no positive integer.
    """

    def __init__(self, candidates: int = CANDIDATES) -> None:
        _usearch()
        check_k(candidates, "candidates")
        self.candidates = int(candidates)
        self._index: Index | None = None
        self._rows = RowsOfNodes()
        self._is_view = False
        self._lock = threading.Lock()

    def add(self, start: int, mean: FloatArray) -> None:
        """Add the rows from `start` on, in place of any that an interrupted write left there."""
        with self._lock:
            self._rows.forget_from(start)
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
            contents = contents_of(mean)
            nodes, new = self._rows.nodes_for(contents)
            try:
                if len(new):
                    self._index.add(nodes[new].astype(np.uint64), mean[new], threads=_ONE)
            except BaseException as error:
                # What made it into the graph stays there, and is used should it be added again.
                inside = new[self._index.contains(nodes[new].astype(np.uint64))]
                self._rows.hold(contents[inside], nodes[inside])
                if "has been terminated" in str(error):  # so usearch hands on an interrupt
                    raise KeyboardInterrupt from error
                raise
            self._rows.put(start, contents, nodes)

    def nearest(self, queries: FloatArray, count: int) -> list[Numbers]:
        """Rows of about `count` nodes of probably the highest inner products, best first."""
        with self._lock:
            if self._index is None or not len(queries):
                return [np.zeros(0, dtype=np.int64) for _ in queries]
            count = min(count, len(self._index))
            self._index.expansion_search = count  # type: ignore[misc]  # it has a setter
            matches = self._index.search(queries, count)
            if isinstance(matches, _usearch().BatchMatches):
                nodes = [row[:n] for row, n in zip(matches.keys, matches.counts, strict=True)]
            else:
                nodes = [matches.keys]
            return [self._rows.at(row.astype(np.int64)) for row in nodes]

    def save(self, folder: Path, rows: Numbers) -> dict[str, object]:
        """Write the graph; `rows` are those that are saved, in their new order.

        Returns
        -------
        dict
            For `load`.
        """
        with self._lock:
            if self._index is None:
                return {}
            self._index.save(str(folder / _GRAPH))
            nodes, held = self._rows.nodes_of(rows), self._rows.held()
            count = len(self._rows)
        np.save(folder / _NODES, nodes, allow_pickle=False)
        np.save(folder / _HELD, held, allow_pickle=False)
        return {"nodes": count, "sha256": _sha256(folder / _GRAPH)}

    @classmethod
    def load(
        cls,
        folder: Path,
        settings: Mapping[str, Any],
        dimension: int,
        candidates: int = CANDIDATES,
    ) -> Graph:
        """Open a graph that `save` wrote; its file is hashed, then mapped, not read.

        usearch trusts what a file says: links out of the graph would end the process.

        Raises
        ------
        ValueError
            If the file is not what was saved.
        """
        graph, file = cls(candidates), folder / _GRAPH
        if not settings and not file.exists():  # nothing was in it
            return graph
        if settings and _sha256(file) != settings["sha256"]:
            raise ValueError(
                f"path: {str(file)!r} is not the file that was saved; its SHA-256 is another. "
                "Save the index again."
            )
        graph._index = _usearch().Index.restore(str(file), view=True)
        if graph._index is None or graph._index.ndim != dimension:
            raise ValueError(
                f"path: {str(file)!r} is no graph over means of dimension {dimension}. "
                "Save the index again."
            )
        graph._is_view = True
        if settings:
            nodes, held = (np.load(folder / name, allow_pickle=False) for name in (_NODES, _HELD))
            graph._rows = RowsOfNodes.of(settings["nodes"], nodes, held)
        else:  # saved when there was a node for each row
            graph._rows = RowsOfNodes.one_each(np.load(folder / _ROWS, allow_pickle=False))
        return graph


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


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
