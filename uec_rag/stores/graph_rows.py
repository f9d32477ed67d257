"""Which rows stand at a node of a graph: those whose means it cannot tell apart.

With a node for every row, copies of one passage would be each other's only neighbours: a search
that comes upon them finds nothing else, and one that does not finds none of them.
"""

from __future__ import annotations

import hashlib
from array import array

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.stores.buffers import with_room

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
            kept = array("q", (r for r in rows if r < row))
            if kept:
                self._more[node] = kept
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
        """Rows 0, 1, 2... at these of `count` nodes; `held` as the method gives it."""
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

    @classmethod
    def one_each(cls, rows: Numbers) -> RowsOfNodes:
        """A row, or -1, for each node; what they hold is not known."""
        made = cls()
        made._first, made._nodes = rows.astype(np.int64), len(rows)
        made._rows = int(rows.max(initial=-1)) + 1
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
