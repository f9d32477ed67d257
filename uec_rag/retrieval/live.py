"""An index that is searched while other processes save it again."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from uec_rag.base.saved.generations import alone
from uec_rag.base.saved.manifest import MANIFEST, Entry, read_manifest
from uec_rag.retrieval.gate import GATE_FILE, Gate
from uec_rag.retrieval.retriever import Retriever
from uec_rag.retrieval.save import KIND
from uec_rag.stores.base import Store
from uec_rag.stores.places import store_at

_T = TypeVar("_T")

_PATIENCE = 5.0  # seconds that a change waits for another process to have saved its own

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Place:
    """The place of an index, and how it may be opened.

    `index`: a saved folder. `store`: the address of the engine that has its passages. `trust`: as
    in `Retriever.load`. `gate`: a saved one, or a plain threshold; by default the index's own, if
    it has one and `gated` is true.
    """

    index: Path
    store: str | None = None
    trust: bool = False
    gate: Path | float | None = None
    gated: bool = True


def gate_at(place: Place, retriever: Retriever) -> Gate | None:
    """Return the gate that decides there; `retriever`: the place's index, opened."""
    if place.gate is None:
        return Gate.of_index(retriever) if place.gated else None
    return Gate.at(place.gate) if isinstance(place.gate, float) else Gate.load(place.gate)


@dataclass(eq=False)
class Opened:
    """An open index with its gate, the files of its ensemble, and the number of its users."""

    retriever: Retriever
    gate: Gate | None
    ensemble: Mapping[str, Entry]
    users: int = 0


class LiveIndex:
    """A saved index, open: swapped for a new save of it, and saved when it is written to.

    Raises what `Retriever.load` and `Gate.load` do.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.problem = ""
        self._store = None if place.store is None else store_at(place.store, existing=True)
        self._seen: tuple[int, ...] | None = self._stamp()
        self._count, self._writing = threading.Lock(), threading.RLock()
        self._now = self._open(None)

    def _open(self, before: Opened | None) -> Opened:
        place, ensemble = self.place, self._ensemble()
        # The same ensemble need not be loaded anew, nor repeat what it has warned of.
        uec = before.retriever.uec if before is not None and before.ensemble == ensemble else None
        retriever = Retriever.load(place.index, uec, store=self._store, trust=place.trust)
        if uec is not None and self._ensemble() != ensemble:  # saved anew in between
            retriever = Retriever.load(place.index, store=self._store, trust=place.trust)
        gate = gate_at(place, retriever)
        if gate is not None and (before is None or gate != before.gate):
            own = " of the index" if place.gate is None else ""
            _log.info("a gate%s decides: %s", own, gate.report)
        if gate is not None and gate.basis not in ("", retriever.basis()):
            _log.warning(
                "the gate was made before the index was calibrated, or with another one: what it "
                "promises is about that one; make it again with 'uec-rag gate'"
            )
        return Opened(retriever, gate, ensemble)

    def _ensemble(self) -> Mapping[str, Entry]:
        """Identify the files of the saved ensemble."""
        with suppress(OSError, ValueError):  # which loading will name
            files = read_manifest(self.place.index).files
            return {name: files[name] for name in files if name.startswith("ensemble/")}
        return {}

    def _stamp(self) -> tuple[int, ...]:
        """Return a stamp that changes with every save of the index or of its gate."""
        seen: tuple[int, ...] = ()
        for name in (MANIFEST, GATE_FILE):
            # One that is gone, or out of reach: opening the index says which.
            with suppress(OSError):
                found = os.stat(self.place.index / name)
                seen += (found.st_ino, found.st_mtime_ns, found.st_size)
        return seen

    @contextmanager
    def use(self) -> Iterator[Opened]:
        """Yield the index as it is now, which stays open until the block ends."""
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
        """Open a new save, if there is one; if it cannot be opened, the old index stays.

        Returns whether the index was swapped; `problem` says why it was not, and is logged. Waits
        for no lock: if another thread opens it or writes, the next look finds it.
        """
        if not self._writing.acquire(blocking=False):
            return False
        try:
            if (stamp := self._stamp()) == self._seen:
                return False
            try:
                opened = self._open(self._now)
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
        """Change the index as it is saved now, and save it if its passages are in the folder.

        Nobody else saves it meanwhile, and what others have saved is taken up first, so that no
        change undoes another. What changes nothing saves nothing. A change that fails is undone.

        Parameters
        ----------
        change : callable
            Is given the index. It may be another than the one in use before.

        Raises
        ------
        BlockingIOError
            With nothing changed, if another process is saving it all the while.
        OSError
            If the last save cannot be opened: the old index would take its place.
        """
        with self._writing, ExitStack() as stack:
            remote = self._now.retriever.store.remote
            if not remote:
                stack.enter_context(alone(self.place.index, KIND, wait=_PATIENCE))
            self.refresh()
            retriever = stack.enter_context(self.use()).retriever
            if remote:
                return change(retriever)
            if self.problem:
                raise OSError(f"Nothing was changed: {self.problem}")
            changes, calibration = retriever.changes, retriever.calibration

            def changed() -> bool:
                return retriever.changes != changes or retriever.calibration is not calibration

            try:
                done = change(retriever)
                if changed():
                    retriever.save(self.place.index)
                    self._seen = self._stamp()
            except BaseException:
                if changed():
                    self._seen = None  # what is saved is what is searched
                    self.refresh()
                raise
            return done

    def close(self) -> None:
        """Close the connections of an engine."""
        _close(self._now.retriever.store)


def _close(store: Store) -> None:
    getattr(store, "close", lambda: None)()
