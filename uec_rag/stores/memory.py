"""The default store: contiguous float32 matrices in memory, searched exactly."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from uec_rag.files import read_json, write_json
from uec_rag.gaussian import FloatArray, Gaussian
from uec_rag.stores import passages as passage_files
from uec_rag.stores.base import Filter, Found, Passage
from uec_rag.stores.filters import MetadataIndex
from uec_rag.stores.passages import PassageLog
from uec_rag.stores.topk import top_k

_COMPACT_ABOVE = 0.5  # share of deleted rows at which the rest is copied together
_COPY_BELOW = 0.25  # share of rows below which they are copied out rather than all multiplied
_Number = TypeVar("_Number", np.float32, np.bool_)


def _empty() -> FloatArray:
    return np.zeros((0, 0), dtype=np.float32)


@dataclass(frozen=True, eq=False)
class _State:
    """One consistent view of the store. Writers build the next one; readers keep theirs.

    The buffers may be longer than `rows`, and are shared between states: a writer only fills
    places that no earlier state looks at. A row never changes; replacing a passage adds a row.
    """

    rows: int = 0
    mean: FloatArray = field(default_factory=_empty)
    scales: FloatArray = field(default_factory=_empty)
    profile: FloatArray | None = None
    passages: PassageLog = field(default_factory=PassageLog)
    alive: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    row_of: dict[str, int] = field(default_factory=dict)
    earlier: dict[int, int] = field(default_factory=dict)  # row -> the row its id had before
    live: NDArray[np.int64] | None = None  # None: all rows
    index: MetadataIndex = field(default_factory=MetadataIndex)

    @property
    def count(self) -> int:
        return self.rows if self.live is None else len(self.live)

    def live_rows(self) -> NDArray[np.int64]:
        return np.arange(self.rows) if self.live is None else self.live

    def row(self, id_: str) -> int | None:
        row = self.row_of.get(id_)
        # Both dicts are shared with later states: go back past what those have added.
        while row is not None and row >= self.rows:
            row = self.earlier.get(row)
        return row if row is not None and self.alive[row] else None

    def gaussians(self, rows: NDArray[np.int64]) -> Gaussian:
        if self.profile is None:
            return Gaussian(self.mean[rows], self.scales[rows])
        return Gaussian.factored(self.mean[rows], self.scales[rows], self.profile)


class MemoryStore:
    """Passages and their Gaussians in memory.

    Means are one float32 matrix. A factored variance costs one number per passage and encoder,
    any other a second matrix. Appends are amortised O(1); deleted rows are skipped and copied out
    when they are more than half. Reads see one consistent state while another thread writes. A
    loaded store maps its files and reads what it touches.

    Examples
    --------
    >>> store = MemoryStore()
    >>> store.add([Passage("a", "first"), Passage("b", "second")],
    ...           Gaussian([[1.0, 0.0], [0.6, 0.8]], [[0.0, 0.0], [0.1, 0.1]]))
    >>> found = store.search(Gaussian([[1.0, 0.0]], [[0.0, 0.0]]), k=1, beta=1.0)
    >>> found.passages[0][0].id
    'a'
    """

    def __init__(self) -> None:
        self._state = _State()
        self._writing = threading.RLock()
        self._is_snapshot = False

    def __len__(self) -> int:
        return self._state.count

    def snapshot(self, filter: Filter | None = None) -> MemoryStore:
        """Return a view that stays as it is while others write; it copies nothing.

        A snapshot is not written to: RuntimeError.

        Parameters
        ----------
        filter : Filter, optional
            Leave out the passages that it does not let through.

        Raises
        ------
        TypeError, KeyError
            If the filter is of another type or names an unknown metadata key.
        """
        view, state = MemoryStore(), self._state
        if filter is not None and state.count:
            rows = state.index.select(filter, state.passages, state.live_rows())
            state = replace(state, live=rows)
        view._state, view._is_snapshot = state, True
        return view

    def add(self, passages: Sequence[Passage], gaussians: Gaussian) -> None:
        """Add passages, replacing those whose id is there already.

        Raises
        ------
        ValueError
            If there is not one Gaussian per passage, an id comes twice, or the Gaussians are of
            another dimension or variance profile than the stored ones.
        """
        self._check_writable()
        if len(passages) != len(gaussians):
            raise ValueError(
                f"gaussians: expected {len(passages)}, one per passage, got {len(gaussians)}."
            )
        seen: set[str] = set()
        for passage in passages:
            if passage.id in seen:
                raise ValueError(
                    f"ids: {passage.id!r} is given twice; expected distinct ids in one call."
                )
            seen.add(passage.id)
        if not passages:
            return
        with self._writing:
            old = self._state
            _check_fits(old, gaussians)
            start, stop = old.rows, old.rows + len(passages)
            mean = _with_room(old.mean, start, stop, (gaussians.dimension,))
            scales = _with_room(old.scales, start, stop, (gaussians.scales.shape[1],))
            alive = _with_room(old.alive, start, stop, ())
            mean[start:stop] = gaussians.mean
            scales[start:stop] = gaussians.scales
            alive[start:stop] = True
            if len(old.passages) > start:
                old = _without_leftovers(old)
            known = old.passages
            known.extend(passages)
            replaced = [row for p in passages if (row := old.row(p.id)) is not None]
            live = old.live
            if replaced:
                alive = alive.copy()
                alive[replaced] = False
            if replaced or live is not None:
                live = np.flatnonzero(alive[:stop])
            for row, passage in enumerate(passages, start):
                before = old.row_of.get(passage.id)
                if before is not None:  # first, for a reader in between
                    old.earlier[row] = before
                old.row_of[passage.id] = row
            state = replace(
                old, rows=stop, mean=mean, scales=scales, passages=known, alive=alive, live=live
            )
            self._state = _compacted(replace(state, profile=gaussians.profile))

    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages; ids that are not there are ignored. Returns how many went."""
        self._check_writable()
        with self._writing:
            old = self._state
            gone = {id_: row for id_ in ids if (row := old.row(id_)) is not None}
            if gone:
                alive = old.alive.copy()
                alive[list(gone.values())] = False
                live = np.flatnonzero(alive[: old.rows])
                self._state = _compacted(replace(old, alive=alive, live=live))
            return len(gone)

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages of those ids that are there, in the order asked."""
        state = self._state
        return [state.passages[row] for id_ in ids if (row := state.row(id_)) is not None]

    def vectors(self, ids: Sequence[str]) -> Gaussian:
        """Return the Gaussians of ids.

        Raises
        ------
        KeyError
            If an id is not there.
        """
        state = self._state
        rows = [state.row(id_) for id_ in ids]
        if None in rows:
            raise KeyError(f"ids: {ids[rows.index(None)]!r} is not in the store.")
        return state.gaussians(np.array(rows, dtype=np.int64))

    def passages(self) -> Iterator[Passage]:
        """Iterate over all passages in the order they came."""
        state = self._state
        return (state.passages[row] for row in state.live_rows().tolist())

    def similarities(self, blocks: Sequence[FloatArray]) -> list[FloatArray]:
        """Inner products of queries with consecutive blocks of the stored means, (n, N) each."""
        return _similarities(self._state, blocks)

    def search(
        self,
        query: Gaussian,
        k: int,
        *,
        beta: float,
        filter: Filter | None = None,
        mu: FloatArray | None = None,
    ) -> Found:
        """Find the k passages of the highest s_hat, exactly.

        See `uec_rag.stores.topk` for how. Equal scores go to the passage that came first. `mu`,
        where it is given, has a column for every passage that the filter lets through.

        Raises
        ------
        ValueError
            If k < 1, the query is of another dimension than the stored passages, or `mu` is not of
            this store.
        TypeError, KeyError
            If the filter is of another type or names an unknown metadata key.
        """
        if k < 1:
            raise ValueError(f"k: expected an integer >= 1, got {k}.")
        if filter is not None:
            return self.snapshot(filter).search(query, k, beta=beta, mu=mu)
        state = self._state
        if state.rows and query.dimension != state.mean.shape[1]:
            raise ValueError(
                f"query: expected dimension {state.mean.shape[1]}, as stored, "
                f"got {query.dimension}."
            )
        if mu is not None and mu.shape != (len(query), state.count):
            raise ValueError(
                f"mu: expected shape {(len(query), state.count)}, a column per passage, "
                f"got {mu.shape}."
            )
        k = min(k, state.count)
        if not k:
            nothing = np.zeros((len(query), 0), dtype=np.float32)
            return Found([[] for _ in range(len(query))], nothing, nothing, nothing, exact=True)
        # Of this very state: another thread may have put a new one in its place.
        mu = _similarities(state, [query.mean])[0] if mu is None else mu
        return _ranked(state, query, mu, k, beta)

    def _check_writable(self) -> None:
        if self._is_snapshot:
            raise RuntimeError("this is a snapshot of a store; write to the store itself.")

    def save(self, folder: Path) -> None:
        """Write means, scales, profile and passages: NumPy arrays and JSON lines."""
        state = self._state
        live = state.live_rows()
        np.save(folder / "mean.npy", state.mean[live], allow_pickle=False)
        np.save(folder / "scales.npy", state.scales[live], allow_pickle=False)
        if state.profile is not None:
            np.save(folder / "profile.npy", state.profile, allow_pickle=False)
        ids = passage_files.write((state.passages[row] for row in live.tolist()), folder)
        write_json(folder / "store.json", {"store": "memory", "ids": ids})

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Open a store that `save` wrote; its files are mapped, not read.

        Raises
        ------
        ValueError
            If the files do not belong together.
        """
        ids = read_json(folder / "store.json")["ids"]
        mean, scales = _mapped(folder / "mean.npy"), _mapped(folder / "scales.npy")
        file = folder / "profile.npy"
        profile = np.load(file, allow_pickle=False) if file.exists() else None
        passages = PassageLog(folder)
        if not len(mean) == len(scales) == len(passages) == len(ids):
            raise ValueError(
                f"path: {str(folder)!r} holds {len(mean)} means, {len(scales)} variances, "
                f"{len(passages)} passages and {len(ids)} ids; expected as many of each. "
                "Save the index again."
            )
        store = cls()
        store._state = _State(
            rows=len(ids),
            mean=mean,
            scales=scales,
            profile=profile,
            passages=passages,
            alive=np.ones(len(ids), dtype=bool),
            row_of={id_: row for row, id_ in enumerate(ids)},
        )
        return store


def _without_leftovers(state: _State) -> _State:
    """Forget the rows that an interrupted `add` left in what states share."""
    row_of = {id_: row for id_ in state.row_of if (row := state.row(id_)) is not None}
    return replace(state, passages=state.passages.first(state.rows), row_of=row_of, earlier={})


def _check_fits(state: _State, gaussians: Gaussian) -> None:
    if not state.rows:
        return
    if gaussians.dimension != state.mean.shape[1]:
        raise ValueError(
            f"gaussians: expected dimension {state.mean.shape[1]}, as stored, "
            f"got {gaussians.dimension}."
        )
    same = (
        gaussians.profile is None
        if state.profile is None
        else gaussians.profile is not None and np.array_equal(gaussians.profile, state.profile)
    )
    if not same:
        raise ValueError(
            "gaussians: their variance has another profile than the stored ones; they come "
            "from another posterior. Build the index again."
        )


def _similarities(state: _State, blocks: Sequence[FloatArray]) -> list[FloatArray]:
    if not state.count:  # perhaps of no dimension yet
        return [np.zeros((len(block), 0), dtype=np.float32) for block in blocks]
    mean, live = state.mean[: state.rows], state.live
    if live is not None and len(live) < state.rows * _COPY_BELOW:
        mean, live = mean[live], None
    out, start = [], 0
    for block in blocks:
        stop = start + block.shape[1]
        products = block @ mean[:, start:stop].T
        out.append(products if live is None else products[:, live])
        start = stop
    return out


def _ranked(state: _State, query: Gaussian, mu: FloatArray, k: int, beta: float) -> Found:
    """Top k of each query; `mu` has a column per live row."""
    rows = state.live
    variance = query.variance
    second = query.mean**2 + variance
    weights = second if state.profile is None else second @ state.profile.T
    passages: list[list[Passage]] = []
    scores, mus, sigmas = (np.empty((len(query), k), dtype=np.float32) for _ in range(3))
    for i in range(len(query)):

        def sigma2(columns: NDArray[np.int64], i: int = i) -> FloatArray:
            place = columns if rows is None else rows[columns]
            total: FloatArray = state.scales[place] @ weights[i]
            total += state.mean[place] ** 2 @ variance[i]
            return total

        columns, scores[i], sigmas[i] = top_k(mu[i], sigma2, k, beta)
        mus[i] = mu[i, columns]
        place = columns if rows is None else rows[columns]
        passages.append([state.passages[row] for row in place.tolist()])
    return Found(passages, scores, mus, sigmas, exact=True)


def _with_room(
    buffer: NDArray[_Number], used: int, needed: int, shape: tuple[int, ...]
) -> NDArray[_Number]:
    """The buffer itself where it is long enough, else a copy at least twice as long."""
    if needed <= len(buffer) and buffer.flags.writeable:
        return buffer
    grown = np.empty((max(needed, 2 * used), *shape), dtype=buffer.dtype)
    if used:
        grown[:used] = buffer[:used]
    return grown


def _compacted(state: _State) -> _State:
    if state.count >= state.rows * (1 - _COMPACT_ABOVE):
        return state
    live = state.live_rows()
    passages = PassageLog()
    passages.extend([state.passages[row] for row in live.tolist()])
    return _State(
        rows=len(live),
        mean=state.mean[live],
        scales=state.scales[live],
        profile=state.profile,
        passages=passages,
        alive=np.ones(len(live), dtype=bool),
        row_of={passages[row].id: row for row in range(len(live))},
    )


def _mapped(file: Path) -> FloatArray:
    return np.asarray(np.load(file, mmap_mode="r", allow_pickle=False))
