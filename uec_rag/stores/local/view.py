"""Views of an index: the passages of one moment, in segments, which are searched exactly."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_k
from uec_rag.base.counts import Frequencies, LookedUp, Words
from uec_rag.base.gaussian import FloatArray, Gaussian, Schema, Terms
from uec_rag.base.records import cached_property
from uec_rag.base.similarity import best_rows, weighted_sum
from uec_rag.ensemble.refit import Refit
from uec_rag.stores.base import MOST_EXAMPLES, Filter, Searched, StoreHits
from uec_rag.stores.filters import Condition, key_of, matches, parse
from uec_rag.stores.local.segments import (
    LARGEST_PRODUCT,
    MANY,
    Compared,
    Part,
    Segment,
    Way,
    faster_way,
    require_finite,
)
from uec_rag.stores.passage import Passage, copy_passage, text_keys

_MANY = 4096  # passages that are read at a time
_FEW = 4  # how many times as many passages there are as those that are multiplied by themselves
_NEIGHBOURS = 64  # examples that follow each other
_MOST_HASHED, _CORPUS = 100_000, "corpus"  # passages: some seconds
_MOST_TENANTS = 64  # whose word counts are kept between searches


class Texts:
    """The source of a view's passages, by row: a list of them."""

    def __init__(self, passages: Sequence[Passage] = ()) -> None:
        self._passages = passages

    def read(self, rows: Sequence[int]) -> list[Passage]:
        """Return shared passages, which must not be changed; IndexCorrupted if one is gone."""
        return [self._passages[row] for row in rows]

    def rows_of(self, ids: Sequence[str]) -> list[tuple[str, int]]:
        """Return the ids that there are, each with all rows that have or had it."""
        names = {*ids}
        return [(p.id, row) for row, p in enumerate(self._passages) if p.id in names]

    def select(self, view: View, condition: Condition) -> NDArray[np.bool_]:
        """Return which positions satisfy a condition."""
        return np.array([matches(condition, p) for p in self._passages], dtype=bool)


class Top(NamedTuple):
    """The best columns of a view for n queries, best first; shape (n, k) each."""

    columns: NDArray[np.int64]
    scores: FloatArray
    mu: FloatArray
    sigma2: FloatArray


@dataclass(frozen=True, eq=False)
class State:
    """The passages of an index at one moment. Writers make the next; readers keep theirs.

    A position is the place of a passage in the segments, which are in the order of insertion.

    Attributes
    ----------
    version : int
        The number of the transaction that made it.
    changes : int
        The number of additions and deletions until then.
    next_row : int
        The row of the next passage.
    parts : sequence of Part
    schema : Schema
    memory : dict
        What was computed of the passages, the same after a transaction that changes none.
    deleted_at : float or None
        When the last passages were deleted or replaced of which something is left in the files;
        None if nothing is.
    tenants : dict
        The states of the passages of some tenants alone, by the keys of their conditions.
    whole : State or None
        Of a tenant's, the state of all passages.
    """

    version: int = 0
    changes: int = 0
    next_row: int = 0
    parts: Sequence[Part] = ()
    schema: Schema = field(default_factory=Schema)
    memory: dict[str, str] = field(default_factory=dict)
    deleted_at: float | None = None
    tenants: dict[Hashable, State] = field(default_factory=dict)
    whole: State | None = None

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """The first position of each part, and the number of positions."""
        return np.cumsum([0, *(len(part.segment) for part in self.parts)], dtype=np.int64)

    @cached_property
    def alive(self) -> NDArray[np.int64] | None:
        """The positions of the passages that were not removed; None if none was."""
        if all(part.alive is None for part in self.parts):
            return None
        return np.flatnonzero(np.concatenate([part.kept for part in self.parts]))

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The row of each position, ascending."""
        rows = [part.first_row + part.segment.offsets.astype(np.int64) for part in self.parts]
        return np.concatenate([np.zeros(0, dtype=np.int64), *rows])

    @cached_property
    def corpora(self) -> list[Words]:
        """The word counts of each sparse block."""
        counts = [part.segment.checked_words for part in self.parts]
        alive = [part.alive for part in self.parts]
        return [
            Words(scale, [of_part[number] for of_part in counts], alive)
            for number, scale in enumerate(self.schema.words)
        ]

    @property
    def count(self) -> int:
        """The number of passages."""
        return int(self.edges[-1]) if self.alive is None else len(self.alive)

    def positions(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of rows, leaving out those that no segment has."""
        if not len(self.rows):
            return np.zeros(0, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        positions: NDArray[np.int64] = at[self.rows[at] == rows]
        return positions

    def split(
        self, positions: NDArray[np.int64]
    ) -> Iterator[tuple[Segment, NDArray[np.int64], NDArray[np.intp]]]:
        """Yield each segment, its own positions among some, and where these are among them."""
        if len(self.parts) == 1:
            yield self.parts[0].segment, positions, np.arange(len(positions))
            return
        numbers = np.searchsorted(self.edges, positions, side="right") - 1
        for number in np.unique(numbers).tolist():
            [places] = np.nonzero(numbers == number)
            indices = positions[places] - self.edges[number]
            yield self.parts[number].segment, indices, places

    def numbers(self, positions: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
        """Return the means (m, d) of positions, and the factors of their variances (m, r)."""
        means = np.empty((len(positions), self.schema.dimension), dtype=np.float32)
        scales = np.empty((len(positions), self.schema.scales), dtype=np.float32)
        for segment, indices, places in self.split(positions):
            means[places] = self.schema.stretched([mean[indices] for mean in segment.means])
            scales[places] = segment.scales[indices]
        require_finite([means])
        return means, scales

    def gaussians(self, positions: NDArray[np.int64]) -> Gaussian:
        """Return the Gaussians of positions."""
        means, scales = self.numbers(positions)
        schema = self.schema
        return Gaussian.from_factors(means, scales, schema.profile, widths=schema.widths)

    def refit(self, change: Refit, positions: range) -> tuple[FloatArray, Schema]:
        """Return the factors of the variances of positions after another fit, and the schema."""
        scales, schema = list[FloatArray](), self.schema
        for start in range(positions.start, positions.stop, _MANY):
            span = np.arange(start, min(start + _MANY, positions.stop))
            gaussians = change.gaussians(self.numbers(span)[0])
            scales.append(gaussians.scales)
            schema = Schema.from_gaussians(gaussians)
        lengths = (self.schema.stretch * change.factors).tolist()
        return np.concatenate(scales), replace(schema, lengths=tuple(lengths))


class View(Searched):
    """A read-only view of passages, which does not change while others write.

    A column is a passage of the view, in the order of insertion.

    Parameters
    ----------
    state : State
    texts : Texts
    selected : int array or None
        The positions of the passages of the view, ascending; None for all of the state.
    frequencies : sequence of Frequencies
        The term frequencies of a larger corpus, for each sparse block.
    """

    def __init__(
        self,
        state: State,
        texts: Texts,
        selected: NDArray[np.int64] | None = None,
        frequencies: Sequence[Frequencies] = (),
    ) -> None:
        self.state, self.texts, self.frequencies = state, texts, frequencies
        self.selected = state.alive if selected is None else selected

    @classmethod
    def from_passages(
        cls,
        passages: Sequence[Passage],
        gaussians: Gaussian,
        frequencies: Sequence[Frequencies] = (),
    ) -> View:
        """Make a view of passages of another store, such as one query's candidates.

        `frequencies`: for each sparse block, the term frequencies in the whole corpus.
        """
        segments = Segment.cut(gaussians, text_keys(passages))
        parts = [Part(start, "", segment) for start, segment in segments]
        schema = Schema.from_gaussians(gaussians)
        state = State(next_row=len(passages), parts=parts, schema=schema)
        return cls(state, Texts(passages), frequencies=frequencies)

    @classmethod
    def empty(cls) -> View:
        """Make a view of no passages."""
        return cls(State(), Texts())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle its passages with their vectors and words."""
        parts, start = list[Part](), 0
        for _, segment in self.segments():
            offsets = np.arange(len(segment), dtype=np.uint32)
            parts.append(Part(start, "", replace(segment, offsets=offsets, path=Path())))
            start += len(segment)
        state = State(0, self.changes, start, parts, self.state.schema)
        return View, (state, Texts([*self.passages()]), None, self.frequencies)

    def segments(self) -> Iterator[tuple[int, Segment]]:
        """Yield the first row and the segment of each part, without what the view leaves out."""
        mask = self.mask
        for part, start in zip(self.state.parts, self.state.edges.tolist(), strict=False):
            part_mask = mask[start : start + len(part.segment)]
            if part_mask.all():
                yield part.first_row, part.segment
            elif part_mask.any():
                yield Segment.join([(part.first_row, part.segment, part_mask)])

    @property
    def changes(self) -> int:
        """The number of additions and deletions until it was made."""
        return self.state.changes

    def corpus(self) -> str:
        """Hash every passage's id and text, in any order; of over 100,000, it is their number.

        They are read once after each change.
        """
        if len(self) > _MOST_HASHED:
            return super().corpus()
        memory = self.state.memory if self.selected is self.state.alive else {}
        if _CORPUS not in memory:
            total = 0
            for p in self.passages():
                data = f"{len(p.id)}:{p.id}{len(p.text)}:{p.text}".encode()
                total += int.from_bytes(hashlib.sha256(data).digest())
            memory[_CORPUS] = f"{total % 2**128:032x}"
        return memory[_CORPUS]

    def __len__(self) -> int:
        return int(self.state.edges[-1]) if self.selected is None else len(self.selected)

    def snapshot(self, filter: Filter | None = None) -> View:
        """Return the view itself, or one of only the passages that match a filter.

        TypeError or ValueError if the filter is invalid; see `uec_rag.stores.filters`.
        """
        return self if filter is None else self._where(parse(filter))

    def _where(self, condition: Condition) -> View:
        mask = self.texts.select(self, condition)
        at = np.flatnonzero(mask) if self.selected is None else self.selected[mask[self.selected]]
        return View(self.state, self.texts, at, self.frequencies)

    def of_tenant(self, filter: Filter) -> View:
        """Return a view of the passages that match a filter, among which words are counted."""
        condition = parse(filter)  # once: the filter is the caller's, who may change it meanwhile
        key, tenants = key_of(condition), self.state.tenants
        is_kept = key is not None and self.selected is self.state.alive
        state = tenants.get(key) if is_kept else None
        if state is None:
            mask, edges = self._where(condition).mask, self.state.edges.tolist()
            parts = [
                replace(part, alive=mask[start:end])
                for part, (start, end) in zip(self.state.parts, pairwise(edges), strict=True)
            ]
            state = replace(self.state, parts=parts, memory={}, tenants={}, whole=self.state)
            if is_kept:
                for latest in [*tenants][_MOST_TENANTS - 1 :]:
                    tenants.pop(latest, None)
                tenants[key] = state
        return View(state, self.texts)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row of each column, ascending."""
        return self.state.rows if self.selected is None else self.state.rows[self.selected]

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Which positions of the state are selected."""
        mask = np.zeros(int(self.state.edges[-1]), dtype=bool)
        mask[slice(None) if self.selected is None else self.selected] = True
        return mask

    def positions(self, columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of columns."""
        return columns if self.selected is None else self.selected[columns]

    def _read(self, positions: NDArray[np.int64]) -> list[Passage]:
        return self.texts.read(self.state.rows[positions].tolist())

    def find(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the positions of the ids that there are."""
        pairs = self.texts.rows_of(ids)
        names = {row: id_ for id_, row in pairs}
        positions = self.state.positions(np.array([*names], dtype=np.int64))
        if self.selected is not None:
            positions = positions[np.isin(positions, self.selected)]
        rows = self.state.rows[positions].tolist()
        return {names[row]: at for row, at in zip(rows, positions.tolist(), strict=True)}

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages with the given ids, in that order, leaving out unknown ids."""
        places = self.find(ids)
        positions = np.array([places[id_] for id_ in ids if id_ in places], dtype=np.int64)
        return [*map(copy_passage, self._read(positions))]

    def vectors(self, ids: Sequence[str]) -> Gaussian:
        """Return the Gaussians of ids; KeyError if an id is unknown."""
        places = self.find(ids)
        if unknown := [id_ for id_ in ids if id_ not in places]:
            raise KeyError(f"ids: {unknown[0]!r} is not in the store.")
        return self.state.gaussians(np.array([places[id_] for id_ in ids], dtype=np.int64))

    def passages(self, filter: Filter | None = None) -> Iterator[Passage]:
        """Iterate over all passages, or those that a filter selects, in the order of insertion."""
        view = self.snapshot(filter)
        starts = range(0, len(view), _MANY)
        return (
            copy_passage(passage)
            for start in starts
            for passage in view._read(
                view.positions(np.arange(start, min(len(view), start + _MANY)))
            )
        )

    def examples(self, limit: int = MOST_EXAMPLES) -> list[Passage]:
        """Return up to `limit` passages: all, or neighbours at regular steps.

        Neighbours, since these share a title that tells none of them from the others.
        """
        count, at_once = len(self), min(limit, _NEIGHBOURS)
        columns = np.arange(min(count, limit))
        if count > limit:
            starts = np.linspace(0, count - at_once, limit // at_once).astype(np.int64)
            columns = np.unique(starts[:, None] + np.arange(at_once))
        return [*map(copy_passage, self._read(self.positions(columns)))]

    def compare(self, blocks: Sequence[FloatArray | Terms]) -> Compared:
        """Multiply n queries with each block of the stored passages.

        There is a column for every passage, in the order of `passages`. Matrices are multiplied
        with the blocks of the stored means, and terms compared with the sparse blocks, in their
        order. Of many passages, most similarities to the means are within an error, see `Compared`.
        """
        way: AbstractContextManager[Way | None] = nullcontext()
        if self.state.edges[-1] >= MANY and len(blocks[0]) and not self._is_few:
            for part in self.state.parts:
                _ = part.segment.scans  # which are not made while a scan is timed
            way = faster_way(len(blocks[0]), len(self), self.state.schema.widths)
        with way as scan:
            return self._compare(blocks, scan)

    def _compare(self, blocks: Sequence[FloatArray | Terms], scan: Way | None) -> Compared:
        dense = iter(np.flatnonzero(self.state.schema.widths).tolist())
        numbers = [-1 if isinstance(block, Terms) else next(dense, -1) for block in blocks]
        if self.state.schema.lengths:  # a question is stretched in place of all that is stored
            stretch = self.state.schema.stretch
            blocks = [
                block if isinstance(block, Terms) else block * stretch[number]
                for block, number in zip(blocks, numbers, strict=True)
            ]
        errors = np.zeros((len(blocks[0]), len(blocks)))
        size, similarities = len(self), list[FloatArray]()
        words, looked_up = iter(self._words if size else ()), list[LookedUp]()
        for place, (block, number) in enumerate(zip(blocks, numbers, strict=True)):
            if not size:
                similarities.append(np.zeros((len(block), 0), dtype=np.float32))
                continue
            if isinstance(block, Terms):
                corpus = next(words)
                looked_up.append(corpus.look_up(block))
                similarities.append(self._select(corpus.similarities(looked_up[-1])))
                continue
            product, errors[:, place] = self._multiply(block, number, scan)
            similarities.append(product)
            require_finite(similarities[-1:], LARGEST_PRODUCT)

        def compute(place: int, row: int, columns: NDArray[np.int64]) -> FloatArray:
            positions, query = self.positions(columns), cast(FloatArray, blocks[place])[row]
            exact = np.empty(len(columns), dtype=np.float32)
            for start in range(0, len(columns), _MANY):
                span = slice(start, start + _MANY)
                for segment, indices, places in self.state.split(positions[span]):
                    means = segment.means[numbers[place]][indices]
                    # Not a matrix product, whose sums may differ between equal rows. With the order
                    # of einsum's sums, those in float32 would be further off.
                    exact[span][places] = np.einsum("ij,j->i", means, query, dtype=np.float64)
            require_finite([exact], LARGEST_PRODUCT)
            return exact

        return Compared(similarities, errors, compute, looked_up)

    @property
    def _is_few(self) -> bool:
        """True if less is read where the selected means are multiplied by themselves."""
        at = self.selected
        return at is not None and len(at) <= _MANY and _FEW * len(at) < self.state.edges[-1]

    def _multiply(
        self, query: FloatArray, number: int, scan: Way | None
    ) -> tuple[FloatArray, NDArray[np.float64] | float]:
        """Multiply queries with a block of the means; return the error, too."""
        segments = [part.segment for part in self.state.parts]
        if scan is not None:
            products, errors = zip(
                *(scan(segment.scans[number], query) for segment in segments), strict=True
            )
            return self._select(np.concatenate(products, axis=1)), np.max(errors, axis=0)
        with np.errstate(invalid="ignore", over="ignore"):  # of damaged rows
            if self.selected is not None and self._is_few:
                product = np.empty((len(query), len(self)), dtype=np.float32)
                for segment, indices, places in self.state.split(self.selected):
                    product[:, places] = query @ segment.means[number][indices].T
                return product, 0.0
            products = tuple(query @ segment.means[number].T for segment in segments)
            return self._select(np.concatenate(products, axis=1)), 0.0

    def _select(self, similarities: FloatArray) -> FloatArray:
        return similarities if self.selected is None else similarities[:, self.selected]

    def top_k(
        self, query: Gaussian, k: int, *, beta: float, compared: Compared, weights: FloatArray
    ) -> Top:
        """Find the columns with the k highest s_hat for n queries.

        mu_s is the sum of the similarities with weights, shape (n, K). Those to the columns that
        are found become exact.
        """
        state, variance, profile = self.state, query.variance, self.state.schema.profile
        mu = weighted_sum(compared.similarities, weights)
        slack = (np.abs(weights) * compared.errors).sum(axis=1)
        second_moment: FloatArray = query.mean**2 + variance
        spread: FloatArray = second_moment if profile is None else second_moment @ profile.T

        def moments(i: int, columns: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
            means, scales = state.numbers(self.positions(columns))
            sigma2: FloatArray = scales @ spread[i]
            sigma2 += means**2 @ variance[i]
            if slack[i]:
                compared.refine(i, columns)
                exact = [of_block[i : i + 1, columns] for of_block in compared.similarities]
                mu[i, columns] = weighted_sum(exact, weights[i : i + 1])[0]
            require_finite([mu[i, columns], sigma2])
            return mu[i, columns], sigma2

        def bound(i: int) -> float:
            passages = max(
                float((part.segment.scales @ spread[i]).max(initial=0.0)) for part in state.parts
            )
            longest = max(part.segment.longest for part in state.parts)
            longest *= state.schema.stretch.max()
            query_part = variance[i].max(initial=0.0) * np.float64(longest) ** 2
            return float(passages + query_part) * (1 + 1e-4)  # up to rounding

        best = [
            best_rows(mu[i], partial(moments, i), k, beta, partial(bound, i), slack[i])
            for i in range(len(query))
        ]
        return Top(*map(np.stack, zip(*best, strict=True)))

    def text_keys(self, columns: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the numbers of the texts of columns (n, k), the same for copies of one."""
        positions = self.positions(columns).ravel()
        keys = np.empty(len(positions), dtype=np.uint64)
        for segment, indices, places in self.state.split(positions):
            keys[places] = segment.texts[indices]
        return keys.reshape(columns.shape)

    def gather(self, columns: Iterable[NDArray[np.int64]]) -> list[list[Passage]]:
        """Return the passages of some columns each, which must not be changed."""
        positions = [self.positions(group).tolist() for group in columns]
        # Each passage is read once, whichever queries have found it.
        distinct = [*dict.fromkeys(chain.from_iterable(positions))]
        passages = dict(zip(distinct, self._read(np.array(distinct, dtype=np.int64)), strict=True))
        return [[passages[position] for position in of_query] for of_query in positions]

    def contributions(
        self, compared: Compared, columns: Sequence[NDArray[np.int64]]
    ) -> list[list[FloatArray]]:
        """Compute the contribution of each term of n queries to the similarity of their columns.

        For each sparse block, return n arrays of shape (k, number of terms of the query).
        """
        positions = [*map(self.positions, columns)]
        # A query without terms is only known as a vector.
        pairs = zip(self._words[: len(compared.looked_up)], compared.looked_up, strict=True)
        return [words.contributions(block, positions) for words, block in pairs]

    def counts_of(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return how many passages of the view have each term, in any sparse block."""
        is_whole = self.frequencies or self.selected is self.state.alive
        words = self._words if is_whole else self._selected_words
        empty = np.zeros(len(keys), dtype=np.int64)
        return sum((block.counts_of(keys) for block in words), empty)

    @cached_property
    def _selected_words(self) -> list[Words]:
        """The sparse blocks, in which only passages of the view are counted."""
        mask, edges = self.mask, self.state.edges.tolist()
        masks = [mask[start:end] for start, end in pairwise(edges)]
        return [replace(words, alive=masks) for words in self._words]

    @property
    def corpus_size(self) -> int:
        """The number of passages among which words are rare or frequent, selected or not."""
        return self._words[0].size if self._words else len(self)

    @cached_property
    def _words(self) -> list[Words]:
        """The sparse blocks.

        The corpus of inverse document frequencies consists of all passages, selected or not, unless
        the frequencies of a larger corpus are given.
        """
        if not self.frequencies:
            return self.state.corpora
        pairs = zip(self.state.corpora, self.frequencies, strict=True)
        return [replace(words, frequencies=counts) for words, counts in pairs]

    def sample(self, count: int) -> Gaussian:
        """Return the Gaussians of about `count` passages at regular steps, or of all."""
        columns = np.arange(0, len(self), max(1, len(self) // count))
        return self.state.gaussians(self.positions(columns))

    def search(
        self, query: Gaussian, k: int, *, beta: float, filter: Filter | None = None
    ) -> StoreHits:
        """See `Searched`."""
        k, view = check_k(k), self.snapshot(filter)
        if view.state.parts:
            view.state.schema.check_query(query)
        if not len(view):
            empty = np.zeros((len(query), 0), dtype=np.float32)
            return StoreHits([[] for _ in empty], empty, empty, empty, exact=True)
        widths = np.array(view.state.schema.widths)
        edges = np.cumsum(widths[widths > 0])[:-1]
        blocks = np.split(query.mean, edges, axis=1) if widths.any() else []
        compared = view.compare([*blocks, *query.terms])
        weights = np.ones_like(compared.errors, dtype=np.float32)
        top = view.top_k(query, min(k, len(view)), beta=beta, compared=compared, weights=weights)
        passages = [[*map(copy_passage, row)] for row in view.gather(top.columns)]
        return StoreHits(passages, *top[1:], exact=True)
