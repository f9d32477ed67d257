"""A second form of the stored means, to multiply with: compressed, or on another device (torch).

A product with compressed means is off by no more than a bound (see `Scan.bound`), so a search that
scores everything within the bound in float32 finds what one over the float32 means finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.stores.buffers import with_room
from uec_rag.stores.int8_products import int8_products_are_right
from uec_rag.stores.means import Means, Piece, Rows, pieces
from uec_rag.stores.products import row_slices

if TYPE_CHECKING:
    from torch import Tensor

Dtype = Literal["float32", "float16", "bfloat16", "int8"]

_TILE = 2**20  # products at a time
_WIDENED = 2**21  # numbers of the means that are widened to float32 at a time
_FEW = 8  # queries up to which torch's float16 product on a CPU beats widening first
_ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8}  # relative error of one number
_FILE, _SCALES = "scan.{}.npy", "scan_scales.{}.npy"


class _Prepared(NamedTuple):
    """A query piece as torch wants it; `factor` undoes what was divided out, shape (n, 1)."""

    block: int
    columns: slice
    query: Tensor
    factor: Tensor | None


@dataclass(frozen=True, eq=False)
class Scan:
    """Means of rows in a number format and on a device.

    Attributes
    ----------
    dtype : str
        With "int8" each row is divided by what makes its largest number 127.
    device : str
        Of torch.
    blocks : tuple of K tensors, shapes (capacity, d_k)
    scales : tuple of K tensors, shape (capacity,)
        What a row was divided by; none but with "int8".
    errors : tuple of K floats
        Length of the longest difference between a row of a block and its float32 mean.
    lengths : tuple of K floats
        Length of the longest row of each block.
    """

    dtype: Dtype
    device: str
    blocks: tuple[Tensor, ...] = ()
    scales: tuple[Tensor, ...] = ()
    errors: tuple[float, ...] = ()
    lengths: tuple[float, ...] = ()

    @property
    def compressed(self) -> bool:
        """Whether products are off by more than float32's own rounding."""
        return self.dtype != "float32"

    @property
    def widths(self) -> list[int]:
        """Dimensions d_k of the blocks."""
        return [block.shape[1] for block in self.blocks]

    def written(self, start: int, stop: int, means: Means) -> Scan:
        """Take over the rows from `start` to `stop`; as `Means.written`, for what it returned.

        Raises
        ------
        ValueError
            If a number is beyond what float16 holds.
        """
        import torch

        if self.dtype == "float32" and self.device == "cpu":  # the very memory of the means
            return Scan(self.dtype, self.device, tuple(map(torch.from_numpy, means.blocks)))
        blocks, scales, errors, lengths = [], [], [], []
        for k, block in enumerate(means.blocks):
            held = with_room(self.blocks[k] if start else self._empty(block.shape[1]), start, stop)
            blocks.append(held)
            if self.dtype == "int8":
                empty = torch.empty(0, device=self.device)
                scales.append(with_room(self.scales[k] if start else empty, start, stop))
            error, length = (self.errors[k], self.lengths[k]) if start else (0.0, 0.0)
            for tile in row_slices(stop - start, _WIDENED // max(1, block.shape[1])):
                rows = slice(start + tile.start, start + tile.stop)
                values = torch.from_numpy(block[rows])
                fresh, scale = self._compressed(values)
                held[rows] = fresh
                kept = held[rows].float().cpu()
                if scale is not None:
                    scales[k][rows] = scale
                    kept = kept * scale[:, None]
                length = max(length, _longest(kept))
                error = max(error, _longest(kept - values))
            errors.append(error)
            lengths.append(length)
        return Scan(
            self.dtype, self.device, tuple(blocks), tuple(scales), tuple(errors), tuple(lengths)
        )

    def _empty(self, width: int) -> Tensor:
        import torch

        return torch.empty((0, width), dtype=getattr(torch, self.dtype), device=self.device)

    def _compressed(self, values: Tensor) -> tuple[Tensor, Tensor | None]:
        """Rows in the number format, and what they were divided by."""
        import torch

        if self.dtype == "int8":
            # Words alone have means without a number.
            largest = values.abs().amax(dim=1) if values.shape[1] else values.new_zeros(len(values))
            scale = largest / 127
            scale[scale == 0] = 1
            return _whole(values / scale[:, None]), scale
        kind = getattr(torch, self.dtype)
        # A product with a unit query must be a number, too.
        if _longest(values) > torch.finfo(kind).max:
            raise ValueError(
                f"gaussians: expected means no longer than {torch.finfo(kind).max:g}, the largest "
                f"number of dtype={self.dtype!r}, got one of length {_longest(values):g}; "
                "use dtype='bfloat16' or 'int8'."
            )
        return values.to(kind), None

    def products(self, rows: Rows, queries: Sequence[FloatArray]) -> list[FloatArray]:
        """Inner products with consecutive parts of the means; see `Means.products`."""
        import torch

        if isinstance(rows, slice):
            stored = [block[rows] for block in self.blocks]
            scales = [scale[rows] for scale in self.scales]
        else:
            chosen = torch.from_numpy(rows).to(self.device)
            stored = [block[chosen] for block in self.blocks]
            scales = [scale[chosen] for scale in self.scales]
        out = []
        for of_one in pieces(self.widths, queries):
            prepared = [self._prepared(piece) for piece in of_one]
            products = np.empty((len(of_one[0].query), len(stored[0])), dtype=np.float32)
            target = torch.from_numpy(products)
            for tile in row_slices(len(stored[0]), self._rows_at_once(prepared)):
                parts = [
                    _product(
                        piece,
                        stored[piece.block][tile, piece.columns],
                        scales[piece.block][tile] if scales else None,
                    )
                    for piece in prepared
                ]
                total = parts[0]
                for part in parts[1:]:
                    total += part
                target[:, tile] = total
            out.append(products)
        return out

    def _rows_at_once(self, prepared: Sequence[_Prepared]) -> int:
        if self.compressed and prepared[0].factor is None:
            return _WIDENED // max(self.widths)
        return _TILE // max(1, len(prepared[0].query))

    def _prepared(self, piece: Piece) -> _Prepared:
        import torch

        query = torch.from_numpy(np.ascontiguousarray(piece.query)).to(self.device)
        few = len(query) <= _FEW
        # Elsewhere than on a CPU 16-bit products may be summed in 16 bits, which breaks the bound.
        native = self.device == "cpu" and self.compressed and (self.dtype != "float16" or few)
        if native and self.dtype == "int8":
            width = self.blocks[piece.block].shape[1]
            native = int8_products_are_right(width, *piece.columns.indices(width)[:2])
        if not native:
            return _Prepared(piece.block, piece.columns, query, None)
        if self.dtype == "int8":
            factor = query.abs().amax(dim=1, keepdim=True) / 127
        else:
            factor = query.norm(dim=1, keepdim=True)
        factor[factor == 0] = 1
        query = query / factor
        query = _whole(query) if self.dtype == "int8" else query.to(getattr(torch, self.dtype))
        return _Prepared(piece.block, piece.columns, query, factor)

    def bound(self, query: FloatArray) -> NDArray[np.float64]:
        """How far a product of each query may be off, shape (n,), however it is cut into parts.

        By Cauchy-Schwarz: the query's length times the longest error of a row, the longest error
        of the query's own compression times the longest row, and what 16-bit products round.

        Parameters
        ----------
        query : array, shape (n, d)
        """
        total, left = np.zeros(len(query)), 0
        for width, error, longest in zip(self.widths, self.errors, self.lengths, strict=True):
            part = query[:, left : left + width].astype(np.float64)
            left += width
            length = np.linalg.norm(part, axis=1)
            rounding = _ROUNDING.get(self.dtype, 0.0)
            if self.dtype == "int8":
                off = np.abs(part).max(axis=1, initial=0.0) / 253 * np.sqrt(width)
            else:
                off = rounding * length
            summing = width * 2.0**-22  # of float32 products, here and where hits are scored
            total += length * error + longest * (off + (rounding + summing) * (length + off))
        return total

    def arrays(self, rows: Rows) -> Iterator[tuple[str, NDArray[Any]]]:
        """Compressed rows, each block's and what they were divided by, by the name of its file."""
        import torch

        if not self.compressed:
            return
        chosen = rows if isinstance(rows, slice) else torch.from_numpy(rows)
        for k, block in enumerate(self.blocks):
            held = block[chosen].cpu()
            # NumPy has no bfloat16.
            bits = held.view(torch.int16) if held.dtype == torch.bfloat16 else held
            yield _FILE.format(k), bits.numpy()
        for k, scale in enumerate(self.scales):
            yield _SCALES.format(k), scale[chosen].cpu().numpy()

    def settings(self) -> dict[str, object]:
        """What `load` is told beside the arrays."""
        if not self.compressed:
            return {}
        return {"dtype": self.dtype, "errors": self.errors, "lengths": self.lengths}

    def beside(self, other: Scan) -> Scan:
        """Keep these rows; what is said of errors and lengths holds for the other's, too."""
        return replace(
            self,
            errors=tuple(map(max, self.errors, other.errors)) or other.errors,
            lengths=tuple(map(max, self.lengths, other.lengths)) or other.lengths,
        )

    @classmethod
    def load(
        cls, folder: Path, means: Means, settings: Mapping[str, Any], device: str | None
    ) -> Scan | None:
        """Open what `save` wrote, its files mapped; None where products are NumPy's."""
        dtype = settings.get("dtype", "float32")
        scan = make_scan(dtype, device)
        if scan is None:
            return None
        if not scan.compressed:
            return scan.written(0, len(means.blocks[0]), means)
        import torch

        count, kind = len(settings["errors"]), getattr(torch, dtype)
        blocks = (_mapped(folder / _FILE.format(k)) for k in range(count))
        scales = (_mapped(folder / _SCALES.format(k)) for k in range(count * (dtype == "int8")))
        return cls(
            dtype,
            scan.device,
            tuple(block.view(kind).to(scan.device) for block in blocks),
            tuple(scale.to(scan.device) for scale in scales),
            tuple(settings["errors"]),
            tuple(settings["lengths"]),
        )


def make_scan(dtype: str, device: str | None) -> Scan | None:
    """Return an empty scan, or None for what NumPy multiplies itself.

    Raises
    ------
    ValueError
        If the number format is unknown or torch has no such device here.
    """
    if dtype not in get_args(Dtype):
        raise ValueError(f"dtype: expected one of {list(get_args(Dtype))}, got {dtype!r}.")
    if device is None and dtype == "float32":
        return None
    import torch

    device = "cpu" if device is None else device
    try:
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError) as error:  # the latter from builds without CUDA
        raise ValueError(
            f"device: expected one that torch can use here, such as 'cpu' or, on a machine that "
            f"has it, 'cuda' or 'mps'; got {device!r} ({str(error).splitlines()[0]})."
        ) from error
    if torch.device(device).type == "cpu":
        device = "cpu"  # however it was spelt
    return Scan(dtype, device)  # type: ignore[arg-type]  # checked above


def _product(piece: _Prepared, matrix: Tensor, scale: Tensor | None) -> Tensor:
    """Product of one piece and one tile in float32, shape (n, rows)."""
    import torch

    if piece.factor is None:
        wide = matrix.float()
        return piece.query @ (wide if scale is None else wide * scale[:, None]).T
    if scale is None:
        return (piece.query @ matrix.T).float().mul_(piece.factor)
    return (torch._int_mm(piece.query, matrix.T) * scale).mul_(piece.factor)


def _whole(values: Tensor) -> Tensor:
    """Numbers of at most 127 as int8."""
    import torch

    return values.round().clamp_(-127, 127).to(torch.int8)


def _longest(rows: Tensor) -> float:
    """Length of the longest row, rounded up."""
    return float(rows.norm(dim=1).amax()) * (1 + 1e-5) if len(rows) else 0.0


def _mapped(file: Path) -> Tensor:
    import torch

    return torch.from_numpy(np.load(file, mmap_mode="c", allow_pickle=False))
