"""The files of a store: NumPy arrays and JSON, written at once or one addition at a time."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import are_finite
from uec_rag.base.errors import as_corrupted, corruption
from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.postings import Postings
from uec_rag.base.saved.files import GrowingArray, read_array, read_json, write_json
from uec_rag.stores.base import Passage, check_addition
from uec_rag.stores.memory.state import PassageLog, State, check_fits, line_of, with_fingerprint
from uec_rag.stores.memory.vectors import Dtype, Means, QuantisedMeans, Rows, longest, make_scan

_MEAN = "mean.{}.npy"


def write_state(state: State, folder: Path) -> None:
    """Write the selected rows of a state into an existing folder."""
    selected = state.selected_rows()
    rows = slice(state.rows) if state.selected is None else state.selected  # a slice is no copy
    for name, array in rows_of(state.means, state.scales, state.scan, rows):
        np.save(folder / name, array, allow_pickle=False)
    ids = state.passages.write(selected, folder)
    if state.longest == math.inf:
        state = replace(state, longest=longest(state.means.rows(rows)))
    write_rest(state, ids, selected, folder)


def rows_of(
    means: Means, scales: FloatArray, scan: QuantisedMeans | None, rows: Rows
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield means and scales of rows and their 8-bit copy, with the names of their files."""
    for number, block in enumerate(means.blocks):
        yield _MEAN.format(number), block[rows]
    yield "scales.npy", scales[rows]
    if scan is not None:
        yield from scan.arrays(rows)


def write_rest(state: State, ids: list[str], selected: NDArray[np.int64], folder: Path) -> None:
    """Write what is not stored by row: profile, words, and the settings for `read_state`."""
    if state.profile is not None:
        np.save(folder / "profile.npy", state.profile, allow_pickle=False)
    settings: dict[str, object] = {
        "store": "memory",
        "fingerprint": state.fingerprint,
        "ids": ids,
        "blocks": len(state.means.blocks),
        "longest": state.longest,
    }
    if state.postings:
        settings["terms"] = [
            postings.save(folder, f"terms.{n}", selected)
            for n, postings in enumerate(state.postings)
        ]
    if state.scan is not None:
        settings["scan"] = state.scan.settings()
    write_json(folder / "store.json", settings, indent=None)  # ids by the million


def read_state(folder: Path) -> State:
    """Read a state written by `write_state`, by memory-mapping its files.

    IndexCorrupted if files are missing or inconsistent.
    """
    settings = read_json(folder / "store.json")
    with as_corrupted(folder / "store.json"):
        ids = settings["ids"]
        bound = float(settings["longest"])
        blocks, count = settings["blocks"], len([*folder.glob(_MEAN.format("*"))])
        if isinstance(blocks, bool) or blocks != count or not count:
            raise ValueError(
                f"blocks: expected the number of files of means, {count}, got {blocks!r}"
            )
        names = map(_MEAN.format, range(count))
        means = Means(
            tuple(read_array(folder / name, np.float32, 2, mapped=True) for name in names)
        )
    scales = read_array(folder / "scales.npy", np.float32, 2, mapped=True)
    file = folder / "profile.npy"
    profile = read_array(file, np.float32, 2) if file.exists() else None
    passages = PassageLog(folder, ids)
    with as_corrupted(folder):
        _check_belong_together(folder, ids, means, scales, profile, len(passages))
        scan = QuantisedMeans.load(folder, settings.get("scan", {}))
        if not bound >= 0 or not are_finite(scales, least=0):
            raise ValueError("expected lengths and variances that are numbers >= 0")
        if profile is not None and not are_finite(profile, least=0):
            raise ValueError("expected a profile of numbers >= 0")
        if scan is not None and ids:
            _check_scan(folder, scan, means)
        postings = tuple(
            Postings.load(folder, saved, len(ids)) for saved in settings.get("terms", ())
        )
    return State(
        rows=len(ids),
        means=means,
        scales=scales,
        profile=profile,
        fingerprint=settings.get("fingerprint"),
        longest=bound,
        passages=passages,
        alive=np.ones(len(ids), dtype=bool),
        row_of={id_: row for row, id_ in enumerate(ids)},
        scan=scan,
        postings=postings,
    )


def _check_scan(folder: Path, scan: QuantisedMeans, means: Means) -> None:
    count = len(means.blocks)
    fits = [tuple(block.shape) for block in scan.blocks] == [block.shape for block in means.blocks]
    fits &= len(scan.errors) == len(scan.lengths) == count
    fits &= all(0 <= value < math.inf for value in (*scan.errors, *scan.lengths))
    for scale in scan.scales:
        fits &= scale.shape == (len(means.blocks[0]),)
        fits &= bool((scale > 0).all() and np.isfinite(scale).all())
    if not fits:
        raise corruption(
            folder, "holds a compressed copy that is not one of its means; save the index again."
        )


def _check_belong_together(
    folder: Path,
    ids: list[object],
    means: Means,
    scales: FloatArray,
    profile: FloatArray | None,
    passages: int,
) -> None:
    lengths = [*(len(block) for block in means.blocks), len(scales), passages, len(ids)]
    if len({*lengths}) > 1:
        raise corruption(
            folder,
            f"holds {lengths[:-3]} means, {lengths[-3]} variances, "
            f"{lengths[-2]} passages and {lengths[-1]} ids; expected the same number of each. "
            "Save the index again.",
        )
    if not all(isinstance(id_, str) for id_ in ids) or len({*ids}) < len(ids):
        raise corruption(
            folder, "has an id that is not a string, or that occurs twice; save it again."
        )
    of = (scales.shape[1], means.dimension)  # what the variances are made of, and of what width
    if ids and of != ((means.dimension,) * 2 if profile is None else profile.shape):
        raise corruption(
            folder,
            "holds variances that do not fit its means of dimension "
            f"{means.dimension}; save the index again.",
        )


class StreamedStore:
    """A store that writes additions to files, which `MemoryStore.load` opens after `finish`.

    It only keeps ids and the postings of words in memory, no means. Several threads may add
    passages.

    Parameters
    ----------
    folder : path
        An empty folder.
    dtype
        As `MemoryStore` takes it.

    Examples
    --------
    >>> import tempfile
    >>> from uec_rag.stores import MemoryStore
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with StreamedStore(Path(folder)) as store:
    ...         store.add([Passage("a", "text")], Gaussian([[1.0, 0.0]], [[0.0, 0.0]]))
    ...         store.add([Passage("b", "text")], Gaussian([[0.6, 0.8]], [[0.0, 0.0]]))
    ...         store.finish()
    ...     len(MemoryStore.load(Path(folder)))
    2
    """

    def __init__(self, folder: Path, *, dtype: Dtype = "float32") -> None:
        # The rows are in the files; the means have their widths, but no rows.
        self._state = State(scan=make_scan(dtype))
        self._folder, self._ids = folder, dict[str, None]()
        self._arrays: dict[str, GrowingArray] = {}
        self._open, self._whole = ExitStack(), True
        self._writing = threading.Lock()
        self._lines = self._open.enter_context((folder / "passages.jsonl").open("wb"))
        self._append({"offsets.npy": np.zeros(1, dtype=np.int64)})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def __len__(self) -> int:
        return len(self._ids)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        raise AttributeError(
            f"{name}: this index is being filled and only accepts additions; load it afterwards."
        )

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of the ensemble of the Gaussians; None if there are none."""
        return self._state.fingerprint if self._ids else None

    def bind(self, fingerprint: str) -> None:
        """Record the ensemble of the Gaussians; FingerprintMismatch if it is another one."""
        with self._writing:
            self._state = with_fingerprint(self._state, fingerprint)

    def add(self, passages: Sequence[Passage], gaussians: Gaussian) -> None:
        """Append passages to the files.

        Raises
        ------
        ValueError
            If an id was added before, and as raised by `MemoryStore.add`.
        TypeError
            If metadata cannot be written as JSON.
        RuntimeError
            If an addition failed half-way, or `finish` was called.
        """
        passages = check_addition(passages, gaussians)
        if not passages:
            return
        with self._writing:
            self._add(passages, gaussians)

    def _add(self, passages: Sequence[Passage], gaussians: Gaussian) -> None:
        self._check_whole()
        if self._lines.closed:
            raise RuntimeError("store: this index has been filled; load it, and add to that.")
        old, start = self._state, len(self._ids)
        check_fits(old, gaussians)
        for passage in passages:
            if passage.id in self._ids:
                raise ValueError(
                    f"ids: {passage.id!r} was added before; passages cannot be replaced while an "
                    "index is being filled. Leave out duplicates, or finish filling, load the "
                    "index and add to it."
                )
        lines = [line_of(passage) for passage in passages]
        widths, rows = old.means.widths if start else gaussians.widths, slice(len(passages))
        means = Means().with_rows(0, gaussians.mean, widths)
        scan = None if old.scan is None else old.scan.with_rows(0, len(passages), means)
        postings = old.postings_with(gaussians.terms)
        self._whole = False  # until all files have the same number of rows
        self._append(dict(rows_of(means, gaussians.scales, scan, rows)))
        end = self._lines.tell() + np.cumsum([len(line) for line in lines], dtype=np.int64)
        self._lines.writelines(lines)
        self._append({"offsets.npy": end})
        self._ids |= dict.fromkeys(passage.id for passage in passages)
        self._state = replace(
            old,
            rows=len(self._ids),
            means=means.select(slice(0)),
            profile=gaussians.profile,
            longest=max(old.longest, longest(gaussians.mean)),
            scan=None if old.scan is None or scan is None else old.scan.merge_bounds(scan),
            postings=postings,
        )
        self._whole = True

    def finish(self) -> None:
        """Write everything that is not stored by row.

        Raises RuntimeError if an addition failed half-way.
        """
        with self._writing:
            self._check_whole()
            if not self._ids:
                none = rows_of(self._state.means, self._state.scales, self._state.scan, slice(0))
                self._append(dict(none))
            self._open.close()
            write_rest(self._state, [*self._ids], np.arange(len(self._ids)), self._folder)

    def _check_whole(self) -> None:
        if not self._whole:
            raise RuntimeError("store: an addition to this index failed half-way; fill a new one.")

    def _append(self, arrays: dict[str, NDArray[Any]]) -> None:
        for name, rows in arrays.items():
            if name in self._arrays:
                self._arrays[name].append(rows)
            else:
                self._arrays[name] = GrowingArray(self._folder / name, rows)
                self._open.callback(self._arrays[name].close)
