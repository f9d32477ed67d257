"""Views of an index: the passages of one moment, in segments, which are searched exactly."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, pairwise, repeat
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_k
from uec_rag.base.counts import Frequencies, LookedUp, Words
from uec_rag.base.gaussian import FloatArray, Gaussian, Terms
from uec_rag.base.records import Memory, Recent, cached_property
from uec_rag.base.similarity import best_rows, weighted_sum
from uec_rag.encoders.base import Encoded
from uec_rag.stores.base import MOST_EXAMPLES, Filter, Searched, StoreHits
from uec_rag.stores.encodings import GIVEN, Fit, Schema, check_encodings
from uec_rag.stores.filters import Condition, key_of, matches, parse
from uec_rag.stores.local.segments import (
    LARGEST_PRODUCT,
    MANY,
    MANY_MEANS,
    Compared,
    Part,
    Segment,
    Way,
    faster_way,
    multiply,
    require_finite,
)
from uec_rag.stores.passage import Passage, copy_passage, text_keys

_MANY = 4096  # passages that are read at a time
_FEW = 4  # how many times as many passages there are as those that are multiplied by themselves
_NEIGHBOURS = 64  # examples that follow each other
_MOST_HASHED, _CORPUS = 100_000, "corpus"  # passages: some seconds
# The passages of the index for each tenant whose state is kept between searches, which takes a byte
# of each, and those of the tenants, whose words are counted.
_MOST_OF_TENANTS, _OF_WORDS = 2**25, 100


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
        """Return which columns of a view satisfy a condition."""
        passages = self.read(view.state.rows.tolist())
        return np.array([matches(condition, p) for p in passages], dtype=bool)


@dataclass(frozen=True, eq=False)
class State:
    """The passages of an index at one moment. Writers make the next; readers keep theirs.

    A passage has three numbers, between which `rows`, `columns` and `places` convert. Its row in
    the database never changes. Its column is its number among the passages that are compared: those
    that were removed, or left out by a filter, have none. Its place is that among all vectors in
    the segments one after another, also of removed passages; `split` has the index in each.

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
        Of some passages alone, the state of all, whose texts are kept as long as it is there.
    frequencies : sequence of Frequencies
        The term frequencies of a larger corpus, for each sparse block; none for its own.
    """

    version: int = 0
    changes: int = 0
    next_row: int = 0
    parts: Sequence[Part] = ()
    schema: Schema = field(default_factory=Schema)
    memory: dict[str, str] = field(default_factory=dict)
    deleted_at: float | None = None
    tenants: Recent[Hashable, State] = field(default_factory=lambda: recent_states())
    whole: State | None = None
    frequencies: Sequence[Frequencies] = ()

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """The number of passages in the segments before each, and in all, also of removed ones."""
        return np.cumsum([0, *(len(part.segment) for part in self.parts)], dtype=np.int64)

    @cached_property
    def selected(self) -> NDArray[np.int64] | None:
        """The place of each column in the segments one after another; None if all have one."""
        if all(part.alive is None for part in self.parts):
            return None
        return np.flatnonzero(np.concatenate([part.kept for part in self.parts]))

    @cached_property
    def count(self) -> int:
        """The number of columns."""
        return sum(part.count for part in self.parts)

    @cached_property
    def is_few(self) -> bool:
        """True if less is read where the means of the columns are multiplied by themselves."""
        return self.count <= _MANY and _FEW * self.count < self.edges[-1]

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The row of each column, ascending."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *(part.rows for part in self.parts)])

    @cached_property
    def words(self) -> list[Words]:
        """The word counts of each sparse block."""
        counts = [part.segment.checked_words for part in self.parts]
        alive = [part.alive for part in self.parts]
        frequencies: Sequence[Frequencies | None] = self.frequencies
        frequencies = frequencies or [None] * self.schema.words
        return [
            Words(1.0, [of_part[number] for of_part in counts], alive, of_corpus)
            for number, of_corpus in enumerate(frequencies)
        ]

    def select(self, mask: NDArray[np.bool_]) -> State:
        """Return a state of the passages of some columns alone."""
        alive, edges = mask, self.edges.tolist()
        if self.selected is not None:
            alive = np.zeros(edges[-1], dtype=bool)
            alive[self.selected] = mask
        parts = [
            replace(part, alive=alive[start:end])
            for part, (start, end) in zip(self.parts, pairwise(edges), strict=True)
        ]
        return replace(
            self, parts=parts, memory={}, tenants=recent_states(), whole=self.whole or self
        )

    def columns(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the columns of rows, leaving out those that have none."""
        if not len(self.rows):
            return np.zeros(0, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        columns: NDArray[np.int64] = at[self.rows[at] == rows]
        return columns

    def places(self, columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places of columns in the segments one after another."""
        return columns if self.selected is None else self.selected[columns]

    def take(self, similarities: FloatArray) -> FloatArray:
        """Return the columns of similarities to all passages in the segments, shape (n, m)."""
        if self.selected is None:
            return similarities
        return similarities.take(self.selected, axis=1)  # seven times as fast as by an index

    def split(
        self, columns: NDArray[np.int64]
    ) -> Iterator[tuple[Part, NDArray[np.int64], NDArray[np.intp] | slice]]:
        """Yield each part, the indices of some columns in it, and where these are among them."""
        places = self.places(columns)
        if len(self.parts) == 1:
            yield self.parts[0], places, slice(None)
            return
        numbers = np.searchsorted(self.edges, places, side="right") - 1
        for number in np.unique(numbers).tolist():
            [at] = np.nonzero(numbers == number)
            yield self.parts[number], places[at] - self.edges[number], at

    def encodings(self, columns: NDArray[np.int64]) -> list[Encoded]:
        """Return what each encoder made of columns, but for words."""
        parts, places = list[list[Encoded]](), list[NDArray[np.intp] | slice]()
        for part, indices, at in self.split(columns):
            parts.append([block[indices] for block in part.segment.vectors])
            places.append(at)
        pairs = zip(self.schema.widths, self.schema.features, strict=True)
        blocks = parts[0] if parts else [Encoded.empty(w, f or w) for w, f in pairs]
        if len(parts) > 1:
            order = np.argsort(np.concatenate([np.arange(len(columns))[at] for at in places]))
            blocks = [Encoded.join(block)[order] for block in zip(*parts, strict=True)]
        for block in blocks:
            require_finite([block.embedding, block.features])
        return blocks

    def products(self, number: int, query: FloatArray, columns: NDArray[np.int64]) -> FloatArray:
        """Multiply a query with a block of the means of columns, exactly; shape (m,)."""
        exact = np.empty(len(columns), dtype=np.float32)
        for start in range(0, len(columns), _MANY):
            span = slice(start, start + _MANY)
            for part, indices, at in self.split(columns[span]):
                # Not a matrix product, whose sums may differ between equal rows. With the order of
                # einsum's sums, those in float32 would be further off.
                means = part.segment.vectors[number].embedding[indices]
                exact[span][at] = np.einsum("ij,j->i", means, query, dtype=np.float64)
        require_finite([exact], LARGEST_PRODUCT)
        return exact


_FACTORS = Memory(WeakKeyDictionary[Segment, tuple[FloatArray, FloatArray | None]])  # of fits


def _factors_of(fit: Fit, segment: Segment) -> tuple[FloatArray, FloatArray | None]:
    """Return the scales and the profile of variances, computed once for each segment and fit."""
    segments = _FACTORS.of(fit)
    if (factors := segments.get(segment)) is None:
        pairs = [(batch.scales, batch.profile) for batch in gaussians_of(fit, segment)]
        factors = segments[segment] = np.concatenate([scales for scales, _ in pairs]), pairs[0][1]
    return factors


def gaussians_of(fit: Fit, segment: Segment) -> Iterator[Gaussian]:
    """Yield the Gaussians of a segment's passages, some thousand each."""
    for block in segment.vectors:
        require_finite([block.embedding, block.features])
    for start in range(0, len(segment), _MANY):
        yield fit.passages([block[start : start + _MANY] for block in segment.vectors])


def recent_states() -> Recent[Hashable, State]:
    """Return an empty memory of the states of tenants."""
    return Recent(_MOST_OF_TENANTS, _size_of)


def _size_of(state: State) -> float:
    return float(state.edges[-1] + _OF_WORDS * state.count)


class View(Searched):
    """A read-only view of passages, which does not change while others write.

    A column is a passage of the view, in the order of insertion.

    Parameters
    ----------
    state : State
    texts : Texts
    lexicon : State or None
        The passages among which words are rare or frequent; None for those of the view.
    """

    def __init__(self, state: State, texts: Texts, lexicon: State | None = None) -> None:
        self.state, self.texts, self.lexicon = state, texts, lexicon or state

    @classmethod
    def from_passages(
        cls,
        passages: Sequence[Passage],
        encodings: Sequence[Encoded] | Gaussian,
        frequencies: Sequence[Frequencies] = (),
        words: Sequence[Words] = (),
    ) -> View:
        """Make a view of passages of another store, such as one query's candidates.

        `encodings`: as in `Store.add`. `frequencies`: for each encoder of words, the term
        frequencies in the whole corpus. `words`: for each, the counts of the passages, if they are
        not in the encodings.
        """
        count = len(passages)
        blocks = check_encodings(encodings, count)
        segments = Segment.cut(blocks, text_keys(passages))
        parts, schema = [Part(start, "", segment) for start, segment in segments], Schema.of(blocks)
        state = State(next_row=count, parts=parts, schema=schema, frequencies=frequencies)
        if words:
            pairs = zip(words, frequencies or repeat(None), strict=False)
            state.__dict__["words"] = [replace(part, frequencies=counts) for part, counts in pairs]
        return cls(state, Texts(passages))

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
        schema, frequencies = self.state.schema, self.state.frequencies
        state = State(0, self.changes, start, parts, schema, frequencies=frequencies)
        return View, (state, Texts([*self.passages()]))

    def segments(self) -> Iterator[tuple[int, Segment]]:
        """Yield the first row and the segment of each part, without what the view leaves out."""
        for part in self.state.parts:
            if part.kept.all():
                yield part.first_row, part.segment
            elif part.kept.any():
                yield Segment.join([(part.first_row, part.segment, part.kept)])

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
        memory = self.state.memory
        if _CORPUS not in memory:
            total = 0
            for p in self.passages():
                data = f"{len(p.id)}:{p.id}{len(p.text)}:{p.text}".encode()
                total += int.from_bytes(hashlib.sha256(data).digest())
            memory[_CORPUS] = f"{total % 2**128:032x}"
        return memory[_CORPUS]

    def __len__(self) -> int:
        return self.state.count

    def snapshot(self, filter: Filter | None = None) -> View:
        """Return the view itself, or one of only the passages that match a filter.

        TypeError or ValueError if the filter is invalid; see `uec_rag.stores.filters`.
        """
        return self if filter is None else self.among(self.texts.select(self, parse(filter)))

    def among(self, mask: NDArray[np.bool_]) -> View:
        """Return a view of some columns alone, among which words are as rare as in this one."""
        return View(self.state.select(mask), self.texts, self.lexicon)

    def of_tenant(self, filter: Filter) -> View:
        """Return a view of the passages that match a filter, among which words are counted."""
        condition = parse(filter)  # once: the filter is the caller's, who may change it meanwhile
        key, tenants = key_of(condition), self.state.tenants
        state = None if key is None else tenants.use(key)
        if state is None:
            state = self.state.select(self.texts.select(self, condition))
            state = replace(state, frequencies=(), changes=0)  # which are others', too
            if key is not None:
                tenants.keep(key, state)
        return View(state, self.texts)

    def _read(self, columns: NDArray[np.int64]) -> list[Passage]:
        rows = np.empty(len(columns), dtype=np.int64)
        for part, indices, at in self.state.split(columns):  # all rows may be many
            rows[at] = part.first_row + part.segment.offsets[indices].astype(np.int64)
        return self.texts.read(rows.tolist())

    def find(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the columns of the ids that there are."""
        names = {row: id_ for id_, row in self.texts.rows_of(ids)}
        columns = self.state.columns(np.array([*names], dtype=np.int64))
        rows = self.state.rows[columns].tolist()
        return {names[row]: at for row, at in zip(rows, columns.tolist(), strict=True)}

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages with the given ids, in that order, leaving out unknown ids."""
        places = self.find(ids)
        columns = np.array([places[id_] for id_ in ids if id_ in places], dtype=np.int64)
        return [*map(copy_passage, self._read(columns))]

    def twins(self, passages: Sequence[Passage]) -> list[Passage]:
        """Return the passages that have the texts of others, which must not be changed."""
        wanted, columns, start = text_keys(passages), list[NDArray[np.int64]](), 0
        for part in self.state.parts:
            texts = part.segment.texts if part.alive is None else part.segment.texts[part.alive]
            columns.append(start + np.flatnonzero(np.isin(texts, wanted)))
            start += len(texts)
        return self._read(np.concatenate(columns)) if columns else []

    def vectors(self, ids: Sequence[str]) -> list[Encoded]:
        """See `Searched`."""
        places = self.find(ids)
        if unknown := [id_ for id_ in ids if id_ not in places]:
            raise KeyError(f"ids: {unknown[0]!r} is not in the store.")
        return self.state.encodings(np.array([places[id_] for id_ in ids], dtype=np.int64))

    def passages(self, filter: Filter | None = None) -> Iterator[Passage]:
        """Iterate over all passages, or those that a filter selects, in the order of insertion."""
        view = self.snapshot(filter)
        starts = range(0, len(view), _MANY)
        return (
            copy_passage(passage)
            for start in starts
            for passage in view._read(np.arange(start, min(len(view), start + _MANY)))
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
        return [*map(copy_passage, self._read(columns))]

    def compare(self, blocks: Sequence[FloatArray | Terms]) -> Compared:
        """Multiply n queries with each block of the stored passages.

        There is a column for every passage, in the order of `passages`. Matrices are multiplied
        with the stored vectors of each encoder, and terms compared with the words of each, in their
        order. Of many passages, most similarities to vectors are within an error, see `Compared`.
        """
        state, errors = self.state, np.zeros((len(blocks[0]), len(blocks)))
        if not len(self):
            empty = np.zeros((len(blocks[0]), 0), dtype=np.float32)
            return Compared([empty] * len(blocks), errors, lambda *_: empty[0])
        way: AbstractContextManager[Way | None] = nullcontext()
        if state.edges[-1] >= MANY and len(blocks[0]) and not state.is_few:
            for part in state.parts:
                if part.count:
                    _ = part.segment.scans  # which are not made while a scan is timed
            way = faster_way(len(blocks[0]), len(self), state.schema.widths)
        dense, words = iter(np.flatnonzero(state.schema.widths).tolist()), iter(self.lexicon.words)
        similarities, looked_up = list[FloatArray](), list[LookedUp]()
        queries = dict[int, tuple[int, FloatArray]]()
        with way as scan:
            for place, block in enumerate(blocks):
                if isinstance(block, Terms):
                    corpus = next(words)
                    looked_up.append(corpus.look_up(block))
                    similarities.append(state.take(corpus.similarities(looked_up[-1])))
                    continue
                number = next(dense)
                queries[place] = number, block
                product, errors[:, place] = self._multiply(block, number, scan)
                similarities.append(product)
                require_finite([product], LARGEST_PRODUCT)

        def compute(place: int, row: int, columns: NDArray[np.int64]) -> FloatArray:
            number, query = queries[place]
            return state.products(number, query[row], columns)

        return Compared(similarities, errors, compute, looked_up)

    def _multiply(
        self, query: FloatArray, number: int, scan: Way | None
    ) -> tuple[FloatArray, NDArray[np.float64]]:
        """Multiply queries with the vectors of an encoder; return the error, too."""
        state, error, products = self.state, np.zeros(len(query)), list[FloatArray]()
        with np.errstate(invalid="ignore", over="ignore"):  # of damaged rows
            if state.is_few:
                product = np.empty((len(query), len(self)), dtype=np.float32)
                for part, indices, at in state.split(np.arange(len(self))):
                    means = part.segment.vectors[number].embedding[indices]
                    product[:, at] = query @ means.T
                return product, error
            for part in state.parts:
                segment = part.segment
                if not part.count:  # as where all of it is another tenant's
                    product = np.empty((len(query), len(segment)), dtype=np.float32)
                elif scan is None and (len(query) == 1 or len(segment) < MANY_MEANS):
                    product = query @ segment.vectors[number].embedding.T
                elif scan is None:
                    product = multiply(query, segment.vectors[number].embedding)
                else:
                    product, slack = scan(segment.scans[number], query)
                    error = np.maximum(error, slack)
                products.append(product)
        return state.take(np.concatenate(products, axis=1)), error

    def top_k(
        self,
        fit: Fit,
        query: Gaussian,
        k: int,
        *,
        beta: float,
        compared: Compared,
        weights: FloatArray,
    ) -> StoreHits:
        """Find the columns with the k highest s_hat for n queries.

        mu_s is the sum of the similarities with weights, shape (n, K). Those to the columns that
        are found become exact. `fit`: makes variances of passages, at the first search with it.
        """
        state, variance = self.state, query.variance
        mu = weighted_sum(compared.similarities, weights)
        slack = (np.abs(weights) * compared.errors).sum(axis=1)
        second_moment: FloatArray = query.mean**2 + variance
        factors = [_factors_of(fit, part.segment) for part in state.parts]
        profile = factors[0][1]
        spread: FloatArray = second_moment if profile is None else second_moment @ profile.T
        lengths = np.repeat(np.resize(fit.lengths, len(state.schema.widths)), state.schema.widths)

        def moments(i: int, columns: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
            means = np.empty((len(columns), len(lengths)), dtype=np.float32)
            scales = np.empty((len(columns), spread.shape[1]), dtype=np.float32)
            for part, indices, at in state.split(columns):
                blocks = [block.embedding[indices] for block in part.segment.vectors]
                means[at] = np.concatenate(blocks, axis=1)
                scales[at] = _factors_of(fit, part.segment)[0][indices]
            sigma2: FloatArray = scales @ spread[i]
            sigma2 += (means * lengths) ** 2 @ variance[i]
            if slack[i]:
                compared.refine(i, columns)
                exact = [of_block[i : i + 1, columns] for of_block in compared.similarities]
                mu[i, columns] = weighted_sum(exact, weights[i : i + 1])[0]
            require_finite([means, mu[i, columns], sigma2])
            return mu[i, columns], sigma2

        def bound(i: int) -> float:
            passages = max(float((scales @ spread[i]).max(initial=0.0)) for scales, _ in factors)
            longest = max(part.segment.longest for part in state.parts) * lengths.max(initial=0.0)
            query_part = variance[i].max(initial=0.0) * np.float64(longest) ** 2
            return float(passages + query_part) * (1 + 1e-4)  # up to rounding

        best = [
            best_rows(mu[i], partial(moments, i), k, beta, partial(bound, i), slack[i])
            for i in range(len(query))
        ]
        columns, scores, mu, sigma2 = map(np.stack, zip(*best, strict=True))
        return StoreHits(columns, scores, mu, sigma2)

    def text_keys(self, columns: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the numbers of the texts of columns (n, k), the same for copies of one."""
        keys = np.empty(columns.size, dtype=np.uint64)
        for part, indices, at in self.state.split(columns.ravel()):
            keys[at] = part.segment.texts[indices]
        return keys.reshape(columns.shape)

    def gather(self, columns: Iterable[NDArray[np.int64]]) -> list[list[Passage]]:
        """Return the passages of some columns each, which must not be changed."""
        groups = [group.tolist() for group in columns]
        # Each passage is read once, whichever queries have found it.
        distinct = [*dict.fromkeys(chain.from_iterable(groups))]
        passages = dict(zip(distinct, self._read(np.array(distinct, dtype=np.int64)), strict=True))
        return [[passages[column] for column in group] for group in groups]

    def contributions(
        self, compared: Compared, columns: Sequence[NDArray[np.int64]]
    ) -> list[list[FloatArray]]:
        """Compute the contribution of each term of n queries to the similarity of their columns.

        For each sparse block, return n arrays of shape (k, number of terms of the query).
        """
        places = [*map(self.state.places, columns)]
        # A query without terms is only known as a vector.
        pairs = zip(self.lexicon.words, compared.looked_up, strict=False)
        return [words.contributions(block, places) for words, block in pairs]

    def counts_of(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return how many passages of the view have each term, in any sparse block."""
        empty = np.zeros(len(keys), dtype=np.int64)
        return sum((block.counts_of(keys) for block in self.state.words), empty)

    @property
    def corpus_size(self) -> int:
        """The number of passages among which words are rare or frequent, selected or not."""
        return self.lexicon.words[0].size if self.lexicon.words else len(self)

    def sample(self, count: int) -> list[Encoded]:
        """Return what encoders made of about `count` passages at regular steps, or of all."""
        return self.state.encodings(np.arange(0, len(self), max(1, len(self) // count)))

    def search(self, query: Gaussian, k: int, *, beta: float, fit: Fit = GIVEN) -> StoreHits:
        """Find the k passages with the highest s_hat for the vectors and words of n queries.

        `fit`: by which they are scored; by default, the view is of Gaussians that were given.
        ValueError if a query does not have the dimension of the stored passages.
        """
        k, schema = check_k(k), self.state.schema
        if not len(self):
            columns = np.zeros((len(query), 0), dtype=np.int64)
            empty = columns.astype(np.float32)
            return StoreHits(columns, empty, empty, empty, [[] for _ in columns])
        schema.check_query(query)
        blocks = np.split(query.mean, np.cumsum(schema.widths)[:-1], axis=1)
        order = sorted(range(len(blocks)), key=lambda at: not schema.widths[at])  # words last
        vectors = [blocks[at] for at in order if schema.widths[at]]
        compared = self.compare([*vectors, *query.terms])
        lengths = np.resize(fit.lengths, len(order))[order[: len(compared.similarities)]]
        weights = np.tile(lengths, (len(query), 1))
        hits = self.top_k(
            *(fit, query, min(k, len(self))), beta=beta, compared=compared, weights=weights
        )
        passages = [[*map(copy_passage, row)] for row in self.gather(hits.columns)]
        return replace(hits, passages=passages)
