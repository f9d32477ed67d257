"""The stored means: one contiguous matrix for each encoder's block of a direct sum.

Evidence multiplies each encoder's queries with that encoder's block alone. Rows that lie together
can be multiplied in the quickest way, slices of wide rows cannot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray

_Number = TypeVar("_Number", bound=np.generic)


def with_room(buffer: NDArray[_Number], used: int, needed: int) -> NDArray[_Number]:
    """Return the buffer itself if it is long enough, else a copy at least twice as long.

    `buffer`: array, shape (capacity, ...). `used`: rows that are used. `needed`: rows that it must
    have.

    Examples
    --------
    >>> with_room(np.ones(2), 2, 3)[:2].tolist()
    [1.0, 1.0]
    """
    if needed <= len(buffer):
        return buffer
    grown = np.empty((max(needed, 2 * used), *buffer.shape[1:]), dtype=buffer.dtype)
    grown[:used] = buffer[:used]
    return grown


def summed_products(queries: Sequence[FloatArray], rows: Sequence[FloatArray]) -> FloatArray:
    """Sum over the blocks k of ``queries_k @ rows_k.T``, shape (n, N), by BLAS alone.

    Which of several ways to multiply is quickest differs by a factor of two between machines, one
    way or the other. What a damaged row makes of it is for `checked` to find.

    `queries`, shapes (n, d_k): at least one. `rows`: sequence of K arrays, shapes (N, d_k).

    Examples
    --------
    >>> summed_products([np.ones((2, 3), "f4")], [np.eye(3, dtype="f4")]).tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    with np.errstate(invalid="ignore", over="ignore"):
        total = queries[0] @ rows[0].T
        for query, block in zip(queries[1:], rows[1:], strict=True):
            total += query @ block.T
    return total


def row_slices(count: int, size: int) -> Iterator[slice]:
    """Cut `count` rows into slices of at least 4096 rows each.

    Examples
    --------
    >>> list(row_slices(5000, 100))
    [slice(0, 4096, None), slice(4096, 5000, None)]
    """
    step = max(4096, size)
    return (slice(start, min(count, start + step)) for start in range(0, count, step))


Rows = slice | NDArray[np.int64]
"""The first rows, or rows by number."""


class Piece(NamedTuple):
    """A part of a query, of shape (n, width), and the columns of the stored block it is for."""

    block: int
    columns: slice
    query: FloatArray


@dataclass(frozen=True, eq=False)
class Means:
    """The means of rows, block by block.

    Examples
    --------
    >>> means = Means().written(0, np.eye(3, dtype="f4"), widths=(2, 1))
    >>> [block.shape for block in means.blocks]
    [(3, 2), (3, 1)]
    >>> means.products(slice(3), [np.ones((1, 3), "f4")])[0]
    array([[1., 1., 1.]], dtype=float32)
    """

    # shapes (capacity, d_k): C-contiguous; they may be longer than what is used
    blocks: tuple[FloatArray, ...] = (np.zeros((0, 0), dtype=np.float32),)

    @property
    def widths(self) -> tuple[int, ...]:
        """The dimensions d_k of the blocks."""
        return tuple(block.shape[1] for block in self.blocks)

    @property
    def dimension(self) -> int:
        """The sum of the widths."""
        return sum(self.widths)

    def rows(self, rows: Rows) -> FloatArray:
        """Return whole means of some rows, shape (m, d); with one block a slice is not copied."""
        if len(self.blocks) == 1:
            return self.blocks[0][rows]
        return np.concatenate([block[rows] for block in self.blocks], axis=1)

    def chosen(self, rows: Rows) -> Means:
        """Return the means of some rows; a slice is not copied."""
        return Means(tuple(block[rows] for block in self.blocks))

    def written(self, start: int, mean: FloatArray, widths: Sequence[int]) -> Means:
        """Put new rows behind the first `start`.

        The buffers are shared if they are long enough, else copied into longer ones.

        `start`: with 0 the blocks are made anew. `mean`: array, shape (m, d). `widths`: of the
        blocks, if there are none yet.
        """
        stop = start + len(mean)
        if start:
            old: Sequence[FloatArray] = self.blocks
        else:
            old = [np.empty((0, width), dtype=np.float32) for width in widths]
        blocks, left = [], 0
        for block in old:
            room = with_room(block, start, stop)
            room[start:stop] = mean[:, left : left + block.shape[1]]
            blocks.append(room)
            left += block.shape[1]
        return Means(tuple(blocks))

    def products(self, rows: Rows, queries: Sequence[FloatArray]) -> list[FloatArray]:
        """Multiply queries with consecutive parts of the means, however those fit the blocks.

        `queries`, shapes (n, width): their widths add up to the dimension. Returns list of array,
        shapes (n, len(rows)).
        """
        stored = self.chosen(rows).blocks
        return [
            summed_products(
                [piece.query for piece in of_one],
                [stored[piece.block][:, piece.columns] for piece in of_one],
            )
            for of_one in pieces(self.widths, queries)
        ]


def pieces(widths: Sequence[int], queries: Sequence[FloatArray]) -> list[list[Piece]]:
    """Pair each part of the queries with the stored block that it is multiplied with, by widths.

    Examples
    --------
    >>> [[first, second]] = pieces([1, 2], [np.ones((1, 3), "f4")])
    >>> second.block, second.columns, second.query.shape
    (1, slice(0, 2, None), (1, 2))
    """
    out, start = [], 0
    for query in queries:
        stop, left, found = start + query.shape[1], 0, []
        for number, width in enumerate(widths):
            low, high = max(start, left), min(stop, left + width)
            if low < high:
                columns = slice(low - left, high - left)
                found.append(Piece(number, columns, query[:, low - start : high - start]))
            left += width
        out.append(found)
        start = stop
    return out


def longest(mean: FloatArray) -> float:
    """Compute the norm of the longest row, shape (n, d); 0 of none."""
    return float(np.linalg.norm(mean, axis=1).max(initial=0.0))
