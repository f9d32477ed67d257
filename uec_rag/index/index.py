"""The index: passages with the ensemble of their vectors, in memory, a folder or an engine."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from uec_rag.base.checks import as_list, check_text, check_type
from uec_rag.base.errors import FingerprintMismatch, NoDirection
from uec_rag.base.files import as_path
from uec_rag.base.gaussian import Gaussian
from uec_rag.documents.question_tables import follow_labels
from uec_rag.ensemble.uec import UEC
from uec_rag.gates.gate import GATE_FILE, Gate, check_gate
from uec_rag.index import learn, save
from uec_rag.index.additions import encode_additions
from uec_rag.index.learn import FitMode, OwnFit
from uec_rag.questions.languages import check_language
from uec_rag.retrieval.hits import without_findings
from uec_rag.stores.base import EVERYONE, Everyone, Filter, Searched, Store
from uec_rag.stores.filters import all_of, check_tenant, matching, parse
from uec_rag.stores.local import LocalStore
from uec_rag.stores.passage import Passage, hash_text, last_of_each, make_passages


class Passages(Sized, Iterable[Passage]):
    """The passages of a store, which each loop reads again.

    Parameters
    ----------
    view : Searched
        A view of the passages, as `Store.snapshot` returns it.
    """

    def __init__(self, view: Searched) -> None:
        self._view = view

    def __len__(self) -> int:
        return len(self._view)

    def __iter__(self) -> Iterator[Passage]:
        return self._view.passages()


class Index:
    """Passages, the vectors that an ensemble made of them, and what was learned of them.

    `uec_rag.Retriever` is one that is searched; parameters are as there.
    """

    def __init__(
        self,
        uec: UEC,
        store: Store | None = None,
        *,
        language: str | None = None,
        fit: FitMode = True,
        tenant_required: bool = False,
    ) -> None:
        check_type(uec, UEC, "uec", "a UEC", "; make one with UEC([encoder, ...])")
        check_type(store, Store | None, "store", "a store, such as LocalStore()")
        self.uec = uec
        self.store: Searched = LocalStore() if store is None else store
        self._posteriors = uec.fitted.posteriors
        if len(self.store):
            self._written.bind(uec.fingerprint)
        self.language = check_language(language)
        self.calibration: learn.CorpusCalibration | None = None
        home = self.store if isinstance(self.store, LocalStore) else LocalStore()
        self._settings = save.Settings(home)
        self._gate: tuple[Gate | None, ...] = ()  # none if it is that of the folder
        self._gate_of_folder = save.SavedGate()
        # Which passages of gates are still there, and what was said of gates; shared, too.
        self._living: dict[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]] = {}
        self._warnings: set[object] = set()
        self._is_snapshot, self._own_fit = False, OwnFit(fit)
        self._is_being_fitted = False  # in a view that was taken meanwhile
        # An ensemble, and its copy that has what was embedded of an addition that failed.
        self._begun: tuple[UEC, UEC] | None = None
        # Those of a retriever of LangChain or LlamaIndex that has the index for itself.
        self.usual_filter: Filter | None = None
        self.usual_tenant: Filter | None = None
        self.tenant_required = tenant_required

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store}, {self.uec!r})"

    def __deepcopy__(self, memo: object) -> Self:
        """Return the index itself, which copies of what searches it share."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the path of a folder, or the passages of an index in memory and of a view."""
        blanks: dict[str, Any] = {"_living": {}, "_warnings": set()}
        state = self.__dict__ | blanks | {"_settings": replace(self._settings, values={})}
        state |= {"usual_filter": None, "usual_tenant": None, "_begun": None}
        if self._is_snapshot:  # whose store has all that it needs of the folder but these
            home, settings = LocalStore(), self._settings.home.settings
            home.change_settings({name: settings.get(name) for name in save.ALL_LABELS})
            state |= {"_settings": save.Settings(home), "_gate": (self.gate,)}
        return state

    @property
    def folder(self) -> Path | None:
        """The folder of the index; None if it is in memory."""
        return self._settings.home.folder

    @property
    def gate(self) -> Gate | None:
        """The gate that decides in every search; None for a confidence above 0.5.

        If none is set, it is that in the folder that the index was loaded from, "gate.json".
        """
        if self._gate:
            return self._gate[0]
        folder = self._settings.home.folder
        if folder is not None and folder.exists():  # a deleted folder removes no gate
            self._gate_of_folder = save.read_gate(folder, self._gate_of_folder)
        return self._gate_of_folder.gate

    @gate.setter
    def gate(self, gate: Gate | None) -> None:
        self._gate = (check_gate(gate),)

    @property
    def changes(self) -> int:
        """The number of additions and removals so far by all processes; 0 for an engine."""
        return self.store.changes

    @property
    def _written(self) -> Store:
        """The store, to write to; RuntimeError in a snapshot."""
        if not isinstance(self.store, Store):
            raise RuntimeError("this is a snapshot of an index; write to the index itself.")
        return self.store

    def __len__(self) -> int:
        """Return the number of passages; ValueError if a tenant is required."""
        self._tenant_of(EVERYONE)
        return len(self.store)

    def __bool__(self) -> bool:
        return len(self.store) > 0

    def _tenant_of(self, tenant: Filter | Everyone) -> Filter | None:
        """Return the filter of a call's tenant, None for all; see `check_tenant`."""
        return check_tenant(tenant, required=self.tenant_required)

    def add(
        self,
        texts: Iterable[str],
        ids: Iterable[str] | None = None,
        metadatas: Iterable[Mapping[str, Any]] | None = None,
        *,
        show_progress: bool | None = None,
    ) -> list[str]:
        """Encode and index texts; a text with the id of an existing one replaces it.

        Models embed each different text once, and none that the index has: to embed them again, as
        if the model behind an API has changed, call `clear` first. All texts are added or none;
        after a failure, what a service embedded is kept for the next call. To fill an index that is
        larger than the memory, add a few thousand at a time.

        Parameters
        ----------
        texts : iterable of str
        ids : iterable of str, optional
            Generated by default. If a text is given twice with one id, the last metadata stays.
        metadatas : iterable of mapping, optional
            One per text. Keys that begin with "uec_" are dropped, since a search uses them.
        show_progress : bool, optional
            Whether to show progress; by default on a terminal, after a second.

        Returns
        -------
        list of str
            The ids.

        Raises
        ------
        TypeError, ValueError
            If a text is empty or not a string, if an id is given with two texts, or if the lengths
            differ.
        """
        passages = make_passages(texts, ids, metadatas)
        batch = [passages[position] for position in last_of_each(passages)]
        if not batch:
            return []
        self._follow()
        while True:
            uec = self.uec
            try:
                gaussians = self.encode(batch, show_progress=show_progress)
            except NoDirection as error:
                row = next((at for at, p in enumerate(passages) if p.searched == error.text), None)
                raise ValueError(
                    f"{error} Nothing was added; leave out texts[{row}], and others of its kind."
                ) from error
            with self.changing():
                with self._own_fit.swapping:
                    is_same = self.uec is uec  # else it was fitted meanwhile
                if is_same:
                    self.add_gaussians(batch, gaussians)
                    return [passage.id for passage in passages]

    def encode(self, passages: Sequence[Passage], *, show_progress: bool | None = None) -> Gaussian:
        """Encode passages for `add_gaussians`, of which models see each new text once.

        What services embedded before another of their calls failed is kept until passages are
        added.
        """
        with self._own_fit.swapping:
            self._check_fit()
            uec, begun = self.uec, self._begun
        if begun is None or begun[0] is not uec:
            self._begun = begun = uec, uec.remembering()
        return encode_additions(begun[1], self.store, passages, show_progress=show_progress)

    def add_encoded(self, passages: Sequence[Passage], parts: Sequence[Gaussian]) -> list[str]:
        """Add passages that are already encoded.

        Parameters
        ----------
        passages : sequence of Passage
            Passages as returned by `make_passages`.
        parts : sequence of Gaussian
            Each encoder's Gaussians of their texts, as `UEC.encode` returns them.

        Returns
        -------
        list of str
            The ids.
        """
        return self.add_gaussians(passages, self.uec.fitted.combine_as(parts, "passage"))

    def add_gaussians(self, passages: Sequence[Passage], gaussians: Gaussian) -> list[str]:
        """Add passages with the Gaussians that the ensemble has of them; return their ids."""
        self._check_fit()
        with self.changing():
            self._written.bind(self.uec.fingerprint)
            self._written.add([without_findings(passage) for passage in passages], gaussians)
        self._begun = None
        return [passage.id for passage in passages]

    def _check_fit(self) -> None:
        """Accept a new fit of the ensemble; ValueError if there are passages of the old one."""
        if self.uec.fitted.posteriors is self._posteriors:
            return
        if self:
            raise ValueError(
                f"uec: it was fitted after these {len(self.store)} passages were indexed, whose "
                "vectors are of the previous fit; call clear() and add them again."
            )
        self._posteriors = self.uec.fitted.posteriors

    @contextmanager
    def changing(self) -> Iterator[Self]:
        """Make several calls one transaction: if the block fails, none of them has happened.

        Others, also in other processes, wait to write until the block ends, and read meanwhile
        what was there before. An engine has no transactions: what was written there stays.

        Raises
        ------
        BlockingIOError
            If another process writes for longer than a minute.
        PermissionError
            If the index was loaded with ``read_only=True``.

        Examples
        --------
        >>> index = Index(UEC(["bm25"]))
        >>> with index.changing():
        ...     ids = index.add(["Cats purr.", "Dogs bark."], ids=["cats", "dogs"])
        ...     index.delete(["cats"])
        1
        """
        with self._written.changing():
            yield self

    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages, ignoring unknown ids; return the number removed."""
        return self._written.delete(as_list(ids, "ids"))

    def get(self, ids: Sequence[str], *, tenant: Filter | Everyone = EVERYONE) -> list[Passage]:
        """Return the passages with the given ids, in that order, leaving out unknown ids.

        `tenant`: the filter of one tenant's passages, as in `Retriever.search`.
        """
        condition, names = self._tenant_of(tenant), as_list(ids, "ids")
        if condition is None:
            return self.store.get(names)
        hits = matching(parse(condition), self.store.get(names))
        there = {passage.id: passage for passage in hits}
        return [there[id_] for id_ in names if id_ in there]

    def clear(self) -> None:
        """Remove every passage."""
        self.delete([passage.id for passage in self.store.passages()])

    def passages(
        self, filter: Filter | None = None, *, tenant: Filter | Everyone = EVERYONE
    ) -> Passages:
        """Return all passages, or those that a filter selects, to loop over and to count.

        With a store in memory, they are those of now, in the order of insertion; with another
        store, each loop reads those that it has then.

        `tenant`: the filter of one tenant's passages, as in `Retriever.search`.
        """
        return Passages(self.store.snapshot(all_of(self._tenant_of(tenant), filter)))

    def vectors(self, ids: Sequence[str], *, tenant: Filter | Everyone = EVERYONE) -> Gaussian:
        """Return the stored Gaussians of ids; KeyError if an id is unknown.

        `tenant`: the filter of one tenant's passages, as in `Retriever.search`.
        """
        names = as_list(ids, "ids")
        if self._tenant_of(tenant) is not None:
            there = {passage.id for passage in self.get(names, tenant=tenant)}
            if unknown := [id_ for id_ in names if id_ not in there]:
                raise KeyError(f"ids: {unknown[0]!r} is not in the store.")
        return self.store.vectors(names)

    @property
    def labels(self) -> dict[str, set[str]]:
        """The ids of the passages that answer each labelled question; none if nothing does.

        A label follows its text to another id. If no passage has that text any more, it is left
        out with a warning, and so is a question that has no other label.
        """
        return self.labels_of(EVERYONE)

    def labels_of(self, tenant: Filter | Everyone) -> dict[str, set[str]]:
        """Return the `labels` of one tenant, which are apart from those of others and of none."""
        condition = self._tenant_of(tenant)
        labels = save.read_labels(self._settings.home, condition)
        view = self.store if condition is None else self.store.snapshot(condition)
        return follow_labels(labels, view)

    def label(
        self,
        question: str,
        relevant_ids: Collection[str] | None,
        *,
        tenant: Filter | Everyone = EVERYONE,
    ) -> None:
        """Label a question of the saved index with the passages that answer it.

        `uec-rag gate` makes a gate of the labels. A label takes the place of one that the question
        had. Other processes may write at the same time.

        Parameters
        ----------
        question : str
        relevant_ids : collection of str, optional
            Ids of passages; empty if nothing in the index answers the question. None removes its
            label.
        tenant : mapping, optional
            The filter of one tenant's passages, of which the ids are; see `labels_of`.

        Raises
        ------
        TypeError, ValueError
            If the question is empty, an id is not in the index, or the index has no folder yet.
        PermissionError, BlockingIOError
            If the index is only read, or other processes keep writing to it.
        """
        check_text(question, "question")
        ids = as_list(relevant_ids or [], "relevant_ids")
        condition = self._tenant_of(tenant)
        if condition is None:
            there = self.store.fingerprints(ids)
        else:
            there = {p.id: hash_text(p.text) for p in self.get(ids, tenant=tenant)}
        if unknown := [id_ for id_ in ids if id_ not in there]:
            raise ValueError(
                f"relevant_ids: expected ids of passages in the index, got {unknown[0]!r:.100}; "
                "pass [] if nothing in the index answers the question."
            )
        if self.folder is None:
            raise ValueError("label: the index has no folder; save it first.")
        hashes = None if relevant_ids is None else there
        save.write_label(self._settings.home, question, hashes, condition)

    def _follow(self) -> None:
        """Read what other processes have recorded in the folder: an ensemble, a calibration.

        FingerprintMismatch if the ensemble is another one, and was not loaded from the folder.
        """
        if self._is_snapshot:
            return
        if self._settings.home.settings is not self._settings.values:
            with self._own_fit.swapping:
                self._settings.read_whole(self._take_over)

    def _take_over(self, settings: save.Settings) -> None:
        """Take the ensemble and the calibration of the folder."""
        values, before = settings.values, self._settings.values
        expected = values.get("ensemble_fingerprint")
        if expected is not None and self and expected != self.uec.fingerprint:
            self.uec = settings.load_ensemble()
            self._posteriors = self.uec.fitted.posteriors
            if expected != self.uec.fingerprint:
                raise FingerprintMismatch(
                    "index: its words are counted with other stems (another PyStemmer) since; "
                    "load it again."
                )
        if values.get("calibration") != before.get("calibration"):
            self.calibration = settings.read_calibration()
        self._settings = settings

    def save(self, path: str | os.PathLike[str]) -> None:
        """Copy the index with its ensemble and gate to a folder, in place of one that is there.

        An index in memory has that folder from then on: later changes are written through. One
        that was loaded from `path` only records its ensemble and calibration there, since its
        passages are there.

        Raises
        ------
        FileExistsError
            If `path` exists and is not a saved index.
        IndexCorrupted
            If the index there is damaged, or of another version; it stays as it is.
        BlockingIOError
            If another process writes there for longer than a minute.
        OSError
            If the disk is full; what was there is unchanged.
        """
        target, home = as_path(path), self._settings.home
        gate = self.gate if self._gate or home.folder != target else None
        if home.folder == target and not self._is_snapshot:
            save.record(home, self.store, self.uec, self.calibration)
            self._settings = self._settings.now()
            store = home
        else:
            store = save.save_index(target, self.uec, self.store, self.calibration)
        with store.changing():
            store.change_settings({save.TENANT_REQUIRED: self.tenant_required})
        if gate is not None:
            gate.save(target / GATE_FILE)
        if store is home:
            return
        if self._is_snapshot or home.folder is not None:
            store.close()
        else:
            home.move_to(store)
            self._settings = self._settings.now()

    def check(self) -> None:
        """Verify the checksums of the saved ensemble, and of all vectors and passages.

        Passages in an engine are not read.

        Raises
        ------
        IndexCorrupted
            If something is damaged; the message names the file and what to do.
        """
        self._settings.home.check()
        self._settings.check_ensemble()

    def compact(self) -> None:
        """Remove what was deleted or replaced from all files of the folder, now.

        Else the next search, `check` or `close` does it, but while other processes have the index
        open, the first of these after a minute, for which their snapshots may read it.

        Raises
        ------
        RuntimeError
            If this is a snapshot.
        BlockingIOError, PermissionError, OSError
            As in `changing`, or if the disk is full.
        """
        self._written.compact()

    def close(self) -> None:
        """Close the files of the index; it cannot be used after."""
        for store in {id(home): home for home in (self._settings.home, self.store)}.values():
            if isinstance(store, Store):
                store.close()
