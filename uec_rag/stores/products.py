"""Inner products of a few queries with many rows.

`queries @ rows.T` is seldom the quickest. Measured with OpenBLAS on one core: for 2 to 16 queries
the product the other way round takes 0.6 to 0.75 of the time, and for a single query, where the
rows are more than the caches hold, as many dot products take 0.45 (384 dimensions) or 0.55 (1152).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from uec_rag.base.environment import cores
from uec_rag.base.gaussian import FloatArray

_TILE = 2**20  # products at a time, to be turned round in a core's cache
_FEW = 32  # queries beyond which turning round costs what it saves
_CACHED = 2**24  # numbers that caches hold from one search to the next
# Numbers that a thread is worth starting for. BLAS's own threads spin for milliseconds after its
# last product, and ours wait for them: with 2**21 a search of 10,000 rows took four times as long.
_SHARE = 2**26


def summed_products(
    queries: Sequence[FloatArray], rows: Sequence[FloatArray], *, of: int
) -> FloatArray:
    """Sum over the blocks k of ``queries_k @ rows_k.T``, shape (n, N).

    Parameters
    ----------
    queries : sequence of K arrays, shapes (n, d_k)
        K is at least 1.
    rows : sequence of K arrays, shapes (N, d_k)
    of : int
        How many numbers one search reads in all: so many are between this and the next time.

    Examples
    --------
    >>> summed_products([np.ones((2, 3), "f4")], [np.eye(3, dtype="f4")], of=9).tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    count = len(queries[0])
    if 1 < count <= _FEW:
        return _turned_round(queries, rows)
    together = all(block.flags.c_contiguous for block in rows)  # else dot products are slow
    if count == 1 and of > _CACHED and together:
        return _dots(queries, rows)
    total = queries[0] @ rows[0].T
    for query, block in zip(queries[1:], rows[1:], strict=True):
        total += query @ block.T
    return total


def _turned_round(queries: Sequence[FloatArray], rows: Sequence[FloatArray]) -> FloatArray:
    """``(rows @ queries.T).T`` a tile at a time."""
    thin = [np.ascontiguousarray(query.T) for query in queries]
    out = np.empty((len(queries[0]), len(rows[0])), dtype=np.float32)
    for tile in row_slices(len(rows[0]), _TILE // len(queries[0])):
        total = rows[0][tile] @ thin[0]
        for query, block in zip(thin[1:], rows[1:], strict=True):
            total += block[tile] @ query
        out[:, tile] = total.T
    return out


def _dots(queries: Sequence[FloatArray], rows: Sequence[FloatArray]) -> FloatArray:
    """Dot products of one query, by threads, which the interpreter's lock does not hold up."""
    count = len(rows[0])
    out = np.empty((1, count), dtype=np.float32)

    def part(some: slice) -> None:
        np.vecdot(rows[0][some], queries[0][0], out=out[0, some])
        for query, block in zip(queries[1:], rows[1:], strict=True):
            out[0, some] += np.vecdot(block[some], query[0])

    threads = min(_threads(), sum(block.size for block in rows) // _SHARE)
    if threads <= 1:
        part(slice(count))
        return out
    # Made anew each time, for less than a tenth of a millisecond: a pool does not survive a fork.
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(part, row_slices(count, -(-count // threads))))
    return out


def _threads() -> int:
    """As many as BLAS would take."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return cores()


def row_slices(count: int, size: int) -> Iterator[slice]:
    """Slices that cover `count` rows, of at least 4096 rows each.

    Examples
    --------
    >>> list(row_slices(5000, 100))
    [slice(0, 4096, None), slice(4096, 5000, None)]
    """
    step = max(4096, size)
    return (slice(start, min(count, start + step)) for start in range(0, count, step))
