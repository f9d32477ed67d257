"""The default store: contiguous matrices in memory, searched exactly or through a graph."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_beta, check_k
from uec_rag.base.errors import proving
from uec_rag.base.forks import free_after_fork
from uec_rag.base.gaussian import FloatArray, Gaussian, Terms
from uec_rag.stores.base import (
    Filter,
    Found,
    Passage,
    Store,
    check_query,
    check_range,
    checked_addition,
)
from uec_rag.stores.memory.graph import CANDIDATES, Graph
from uec_rag.stores.memory.means import longest, with_room
from uec_rag.stores.memory.saved import read_state, write_state
from uec_rag.stores.memory.scan import Dtype, make_scan
from uec_rag.stores.memory.search import (
    Answers,
    approximate_search,
    contributions,
    exact_search,
    similarities,
    similarities_near,
)
from uec_rag.stores.memory.state import (
    State,
    bound,
    check_fits,
    compacted,
    filtered,
    without_leftovers,
)

_S = TypeVar("_S", bound=Store)


def packed(store: Store) -> dict[str, bytes]:
    """Return what `Store.save` writes, by file name.

    TypeError if metadata cannot be written as JSON. RuntimeError if they do not load again.
    """
    with tempfile.TemporaryDirectory() as folder:
        store.save(Path(folder))
        with proving("store"):
            type(store).load(Path(folder))
        return {file.name: file.read_bytes() for file in sorted(Path(folder).iterdir())}


def unpacked(kind: type[_S], files: Mapping[str, bytes]) -> _S:
    """Return the store that `packed` took apart."""
    # The files stay mapped when their folder is gone.
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        return kind.load(Path(folder))


class MemoryStore:
    """Passages and their Gaussians in memory.

    Means are a float32 matrix for each encoder's block. A factored variance costs one number per
    passage and encoder, any other as much as the means. Appends are amortised O(1); deleted rows
    are skipped and copied out when they are more than half. Reads see one consistent state while
    another thread writes. A loaded store maps its files and reads what it touches.

    Parameters
    ----------
    index : "hnsw", optional
        Search approximately through a graph of near neighbours: candidates by mu_s, scored exactly.
        Worth building from about 100,000 passages. Needs usearch: ``pip install
        "uec-rag[stores]"``.
    dtype : "float32", "float16", "bfloat16" or "int8"
        Scan a compressed copy of the means, and score in float32 every passage that its rounding
        does not exclude: `search` finds the same hits. The copy takes half or a quarter of the
        memory of the float32 means, which stay on disk once the store is loaded. Evidence and
        confidence use the compressed similarities. The copy is saved with the store.
    candidates : int
        Least number of nearest passages by mu_s that a search through the graph scores. More raise
        recall and take longer. Saved with the store; may be changed at any time.

    Raises
    ------
    ValueError
        If an argument is not one of the above, or candidates are given without a graph.

    Examples
    --------
    >>> store = MemoryStore()
    >>> store.add([Passage("a", "first"), Passage("b", "second")],
    ...           Gaussian([[1.0, 0.0], [0.6, 0.8]], [[0.0, 0.0], [0.1, 0.1]]))
    >>> found = store.search(Gaussian([[1.0, 0.0]], [[0.0, 0.0]]), k=1, beta=1.0)
    >>> found.passages[0][0].id
    'a'
    """

    def __init__(
        self,
        *,
        index: Literal["hnsw"] | None = None,
        dtype: Dtype = "float32",
        candidates: int = CANDIDATES,
    ) -> None:
        if index not in (None, "hnsw"):
            raise ValueError(f"index: expected None (exact search) or 'hnsw', got {index!r}.")
        graph = None if index is None else Graph()
        self._state = State(scan=make_scan(dtype), graph=graph)
        self._writing = free_after_fork(threading.RLock())
        self._answers: Answers | None = None  # of a snapshot alone
        if candidates != CANDIDATES:
            self.candidates = candidates

    def __len__(self) -> int:
        return self._state.count

    def snapshot(self, filter: Filter | None = None) -> MemoryStore:
        """Return a view that does not change while others write; it copies nothing.

        A snapshot is not written to: RuntimeError.

        Parameters
        ----------
        filter : Filter, optional
            Only passages that match it are in the view.

        Raises
        ------
        TypeError, ValueError
            If it is not a filter; see `uec_rag.stores.filters`.
        """
        view = MemoryStore.__new__(MemoryStore)
        view._state, view._answers = filtered(self._state, filter), {}
        view._writing = threading.RLock()  # of its own: it waits for no writer
        return view

    def bind(self, fingerprint: str) -> None:
        """Record which ensemble the Gaussians are of, or refuse another.

        Raises
        ------
        FingerprintMismatch
            If passages of another ensemble are stored.
        """
        with self._writing:
            self._state = bound(self._state, fingerprint)

    def add(self, passages: Sequence[Passage], gaussians: Gaussian) -> None:
        """Add passages, replacing those whose id is there already.

        Raises
        ------
        ValueError
            If there is not one Gaussian per passage, an id comes twice, or the Gaussians are of
            another dimension or variance profile than the stored ones, or of variances above 1e19.
        TypeError, ValueError
            If a saved index could not keep a passage, see `uec_rag.stores.base.normalised`.
        """
        self._check_writable()
        passages = checked_addition(passages, gaussians)
        if not passages:
            return
        with self._writing:
            old = self._state
            check_fits(old, gaussians)
            start, stop = old.rows, old.rows + len(passages)
            means = old.means.written(start, gaussians.mean, gaussians.widths)
            scan = None if old.scan is None else old.scan.written(start, stop, means)
            postings = old.postings_with(gaussians.terms)
            scales = with_room(old.scales if start else gaussians.scales[:0], start, stop)
            alive = with_room(old.alive, start, stop)
            scales[start:stop] = gaussians.scales
            alive[start:stop] = True
            if len(old.passages) > start:
                old = without_leftovers(old)
            if old.graph is not None:
                old.graph.add(start, gaussians.mean)
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
            self._state = compacted(
                replace(
                    old,
                    rows=stop,
                    means=means,
                    scales=scales,
                    profile=gaussians.profile,
                    longest=max(old.longest, longest(gaussians.mean)),
                    passages=known,
                    alive=alive,
                    live=live,
                    scan=scan,
                    postings=postings,
                )
            )

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
                self._state = compacted(replace(old, alive=alive, live=live))
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
        return state.gaussians(_rows(state, ids))

    def passages(self, filter: Filter | None = None) -> Iterator[Passage]:
        """Iterate over all passages, or those a filter lets through, in the order they came."""
        state = filtered(self._state, filter)
        return (state.passages[row] for row in state.live_rows().tolist())

    def similarities(self, blocks: Sequence[FloatArray | Terms]) -> list[FloatArray]:
        """Inner products of queries with consecutive blocks of the stored means, (n, N) each.

        Terms are compared with the stored sparse blocks, in their order.

        Those of a store with a compressed `dtype` are off by its rounding: around 1e-4 for unit
        vectors in float16, 1e-3 in bfloat16 and int8.
        """
        return similarities(self._state, blocks)

    remote = False
    """Whether passages are elsewhere."""

    @property
    def approximate(self) -> bool:
        """Whether a search looks at candidates only."""
        return self._state.graph is not None

    @property
    def candidates(self) -> int | None:
        """Least number that a search through the graph scores; None without a graph."""
        graph = self._state.graph
        return None if graph is None else graph.candidates

    @candidates.setter
    def candidates(self, count: int) -> None:
        count = check_k(count, "candidates")
        if self._state.graph is None:
            raise ValueError(
                "candidates: this store has no graph, and its searches look at every passage; "
                "make it with index='hnsw' for approximate ones."
            )
        self._state.graph.candidates = int(count)

    def contributions(
        self, terms: Sequence[Terms], ids: Sequence[Sequence[str]]
    ) -> list[list[FloatArray]]:
        """What each of the queries' terms adds to the similarity with some passages.

        Raises
        ------
        KeyError
            If an id is not there.
        """
        state = self._state
        rows = _rows(state, [id_ for of_one in ids for id_ in of_one])
        return contributions(state, terms, rows.reshape(len(ids), -1))

    def similarities_near(
        self, query: Gaussian, count: int, blocks: Sequence[FloatArray | Terms]
    ) -> list[FloatArray]:
        """Similarities to about `count` candidates, probably those of the highest mu_s."""
        return similarities_near(self._state, query, count, blocks, self._answers)

    def sample(self, count: int) -> Gaussian:
        """Return the Gaussians of `count` passages at regular distances, or of all."""
        return self._state.sample(count)

    def sampled(self, terms: Sequence[Terms], count: int) -> list[FloatArray]:
        """Similarities of queries' terms to the passages of `sample(count)`, for each block."""
        state = self._state
        return [found[:, :: state.step(count)] for found in similarities(state, terms)]

    def search(
        self,
        query: Gaussian,
        k: int,
        *,
        beta: float,
        filter: Filter | None = None,
        mu: FloatArray | None = None,
    ) -> Found:
        """Find the k passages of the highest s_hat.

        Exactly (`uec_rag.stores.memory.search` says how), unless the store has an index and `mu` is
        not given. Equal scores go to the passage that came first. `mu`,
        where it is given, has a column for every passage that the filter lets through.

        Raises
        ------
        ValueError
            If k < 1, the query is of another dimension than the stored passages, or `mu` is not of
            this store.
        TypeError, ValueError
            If an argument is of another type, or the filter none: see `uec_rag.stores.filters`.
        """
        k = check_k(k)
        _check_types(query, beta, mu)
        state = filtered(self._state, filter)
        if state.rows:
            check_query(query, state.means.dimension)
        if mu is not None and mu.shape != (len(query), state.count):
            raise ValueError(
                f"mu: expected shape {(len(query), state.count)}, a column per passage, "
                f"got {mu.shape}."
            )
        k = min(k, state.count)
        if not k:
            return Found.nothing(len(query))
        if state.graph is not None and mu is None:
            candidates = max(state.graph.candidates, 4 * k)
            answers = self._answers if filter is None else None
            return approximate_search(state, query, k, beta, candidates, answers)
        return exact_search(state, query, k, beta, mu)

    def _check_writable(self) -> None:
        if self._answers is not None:
            raise RuntimeError("this is a snapshot of a store; write to the store itself.")

    def __reduce__(self) -> tuple[object, ...]:
        """As pickle and copy take it: the files that it saves."""
        return unpacked, (type(self), packed(self))

    def save(self, folder: Path) -> None:
        """Write means, scales, profile and passages: NumPy arrays and JSON lines."""
        write_state(self._state, folder)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Open a store that `save` wrote; its files are mapped, not read.

        Parameters
        ----------
        folder : path

        Raises
        ------
        ValueError
            If the files do not belong together.
        """
        store = cls()
        store._state = read_state(folder)
        return store


def _check_types(query: object, beta: float, mu: object) -> None:
    if not isinstance(query, Gaussian):
        raise TypeError(f"query: expected a Gaussian, got {type(query).__name__}.")
    check_range(query, "query")
    check_beta(beta)
    if mu is not None and not isinstance(mu, np.ndarray):
        raise TypeError(f"mu: expected an array, got {type(mu).__name__}.")


def _rows(state: State, ids: Sequence[str]) -> NDArray[np.int64]:
    rows = [state.row(id_) for id_ in ids]
    if None in rows:
        raise KeyError(f"ids: {ids[rows.index(None)]!r} is not in the store.")
    return np.array(rows, dtype=np.int64)
