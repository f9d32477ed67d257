"""Inner products of queries with the stored means, block by block of their dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uec_rag.gaussian import FloatArray
from uec_rag.passes import in_threads

_FEW = 2  # queries up to which reading the means is what takes the time
_ROWS = 1024  # means at a time: they stay in a core's cache while all blocks are multiplied


def block_products(blocks: Sequence[FloatArray], mean: FloatArray) -> list[FloatArray]:
    """Inner products of queries with consecutive blocks of columns of the means.

    Parameters
    ----------
    blocks : sequence of array, shapes (n, d_k)
    mean : array, shape (N, sum of d_k)

    Returns
    -------
    list of array, shapes (n, N)

    Examples
    --------
    >>> mean = np.float32([[1, 2], [3, 4]])
    >>> [block.tolist() for block in block_products([np.float32([[1]]), np.float32([[10]])], mean)]
    [[[1.0, 3.0]], [[20.0, 40.0]]]
    """
    stops = np.cumsum([block.shape[1] for block in blocks]).tolist()
    columns = [
        slice(stop - block.shape[1], stop) for block, stop in zip(blocks, stops, strict=True)
    ]
    if len(blocks) == 1 or len(blocks[0]) > _FEW:
        return [block @ mean[:, part].T for block, part in zip(blocks, columns, strict=True)]
    # One product per block would read through all the means once for each: here all blocks of a
    # few rows are multiplied while these are in the cache.
    out = [np.empty((len(block), len(mean)), dtype=np.float32) for block in blocks]

    def piece(queries: slice, rows: slice) -> None:
        for product, block, part in zip(out, blocks, columns, strict=True):
            for query, row in zip(block[queries], product[queries], strict=True):
                np.vecdot(mean[rows, part], query, out=row[rows])

    everyone = slice(None)
    pieces = [(everyone, slice(i, i + _ROWS)) for i in range(0, len(mean), _ROWS)]
    for _ in in_threads(piece, pieces):
        pass
    return out
