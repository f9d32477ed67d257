"""Whether torch multiplies int8 matrices rightly on this processor.

torch has no public product of int8 matrices; the one that torchao builds on, `torch._int_mm`, is
oneDNN's. On processors without VNNI (x86 before 2019, AMD before Zen 4) that adds pairs of products
in 16 bits, which overflow, and with one column it was seen to read what is not there (torch 2.13).
The other public products were slower by far or came with a packed format of their own.
"""

from __future__ import annotations

from functools import cache

_QUERIES = (1, 2, 8, 33)  # kernels differ by their number
_ROWS = 67


@cache
def int8_products_are_right(width: int, start: int, stop: int) -> bool:
    """Whether products with columns `start` to `stop` of a matrix of some width are exact.

    Tried out with the largest numbers of either sign, once for each layout.

    Examples
    --------
    >>> int8_products_are_right(1, 0, 1) in (True, False)
    True
    """
    import torch

    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(0, 2, (_ROWS, width), generator=generator) * 254 - 127
    rows[: _ROWS // 2] = 127
    stored = rows.to(torch.int8)[:, start:stop]
    for count in _QUERIES:
        query = torch.randint(-127, 128, (count, stop - start), generator=generator)
        query[0] = 127
        exact = query.double() @ stored.double().T
        if not torch.equal(torch._int_mm(query.to(torch.int8), stored.T).double(), exact):
            return False
    return True
