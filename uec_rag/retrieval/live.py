"""A saved index that is searched while other processes save new versions of it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from uec_rag.base.saved.generations import locked_for_saving
from uec_rag.base.saved.manifest import MANIFEST, Entry, read_manifest
from uec_rag.retrieval.gate import GATE_FILE, OUTDATED, Gate
from uec_rag.retrieval.retriever import Retriever
from uec_rag.retrieval.save import KIND
from uec_rag.stores.base import Store
from uec_rag.stores.urls import open_store

_T = TypeVar("_T")

_PATIENCE = 5.0  # seconds that a change waits for another process to finish saving

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class IndexLocation:
    """The location of an index, and how to open it.

    `index`: a saved folder. `store`: address of the engine that has its passages. `trust`: as in
    `Retriever.load`. `gate`: path of a saved gate, or a plain threshold; by default the gate of the
    index, if it has one and `gated` is true.
    """

    index: Path
    store: str | None = None
    trust: bool = False
    gate: Path | float | None = None
    gated: bool = True


def set_gate(location: IndexLocation, retriever: Retriever) -> None:
    """Let the gate of a location decide in its index, which is open as `retriever`."""
    if location.gate is not None:
        gate = location.gate
        retriever.gate = Gate(gate) if isinstance(gate, float) else Gate.load(gate)
    elif not location.gated:
        retriever.gate = None


@dataclass(eq=False)
class Opened:
    """An open index, the files of its ensemble, and the number of its users."""

    retriever: Retriever
    ensemble: Mapping[str, Entry]
    users: int = 0

    @property
    def gate(self) -> Gate | None:
        """The gate that decides."""
        return self.retriever.gate


class LiveIndex:
    """An open index that is reloaded if a new version is saved, and saved after each change.

    Raises the errors of `Retriever.load` and `Gate.load`.
    """

    def __init__(self, location: IndexLocation) -> None:
        self.location = location
        self.problem = ""
        self._store = None if location.store is None else open_store(location.store, existing=True)
        self._seen: tuple[int, ...] | None = self._stamp()
        self._count, self._writing = threading.Lock(), threading.RLock()
        self._now = self._open(None)

    def _open(self, before: Opened | None) -> Opened:
        location, ensemble = self.location, self._ensemble()
        # An unchanged ensemble is not loaded again, and does not repeat its warnings.
        uec = before.retriever.uec if before is not None and before.ensemble == ensemble else None
        retriever = Retriever.load(location.index, uec, store=self._store, trust=location.trust)
        if uec is not None and self._ensemble() != ensemble:  # saved again in between
            retriever = Retriever.load(location.index, store=self._store, trust=location.trust)
        set_gate(location, retriever)
        gate = retriever.gate
        if gate is not None and (before is None or gate != before.gate):
            origin = " of the index" if location.gate is None else ""
            _log.info("a gate%s decides: %s", origin, gate.report)
        if gate is not None and (
            gate.basis not in ("", retriever._method().basis)
            or gate.size not in (0, len(retriever))
            or not retriever._has_corpus_of(gate)
        ):
            _log.warning(OUTDATED)
            gate._warnings_given.add(OUTDATED)
        return Opened(retriever, ensemble)

    def _ensemble(self) -> Mapping[str, Entry]:
        """Return the manifest entries of the saved ensemble."""
        with suppress(OSError, ValueError):  # loading will report these
            files = read_manifest(self.location.index).files
            return {name: files[name] for name in files if name.startswith("ensemble/")}
        return {}

    def _stamp(self) -> tuple[int, ...]:
        """Return a stamp that changes with every save of the index or of its gate."""
        seen: tuple[int, ...] = ()
        for name in (MANIFEST, GATE_FILE):
            # A file that is missing or unreachable is reported when the index is opened.
            with suppress(OSError):
                status = os.stat(self.location.index / name)
                seen += (status.st_ino, status.st_mtime_ns, status.st_size)
        return seen

    @contextmanager
    def use(self) -> Iterator[Opened]:
        """Yield the current version of the index, which stays open until the block ends."""
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
        """Open a new version, if there is one; keep the old one if that fails.

        Returns whether the index was replaced. The reason of a failure is logged, and kept as
        `problem`. Does not wait for locks: if another thread opens or writes the index, a later
        call finds the new version.
        """
        if not self._writing.acquire(blocking=False):
            return False
        try:
            if (stamp := self._stamp()) == self._seen:
                return False
            try:
                opened = self._open(self._now)
            except Exception as error:  # whatever is wrong, the old version stays in use
                if not isinstance(error, OSError):  # which may be transient, and is retried
                    self._seen = stamp
                problem = f"a new version of the index cannot be opened: {error}"
                if problem != self.problem:
                    _log.error("%s; the previous one stays in use", problem)
                self.problem = problem
                return False
            self._seen, self.problem = stamp, ""
            with self._count:
                before, self._now = self._now, opened
                before.users += 1
            self._leave(before)
            _log.info("opened a new version: %s passages", f"{len(opened.retriever):,}")
            return True
        finally:
            self._writing.release()

    def write(self, change: Callable[[Retriever], _T]) -> _T:
        """Change the latest version of the index, and save it if its passages are in the folder.

        A new version is opened first, and other processes cannot save during the change, so no
        change is lost. If nothing has changed, nothing is saved. A change that raises is undone.

        Parameters
        ----------
        change : callable
            Called with the retriever, which may differ from the one in use before.

        Raises
        ------
        BlockingIOError
            If another process keeps saving. Nothing is changed.
        OSError
            If the latest version cannot be opened, since the old one would replace it.
        """
        with self._writing, ExitStack() as stack:
            remote = self._now.retriever.store.remote
            if not remote:
                stack.enter_context(locked_for_saving(self.location.index, KIND, wait=_PATIENCE))
            self.refresh()
            retriever = stack.enter_context(self.use()).retriever
            if remote:
                return change(retriever)
            if self.problem:
                raise OSError(f"Nothing was changed: {self.problem}")
            changes, calibration = retriever._changes, retriever.calibration

            def change_index() -> bool:
                return retriever._changes != changes or retriever.calibration is not calibration

            try:
                done = change(retriever)
                if change_index():
                    retriever.save(self.location.index)
                    self._seen = self._stamp()
            except BaseException:
                if change_index():
                    self._seen = None  # forces a reload of the saved version
                    self.refresh()
                raise
            return done

    def close(self) -> None:
        """Close the connections to an engine."""
        _close(self._now.retriever.store)


def _close(store: Store) -> None:
    getattr(store, "close", lambda: None)()
