"""A graph of near neighbours over the stored means (HNSW, by usearch)."""

from __future__ import annotations

import hashlib
import threading
from array import array
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import ascending, check_k, within
from uec_rag.base.environment import require
from uec_rag.base.errors import IndexCorrupted
from uec_rag.base.forks import free_after_fork
from uec_rag.base.gaussian import FloatArray
from uec_rag.base.saved.files import read_array
from uec_rag.stores.memory.graph_file import LINKS, check_graph_file
from uec_rag.stores.memory.means import with_room

if TYPE_CHECKING:
    from usearch.index import Index


# Which rows stand at a node of a graph: those whose means it cannot tell apart.
#
# With a node for every row, copies of one passage would be each other's only neighbours: a search
# that comes upon them finds nothing else, and one that does not finds none of them.

Numbers = NDArray[np.int64]

_GONE = -1


class RowsOfNodes:
    """Rows by node, and nodes by what they hold.

    Nodes are numbered from 0 and never given anew, so that a node which an interrupted write left
    in a graph stands for no row.

    Examples
    --------
    >>> rows = RowsOfNodes()
    >>> contents = contents_of(np.float32([[1, 2], [3, 4], [1, 2]]))
    >>> nodes, fresh = rows.nodes_for(contents)
    >>> nodes.tolist(), fresh.tolist()
    ([0, 1, 0], [0, 1])
    >>> rows.put(5, contents, nodes)
    >>> rows.at(np.array([1, 0])).tolist()
    [6, 5, 7]
    """

    def __init__(self) -> None:
        self._first = np.zeros(0, dtype=np.int64)  # row of each node, or _GONE
        self._more: dict[int, array[int]] = {}  # the other rows of a node, ascending
        self._nodes = 0  # how many were given
        self._rows = 0  # behind the last row
        # Contents, ascending, and the node of each: one value, which no interrupt can halve.
        self._held = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return self._nodes

    def nodes_for(self, contents: NDArray[np.uint64]) -> tuple[Numbers, Numbers]:
        """Nodes for rows of these contents, and the places in `contents` of those that are new."""
        distinct, first, inverse = np.unique(contents, return_index=True, return_inverse=True)
        held, holder = self._held
        place = np.searchsorted(held, distinct)
        known = np.isin(distinct, held)
        nodes = np.empty(len(distinct), dtype=np.int64)
        nodes[known] = holder[place[known]]
        order = np.argsort(first[~known])  # as they come, so that a graph grows in that order
        new = np.flatnonzero(~known)[order]
        nodes[new] = np.arange(self._nodes, self._nodes + len(new))
        self._first = with_room(self._first, self._nodes, self._nodes + len(new))
        self._first[self._nodes : self._nodes + len(new)] = _GONE
        self._nodes += len(new)
        return nodes[inverse], first[new]

    def put(self, start: int, contents: NDArray[np.uint64], nodes: Numbers) -> None:
        """Note the rows from `start` on, at the nodes that hold them."""
        self.hold(contents, nodes)
        rows = np.arange(start, start + len(nodes))
        self._rows = start + len(nodes)
        found, first = np.unique(nodes, return_index=True)
        empty = self._first[found] == _GONE
        self._first[found[empty]] = rows[first[empty]]
        rest = np.ones(len(rows), dtype=bool)
        rest[first[empty]] = False
        for node, row in zip(nodes[rest].tolist(), rows[rest].tolist(), strict=True):
            self._more.setdefault(node, array("q")).append(row)

    def hold(self, contents: NDArray[np.uint64], nodes: Numbers) -> None:
        """Note what nodes hold, without rows."""
        distinct, first = np.unique(contents, return_index=True)
        held, holder = self._held
        new = ~np.isin(distinct, held)
        place = np.searchsorted(held, distinct[new])
        self._held = (
            np.insert(held, place, distinct[new]),
            np.insert(holder, place, nodes[first[new]]),
        )

    def forget_from(self, row: int) -> None:
        """Take out the rows from this one on."""
        if row >= self._rows:
            return
        for node, rows in [*self._more.items()]:
            left = array("q", (r for r in rows if r < row))
            if left:
                self._more[node] = left
            else:
                del self._more[node]
        first = self._first[: self._nodes]
        first[first >= row] = _GONE  # a later row of a node never stays without its first
        self._rows = row

    def at(self, nodes: Numbers) -> Numbers:
        """Rows at some nodes, node by node."""
        rows: Numbers = self._first[nodes]
        if not self._more:
            there: Numbers = rows[rows != _GONE]
            return there
        more = [self._more.get(node) for node in nodes.tolist()]
        out = []
        for row, others in zip(rows.tolist(), more, strict=True):
            if row != _GONE:
                out.append(row)
            if others is not None:
                out.extend(others)
        return np.array(out, dtype=np.int64)

    def nodes_of(self, rows: Numbers) -> Numbers:
        """Node of each of some rows."""
        node = np.full(max(self._rows, 1), _GONE)
        first = self._first[: self._nodes]
        node[first[first != _GONE]] = np.flatnonzero(first != _GONE)
        for of, others in self._more.items():
            node[np.frombuffer(others, dtype=np.int64)] = of
        chosen: Numbers = node[rows]
        return chosen

    def held(self) -> NDArray[np.uint64]:
        """Contents and the nodes that hold them, shape (2, n)."""
        contents, holder = self._held
        return np.stack([contents, holder.astype(np.uint64)])

    @classmethod
    def of(cls, count: int, nodes: Numbers, held: NDArray[np.uint64]) -> RowsOfNodes:
        """Rows 0, 1, 2... at these of `count` nodes; `held` as the method gives it.

        ValueError if a number names no node, or contents are not ascending.
        """
        if not 0 <= count < 2**62 or not within(nodes, count):
            raise ValueError(f"graph: expected nodes below {count}, one for each row.")
        if len(held) != 2 or not within(held[1], count) or not ascending(held[0]):
            raise ValueError(f"graph: expected ascending contents of nodes below {count}.")
        made = cls()
        made._nodes, made._rows = count, len(nodes)
        made._first = np.full(count, _GONE)
        made._held = held[0], held[1].astype(np.int64)
        order = np.argsort(nodes, kind="stable")
        found, start, times = np.unique(nodes[order], return_index=True, return_counts=True)
        made._first[found] = order[start]
        for i in np.flatnonzero(times > 1).tolist():
            others = order[start[i] + 1 : start[i] + times[i]]
            made._more[int(found[i])] = array("q", others.tolist())
        return made


def contents_of(mean: FloatArray) -> NDArray[np.uint64]:
    """A number for each row, equal for those that are equal once rounded to bfloat16."""
    bits = (mean + np.float32(0)).view(np.uint32)  # + 0: there are two zeros
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.array(
        [
            int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=8).digest(), "little")
            for row in rounded
        ],
        dtype=np.uint64,
    )


CANDIDATES = 256
"""Of an approximate search, where nothing else is asked for."""

_LOOK_ADDING = 128  # candidates while adding: usearch's default
# Threads while adding. Several link a graph in another order every time, and nodes that are added
# at the same moment may miss each other: with 16 of them up to a tenth of the neighbours was not
# found among 300 passages, .3 % among 60,000 (usearch 2.26).
_ONE = 1
_GRAPH, _NODES, _HELD = "graph.usearch", "graph_nodes.npy", "graph_contents.npy"


class Graph:
    """Finds rows of high inner product without looking at most of them.

    Nodes hold bfloat16 copies of the means: half the memory of the means themselves, and the hits
    are scored from the means anyway. Rows that are equal in bfloat16 share a node. Nodes are never
    taken out; whoever asks leaves out rows that are gone.

    A search has so many `candidates` at least: a positive integer. ImportError without usearch.
    """

    def __init__(self, candidates: int = CANDIDATES) -> None:
        _usearch()
        check_k(candidates, "candidates")
        self.candidates = int(candidates)
        self._index: Index | None = None
        self._rows = RowsOfNodes()
        self._is_view = False
        self._lock = free_after_fork(threading.Lock(), inner=True)

    def add(self, start: int, mean: FloatArray) -> None:
        """Add the rows from `start` on, in place of any that an interrupted write left there."""
        with self._lock:
            self._rows.forget_from(start)
            if self._index is None:
                self._index = _usearch().Index(
                    ndim=mean.shape[1],
                    metric="ip",
                    dtype="bf16",
                    connectivity=LINKS,
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

        Returns what `load` is told.
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
        rows: int,
        candidates: int = CANDIDATES,
    ) -> Graph:
        """Open a graph that `save` wrote; its file is hashed and checked, then mapped.

        IndexCorrupted, ValueError if the file is not what was saved, or a row has no node in it.
        """
        graph, file = cls(candidates), folder / _GRAPH
        lacking = IndexCorrupted(
            f"path: {str(folder)!r} lacks the graph of its passages; save it again."
        )
        if not settings:  # nothing was in it
            if rows:
                raise lacking
            return graph
        if _sha256(file) != settings["sha256"]:
            raise ValueError(
                f"path: {str(file)!r} is not the file that was saved; its SHA-256 is another. "
                "Save the index again."
            )
        check_graph_file(file, dimension)
        try:
            graph._index = _usearch().Index.restore(str(file), view=True)
        except RuntimeError as error:  # of another version
            raise IndexCorrupted(
                f"path: {str(file)!r} cannot be opened ({error}); save the index again."
            ) from error
        if graph._index is None:
            raise lacking
        graph._is_view = True
        nodes = read_array(folder / _NODES, np.int64, 1)
        held = read_array(folder / _HELD, np.uint64, 2)
        graph._rows = RowsOfNodes.of(settings["nodes"], nodes, held)
        keys = np.asarray(graph._index.keys)
        if len(nodes) != rows or keys.max(initial=0) >= max(1, len(graph._rows)):
            raise lacking
        # Whether a row is found says nothing: its neighbours may all be of rows that are gone.
        if not np.all(graph._index.contains(nodes.astype(np.uint64))):
            raise lacking
        return graph


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _usearch() -> ModuleType:
    """usearch, where it is installed."""
    require("stores", "usearch")
    # Where there is torch it comes first: with usearch loaded before it, torch.jit.script never
    # returns (seen with torch 2.13 and usearch 2.26).
    with suppress(ImportError, OSError):
        import torch  # noqa: F401
    import usearch.index

    return usearch.index
