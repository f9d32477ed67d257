"""The file of a graph, checked before usearch opens it.

usearch trusts its files: a search follows a link that leads out of the graph into other memory. A
file (of usearch 2) holds the vectors, behind their number and their bytes; a head of 64 bytes; the
number of nodes, of links at a level and at the lowest, the highest level, and the node where
searches begin; each node's level; and each node: its key, its level and its links, level by level.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

LINKS = 16
"""Of a node at a level, at most; twice as many at the lowest."""

_HEAD = np.dtype(
    [
        ("magic", "S7"),
        ("version", "<u2", 3),
        ("kinds", "S4"),  # of metric, numbers, keys and links
        ("present", "<u8"),
        ("deleted", "<u8"),
        ("dimension", "<u8"),
        ("multiple", "u1"),
        ("unused", "V22"),
        ("nodes", "<u8"),
        ("links", "<u8"),
        ("lowest", "<u8"),
        ("highest", "<u8"),
        ("entry", "<u8"),
    ]
)
_KINDS = b"i\x04\x0e\x0f"  # inner product, bfloat16, uint64, uint32
_HIGHEST = 63  # level, far above those that chance gives


def _linked(count: int) -> np.dtype[np.void]:
    return np.dtype([("count", "<u4"), ("to", "<u4", count)])


_NODE = np.dtype([("key", "<u8"), ("level", "<i2"), ("links", _linked(2 * LINKS))])
_LEVEL = _linked(LINKS)
_AT_ONCE = 2**16  # nodes


def check_graph_file(file: Path, dimension: int) -> None:
    """Raise ValueError unless a file holds a graph of vectors whose links lead to its nodes."""
    if not _is_graph(np.asarray(np.memmap(file, np.uint8, "r")), dimension):
        raise ValueError(
            f"path: {str(file)!r} is no graph over means of dimension {dimension} whose links lead "
            "to its nodes. Save the index again."
        )


def _is_graph(content: NDArray[np.uint8], dimension: int) -> bool:
    if len(content) < 8:
        return False
    rows, width = content[:8].view("<u4").tolist()
    start = 8 + rows * width
    if len(content) < start + _HEAD.itemsize + 2 * rows:
        return False
    head = content[start : start + _HEAD.itemsize].view(_HEAD)[0]
    start += _HEAD.itemsize
    levels = content[start : start + 2 * rows].view("<i2").astype(np.int64)
    wanted = (b"usearch", _KINDS, rows, 0, dimension, 0, rows, LINKS, 2 * LINKS, 2 * dimension)
    names = ["magic", "kinds", "present", "deleted", "dimension", "multiple"]
    found = *(head[name] for name in [*names, "nodes", "links", "lowest"]), width
    if found != wanted or levels.min(initial=0) < 0 or levels.max(initial=0) > _HIGHEST:
        return False
    if rows and not (head["entry"] < rows and head["highest"] <= levels[int(head["entry"])]):
        return False
    sizes = _NODE.itemsize + _LEVEL.itemsize * levels
    starts = start + 2 * rows + np.concatenate([[0], np.cumsum(sizes)])
    if starts[-1] != len(content):
        return False
    for first in range(0, rows, _AT_ONCE):
        some = slice(first, min(first + _AT_ONCE, rows))
        nodes = _records(content, starts[some], _NODE)
        if (nodes["level"] != levels[some]).any() or not _lead(nodes["links"], levels, 0):
            return False
    for level in range(1, int(levels.max(initial=0)) + 1):
        at = starts[:-1][levels >= level] + _NODE.itemsize + _LEVEL.itemsize * (level - 1)
        if not _lead(_records(content, at, _LEVEL), levels, level):
            return False
    return True


def _records(
    content: NDArray[np.uint8], starts: NDArray[np.int64], kind: np.dtype[np.void]
) -> NDArray[Any]:
    """The records of a kind that start at some places."""
    return sliding_window_view(content, kind.itemsize)[starts].view(kind)[:, 0]


def _lead(links: NDArray[Any], levels: NDArray[np.int64], level: int) -> bool:
    """Whether links of a level are as many as there may be, and lead to nodes that reach it."""
    to = links["to"]
    if (links["count"] > to.shape[1]).any():
        return False
    used = to[np.arange(to.shape[1]) < links["count"][:, None]]
    return bool((used < len(levels)).all() and (levels[used] >= level).all())
