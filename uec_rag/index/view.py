"""A view of an index: what somebody may see of it, and how that is searched."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, Unpack, overload

from uec_rag.base.checks import as_list, check_k, check_type
from uec_rag.base.errors import EncoderFailed, NoDirection, warn, warn_once
from uec_rag.base.gaussian import Gaussian
from uec_rag.base.loops import beside
from uec_rag.base.progress import span
from uec_rag.confidence.decision import CLARIFY_FROM
from uec_rag.documents.question_tables import follow_labels
from uec_rag.ensemble.convolution import make_rule
from uec_rag.ensemble.uec import UEC
from uec_rag.gates.gate import Gate, check_gate
from uec_rag.gates.policy import Stamp
from uec_rag.gates.rulings import Pending, pending_on_results, settled_result
from uec_rag.index import learn
from uec_rag.index.kept import Kept
from uec_rag.index.saved_labels import check_label, read_labels, write_label
from uec_rag.questions.answers import TurnLike
from uec_rag.questions.languages import ENGLISH, check_language
from uec_rag.questions.query import Query, parse_queries
from uec_rag.questions.replies import Within
from uec_rag.retrieval.diversity import Diversity
from uec_rag.retrieval.rankings import Method, method_of
from uec_rag.retrieval.results import Result, SearchResult, is_read_by_model
from uec_rag.retrieval.search import Options, Request, ask_vector, log_decisions, search_queries
from uec_rag.stores.base import EVERYONE, Everyone, Filter, Passages, Searched
from uec_rag.stores.filters import (
    all_of,
    check_tenant,
    matching,
    normal_form,
    owned,
    parse,
    tenant_in,
)
from uec_rag.stores.passage import Passage, hash_text
from uec_rag.stores.source import SourceStore

T = TypeVar("T")


class _OfAll(Generic[T]):
    """An attribute that all views of an index share, and that no tenant's sets."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, view: None, owner: type) -> Self: ...

    @overload
    def __get__(self, view: IndexView, owner: type) -> T: ...

    def __get__(self, view: IndexView | None, owner: type) -> Self | T:
        if view is None:
            return self
        value: T = getattr(view._core, self._name)
        return value

    def __set__(self, view: IndexView, value: T) -> None:
        view.check_whole(self._name)
        setattr(view._core, self._name, value)


class IndexView:
    """One view of an index: it searches, looks up, labels and counts the passages that it shows.

    Its slots are its own; all else is what the index keeps, which it shares, and which a tenant's
    view does not change.

    Attributes
    ----------
    usual_filter : Filter or None
        The filter of a framework's retriever that has the view for itself.
    """

    __slots__ = (
        "__weakref__",
        "_core",
        "_is_closed",
        "_language",
        "_tenant",
        "_usual_tenant",
        "usual_filter",
    )

    uec = _OfAll[UEC]()
    calibration = _OfAll[learn.CorpusCalibration | None]()

    def _see(
        self,
        core: Kept,
        tenant: Filter | None = None,
        *,
        is_closed: bool = False,
        language: str | None = "",
    ) -> Self:
        """Become a view, and return it.

        Parameters
        ----------
        core : Kept
            What the index keeps.
        tenant : Filter, optional
            Selects the passages of a tenant, which no call lifts; by default, all are shown.
        is_closed : bool
            Whether a tenant is required, whatever the index says.
        language : str or None
            That of a tenant's reasons, if it was set in the view; "" for that of the index.
        """
        self._core, self._tenant, self._is_closed = core, tenant, is_closed
        self._language = language
        self.usual_filter: Filter | None = None
        self._usual_tenant: Filter | None = None
        return self

    def _twin(self, core: Kept | None = None, **changes: Any) -> Self:
        """Return another view of the same index, or of what is given."""
        slots = {"is_closed": self._is_closed, "language": self._language, **changes}
        tenant = slots.pop("tenant", self._tenant)
        twin = object.__new__(type(self))._see(core or self._core, tenant, **slots)
        twin.usual_filter, twin._usual_tenant = self.usual_filter, self._usual_tenant
        return twin

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store}, {self.uec!r})"

    def __deepcopy__(self, memo: object) -> Self:
        """Return the view itself, which copies of what searches it share."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the path of a folder, or the passages of an index in memory: a tenant's alone."""
        core = self._core if self._tenant is None else self._core.of_tenant(self._tenant, self.gate)
        slots = {"is_closed": self._is_closed, "language": self._language}
        return {"core": core, "tenant": self._tenant, **slots}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._see(**state)

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
        >>> from uec_rag import UEC, Retriever
        >>> index = Retriever(UEC(["bm25"]))
        >>> ids = index.add(["Cats purr.", "Dogs bark."], ["c", "d"], [{"of": "Ann"}, {"of": "Bo"}])
        >>> view = index.of_tenant({"of": "Ann"})
        >>> len(view), view.delete(["c", "d"]), len(index)
        (1, 1, 1)
        """
        condition = all_of(self._tenant, check_tenant(tenant, required=True))
        return self._twin(tenant=condition)

    def requiring_tenant(self, *, must: bool = True) -> Self:
        """Return a view that requires a tenant, whatever the index says; or as the index says."""
        return self._twin(is_closed=must)

    def check_whole(self, work: str, *, even_read: bool = False) -> None:
        """Raise ValueError in the view of a tenant, whose passages are not all of them.

        `work`: the call or attribute that the message names. `even_read`: whether also in a
        snapshot, where what is set is its own.
        """
        if self._tenant is not None and (even_read or not self._core.is_snapshot):
            raise ValueError(f"{work}: this is a tenant's view; use the index itself.")

    @property
    def store(self) -> Searched:
        """The store of the passages; in a tenant's view, of its own alone, which are only read.

        Whoever writes there goes round the index.
        """
        store = self._core.store
        return store if self._tenant is None else store.of_tenant(self._tenant)

    @property
    def usual_tenant(self) -> Filter | None:
        """The tenant of a framework's retriever that has the index for itself, or of this view."""
        return self._tenant or self._usual_tenant

    @usual_tenant.setter
    def usual_tenant(self, tenant: Filter | None) -> None:
        self._usual_tenant = tenant

    @property
    def language(self) -> str | None:
        """The code of the language of reasons; None for that of each question."""
        return self._core.language if self._language == "" else self._language

    @language.setter
    def language(self, language: str | None) -> None:
        if self._tenant is None:
            self._core.language = check_language(language)
        else:
            self._language = check_language(language)

    @property
    def tenant_required(self) -> bool:
        """True if a tenant is required, as is saved unless it was set since."""
        return self._is_closed or self._core.requires_tenant

    @tenant_required.setter
    def tenant_required(self, required: bool) -> None:
        self.check_whole("tenant_required", even_read=True)
        self._core.required = bool(required)

    @property
    def folder(self) -> Path | None:
        """The folder of the index; None if it is in memory."""
        return self._core.settings.home.folder

    @property
    def gate(self) -> Gate | None:
        """The gate that decides in every search; None for a confidence above 0.5.

        If none is set, it is that in the folder that the index was loaded from, "gate.json". A
        tenant's view shows one that was made for others without their passages.
        """
        gate = self._core.gate
        if gate is None or self._tenant is None or not gate.stamp.passages:
            return gate
        if gate.stamp.basis == self._method(all_of(self._tenant, self.usual_filter)).basis:
            return gate  # its own, whose passages may be gone
        stamp = replace(gate.stamp, passages=self._living(gate.stamp.passages, again=False))
        return replace(gate, stamp=stamp)

    @gate.setter
    def gate(self, gate: Gate | None) -> None:
        self.check_whole("gate")
        self._core.set_gate(check_gate(gate))

    @property
    def changes(self) -> int:
        """The number of additions and removals so far by all processes; 0 for an engine.

        In a tenant's view it is 0, too.
        """
        return self._core.store.changes if self._tenant is None else 0

    @property
    def report(self) -> str:
        """The description of how relevance and confidence were learned, and of limitations."""
        return learn.report_of(self.uec, self.calibration)

    def get(self, ids: Sequence[str], *, tenant: Filter | Everyone = EVERYONE) -> list[Passage]:
        """Return the passages with the given ids, in that order, leaving out unknown ids.

        `tenant`: the filter of one tenant's passages, as in `Retriever.search`.
        """
        condition, names = self._tenant_of(tenant), as_list(ids, "ids")
        if condition is None:
            return self._core.store.get(names)
        hits = matching(parse(condition), self._core.store.get(names))
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
        return Passages(self._core.store.snapshot(all_of(self._tenant_of(tenant), owned(filter))))

    def vectors(self, ids: Sequence[str], *, tenant: Filter | Everyone = EVERYONE) -> Gaussian:
        """Return the Gaussians of ids by the fit of now; KeyError if an id is unknown.

        `tenant`: the filter of one tenant's passages, as in `Retriever.search`.
        """
        names = as_list(ids, "ids")
        if self._tenant_of(tenant) is not None:
            there = {passage.id for passage in self.get(names, tenant=tenant)}
            if unknown := [id_ for id_ in names if id_ not in there]:
                raise KeyError(f"ids: {unknown[0]!r} is not in the store.")
        return self.uec.fitted.passages(self._core.store.vectors(names))

    def _tenant_of(self, tenant: Filter | Everyone) -> Filter | None:
        """Return the filter of a call's tenant, None for all; see `check_tenant`."""
        if (condition := self._tenant) is not None:
            return all_of(condition, check_tenant(tenant))
        return check_tenant(tenant, required=self.tenant_required)

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
        is_being_fitted = self._core.fit_once()
        if (diversity := options.get("diversity")) is not None:
            check_type(diversity, Diversity, "diversity", "a Diversity")
        view = self
        if (diversity is not None or is_being_fitted) and not self._core.is_snapshot:
            view = self.snapshot()  # no passage of it is deleted
        view._core.follow()
        view._core.store.remove_deleted()
        tenant = options.get("tenant", EVERYONE)
        is_open = tenant is EVERYONE and self._tenant is None and not self.tenant_required
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
        core, failed, failures = self._core, list[str](), list[str]()
        home, gate = core.settings.home, core.gate
        while True:
            settings = replace(core.settings, values=home.settings)
            core.follow()
            uec, store = core.uec, core.store
            if failed:
                uec, store = without(uec, store, failed) or (uec, store)
            caveat: tuple[str, str] | tuple[()] = ("fitting", "") if core.is_being_fitted else ()
            if failures:
                caveat = "failed", ", ".join(failures)
            method = replace(
                self._method(request.scope),
                caveat=caveat,
                rarity=uec.rarity,
                clarify_from=CLARIFY_FROM if gate is None else gate.clarify_from,
            )
            try:
                result = search_queries(uec, store, method, request)
            except (EncoderFailed, NoDirection) as error:
                is_repeated = error.encoder in failed  # something else asks it
                is_of_store = isinstance(error, NoDirection) and not error.text
                names = [*failed, error.encoder]
                if is_of_store or is_repeated or without(core.uec, core.store, names) is None:
                    raise
                if isinstance(error, NoDirection) and len(request.queries) > 1:  # not of others
                    alone = [replace(request, queries=[query]) for query in request.queries]
                    return SearchResult([self._run(question)[0] for question in alone])
                failed.append(error.encoder)
                if isinstance(error, NoDirection) and not error.is_null:
                    warn(f"{error} This question is decided without it.")
                    continue
                warn(f"{error} Searched without it, so that nothing is answered.")
                failures.append(error.encoder)
            except Exception as error:
                if core.is_snapshot or not settings.has_changed(error):
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
        self._core.note_fit()
        self._core.follow()
        self._core.store.remove_deleted()
        condition = all_of(self._tenant_of(tenant), filter)
        request = Request((), check_k(k), condition, diversity=diversity)
        store = self._core.store if diversity is None else self._core.store.snapshot()
        language = check_language(self.language) or ENGLISH
        return ask_vector(self.uec, store, embedding, request, language)

    def _active_gate(self, filter: Filter | None = None) -> Gate | None:
        """Return the gate that decides; warns once for each reason for which it does not fit.

        ValueError if it expects a share of wrong answers of an ensemble that is not fitted.
        """
        gate = self._core.gate
        if gate is None:
            return None
        is_unfitted = self.calibration is None and self.uec.fitted.confidence_model is None
        if gate.max_wrong is not None and is_unfitted and not self._core.is_being_fitted:
            raise ValueError(
                f"gate: max_wrong={gate.max_wrong} takes the threshold of fitted ensembles, and "
                "this one is not fitted, so its confidence is unreliable. Call fit_from(passages), "
                "or make the gate by Gate.from_labels."
            )
        with suppress(EncoderFailed):  # what fails is compared as soon as it answers again
            if reason := gate.misfit(self, filter, again=False):
                warn_once(self._core.warnings, (reason, gate.stamp.basis), reason)
        return gate

    def stamp(
        self, filter: Filter | None = None, of: Stamp | None = None, *, again: bool = True
    ) -> Stamp:
        """Return what confidence depends on, by which a gate notices that the index is another.

        Parameters
        ----------
        filter : Filter, optional
            That of searches; of a tenant's, only the passages of this tenant count.
        of : Stamp, optional
            One to compare with: only what it has is found, and of its passages those that the index
            has. A store that cannot look them up counts as having all. By default, everything is
            found but passages.
        again : bool
            Whether passages are looked up again, if they were before.
        """
        view = self._twin(tenant=all_of(self._tenant, tenant_in(filter)))
        store, pairs = view.store, () if of is None else of.passages
        if pairs and store.can_look_up:
            pairs = view._living(pairs, again=again)
        probes: tuple[tuple[float, ...], ...] = ()
        if of is None or of.probes:
            probes = (*self.uec.probes, *store.probes)
        corpus = store.corpus() if of is None or of.corpus else ""
        return Stamp(self._method(filter).basis, corpus, probes, pairs)

    def _living(
        self, pairs: tuple[tuple[str, str], ...], *, again: bool
    ) -> tuple[tuple[str, str], ...]:
        """Return those of some ids and hashes of texts that the view shows; see `stamp`."""
        living = self._core.living
        form = "all" if self._tenant is None else normal_form(self._tenant)
        if again or not form or (pairs, form) not in living:
            now = self.store.fingerprints([id_ for id_, _ in pairs])
            living[pairs, form] = tuple(pair for pair in pairs if now.get(pair[0]) == pair[1])
        return living[pairs, form]

    def snapshot(self) -> Self:
        """Return a read-only view of the current index, unaffected by later changes."""
        core = self._core
        is_being_fitted = core.fit_once()

        def take(_: object) -> Kept:
            core.follow()
            twin = core.snapshot()
            twin.is_being_fitted |= is_being_fitted
            return twin

        with core.first_fit.swapping:
            is_read = core.is_snapshot
            return self._twin(take(None) if is_read else core.settings.read_whole(take))

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
        labels = read_labels(self._core.settings.home, condition)
        view = self._core.store if condition is None else self._core.store.snapshot(condition)
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
            there = self._core.store.fingerprints(ids)
        else:
            there = {p.id: hash_text(p.text) for p in self.get(ids, tenant=tenant)}
        check_label(question, ids, there, self.folder)
        hashes = None if relevant_ids is None else there
        write_label(self._core.settings.home, question, hashes, condition)

    async def afit_once(self) -> None:
        """Wait for the fit that the first search makes, in a thread that no event loop needs."""
        await self._core.afit_once()


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
