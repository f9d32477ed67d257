"""The retriever: passages with the vectors that an ensemble made of them, which is searched."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self, Unpack, cast

from uec_rag.base.checks import as_list, check_k, check_share, check_type
from uec_rag.base.errors import EncoderFailed, NoDirection, warn, warn_once
from uec_rag.base.files import as_path
from uec_rag.base.gaussian import Gaussian
from uec_rag.base.loops import beside, check_cancelled
from uec_rag.base.progress import span
from uec_rag.confidence.decision import CLARIFY_FROM
from uec_rag.documents.question_tables import follow_labels
from uec_rag.encoders.base import Encoded
from uec_rag.encoders.calls import patiently
from uec_rag.encoders.loading import EncoderLike
from uec_rag.ensemble.convolution import make_rule
from uec_rag.ensemble.ensemble_file import fingerprint_of_encoders
from uec_rag.ensemble.uec import UEC
from uec_rag.gates.gate import GATE_FILE, Gate, check_gate
from uec_rag.gates.labelled_search import check_labels
from uec_rag.gates.policy import Stamp
from uec_rag.gates.rulings import Pending, pending_on_results, settled_result
from uec_rag.index import learn, save
from uec_rag.index.additions import encode_additions, remembering
from uec_rag.index.first_fit import FirstFit, FitMode
from uec_rag.index.save import Settings
from uec_rag.index.saved_labels import ALL_LABELS, check_label, read_labels, write_label
from uec_rag.questions.answers import TurnLike
from uec_rag.questions.languages import ENGLISH, check_language
from uec_rag.questions.query import Query, parse_queries
from uec_rag.questions.replies import Within
from uec_rag.retrieval.diversity import Diversity
from uec_rag.retrieval.rankings import Method, method_of
from uec_rag.retrieval.results import Result, SearchResult, is_read_by_model, without_findings
from uec_rag.retrieval.search import Options, Request, ask_vector, log_decisions, search_queries
from uec_rag.stores.base import EVERYONE, Everyone, Filter, Passages, Searched, Store
from uec_rag.stores.candidates import saved_store
from uec_rag.stores.filters import (
    all_of,
    check_tenant,
    is_shared,
    matches,
    matching,
    normal_form,
    parse,
)
from uec_rag.stores.local import LocalStore, View
from uec_rag.stores.passage import Passage, hash_text, last_of_each, make_passages
from uec_rag.stores.source import SourceStore


@dataclass(frozen=True)
class _View:
    """A way of looking at an index: the limits of what it shows.

    Attributes
    ----------
    tenant : Filter or None
        Selects the passages of a tenant, which no call lifts; None for all.
    is_closed : bool
        Whether a tenant is required, whatever the index says.
    language : str or None
        That of a tenant's reasons, if it was set in the view; "" for that of the index.
    usual_filter, usual_tenant : Filter or None
        Those of a retriever of LangChain or LlamaIndex that has the view for itself.
    """

    tenant: Filter | None = None
    is_closed: bool = False
    language: str | None = ""
    usual_filter: Filter | None = None
    usual_tenant: Filter | None = None


_OF_VIEW = ("language", "usual_filter", "usual_tenant")  # what may be set in a tenant's view


class Retriever:
    """Searchable index of passages with confidence estimates.

    Parameters
    ----------
    uec : UEC
    store : Store, optional
        Where passages and their vectors are stored; in memory by default.
    language : str, optional
        Code of the language of reasons and clarifying questions: "en", "de", "fr", "es", "pt",
        "it", "zh", "ja", "ko", "ar", "ru" or "hi". By default, that of each question, or English if
        that is uncertain. The attribute `language` may be set later.
    fit : bool or "background"
        Whether the first search of 64 passages or more fits an ensemble that has no fit on
        questions made of them, see `fit_from`. The ensemble that was passed stays as it is. With
        "background", searches do not wait for it: until it is made, they are uncertain, and say so.
    tenant_required : bool
        Whether each search, label, list and count of passages needs a `tenant`, and is refused
        without one. It is saved, and holds for what is made of the index or saved in its place;
        what is learned (`fit_from`, `calibrate`) needs none. The attribute may be set later.

    Examples
    --------
    Set up, over words alone, to run anywhere; ``UEC()`` adds an embedding model:

    >>> from uec_rag import UEC
    >>> index = Retriever(UEC(["bm25"]))

    Add:

    >>> texts = ["Cats purr when they are content.", "Dogs bark at strangers."]
    >>> index.add(texts, ids=["cats", "dogs"])
    ['cats', 'dogs']

    Search:

    >>> result = index.search(["Why do cats purr?", "What is the capital of France?"], k=1)
    >>> result.ids[0], [decision.action for decision in result.decisions]
    (['cats'], ['answer', 'abstain'])

    Save and load; what is changed from then on is on disk at once:

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     index.save(f"{folder}/index")
    ...     len(Retriever.load(f"{folder}/index"))
    2
    """

    __slots__ = ("__dict__", "__weakref__", "_view")  # the index, which views share, and the view

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
        self._view = _View()
        self._language = check_language(language)
        self.uec = uec
        self._store: Searched = LocalStore() if store is None else store
        self._posteriors = uec.fitted.posteriors
        if len(self._store):
            self._written.bind(fingerprint_of_encoders(uec.encoders, uec.fitted))
        self.calibration: learn.CorpusCalibration | None = None
        home = self._store if isinstance(self._store, LocalStore) else LocalStore()
        self._settings = Settings(home)
        self._gate: tuple[Gate | None, ...] = ()  # none if it is that of the folder
        self._gate_of_folder = save.SavedGate()
        # Which passages of gates are still there, and what was said of gates; shared, too.
        self._living: dict[object, tuple[tuple[str, str], ...]] = {}
        self._warnings: set[object] = set()
        self._is_snapshot, self._first_fit = False, FirstFit(fit)
        self._is_being_fitted = False  # in a view that was taken meanwhile
        # An ensemble, its copy that has what was embedded of failed additions, and their texts.
        self._begun: tuple[UEC, UEC, set[str]] | None = None
        # None for what the folder says
        self._requires_tenant: bool | None = tenant_required or None

    def __setattr__(self, name: str, value: object) -> None:
        is_own = name in _OF_VIEW or name.startswith("_")
        if not is_own and self._view.tenant is not None and not self._is_snapshot:
            raise ValueError(f"{name}: this is a tenant's view; set it in the index itself.")
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store}, {self.uec!r})"

    def __deepcopy__(self, memo: object) -> Self:
        """Return the index itself, which copies of what searches it share."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the path of a folder, or the passages of an index in memory and of a view."""
        blanks: dict[str, Any] = {"_living": {}, "_warnings": set()}
        state = self.__dict__ | blanks | {"_settings": replace(self._settings, values={})}
        view = replace(self._view, usual_filter=None, usual_tenant=None)
        state |= {"_begun": None, "_view": view}
        if view.tenant is not None and self.folder is None and isinstance(self.store, View):
            state |= {"_store": self._copy_store(self.store), "_is_snapshot": True}
        if self._is_snapshot:  # whose store has all that it needs of the folder but these
            home, settings = LocalStore(), self._settings.home.settings
            names = (*ALL_LABELS, save.TENANT_REQUIRED)
            home.change_settings({name: settings.get(name) for name in names})
            state |= {"_settings": Settings(home), "_gate": (self.gate,)}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._view = state.pop("_view")
        self.__dict__ |= state

    def __len__(self) -> int:
        """Return the number of passages; ValueError if a tenant is required."""
        return len(self.passages())

    def __bool__(self) -> bool:
        return len(self.store) > 0

    def of_tenant(self, tenant: Filter) -> Self:
        """Return a view of the index that shows one tenant's passages, and changes no others.

        What is added must be selected by `tenant`, the filter of its passages, and may have no id
        that others have; what is deleted is its own. A `tenant` of a call, or another `of_tenant`,
        limits it further. The index is that of all: what it learns or gets shows at once.

        Examples
        --------
        >>> from uec_rag import UEC
        >>> index = Retriever(UEC(["bm25"]))
        >>> ids = index.add(["Cats purr.", "Dogs bark."], ["c", "d"], [{"of": "Ann"}, {"of": "Bo"}])
        >>> view = index.of_tenant({"of": "Ann"})
        >>> len(view), view.delete(["c", "d"]), len(index)
        (1, 1, 1)
        """
        condition = all_of(self._view.tenant, check_tenant(tenant, required=True))
        return self._seen_as(replace(self._view, tenant=condition))

    def requiring_tenant(self, *, must: bool = True) -> Self:
        """Return a view that requires a tenant, whatever the index says; or as the index says."""
        return self._seen_as(replace(self._view, is_closed=must))

    def _copy_store(self, view: View) -> View:
        """Return a view of a store that has the passages of one, and no others."""
        store, passages = LocalStore(), [*view.passages()]
        twin = store.with_encoders(self.uec.encoders)
        twin.bind(fingerprint_of_encoders(self.uec.encoders, self.uec.fitted))
        if passages:
            copies = [Passage(p.id, p.text, p.metadata) for p in passages]
            uec = self.uec.with_cache()
            twin.add(copies, encode_additions(uec, self._store, copies)[1])
        return twin.snapshot()

    def _seen_as(self, view: _View) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__ = self.__dict__
        twin._view = view
        return twin

    def check_whole(self, work: str) -> None:
        """Raise ValueError in the view of a tenant, whose passages are not all of them.

        `work`: the call or attribute that the message names.
        """
        if self._view.tenant is not None and not self._is_snapshot:
            raise ValueError(f"{work}: this is a tenant's view; use the index itself.")

    @property
    def store(self) -> Searched:
        """The store of the passages; in a tenant's view, of its own alone, which are only read.

        Whoever writes there goes round the index.
        """
        tenant = self._view.tenant
        return self._store if tenant is None else self._store.of_tenant(tenant)

    @property
    def usual_tenant(self) -> Filter | None:
        """The tenant of a framework's retriever that has the index for itself, or of this view."""
        return self._view.tenant or self._view.usual_tenant

    @usual_tenant.setter
    def usual_tenant(self, tenant: Filter | None) -> None:
        self._view = replace(self._view, usual_tenant=tenant)

    @property
    def usual_filter(self) -> Filter | None:
        """The filter of a framework's retriever that has the index for itself."""
        return self._view.usual_filter

    @usual_filter.setter
    def usual_filter(self, filter: Filter | None) -> None:
        self._view = replace(self._view, usual_filter=filter)

    @property
    def language(self) -> str | None:
        """The code of the language of reasons; None for that of each question."""
        return self._language if self._view.language == "" else self._view.language

    @language.setter
    def language(self, language: str | None) -> None:
        if self._view.tenant is None:
            self._language = check_language(language)
        else:
            self._view = replace(self._view, language=check_language(language))

    @property
    def tenant_required(self) -> bool:
        """True if a tenant is required, as is saved unless it was set since."""
        if self._view.is_closed:
            return True
        if self._requires_tenant is None:
            return bool(self._settings.home.settings.get(save.TENANT_REQUIRED))
        return self._requires_tenant

    @tenant_required.setter
    def tenant_required(self, required: bool) -> None:
        self.check_whole("tenant_required")
        self._requires_tenant = bool(required)

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
        self.check_whole("gate")
        self._gate = (check_gate(gate),)

    @property
    def changes(self) -> int:
        """The number of additions and removals so far by all processes; 0 for an engine.

        In a tenant's view it is 0, too.
        """
        return self._store.changes if self._view.tenant is None else 0

    @property
    def report(self) -> str:
        """The description of how relevance and confidence were learned, and of limitations."""
        return learn.report_of(self.uec, self.calibration)

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
        self._check_own(batch)
        self._note_fit()
        self._follow()
        try:
            encoded, encodings = self.encode(batch, show_progress=show_progress)
        except NoDirection as error:
            inputs = [(p.headed, *p.seen_beside) for p in passages]
            row = next((at for at, texts in enumerate(inputs) if error.text in texts), None)
            raise ValueError(
                f"{error} Nothing was added; leave out texts[{row}], and others of its kind."
            ) from error
        except EncoderFailed as error:
            texts = {*error.texts}
            sent = ((p.id, (p.searched, p.headed, *p.seen_beside)) for p in passages)
            ids = [id_ for id_, inputs in sent if not texts.isdisjoint(inputs)]
            if not ids:
                raise
            text = f"{error} It is of the passage {ids[0]!r}; nothing was added."
            raise EncoderFailed(text, error.encoder, error.texts) from error.__cause__
        self.add_encoded(encoded, encodings)
        return [passage.id for passage in passages]

    def encode(
        self, passages: Sequence[Passage], *, show_progress: bool | None = None
    ) -> tuple[list[Passage], list[Encoded]]:
        """Encode passages for `add_encoded`, of which models see each new text once.

        What services embedded before another of their calls failed is kept until these passages
        are added.
        """
        uec, begun = self.uec, self._begun
        if begun is None or begun[0] is not uec:
            self._begun = begun = uec, remembering(uec), set[str]()
        try:
            return encode_additions(begun[1], self._store, passages, show_progress=show_progress)
        except BaseException:
            begun[2].update(passage.searched for passage in passages)
            raise

    def add_encoded(self, passages: Sequence[Passage], encodings: Sequence[Encoded]) -> list[str]:
        """Add passages that are already encoded.

        Parameters
        ----------
        passages : sequence of Passage
            Passages as returned by `make_passages`.
        encodings : sequence of Encoded
            What each encoder made of their texts, as `UEC.encodings` returns it.

        Returns
        -------
        list of str
            The ids.
        """
        check_cancelled()  # later, what is added cannot be told from what was not
        with self.changing():
            self._check_own(passages)
            self._written.bind(fingerprint_of_encoders(self.uec.encoders, self.uec.fitted))
            self._written.add([without_findings(passage) for passage in passages], encodings)
        if (begun := self._begun) is not None:
            if begun[2]:
                begun[2].difference_update(passage.searched for passage in passages)
            self._begun = begun if begun[2] else None
        return [passage.id for passage in passages]

    def _check_own(self, passages: Sequence[Passage]) -> None:
        """Raise ValueError if a tenant's view is given what is, or may be, another tenant's."""
        if self._view.tenant is None:
            return
        condition = parse(self._view.tenant)
        for passage in passages:
            if not matches(condition, passage) or is_shared(condition, passage):
                raise ValueError(
                    f"metadatas: that of {passage.id!r:.60} is not selected by the tenant of this "
                    "view alone; expected metadata that is. Add what several share to the index."
                )
        for passage in self._store.get([passage.id for passage in passages]):
            if not matches(condition, passage) or is_shared(condition, passage):
                raise ValueError(
                    f"ids: {passage.id!r:.60} cannot be used; expected ids that begin with what "
                    "only this tenant has, or leave ids out."
                )

    def _note_fit(self) -> None:
        """Record that the ensemble was fitted in place, where the index is written."""
        is_known = self.uec.fitted.posteriors is self._posteriors
        self._posteriors = self.uec.fitted.posteriors
        if not (is_known or self._is_snapshot or self._settings.home.read_only):
            self._use_fit(self.uec, ())

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
        >>> from uec_rag import UEC
        >>> index = Retriever(UEC(["bm25"]))
        >>> with index.changing():
        ...     ids = index.add(["Cats purr.", "Dogs bark."], ids=["cats", "dogs"])
        ...     index.delete(["cats"])
        1
        """
        with self._written.changing():
            yield self

    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages, ignoring unknown ids; return the number removed."""
        if not (names := as_list(ids, "ids")):
            return 0  # no transaction
        with self.changing():
            if self._view.tenant is not None:  # what others share is theirs, too
                condition = parse(self._view.tenant)
                names = [p.id for p in self.get(names) if not is_shared(condition, p)]
            return self._written.delete(names)

    def clear(self) -> None:
        """Remove every passage."""
        self.delete([passage.id for passage in self.store.passages()])

    def get(self, ids: Sequence[str], *, tenant: Filter | Everyone = EVERYONE) -> list[Passage]:
        """Return the passages with the given ids, in that order, leaving out unknown ids.

        `tenant`: the filter of one tenant's passages, as in `Retriever.search`.
        """
        condition, names = self._tenant_of(tenant), as_list(ids, "ids")
        if condition is None:
            return self._store.get(names)
        hits = matching(parse(condition), self._store.get(names))
        there = {passage.id: passage for passage in hits}
        return [there[id_] for id_ in names if id_ in there]

    def passages(
        self, filter: Filter | None = None, *, tenant: Filter | Everyone = EVERYONE
    ) -> Passages:
        """Return all passages, or those that a filter selects, to loop over and to count.

        With a store in memory, they are those of now, in the order of insertion; with another
        store, each loop reads those that it has then.

        `tenant`: the filter of one tenant's passages, as in `Retriever.search`.
        """
        return Passages(self._store.snapshot(all_of(self._tenant_of(tenant), filter)))

    def vectors(self, ids: Sequence[str], *, tenant: Filter | Everyone = EVERYONE) -> Gaussian:
        """Return the Gaussians of ids by the fit of now; KeyError if an id is unknown.

        `tenant`: the filter of one tenant's passages, as in `Retriever.search`.
        """
        names = as_list(ids, "ids")
        if self._tenant_of(tenant) is not None:
            there = {passage.id for passage in self.get(names, tenant=tenant)}
            if unknown := [id_ for id_ in names if id_ not in there]:
                raise KeyError(f"ids: {unknown[0]!r} is not in the store.")
        return self.uec.fitted.passages(self._store.vectors(names))

    def _tenant_of(self, tenant: Filter | Everyone) -> Filter | None:
        """Return the filter of a call's tenant, None for all; see `check_tenant`."""
        if (condition := self._view.tenant) is not None:
            return all_of(condition, check_tenant(tenant))
        return check_tenant(tenant, required=self.tenant_required)

    @property
    def _written(self) -> Store:
        """The store, to write to; RuntimeError in a snapshot."""
        if not isinstance(self._store, Store):
            raise RuntimeError("this is a snapshot of an index; write to the index itself.")
        return self._store

    def search(
        self,
        queries: Sequence[str],
        k: int = 4,
        *,
        filter: Filter | None = None,
        history: Sequence[Sequence[TurnLike]] | None = None,
        within: Within | None = None,
        diversity: Diversity | None = None,
        tenant: Filter | Everyone = EVERYONE,
    ) -> SearchResult:
        """Find the k passages with the highest s_hat for each query, and decide by the `gate`.

        Parameters
        ----------
        queries : sequence of str
            A blank one finds nothing. In a message of over 200 characters, the part that asks is
            the question, and the rest is a turn before it; of over 8,000, the middle is not read.
        k : int
            Number of hits; all matches are returned if there are fewer. If the gate has a
            guarantee, at least the number of hits that it was made for, `Gate.k`, is returned.
        filter : mapping or callable, optional
            Metadata values that must be equal, or operators (see `uec_rag.stores.filters`), or a
            predicate on a `Passage`. Words are counted among all passages, and spelled as those
            that it selects.
        history : sequence of n sequences of str, Turn or pair, optional
            The turns before each query in a conversation, oldest first: those of the user and the
            questions that the user was asked back; and answers, as `("assistant", text)`. Only the
            last 64 turns are looked at, and of these only the last 1,500 bytes are used. If the
            last turn asked back and the query is one of its labels, that reading is searched, as
            with `within=label`.
        within : Reading, mapping, sequence of str or str, optional
            The reading that the user chose when asked back (from `Decision.readings`), or its ids:
            only its passages that the filter selects are searched. Or the label of the reading, in
            which case one more search finds the readings again.
        diversity : Diversity, optional
            Choose hits that are relevant and diverse, by maximal marginal relevance.
        tenant : mapping or callable, optional
            A filter for all passages of one tenant, whose questions are searched and decided as if
            no others were there: words are counted and spelled among them alone. Only the fit is
            that of all. `filter` limits the search further.
            One that selects everything, such as {}, is refused, and so is None: leave it out, to
            search the passages of all.

        Returns
        -------
        SearchResult

        Raises
        ------
        TypeError, ValueError
            If a query is not a string, if k < 1, if `filter`, `history` or `within`
            is not valid, or if no reading has the label and no passage has one of the ids
            (`UnknownReading`).
        """
        options = Options(
            filter=filter, history=history, within=within, diversity=diversity, tenant=tenant
        )
        with span("search") as facts:
            view, request, gate = self._prepare(queries, k, options)
            result = view._run(request)
            if gate is not None:
                pending = view._pending(gate, request, result)
                result = settled_result(pending, pending.finish(), k)
            log_decisions(result, facts)
        return result

    async def asearch(
        self, queries: Sequence[str], k: int = 4, **options: Unpack[Options]
    ) -> SearchResult:
        """Run `search` in a thread; an asynchronous advisor is asked in this event loop."""
        await self.afit_once()

        def begin() -> tuple[SearchResult, Pending[Result] | None]:
            view, request, gate = self._prepare(queries, k, options)
            result = view._run(request)
            return result, None if gate is None else view._pending(gate, request, result)

        with span("search") as facts:
            result, pending = await beside(begin)
            if pending is not None:
                result = settled_result(pending, await pending.afinish(), k)
            log_decisions(result, facts)
        return result

    def _prepare(
        self, queries: Sequence[str], k: int, options: Options
    ) -> tuple[Self, Request, Gate | None]:
        """Check and parse what is asked; return what is searched, the request, and the gate."""
        is_being_fitted = self._fit_once()
        if (diversity := options.get("diversity")) is not None:
            check_type(diversity, Diversity, "diversity", "a Diversity")
        view = self
        if (diversity is not None or is_being_fitted) and not self._is_snapshot:
            view = self.snapshot()  # no passage of it is deleted
        view._follow()
        view._store.remove_deleted()
        tenant = options.get("tenant", EVERYONE)
        is_open = tenant is EVERYONE and self._view.tenant is None and not self.tenant_required
        request = Request(
            (),
            check_k(k),
            options.get("filter"),
            None if is_open else self._tenant_of(tenant),
            options.get("within"),
            diversity,
            is_read=is_read_by_model(),
        )
        if (scope := request.scope) is not None:
            parse(scope)  # so that a wrong one costs no encoding
        gate = view._active_gate(scope)
        questions = parse_queries(queries, options.get("history"), request.within)
        depth = request.k if gate is None else gate.depth(request.k)
        return view, replace(request, queries=questions, k=depth), gate

    def _pending(self, gate: Gate, request: Request, result: SearchResult) -> Pending[Result]:
        """Decide on a result at the threshold of the gate, before its advisor is asked."""

        def again(rewrites: Sequence[str]) -> SearchResult:
            # A rewrite needs no turns before it, and is spelled correctly.
            return self._run(replace(request, queries=[*map(Query, rewrites)], spells=False))

        # A rewrite may lead away from a reading that was chosen.
        search = None if any(query.replies for query in request.queries) else again
        return pending_on_results(gate, result, [query.lines for query in request.queries], search)

    def _run(self, request: Request) -> SearchResult:
        """Search for questions; see `search_queries`.

        Encoders that fail are left out, if others are left. It is repeated if another process has
        saved another ensemble meanwhile.
        """
        home, failed, failures = self._settings.home, list[str](), list[str]()
        while True:
            settings = replace(self._settings, values=home.settings)
            self._follow()
            uec, store = self.uec, self._store
            if failed:
                uec, store = without(uec, store, failed) or (uec, store)
            caveat: tuple[str, str] | tuple[()] = ("fitting", "") if self._is_being_fitted else ()
            if failures:
                caveat = "failed", ", ".join(failures)
            method = replace(
                self._method(request.scope),
                caveat=caveat,
                rarity=uec.rarity,
                clarify_from=CLARIFY_FROM if self.gate is None else self.gate.clarify_from,
            )
            try:
                result = search_queries(uec, store, method, request)
            except (EncoderFailed, NoDirection) as error:
                is_repeated = error.encoder in failed  # something else asks it
                is_of_store = isinstance(error, NoDirection) and not error.text
                names = [*failed, error.encoder]
                if is_of_store or is_repeated or without(self.uec, self._store, names) is None:
                    raise
                if isinstance(error, NoDirection) and len(request.queries) > 1:  # not of others
                    alone = [replace(request, queries=[query]) for query in request.queries]
                    return SearchResult([self._run(question)[0] for question in alone])
                failed.append(error.encoder)
                if isinstance(error, NoDirection):
                    warn(f"{error} This question is decided without it.")
                    continue
                warn(f"{error} Searched without it, so that nothing is answered.")
                failures.append(error.encoder)
            except Exception as error:
                if self._is_snapshot or not settings.has_changed(error):
                    raise
            else:
                if home.settings is settings.values or not settings.has_changed():
                    return result

    def _method(self, filter: Filter | None = None) -> Method:
        model = None if self.calibration is None else self.calibration.model
        return method_of(self.uec.fitted, model, self.language, filter)

    def search_vector(
        self,
        embedding: Sequence[float],
        k: int = 4,
        *,
        filter: Filter | None = None,
        diversity: Diversity | None = None,
        tenant: Filter | Everyone = EVERYONE,
    ) -> SearchResult:
        """Find the k passages with the highest s_hat for a query given as a vector.

        The variance of the query is unknown and assumed to be 0, so sigma_s^2 is due to the
        passages alone. Confidence cannot be estimated without the text: relevance is the
        similarity, and the reason of the decision says so.

        Parameters
        ----------
        embedding : sequence of float, length d
            The mean that `UEC.embed` returns for the query. With one encoder, or in the shared
            space, all means have length 1, and a vector of any other length but 0 is normalised.
        k : int
        filter : Filter, optional
        diversity : Diversity, optional
        tenant : mapping or callable, optional
            As in `search`.

        Raises
        ------
        TypeError, ValueError
            If the vector has another dimension, is zero or is not finite, or if k < 1.
        """
        self._note_fit()
        self._follow()
        self._store.remove_deleted()
        condition = all_of(self._tenant_of(tenant), filter)
        request = Request((), check_k(k), condition, diversity=diversity)
        store = self._store if diversity is None else self._store.snapshot()
        language = check_language(self.language) or ENGLISH
        return ask_vector(self.uec, store, embedding, request, language)

    def _active_gate(self, filter: Filter | None = None) -> Gate | None:
        """Return the gate that decides; warns once for each reason for which it does not fit.

        ValueError if it expects a share of wrong answers of an ensemble that is not fitted.
        """
        gate = self.gate
        if gate is None:
            return None
        is_unfitted = self.calibration is None and self.uec.fitted.confidence_model is None
        if gate.max_wrong is not None and is_unfitted and not self._is_being_fitted:
            raise ValueError(
                f"gate: max_wrong={gate.max_wrong} takes the threshold of fitted ensembles, and "
                "this one is not fitted, so its confidence is unreliable. Call fit_from(passages), "
                "or make the gate by Gate.from_labels."
            )
        with suppress(EncoderFailed):  # what fails is compared as soon as it answers again
            if reason := gate.misfit(self, filter, again=False):
                warn_once(self._warnings, (reason, gate.stamp.basis), reason)
        return gate

    def stamp(
        self, filter: Filter | None = None, of: Stamp | None = None, *, again: bool = True
    ) -> Stamp:
        """Return what confidence depends on, by which a gate notices that the index is another.

        Parameters
        ----------
        filter : Filter, optional
            That of searches.
        of : Stamp, optional
            One to compare with: only what it has is found, and of its passages those that the index
            has. A store that cannot look them up counts as having all. By default, everything is
            found but passages.
        again : bool
            Whether passages are looked up again, if they were before.
        """
        store, pairs = self.store, () if of is None else of.passages
        if pairs and store.can_look_up:
            key = pairs, None if self._view.tenant is None else normal_form(self._view.tenant)
            if again or key not in self._living or key[1] == "":
                now = store.fingerprints([id_ for id_, _ in pairs])
                self._living[key] = tuple(pair for pair in pairs if now.get(pair[0]) == pair[1])
            pairs = self._living[key]
        probes: tuple[tuple[float, ...], ...] = ()
        if of is None or of.probes:
            probes = (*self.uec.probes, *store.probes)
        corpus = store.corpus() if of is None or of.corpus else ""
        return Stamp(self._method(filter).basis, corpus, probes, pairs)

    def snapshot(self) -> Self:
        """Return a read-only view of the current index, unaffected by later changes."""
        is_being_fitted = self._fit_once()

        def take(_: Settings) -> Retriever:
            self._follow()
            view = type(self).__new__(type(self))
            view.__dict__ |= self.__dict__  # a copy would have settings of its own
            view._view = self._view
            view._store, view._is_snapshot = self._store.snapshot(), True
            view._is_being_fitted |= is_being_fitted
            return view

        with self._first_fit.swapping:
            is_read = self._is_snapshot
            return cast(Self, take(self._settings) if is_read else self._settings.read_whole(take))

    def with_gate(self, gate: Gate | None) -> Self:
        """Return a read-only view of the current index in which another gate decides, or none."""
        view = self.snapshot()
        view.gate = gate
        return view

    def with_weights(self, coefficients: Mapping[str, float]) -> Self:
        """Return a read-only view of the current index, with fixed coefficients and no gate.

        Parameters
        ----------
        coefficients : mapping of encoder name to float
            A nonnegative coefficient for each encoder; 0 leaves the encoder out.
        """
        view = self.with_gate(None)
        view.uec = copy(self.uec)
        rule = make_rule(coefficients, self.uec.names)
        view.uec.fitted = replace(self.uec.fitted, rule=rule)
        return view

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
        labels = read_labels(self._settings.home, condition)
        view = self._store if condition is None else self._store.snapshot(condition)
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
        ids, condition = as_list(relevant_ids or [], "relevant_ids"), self._tenant_of(tenant)
        if condition is None:
            there = self._store.fingerprints(ids)
        else:
            there = {p.id: hash_text(p.text) for p in self.get(ids, tenant=tenant)}
        check_label(question, ids, there, self.folder)
        hashes = None if relevant_ids is None else there
        write_label(self._settings.home, question, hashes, condition)

    def calibrate(
        self,
        queries: Sequence[str],
        relevant_ids: Sequence[Collection[str]],
        *,
        unanswerable_rate: float = 0.1,
        k: int = 10,
    ) -> Self:
        """Fit relevance and confidence to labelled queries of this corpus.

        Parameters
        ----------
        queries : sequence of str
            Typical queries of users, ideally a few hundred, including some that the corpus does not
            answer.
        relevant_ids : sequence of collection of str
            Ids of the passages that answer each query; empty if none does.
        unanswerable_rate : float
            Share of the users' queries that the corpus does not answer. It is used if all labelled
            queries have an answer; unanswerable ones are then made by hiding answers.
        k : int
            A query counts as answered if one of its first k hits is relevant.

        Returns
        -------
        self
            With `calibration` and `report` set.

        Raises
        ------
        TypeError, ValueError
            If there is not one collection of ids per query, if an id is not in the index, if no
            query has any ids, or if there are too few queries.
        """
        self.check_whole("calibrate")
        k = check_k(k)
        check_share(unanswerable_rate, "unanswerable_rate", "a share in [0, 1)")
        self._fit_once()
        store = self.store.snapshot()
        answers = check_labels(queries, relevant_ids, store)
        with patiently():
            self.calibration = learn.calibrate_with_labels(
                self.uec, store, queries, answers, unanswerable_rate=unanswerable_rate, k=k
            )
        home = self._settings.home
        if not home.read_only and not self._is_snapshot:
            home.change_settings({"calibration": self.calibration.metadata()})
            self._settings = self._settings.now()
        return self

    def fit_from(
        self, passages: Sequence[Passage] | None = None, *, show_progress: bool | None = None
    ) -> Self:
        """Fit the ensemble on questions made of passages, without labels, in a copy of its own.

        The questions, 148 at most, are headings and the first sentences of passages, which the rest
        of these answers. Each is embedded once, as is what answers it; the passages of the index
        are not embedded again. The first search does the same by itself unless ``fit=False``, once,
        if there are 64 passages or more that can be listed.

        Parameters
        ----------
        passages : sequence of Passage, optional
            Passages like those of the index; by default its own, which a source of candidates may
            not be able to list.
        show_progress : bool, optional
            Whether to show progress; by default on a terminal, after a second.

        Returns
        -------
        self
            With another `uec`. A calibration or a gate must be made again.

        Raises
        ------
        TypeError
            If one is not a passage.
        ValueError
            If fewer than 32 questions can be made, or no model is the ensemble's whose vectors can
            be fitted as they are: one with the identity as last layer.
        PermissionError
            If the index is only read.
        """
        self.check_whole("fit_from")
        sample = self._store.examples() if passages is None else [*passages]
        instead = "; a retriever of LangChain or LlamaIndex takes its own kind in its fit_from"
        for passage in sample:
            check_type(passage, Passage, "passages", "Passage objects", instead)
        before = self.uec
        with patiently():
            fitted = learn.fit_without_labels(before, sample, show_progress=show_progress)
        self._use_fit(fitted, sample)
        if isinstance(self._store, SourceStore) and passages is not None:
            learn.remember(before, self._store, self.uec.fitted)
        return self

    async def afit_once(self) -> None:
        """Wait for the fit that the first search makes, in a thread that no event loop needs."""
        fit = self._first_fit
        if fit.is_due and not self._is_snapshot and fit.mode != "background":
            await fit.aonce(self.uec, self._store, self._must_stay, self._fit)

    def _fit_once(self) -> bool:
        """Fit an ensemble without a fit; return whether it is fitted beside searches now."""
        if self.uec.fitted.posteriors is not self._posteriors:
            self._note_fit()
        if not self._first_fit.is_due or self._is_snapshot:
            return False
        return self._first_fit.once(self.uec, self._store, self._must_stay, self._fit)

    def _fit(self) -> None:
        self._first_fit.attempt(self.uec, self._store, self._use_fit)

    def _must_stay(self) -> bool:
        """Return whether something was made with the ensemble as it is."""
        gate, home = self.gate, self._settings.home
        is_engine = self._store.is_elsewhere and not isinstance(self._store, SourceStore)
        has_own_gate = gate is not None and gate.max_wrong is None
        is_calibrated = self.calibration is not None or has_own_gate
        return is_engine or home.read_only or is_calibrated or bool(read_labels(home))

    def _use_fit(self, uec: UEC, passages: Sequence[Passage]) -> None:
        """Take another fit of the ensemble, with which all passages are scored from now on.

        `passages`: those that it was made on; a source of candidates learns their words.
        """
        store, home = self._written.with_encoders(uec.with_cache().encoders), self._settings.home
        if isinstance(store, SourceStore) and passages:
            store.learn_words(passages)
        with ExitStack() as stack:
            with home.changing():
                save.record(home, store, uec, self.calibration)
                stack.enter_context(self._first_fit.swapping)  # before others see the new fit
            whole = self._seen_as(_View())
            whole._store, whole.uec, whole._posteriors = store, uec, uec.fitted.posteriors
            whole._settings = whole._settings.now()

    def save(self, path: str | os.PathLike[str], *, tenant_required: bool | None = None) -> None:
        """Copy the index with its ensemble and gate to a folder, in place of one that is there.

        An index in memory has that folder from then on: later changes are written through. One
        that was loaded from `path` only records its ensemble and calibration there, since its
        passages are there.

        Parameters
        ----------
        path : path
        tenant_required : bool, optional
            Whether the saved index requires a tenant; by default, if this one does, or another one
            does that is there.

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
        if self._view.tenant is not None:
            raise ValueError("save: this is a tenant's view; save the index itself.")
        target, home = as_path(path), self._settings.home
        gate = self.gate if self._gate or home.folder != target else None
        required = (self.tenant_required or None) if tenant_required is None else tenant_required
        if home.folder == target and not self._is_snapshot:
            with home.changing():
                save.record(home, self._store, self.uec, self.calibration)
                home.change_settings({save.TENANT_REQUIRED: bool(required)})
            store = home
        else:
            content = self.uec, self._store, self.calibration
            store = save.save_index(target, *content, home.settings, required=required)
        if gate is not None:
            gate.save(target / GATE_FILE)
        if store is not home and (self._is_snapshot or home.folder is not None):
            store.close()
            return
        if store is not home:
            home.move_to(store)
        self._settings, self._requires_tenant = self._settings.now(), None

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        uec: UEC | None = None,
        *,
        read_only: bool = False,
        encoders: Mapping[str, EncoderLike] | None = None,
        store: Store | None = None,
        trust: bool = False,
        fit: FitMode = True,
        tenant_required: bool = False,
    ) -> Self:
        """Open a saved index; what is changed is on disk when the call returns.

        Other processes may write at the same time; a search sees what they have written. `check`
        verifies all checksums, of which opening reads few.

        Parameters
        ----------
        path : path
            The folder; a gate in it, "gate.json", decides in every search.
        uec : UEC, optional
            The ensemble that the index was made with; by default, the saved one is loaded.
        read_only : bool
            Whether the folder is only read, as where nothing can be written.
        encoders : mapping, optional
            As in `UEC.load`, for encoders that cannot be loaded by name.
        store : Store, optional
            The store of an index in an engine, which is never opened from the saved folder alone.
        trust : bool
            Whether to trust the folder and download the models that it names, as in `UEC.load`.
        fit : bool or "background"
            Whether the first search may fit an ensemble that has no fit; never if it is only read.
        tenant_required : bool
            As in the class; also if the index was saved with it.

        Raises
        ------
        FileNotFoundError
            If there is no saved index.
        IndexCorrupted
            If the saved index is damaged.
        FingerprintMismatch
            If `uec` or one of its encoders is not the one that the index was made with.
        PermissionError
            If nothing can be written there, and `read_only` is false.
        ValueError
            If an encoder or the store must be passed, or if a model needs to be downloaded without
            `trust`.
        """
        check_type(uec, UEC | None, "uec", "a UEC or None")
        home = save.open_home(as_path(path), read_only=read_only)
        options = None if uec else {"encoders": encoders or {}, "trust": trust}
        settings = Settings(home, options=options)
        try:
            retriever = settings.read_whole(partial(cls._open, uec, store, fit))
        except BaseException:
            home.close()
            raise
        retriever._requires_tenant = tenant_required or None
        with suppress(OSError, ValueError):  # a damaged gate is reported when it is to decide
            _ = retriever.gate
        return retriever

    @classmethod
    def _open(cls, uec: UEC | None, store: Store | None, fit: FitMode, settings: Settings) -> Self:
        """Open an index; `uec`: the ensemble that it was made with, None for that in the folder."""
        home, elsewhere = settings.home, saved_store(settings.values, store)
        ensemble = uec or settings.load_ensemble()
        settings.check_made_with(ensemble)
        retriever, store = cls(ensemble, fit=fit), home if elsewhere is None else elsewhere
        retriever._store = store.with_encoders(ensemble.with_cache().encoders)
        if len(retriever._store):
            retriever._written.bind(fingerprint_of_encoders(ensemble.encoders, ensemble.fitted))
        retriever._settings, retriever.calibration = settings, settings.read_calibration()
        return retriever

    def _follow(self) -> None:
        """Read what other processes have recorded in the folder: an ensemble, a calibration.

        FingerprintMismatch if the ensemble is another one, and was not loaded from the folder.
        """
        if self._is_snapshot:
            return
        if self._settings.home.settings is not self._settings.values:
            with self._first_fit.swapping:
                self._settings.read_whole(self._take_over)

    def _take_over(self, settings: Settings) -> None:
        """Take the ensemble and the calibration of the folder."""
        values, before, whole = settings.values, self._settings.values, self._seen_as(_View())
        expected = values.get("ensemble_fingerprint")
        if expected is not None and len(self._store) and expected != self.uec.fingerprint:
            whole.uec = settings.load_ensemble()
            whole._posteriors = whole.uec.fitted.posteriors
            settings.check_made_with(whole.uec)
        if values.get("calibration") != before.get("calibration"):
            whole.calibration = settings.read_calibration()
        whole._settings = settings

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
        for store in {id(home): home for home in (self._settings.home, self._store)}.values():
            if isinstance(store, Store):
                store.close()


def without(uec: UEC, store: Searched, failed: Sequence[str]) -> tuple[UEC, Searched] | None:
    """Return an ensemble and a store without what failed; None if nothing else is left."""
    models = {encoder.name: encoder for encoder in uec.encoders}
    for name in failed:
        encoder = models.get(name)
        twin = store.without(name, encoder) if isinstance(store, SourceStore) else store
        quiet = uec if encoder is None and twin is not store else uec.without(name)
        if quiet is None or twin is None:
            return None
        uec, store = quiet, twin.with_encoders(quiet.encoders)
    return uec, store
