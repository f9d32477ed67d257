"""The default store: contiguous matrices in memory, searched exactly."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_beta, check_k, check_type
from uec_rag.base.errors import as_save_check
from uec_rag.base.forks import free_after_fork
from uec_rag.base.gaussian import FloatArray, Gaussian, Terms
from uec_rag.base.postings import Corpus, Frequencies, Postings, with_room
from uec_rag.base.similarity import best_rows
from uec_rag.stores.base import (
    Filter,
    Passage,
    StoreHits,
    Top,
    check_addition,
    check_query,
    check_range,
    copy_passage,
)
from uec_rag.stores.memory.saved import read_state, write_state
from uec_rag.stores.memory.state import (
    PassageLog,
    State,
    check_fits,
    compact,
    filter_state,
    with_fingerprint,
    without_leftovers,
)
from uec_rag.stores.memory.vectors import (
    LARGEST_PRODUCT,
    Dtype,
    Means,
    longest,
    make_scan,
    require_finite,
)

_S = TypeVar("_S", bound="MemoryStore")


def pack(store: MemoryStore) -> dict[str, bytes]:
    """Return the contents of the files that `MemoryStore.save` writes, by name.

    TypeError if metadata cannot be written as JSON. RuntimeError if the files do not load again.
    """
    with tempfile.TemporaryDirectory() as folder:
        store.save(Path(folder))
        with as_save_check("store"):
            type(store).load(Path(folder))
        return {file.name: file.read_bytes() for file in sorted(Path(folder).iterdir())}


def unpack(kind: type[_S], files: Mapping[str, bytes]) -> _S:
    """Rebuild a store from the files of `pack`."""
    # The files remain mapped after their folder is removed.
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        return kind.load(Path(folder))


_COPY_BELOW = 0.25  # share of selected rows below which they are copied before multiplication
_BLOCK = 2**26  # similarities in memory at a time


class MemoryStore:
    """Passages and their Gaussians in memory.

    Means are stored as a float32 matrix for each encoder. A factored variance takes one number per
    passage and encoder, any other as much memory as the means. Appends are amortised O(1). Deleted
    rows are skipped, and removed once they are more than half. Reads see one consistent state while
    another thread writes. A loaded store maps its files, and only reads what it needs.

    Parameters
    ----------
    dtype : "float32" or "int8"
        With "int8", search scans an 8-bit copy of the means, and scores every passage that the
        rounding error does not exclude in float32, so that it finds the same hits. The copy takes
        a quarter of the memory of the float32 means, which stay on disk in a loaded store. Evidence
        and confidence use the compressed similarities. The copy is saved with the store.

    Raises
    ------
    ValueError
        If dtype has another value.

    Examples
    --------
    >>> store = MemoryStore()
    >>> store.add([Passage("a", "first"), Passage("b", "second")],
    ...           Gaussian([[1.0, 0.0], [0.6, 0.8]], [[0.0, 0.0], [0.1, 0.1]]))
    >>> found = store.search(Gaussian([[1.0, 0.0]], [[0.0, 0.0]]), k=1, beta=1.0)
    >>> found.passages[0][0].id
    'a'
    """

    remote = False
    """True if the passages are stored elsewhere, so that a search only examines candidates."""

    def __init__(self, *, dtype: Dtype = "float32") -> None:
        self._state = State(scan=make_scan(dtype))
        self._writing = free_after_fork(threading.RLock())
        self._is_snapshot = False

    @classmethod
    def document_frequency(
        cls,
        passages: Sequence[Passage],
        gaussians: Gaussian,
        frequencies: Sequence[Frequencies] = (),
    ) -> Self:
        """Make a read-only view of passages of another store, such as one query's candidates.

        `frequencies`: for each sparse block, the term frequencies in the whole corpus.
        """
        view, held, count = cls(), PassageLog(), len(passages)
        held.extend(passages)
        view._state = State(
            rows=count,
            means=Means().with_rows(0, gaussians.mean, gaussians.widths),
            scales=gaussians.scales,
            profile=gaussians.profile,
            longest=longest(gaussians.mean),
            passages=held,
            alive=np.ones(count, dtype=bool),
            row_of={passage.id: row for row, passage in enumerate(passages)},
            postings=tuple(map(Postings.from_terms, gaussians.terms)),
            frequencies=tuple(frequencies),
        )
        view._is_snapshot = True
        return view

    def __len__(self) -> int:
        return self._state.count

    def snapshot(self, filter: Filter | None = None) -> MemoryStore:
        """Return a read-only view that does not change while others write; it copies nothing.

        Parameters
        ----------
        filter : Filter, optional
            Limits the view to the passages that match it.

        Raises
        ------
        TypeError, ValueError
            If the filter is invalid; see `uec_rag.stores.filters`.
        """
        view = MemoryStore.__new__(MemoryStore)
        view._state = self._state if filter is None else filter_state(self._state, filter)
        view._is_snapshot = True
        view._writing = threading.RLock()  # its own, so that it does not wait for writers
        return view

    def bind(self, fingerprint: str) -> None:
        """Record the ensemble of the Gaussians.

        Raises
        ------
        FingerprintMismatch
            If the stored passages are of another ensemble.
        """
        with self._writing:
            self._state = with_fingerprint(self._state, fingerprint)

    def add(self, passages: Sequence[Passage], gaussians: Gaussian) -> None:
        """Add passages, replacing those with the same ids.

        Raises
        ------
        ValueError
            If there is not one Gaussian per passage, an id is repeated, the Gaussians have another
            dimension or variance profile than the stored ones, or a variance is above 1e19.
        TypeError, ValueError
            If a passage could not be saved, see `uec_rag.stores.base.normalise`.
        """
        self._check_writable()
        passages = check_addition(passages, gaussians)
        if not passages:
            return
        with self._writing:
            old = self._state
            check_fits(old, gaussians)
            start, stop = old.rows, old.rows + len(passages)
            means = old.means.with_rows(start, gaussians.mean, gaussians.widths)
            scan = None if old.scan is None else old.scan.with_rows(start, stop, means)
            postings = old.postings_with(gaussians.terms)
            scales = with_room(old.scales if start else gaussians.scales[:0], start, stop)
            alive = with_room(old.alive, start, stop)
            scales[start:stop] = gaussians.scales
            alive[start:stop] = True
            if len(old.passages) > start:
                old = without_leftovers(old)
            log = old.passages
            log.extend(passages)
            replaced = [row for p in passages if (row := old.row(p.id)) is not None]
            selected = old.selected
            if replaced:
                alive = alive.copy()
                alive[replaced] = False
            if replaced or selected is not None:
                selected = np.flatnonzero(alive[:stop])
            for row, passage in enumerate(passages, start):
                before = old.row_of.get(passage.id)
                if before is not None:  # first, for a reader in between
                    old.earlier[row] = before
                old.row_of[passage.id] = row
            self._state = compact(
                replace(
                    old,
                    rows=stop,
                    means=means,
                    scales=scales,
                    profile=gaussians.profile,
                    longest=max(old.longest, longest(gaussians.mean)),
                    passages=log,
                    alive=alive,
                    selected=selected,
                    scan=scan,
                    postings=postings,
                )
            )

    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages, ignoring unknown ids; return the number removed."""
        self._check_writable()
        with self._writing:
            old = self._state
            gone = {id_: row for id_ in ids if (row := old.row(id_)) is not None}
            if gone:
                alive = old.alive.copy()
                alive[list(gone.values())] = False
                selected = np.flatnonzero(alive[: old.rows])
                self._state = compact(replace(old, alive=alive, selected=selected))
            return len(gone)

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages with the given ids, in that order, leaving out unknown ids."""
        state = self._state
        return [state.passages[row] for id_ in ids if (row := state.row(id_)) is not None]

    def vectors(self, ids: Sequence[str]) -> Gaussian:
        """Return the Gaussians of ids.

        Raises
        ------
        KeyError
            If an id is unknown.
        """
        state = self._state
        rows = [state.row(id_) for id_ in ids]
        if None in rows:
            raise KeyError(f"ids: {ids[rows.index(None)]!r} is not in the store.")
        return state.gaussians(np.array(rows, dtype=np.int64))

    def passages(self, filter: Filter | None = None) -> Iterator[Passage]:
        """Iterate over all passages, or those that a filter selects, in the order of insertion."""
        state = self.snapshot(filter)._state
        return (state.passages[row] for row in state.selected_rows().tolist())

    def compare(self, blocks: Sequence[FloatArray | Terms]) -> list[FloatArray]:
        """Multiply n queries with consecutive blocks of the stored means, (n, N) each.

        There is a column for every passage, in the order of `passages`. Terms are compared with the
        stored sparse blocks, in their order. With dtype "int8", results have a rounding error of
        about 1e-3 for unit vectors.
        """
        state, selected, postings = self._state, self._state.selected, iter(self._postings())
        dense = [block for block in blocks if not isinstance(block, Terms)]
        few = selected is not None and len(selected) < state.rows * _COPY_BELOW
        rows = selected if selected is not None and few else slice(state.rows)
        products = (state.scan or state.means).products(rows, dense) if dense else []
        require_finite(products, LARGEST_PRODUCT)
        if selected is not None and not few:
            products = [product[:, selected] for product in products]
        out, multiplied = [], iter(products)
        for block in blocks:
            if not isinstance(block, Terms):
                out.append(next(multiplied))
            elif not len(self):
                out.append(np.zeros((len(block), 0), dtype=np.float32))
            else:
                held, corpus = next(postings)
                similarities = held.similarities(block, corpus)
                out.append(similarities if selected is None else similarities[:, selected])
        return out

    def top_k(self, query: Gaussian, k: int, *, beta: float, mu: FloatArray) -> Top:
        """Find the columns with the k highest s_hat for n queries, given mu_s, shape (n, N).

        With dtype "int8", `mu` may have a rounding error; the hits are scored exactly.
        """
        state, variance = self._state, query.variance
        second: FloatArray = query.mean**2 + variance
        weights: FloatArray = second if state.profile is None else second @ state.profile.T
        errors = np.zeros(len(query)) if state.scan is None else state.scan.error_bound(query.mean)

        def moments(i: int, columns: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
            rows = self._rows(columns)
            [means] = require_finite([state.means.rows(rows)])
            if state.scan is None:
                exact = mu[i, columns]
            else:
                exact = means @ query.mean[i]
                terms = [block[i : i + 1] for block in query.terms]
                for added, _ in self.contributions(terms, columns[None]):
                    exact += added[0].sum(axis=1)
            sigma2: FloatArray = state.scales[rows] @ weights[i]
            sigma2 += means**2 @ variance[i]
            require_finite([exact, sigma2])
            return exact, sigma2

        def most(i: int) -> float:
            passages = (state.scales[: state.rows] @ weights[i]).max(initial=0.0)
            own = variance[i].max(initial=0.0) * np.float64(state.longest) ** 2
            return float(passages + own) * (1 + 1e-4)  # up to rounding

        best = []
        for i, error in enumerate(errors):
            best.append(best_rows(mu[i], partial(moments, i), k, beta, error, partial(most, i)))
        return Top(*map(np.stack, zip(*best, strict=True)))

    def _fuse(self, query: Gaussian) -> FloatArray:
        """Compute mu_s of queries and all passages, shape (n, N)."""
        first, *others = self.compare([query.mean, *query.terms])
        for other in others:
            first += other
        return first

    def gather(self, columns: NDArray[np.int64]) -> list[list[Passage]]:
        """Return the passages of columns (n, k), which must not be changed."""
        # Each passage is read once, whichever queries have found it.
        rows, positions = np.unique(self._rows(columns), return_inverse=True)
        stored = np.array([*map(self._state.passages.stored, rows.tolist())], dtype=object)
        passages: list[list[Passage]] = stored[positions.reshape(columns.shape)].tolist()
        return passages

    def means(self, columns: NDArray[np.int64]) -> FloatArray:
        """Return the stored means of columns (k,), shape (k, d)."""
        [means] = require_finite([self._state.means.rows(self._rows(columns))])
        return means

    def contributions(
        self, terms: Sequence[Terms], columns: NDArray[np.int64]
    ) -> list[tuple[list[FloatArray], list[NDArray[np.float64]]]]:
        """Compute the contribution of each term of n queries to the similarity of columns (n, k).

        For each sparse block, return n arrays of shape (k, number of terms of the query), and n
        arrays of the inverse document frequencies of the terms.
        """
        rows = self._rows(columns)
        # A query without terms is only known as a vector.
        pairs = zip(self._postings() if terms else (), terms, strict=True)
        return [postings.contributions(block, rows, corpus) for (postings, corpus), block in pairs]

    def _postings(self) -> list[tuple[Postings, Corpus]]:
        """Return each sparse block with the corpus for its inverse document frequencies.

        The corpus consists of all rows that are alive, selected or not, unless the frequencies of a
        larger corpus are given.
        """
        state = self._state
        alive = state.alive[: state.rows]
        left = None if alive.all() else alive
        known = state.frequencies or [None] * len(state.postings)
        pairs = zip(state.postings, known, strict=True)
        return [
            (postings, Corpus(state.rows, left, frequencies)) for postings, frequencies in pairs
        ]

    def document_frequencies(self, block: int, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the number of passages that contain each term of a sparse block."""
        postings, corpus = self._postings()[block]
        return postings.document_frequency(keys, corpus)

    def _rows(self, columns: NDArray[np.int64]) -> NDArray[np.int64]:
        selected = self._state.selected
        return columns if selected is None else selected[columns]

    def sample(self, count: int) -> Gaussian:
        """Return the Gaussians of about `count` passages at regular steps, or of all."""
        return self._state.sample(count)

    def search(
        self, query: Gaussian, k: int, *, beta: float, filter: Filter | None = None
    ) -> StoreHits:
        """Find the k passages with the highest s_hat, exactly.

        Of passages with equal scores, earlier ones come first.

        Raises
        ------
        ValueError
            If k < 1, or the query does not have the dimension of the stored passages.
        TypeError, ValueError
            If an argument has another type, or the filter is invalid; see `uec_rag.stores.filters`.
        """
        k = check_k(k)
        check_type(query, Gaussian, "query", "a Gaussian")
        check_range(query, "query")
        check_beta(beta)
        view = self.snapshot(filter)  # others may write before the hits are looked up
        state = view._state
        if state.rows:
            check_query(query, state.means.dimension)
        k = min(k, len(view))
        if not k or not len(query):
            return StoreHits.empty(len(query))
        hits, step = [], max(1, _BLOCK // len(view))
        for start in range(0, len(query), step):
            some = query[start : start + step]
            hits.append(view.top_k(some, k, beta=beta, mu=view._fuse(some)))
        columns, scores, mu, sigma2 = map(np.concatenate, zip(*hits, strict=True))
        passages = [[*map(copy_passage, row)] for row in view.gather(columns)]
        return StoreHits(passages, scores, mu, sigma2, exact=True)

    def _check_writable(self) -> None:
        if self._is_snapshot:
            raise RuntimeError("this is a snapshot of a store; write to the store itself.")

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy the store as the files that `save` writes."""
        return unpack, (type(self), pack(self))

    def save(self, folder: Path) -> None:
        """Write means, scales, profile and passages: NumPy arrays and JSON lines."""
        write_state(self._state, folder)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Open a store that `save` wrote, by memory-mapping its files.

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
