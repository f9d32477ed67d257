"""The state of a store in memory at one moment, and how the next is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.errors import FingerprintMismatch
from uec_rag.base.gaussian import FloatArray, Gaussian, Terms
from uec_rag.base.postings import Frequencies, Postings
from uec_rag.stores.base import Filter
from uec_rag.stores.filters import parse
from uec_rag.stores.memory.passages import MetadataIndex, PassageLog
from uec_rag.stores.memory.vectors import Means, Scan, require_finite

_COMPACT_ABOVE = 0.5  # share of deleted rows at which the rest is copied together


@dataclass(frozen=True, eq=False)
class State:
    """A consistent state of the store. Writers build the next one; readers keep theirs.

    Buffers may be longer than `rows`, and are shared by states: a writer only fills rows that no
    earlier state reads. Rows never change; replacing a passage adds a row.
    """

    rows: int = 0
    means: Means = field(default_factory=Means)
    scales: FloatArray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))
    profile: FloatArray | None = None
    fingerprint: str | None = None  # fingerprint of the ensemble of the Gaussians
    longest: float = 0.0  # upper bound of the norms of the means
    passages: PassageLog = field(default_factory=PassageLog)
    alive: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    row_of: dict[str, int] = field(default_factory=dict)
    earlier: dict[int, int] = field(default_factory=dict)  # row -> previous row of the same id
    selected: NDArray[np.int64] | None = None  # None: all rows
    index: MetadataIndex = field(default_factory=MetadataIndex)
    scan: Scan | None = None  # 8-bit copy of the means, to be multiplied instead of them
    postings: tuple[Postings, ...] = ()  # one for each sparse block
    frequencies: tuple[Frequencies, ...] = ()  # those of a larger corpus that the rows are part of

    @property
    def count(self) -> int:
        """The number of selected rows."""
        return self.rows if self.selected is None else len(self.selected)

    def postings_with(self, blocks: Sequence[Terms]) -> tuple[Postings, ...]:
        """Return the postings of each sparse block with those of new rows added.

        ValueError if the weights of the terms differ from those of the stored ones.
        """
        held = self.postings or [Postings.none() for _ in blocks]
        return tuple(one.written(self.rows, terms) for one, terms in zip(held, blocks, strict=True))

    def selected_rows(self) -> NDArray[np.int64]:
        """Return the selected rows, ascending."""
        return np.arange(self.rows) if self.selected is None else self.selected

    def row(self, id_: str) -> int | None:
        """Return the row of an id; None if it is unknown."""
        row = self.row_of.get(id_)
        # Both dicts are shared with later states, whose rows are skipped.
        while row is not None and row >= self.rows:
            row = self.earlier.get(row)
        return row if row is not None and self.alive[row] else None

    def gaussians(self, rows: NDArray[np.int64]) -> Gaussian:
        """Return the Gaussians of some rows."""
        [mean], scales = require_finite([self.means.rows(rows)]), self.scales[rows]
        widths = self.means.widths
        if self.profile is None:
            return Gaussian(mean, scales, widths=widths)
        return Gaussian.factored(mean, scales, self.profile, widths=widths)

    def sample(self, count: int) -> Gaussian:
        """Return the Gaussians of about `count` selected rows at regular steps; cached."""
        if count not in self._samples:
            step = max(1, self.count // count)
            self._samples[count] = self.gaussians(self.selected_rows()[::step])
        return self._samples[count]

    @cached_property
    def _samples(self) -> dict[int, Gaussian]:
        return {}


def filtered(state: State, filter: Filter | None) -> State:
    """Return the state with only the rows that match a filter."""
    if filter is None:
        return state
    condition = parse(filter)  # even if the store is empty, so that an invalid one is rejected
    rows = state.index.select(condition, state.passages, state.selected_rows(), state.row)
    return replace(state, selected=rows)


def without_leftovers(state: State) -> State:
    """Drop the rows that an interrupted `add` left in the shared buffers."""
    row_of = {id_: row for id_ in state.row_of if (row := state.row(id_)) is not None}
    return replace(state, passages=state.passages.first(state.rows), row_of=row_of, earlier={})


def bound(state: State, fingerprint: str) -> State:
    """Record the ensemble of the Gaussians; FingerprintMismatch if it is another one."""
    if not state.count or state.fingerprint in (None, fingerprint):
        return replace(state, fingerprint=fingerprint)
    raise FingerprintMismatch(
        f"store: it holds vectors of another ensemble ({str(state.fingerprint)[:12]!r}, this one "
        f"is {fingerprint[:12]!r}): other models, revisions or posterior. Use that ensemble or "
        "build the index again."
    )


def check_fits(state: State, gaussians: Gaussian) -> None:
    """Raise ValueError unless Gaussians have the stored dimension and posterior."""
    if not state.rows:
        return
    if gaussians.dimension != state.means.dimension:
        raise ValueError(
            f"gaussians: expected dimension {state.means.dimension}, as stored, "
            f"got {gaussians.dimension}."
        )
    if len(gaussians.terms) != len(state.postings):
        raise ValueError(
            f"gaussians: expected {len(state.postings)} blocks of terms, as stored, got "
            f"{len(gaussians.terms)}."
        )
    for held, block in zip(state.postings, gaussians.terms, strict=True):
        held.check_fits(block)
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


def compacted(state: State) -> State:
    """Return the state itself, or a copy without deleted rows if most rows are deleted."""
    if state.count >= state.rows * (1 - _COMPACT_ABOVE):
        return state
    selected = state.selected_rows()
    passages = PassageLog()
    passages.extend([state.passages[row] for row in selected.tolist()])
    means = state.means.chosen(selected)
    return State(
        rows=len(selected),
        means=means,
        scales=state.scales[selected],
        profile=state.profile,
        fingerprint=state.fingerprint,
        longest=state.longest,
        passages=passages,
        scan=None if state.scan is None else state.scan.written(0, len(selected), means),
        alive=np.ones(len(selected), dtype=bool),
        row_of={passages[row].id: row for row in range(len(selected))},
        postings=tuple(held.chosen(selected) for held in state.postings),
    )
