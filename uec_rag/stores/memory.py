"""The default store: contiguous float32 matrices in memory, searched exactly."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from uec_rag.files import read_json, write_json
from uec_rag.gaussian import FloatArray, Gaussian
from uec_rag.stores.base import Filter, Found, Passage, matching
from uec_rag.stores.topk import top_k

_COMPACT_ABOVE = 0.5  # share of deleted rows at which the rest is copied together
_EMPTY = np.zeros((0, 0), dtype=np.float32)


@dataclass(frozen=True, eq=False)
class _State:
    """One consistent view of the store. Writers build the next one; readers keep theirs.

    The buffers may be longer than `rows`, and are shared between states: a writer only fills
    places that no earlier state looks at.
    """

    mean: FloatArray
    scales: FloatArray
    profile: FloatArray | None
    passages: list[Passage]
    alive: NDArray[np.bool_]
    row_of: dict[str, int]

    @property
    def rows(self) -> int:
        return len(self.alive)

    def live_rows(self) -> NDArray[np.int64]:
        return np.flatnonzero(self.alive)

    def gaussians(self, rows: NDArray[np.int64]) -> Gaussian:
        if self.profile is None:
            return Gaussian(self.mean[rows], self.scales[rows])
        return Gaussian.factored(self.mean[rows], self.scales[rows], self.profile)


class MemoryStore:
    """Passages and their Gaussians in memory.

    Means are one float32 matrix. A factored variance costs one number per passage and encoder,
    any other a second matrix. Appends are amortised O(1); deleted rows are skipped and copied out
    when they are more than half. Reads see one consistent state while another thread writes.

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
        self._state = _State(_EMPTY, _EMPTY, None, [], np.zeros(0, dtype=bool), {})
        self._writing = threading.RLock()

    def __len__(self) -> int:
        return len(self._state.row_of)

    def snapshot(self) -> MemoryStore:
        """Return a read-only view that stays as it is while others write; it costs nothing."""
        view = MemoryStore()
        view._state = self._state
        return view

    def add(self, passages: Sequence[Passage], gaussians: Gaussian) -> None:
        """Add passages, replacing those whose id is there already.

        Raises
        ------
        ValueError
            If there is not one Gaussian per passage, an id comes twice, or the Gaussians are of
            another dimension or variance profile than the stored ones.
        """
        if len(passages) != len(gaussians):
            raise ValueError(
                f"gaussians: expected {len(passages)}, one per passage, got {len(gaussians)}."
            )
        ids = [passage.id for passage in passages]
        if len(set(ids)) < len(ids):
            twice = next(id_ for i, id_ in enumerate(ids) if id_ in ids[:i])
            raise ValueError(f"ids: {twice!r} is given twice; expected distinct ids in one call.")
        if not passages:
            return
        with self._writing:
            old = self._state
            self._check_fits(old, gaussians)
            start, stop = old.rows, old.rows + len(passages)
            mean = _with_room(old.mean, start, stop, gaussians.dimension)
            scales = _with_room(old.scales, start, stop, gaussians.scales.shape[1])
            mean[start:stop] = gaussians.mean
            scales[start:stop] = gaussians.scales
            alive = np.concatenate([old.alive, np.ones(len(passages), dtype=bool)])
            replaced = [old.row_of[id_] for id_ in ids if id_ in old.row_of]
            alive[replaced] = False
            row_of = {**old.row_of, **dict(zip(ids, range(start, stop), strict=True))}
            known = old.passages if len(old.passages) == start else old.passages[:start]
            # Readers of the old state look at its rows only, so the list may grow under them.
            known.extend(passages)
            self._state = _compacted(_State(mean, scales, gaussians.profile, known, alive, row_of))

    @staticmethod
    def _check_fits(old: _State, gaussians: Gaussian) -> None:
        if not old.rows:
            return
        if gaussians.dimension != old.mean.shape[1]:
            raise ValueError(
                f"gaussians: expected dimension {old.mean.shape[1]}, as stored, "
                f"got {gaussians.dimension}."
            )
        same = (
            gaussians.profile is None
            if old.profile is None
            else gaussians.profile is not None and np.array_equal(gaussians.profile, old.profile)
        )
        if not same:
            raise ValueError(
                "gaussians: their variance has another profile than the stored ones; they come "
                "from another posterior. Build the index again."
            )

    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages; ids that are not there are ignored. Returns how many went."""
        with self._writing:
            old = self._state
            gone = {id_: old.row_of[id_] for id_ in ids if id_ in old.row_of}
            if gone:
                alive = old.alive.copy()
                alive[list(gone.values())] = False
                row_of = {id_: row for id_, row in old.row_of.items() if id_ not in gone}
                self._state = _compacted(replace(old, alive=alive, row_of=row_of))
            return len(gone)

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages of those ids that are there, in the order asked."""
        state = self._state
        return [state.passages[state.row_of[id_]] for id_ in ids if id_ in state.row_of]

    def vectors(self, ids: Sequence[str]) -> Gaussian:
        """Return the Gaussians of ids.

        Raises
        ------
        KeyError
            If an id is not there.
        """
        state = self._state
        missing = [id_ for id_ in ids if id_ not in state.row_of]
        if missing:
            raise KeyError(f"ids: {missing[0]!r} is not in the store.")
        return state.gaussians(np.array([state.row_of[id_] for id_ in ids], dtype=np.int64))

    def passages(self) -> Iterator[Passage]:
        """Iterate over all passages in the order they came."""
        state = self._state
        return (state.passages[row] for row in state.live_rows())

    def similarities(self, blocks: Sequence[FloatArray]) -> list[FloatArray]:
        """Inner products of queries with consecutive blocks of the stored means, (n, N) each."""
        state = self._state
        out, start = [], 0
        for block in blocks:
            stop = start + block.shape[1]
            out.append(block @ self._live_mean(state)[:, start:stop].T)
            start = stop
        return out

    @staticmethod
    def _live_mean(state: _State) -> FloatArray:
        mean = state.mean[: state.rows]
        return mean if state.alive.all() else mean[state.alive]

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

        See `uec_rag.stores.topk` for how. Equal scores go to the passage that came first.

        Raises
        ------
        ValueError
            If k < 1 or the query is of another dimension than the stored passages.
        """
        if k < 1:
            raise ValueError(f"k: expected an integer >= 1, got {k}.")
        state = self._state
        live = state.live_rows()
        if filter is not None:
            live = live[matching([state.passages[row] for row in live], filter)]
        k = min(k, len(live))
        if not k:
            nothing = np.zeros((len(query), 0), dtype=np.float32)
            return Found([[] for _ in range(len(query))], nothing, nothing, nothing, exact=True)
        if query.dimension != state.mean.shape[1]:
            raise ValueError(
                f"query: expected dimension {state.mean.shape[1]}, as stored, "
                f"got {query.dimension}."
            )
        if mu is None:
            mu = query.mean @ state.mean[: state.rows].T
            chosen = mu if len(live) == state.rows else mu[:, live]
        else:
            # Columns are the live rows; a filter keeps some of them.
            chosen = mu if filter is None else mu[:, np.searchsorted(state.live_rows(), live)]
        return self._rank(state, live, query, chosen, k, beta)

    @staticmethod
    def _rank(
        state: _State,
        live: NDArray[np.int64],
        query: Gaussian,
        mu: FloatArray,
        k: int,
        beta: float,
    ) -> Found:
        second = query.mean**2 + query.variance
        variance = query.variance
        weights = second if state.profile is None else second @ state.profile.T
        passages: list[list[Passage]] = []
        scores, mus, sigmas = (np.empty((len(query), k), dtype=np.float32) for _ in range(3))
        for i in range(len(query)):

            def sigma2(columns: NDArray[np.int64], i: int = i) -> FloatArray:
                rows = live[columns]
                total: FloatArray = state.scales[rows] @ weights[i]
                total += state.mean[rows] ** 2 @ variance[i]
                return total

            columns, scores[i], sigmas[i] = top_k(mu[i], sigma2, k, beta)
            mus[i] = mu[i, columns]
            passages.append([state.passages[row] for row in live[columns]])
        return Found(passages, scores, mus, sigmas, exact=True)

    def save(self, folder: Path) -> None:
        """Write ``mean.npy``, ``scales.npy``, ``profile.npy`` and ``passages.jsonl``."""
        state = self._state
        live = state.live_rows()
        np.save(folder / "mean.npy", state.mean[live], allow_pickle=False)
        np.save(folder / "scales.npy", state.scales[live], allow_pickle=False)
        if state.profile is not None:
            np.save(folder / "profile.npy", state.profile, allow_pickle=False)
        with (folder / "passages.jsonl").open("w", encoding="utf-8") as out:
            for row in live:
                try:
                    line = json.dumps(asdict(state.passages[row]), ensure_ascii=False)
                except TypeError as error:
                    raise TypeError(
                        f"metadata: passage {state.passages[row].id!r} cannot be saved as JSON "
                        f"({error}); keep strings, numbers, lists and dicts."
                    ) from error
                out.write(line + "\n")
        write_json(folder / "store.json", {"store": "memory", "passages": len(live)})

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a store from the files that `save` wrote.

        Raises
        ------
        ValueError
            If the files do not belong together.
        """
        count = read_json(folder / "store.json")["passages"]
        mean = np.load(folder / "mean.npy", allow_pickle=False)
        scales = np.load(folder / "scales.npy", allow_pickle=False)
        file = folder / "profile.npy"
        profile = np.load(file, allow_pickle=False) if file.exists() else None
        with (folder / "passages.jsonl").open(encoding="utf-8") as lines:
            passages = [Passage(**json.loads(line)) for line in lines]
        if not len(mean) == len(scales) == len(passages) == count:
            raise ValueError(
                f"path: {str(folder)!r} holds {len(mean)} means, {len(scales)} variances and "
                f"{len(passages)} passages, expected {count} of each; save the index again."
            )
        store = cls()
        row_of = {passage.id: row for row, passage in enumerate(passages)}
        alive = np.ones(count, dtype=bool)
        store._state = _State(mean, scales, profile, passages, alive, row_of)
        return store


def _with_room(buffer: FloatArray, used: int, needed: int, width: int) -> FloatArray:
    """The buffer itself where it is long enough, else a copy at least twice as long."""
    if needed <= len(buffer) and buffer.flags.writeable:
        return buffer
    grown = np.empty((max(needed, 2 * used), width), dtype=np.float32)
    if used:
        grown[:used] = buffer[:used]
    return grown


def _compacted(state: _State) -> _State:
    if len(state.row_of) >= state.rows * (1 - _COMPACT_ABOVE):
        return state
    live = state.live_rows()
    passages = [state.passages[row] for row in live]
    return _State(
        state.mean[live],
        state.scales[live],
        state.profile,
        passages,
        np.ones(len(live), dtype=bool),
        {passage.id: row for row, passage in enumerate(passages)},
    )
