"""What was read of an engine and need not be read again: samples, a copy, what a view has found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from uec_rag.base.errors import FingerprintMismatch
from uec_rag.base.frequencies import Frequencies
from uec_rag.base.gaussian import Gaussian
from uec_rag.stores.engine_methods import Engine
from uec_rag.stores.engine_notes import Notes
from uec_rag.stores.engine_points import Point
from uec_rag.stores.engine_shared import OUTDATED, Sample
from uec_rag.stores.filters import Condition
from uec_rag.stores.keeping import SAMPLE, Stamp
from uec_rag.stores.memory import MemoryStore

_KEPT_FROM = 4096  # passages of a sample that is worth keeping: what a search asks for


@dataclass
class _Read:
    """What was read of an engine, kept while nothing is written there."""

    notes: Notes | None = None
    was_there: bool = False  # what they are of
    stamped: str | None = None
    written: str | None = None
    samples: dict[tuple[str, int], Gaussian] = field(default_factory=dict)
    copy: MemoryStore | None = None
    shared: tuple[str | None, Sample] | None = None  # with its version

    def of(self, written: str) -> _Read:
        """What was read since a write, or nothing."""
        if written != self.written:
            self.written, self.samples, self.copy = written, {}, None
        return self


class CachedEngine(Engine):
    """An engine, or a filtered view of it, that remembers."""

    def __init__(self) -> None:
        self._condition: Condition | None = None
        self._fingerprint: str | None = None
        self._is_view = False
        self._read = _Read()  # shared with views
        self._unsampled = 0  # passages written here that the kept sample knows nothing of
        self._warned: set[str] = set()
        # Of a view alone:
        self._size: int | None = None
        self._stamp: Stamp | None = None
        self._seen: dict[str, Point] = {}
        self._rarities: dict[int, Frequencies] = {}

    def __len__(self) -> int:
        if not self._is_view:
            return self.count(None)
        if self._size is None:
            self._size = self.count(self._condition)
        return self._size

    def _gaussians(self, points: Sequence[Point]) -> Gaussian:
        notes = self.notes()
        if notes is None:
            return Gaussian(np.zeros((0, 0)), np.zeros((0, 0)))
        return notes.gaussians(points)

    def notes(self) -> Notes | None:
        """What is noted of the stored Gaussians; None where nothing was ever stored.

        Raises
        ------
        RuntimeError
            If something was, and has gone.
        """
        read = self._read
        if read.notes is None:
            found = self.read_notes()
            if found is None and read.was_there:
                raise RuntimeError(
                    f"store: somebody has removed the collection from {self.engine}. Open the "
                    "store again; what has gone has to be added again."
                )
            read.notes, read.was_there = found, found is not None
        return read.notes

    def bind(self, fingerprint: str) -> None:
        """Note whose Gaussians these are, or refuse another ensemble's.

        Raises
        ------
        FingerprintMismatch
            If passages of another ensemble are stored.
        """
        self._fingerprint = fingerprint
        notes = self.notes()
        if notes is None or notes.fingerprint in (None, fingerprint) or not self.count(None):
            return
        raise FingerprintMismatch(
            f"store: {self.engine} holds vectors of another ensemble there "
            f"({str(notes.fingerprint)[:12]!r}, this one is {fingerprint[:12]!r}): other models, "
            "revisions or posterior. Use that ensemble or another collection."
        )

    def stamp(self) -> Stamp:
        """The state of the engine; of a view, when it was first asked.

        Raises
        ------
        FingerprintMismatch
            If somebody has made the collection anew, for another ensemble.
        """
        if self._stamp is not None:
            return self._stamp
        stamp, read = self.read_stamp(), self._read
        if read.stamped not in (None, stamp.written):
            read.notes = None
            if self._fingerprint is not None:
                self.bind(self._fingerprint)
        read.stamped = stamp.written
        if self._is_view:
            self._stamp = stamp
        return stamp

    def sample(self, count: int) -> Gaussian:
        """Return the Gaussians of `count` passages by chance, or of all; the same for everyone.

        Of a large corpus they are drawn once and kept in the engine until a twentieth is new, so
        that all who search it go by the same, also while one writes.
        """
        if self._condition is None and _KEPT_FROM <= count < len(self):
            return self._kept_sample(count)
        known, key = self._read.of(self.stamp().written).samples, (repr(self._condition), count)
        if key not in known:
            known[key] = self._gaussians([*self.scan(self._condition, count)])
        return known[key]

    def _kept_sample(self, count: int) -> Gaussian:
        version, notes = self.stamp().kept.get(SAMPLE), self.notes()
        assert notes is not None
        known = self._read.shared
        if known is None or known[0] != version:
            held = self.kept(SAMPLE) if version else None
            known = (held[0], Sample.unpacked(held[1], notes)) if held and held[1] else None
        if known is None or not known[1].is_of(len(self)):
            drawn = Sample(self._gaussians([*self.scan(None, count)]), len(self))
            known = (self._shared(drawn, version), drawn)
            self._stamp = None
        self._read.shared = known
        return known[1].gaussians

    def _shared(self, drawn: Sample, version: str | None) -> str | None:
        """The version under which a sample is kept for all; who may only read keeps its own."""
        try:
            return self.keep(SAMPLE, drawn.packed())
        except PermissionError:
            return version

    def _outdate_sample(self, written: int) -> None:
        """Have the sample drawn again where much of the corpus was written since."""
        if SAMPLE not in self.stamp().kept:
            self._unsampled = 0
            return
        self._unsampled += written
        if self._unsampled > OUTDATED * self.count(None):
            self.keep(SAMPLE, b"")
            self._unsampled = 0

    def _copy(self) -> MemoryStore:
        """All of it in memory, for what needs every passage."""
        read = self._read.of(self.stamp().written)
        made = read.copy
        if made is None:
            made, points = MemoryStore(), [*self.scan(None, None)]
            if points:
                made.add([point.passage for point in points], self._gaussians(points))
            read.copy = made
        if self._condition is None:
            return made
        through = {passage.id for passage in self.scan_passages(self._condition)}
        return made.snapshot(lambda passage: passage.id in through)
