"""An index that is searched while others save it anew."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from uec_rag.base.saved.manifest import MANIFEST
from uec_rag.retrieval.gate import Gate
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Store
from uec_rag.stores.places import store_at

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Place:
    """Where an index is, and how it may be opened.

    `index`: a saved folder. `store`: the address of the engine that has its passages. `trust`: as
    in `Retriever.load`. `gate`: a saved one; by default what is published in the store, if any.
    """

    index: Path
    store: str | None = None
    trust: bool = False
    gate: Path | None = None


@dataclass(eq=False)
class Opened:
    """An index with its gate, and how many are using it."""

    retriever: Retriever
    gate: Gate | None
    users: int = 0


class LiveIndex:
    """A saved index, open: swapped for a new save of it, and saved when it is written to.

    Raises what `Retriever.load` and `Gate.load` do.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.problem = ""
        self._store = None if place.store is None else store_at(place.store)
        self._seen: tuple[int, ...] | None = self._stamp()
        self._count, self._writing = threading.Lock(), threading.RLock()
        self._now = self._open()

    def _open(self) -> Opened:
        place = self.place
        retriever = Retriever.load(place.index, store=self._store, trust=place.trust)
        gate = Gate.published(retriever) if place.gate is None else Gate.load(place.gate)
        if gate is not None and gate.basis not in ("", retriever.basis()):
            _log.warning(
                "the gate was made before the index was calibrated, or with another one: what it "
                "promises is about that one; make it again with 'uec-rag gate'"
            )
        return Opened(retriever, gate)

    def _stamp(self) -> tuple[int, ...]:
        """What changes with every save."""
        try:
            found = os.stat(self.place.index / MANIFEST)
        except OSError:  # gone, or out of reach: opening it says which
            return ()
        return found.st_ino, found.st_mtime_ns, found.st_size

    @contextmanager
    def use(self) -> Iterator[Opened]:
        """The index as it is now, which stays open until the block ends."""
        with self._count:
            opened = self._now
            opened.users += 1
        try:
            yield opened
        finally:
            self._leave(opened)

    def _leave(self, opened: Opened) -> None:
        with self._count:
            opened.users -= 1
            last = opened.users < 1 and opened is not self._now
        if last and opened.retriever.store is not self._now.retriever.store:
            _close(opened.retriever.store)

    def refresh(self) -> bool:
        """Take up a new save, if there is one; where it cannot be opened, the old index stays.

        Returns whether the index was swapped; `problem` says why it was not, and is logged. Waits
        for nobody: where another thread opens it or writes, the next look finds it.
        """
        if not self._writing.acquire(blocking=False):
            return False
        try:
            if (stamp := self._stamp()) == self._seen:
                return False
            try:
                opened = self._open()
            except Exception as error:  # whatever is wrong with it, the old one answers
                if not isinstance(error, OSError):  # which may pass: it is tried again
                    self._seen = stamp
                problem = f"the index was saved anew and cannot be opened: {error}"
                if problem != self.problem:
                    _log.error("%s; the one before answers on", problem)
                self.problem = problem
                return False
            self._seen, self.problem = stamp, ""
            with self._count:
                before, self._now = self._now, opened
                before.users += 1
            self._leave(before)
            _log.info("took up a new save: %s passages", f"{len(opened.retriever):,}")
            return True
        finally:
            self._writing.release()

    def write(self, change: Callable[[Retriever], _T]) -> _T:
        """Change the index, and save it where its passages are in the folder.

        Raises BlockingIOError, with nothing changed, if another process saves it at the same time,
        and OSError if the last save cannot be opened: the old index would take its place.
        """
        with self._writing:
            self.refresh()
            with self.use() as opened:
                if opened.retriever.store.remote:
                    return change(opened.retriever)
                if self.problem:
                    raise OSError(f"Nothing was changed: {self.problem}")
                try:
                    done = change(opened.retriever)
                    if self._stamp() != self._seen:
                        raise BlockingIOError("another process saved the index meanwhile")
                    opened.retriever.save(self.place.index)
                except Exception:
                    self._seen = None  # what is saved is what is searched
                    self.refresh()
                    raise
                self._seen = self._stamp()
                return done

    def close(self) -> None:
        """Close the connections of an engine."""
        _close(self._now.retriever.store)


def _close(store: Store) -> None:
    getattr(store, "close", lambda: None)()
