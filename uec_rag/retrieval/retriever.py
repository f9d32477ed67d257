"""The retriever: an index that is searched, calibrated on its corpus, saved and loaded."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack, cast

from uec_rag.base.checks import as_list, check_k, check_share, check_text, check_type
from uec_rag.base.errors import FingerprintMismatch, warn, warn_once
from uec_rag.base.files import as_path
from uec_rag.base.gaussian import Gaussian
from uec_rag.confidence.replies import Within
from uec_rag.encoders.base import NoDirection
from uec_rag.encoders.black_box import EncoderFailed
from uec_rag.encoders.loading import EncoderLike
from uec_rag.ensemble.convolution import make_rule
from uec_rag.ensemble.uec import UEC
from uec_rag.questions.languages import ENGLISH, check_language
from uec_rag.retrieval import learn, save
from uec_rag.retrieval.ask import ask_vector, search_queries, settled_result
from uec_rag.retrieval.calls import from_this_loop
from uec_rag.retrieval.fitting import FitMode, OwnFit, one_at_a_time
from uec_rag.retrieval.gate import GATE_FILE, Gate, check_gate
from uec_rag.retrieval.hits import Result, SearchResult
from uec_rag.retrieval.labelled import check_labels
from uec_rag.retrieval.metadata import without_findings
from uec_rag.retrieval.pending import Pending, pending_on_results
from uec_rag.retrieval.query import Diversity, Options, Query, parse_queries
from uec_rag.retrieval.search import Method, method_of
from uec_rag.retrieval.spelling import spell
from uec_rag.retrieval.why import log_decisions
from uec_rag.stores.base import Filter, Passage, Searched, Store, last_of_each, make_passages
from uec_rag.stores.candidates import CandidateStore, saved_store
from uec_rag.stores.filters import all_of, parse
from uec_rag.stores.local import LocalStore
from uec_rag.stores.source import SourceStore

T = TypeVar("T")

_AGAIN = 60.0  # seconds after which a fit that failed is tried again
_log = logging.getLogger("uec_rag")


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


class Retriever:
    """Searchable index of passages with confidence estimates.

    Parameters
    ----------
    uec : UEC
    store : Store, optional
        Where the Gaussians are stored; in memory by default.
    language : str, optional
        Code of the language of reasons and clarifying questions: "en", "de", "fr", "es", "pt",
        "it", "zh", "ja", "ko", "ar", "ru" or "hi". By default, that of each question, or English if
        that is uncertain. The attribute `language` may be set later.
    fit : bool or "background"
        Whether the first search of 64 passages or more fits an ensemble that has no fit on
        questions made of them, see `fit_from`. The ensemble that was passed stays as it is. With
        "background", searches do not wait for it: until it is made, they are uncertain, and say so.

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

    def __init__(
        self,
        uec: UEC,
        store: Store | None = None,
        *,
        language: str | None = None,
        fit: FitMode = True,
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
        # The index in the folder, which has the settings; of an engine, one without passages.
        self._home = self.store if isinstance(self.store, LocalStore) else LocalStore()
        self._settings: Mapping[str, Any] | None = None  # those that were read last
        # Loads the ensemble that settings of the folder name.
        self._reload: Callable[[Mapping[str, Any]], UEC] | None = None
        self._gate: tuple[Gate | None, ...] = ()  # none if it is that of the folder
        self._gate_of_folder: tuple[tuple[int, ...], Gate | None] = (), None  # by its stamp
        # How many passages of gates are lost, and what was said of gates; shared, too.
        self._lost: dict[tuple[tuple[str, str], ...], int] = {}
        self._said: set[object] = set()
        self._is_snapshot, self._own_fit = False, OwnFit(fit)
        self._is_being_fitted = False  # in a view that was taken meanwhile
        # The filter of a retriever of LangChain or LlamaIndex that has the index for itself.
        self.usual_filter: Filter | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store}, {self.uec!r})"

    def __deepcopy__(self, memo: object) -> Self:
        """Return the index itself, which copies of what searches it share."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the path of a folder, or the passages of an index in memory and of a view."""
        own: dict[str, Any] = {"_lost": {}, "_said": set()}
        state = self.__dict__ | own | {"_settings": None, "usual_filter": None}
        if self._is_snapshot:  # whose store has all that it needs of the folder but these
            home, labels = LocalStore(), self._home.settings.get("labels")
            home.change_settings({"labels": labels})
            state |= {"_home": home, "_gate": (self.gate,), "_reload": None}
        return state

    @property
    def folder(self) -> Path | None:
        """The folder of the index; None if it is in memory."""
        return self._home.folder

    @property
    def gate(self) -> Gate | None:
        """The gate that decides in every search; None for a confidence above 0.5.

        If none is set, it is that in the folder that the index was loaded from, "gate.json".
        """
        if self._gate:
            return self._gate[0]
        folder, stamp = self._home.folder, tuple[int, ...]()
        if folder is None or not folder.exists():  # a deleted folder removes no gate
            return self._gate_of_folder[1]
        file = folder / GATE_FILE
        with suppress(FileNotFoundError):
            state = os.stat(file)
            stamp = state.st_ino, state.st_mtime_ns, state.st_size
        if stamp != self._gate_of_folder[0]:
            self._gate_of_folder = stamp, Gate.load(file) if stamp else None
        return self._gate_of_folder[1]

    @gate.setter
    def gate(self, gate: Gate | None) -> None:
        self._gate = (check_gate(gate),)

    def with_gate(self, gate: Gate | None) -> Self:
        """Return a read-only view of the current index in which another gate decides, or none."""
        view = self.snapshot()
        view.gate = gate
        return view

    @property
    def corpus(self) -> str:
        """The fingerprint of the passages, which are read once after each change.

        Those of an engine, and more than 100,000, are not read: it is their number.
        """
        return self.store.corpus()

    @property
    def probes(self) -> tuple[tuple[float, ...], ...]:
        """The vectors of a few texts by its models and that of the store below, for a gate."""
        below = self.store.probes if isinstance(self.store, SourceStore) else ()
        return (*self.uec.probes, *below)

    @property
    def _written(self) -> Store:
        """The store, to write to; RuntimeError in a snapshot."""
        if not isinstance(self.store, Store):
            raise RuntimeError("this is a snapshot of an index; write to the index itself.")
        return self.store

    def count_lost(self, passages: tuple[tuple[str, str], ...], *, again: bool) -> int:
        """Count passages that are gone or have another text; each is an id and its text's hash.

        `again`: whether they are looked up again, if they were before. None is lost of a store
        that cannot look them up.
        """
        store = self.store
        if not passages or (isinstance(store, SourceStore) and not store.can_look_up):
            return 0
        if again or passages not in self._lost:
            now = store.fingerprints([id_ for id_, _ in passages])
            self._lost[passages] = sum(now.get(id_) != known for id_, known in passages)
        return self._lost[passages]

    def _active_gate(self, filter: Filter | None = None) -> Gate | None:
        """Return the gate that decides; warns once for each reason for which it does not fit.

        ValueError if it expects a share of wrong answers of an ensemble that is not fitted.
        """
        gate = self.gate
        if gate is None:
            return None
        if gate.max_wrong is not None and self._is_unfitted and not self._is_being_fitted:
            raise ValueError(
                f"gate: max_wrong={gate.max_wrong} takes the threshold of fitted ensembles, and "
                "this one is not fitted, so its confidence is unreliable. Call fit_from(passages), "
                "or make the gate by Gate.from_labels."
            )
        if reason := gate.misfit(self, filter, again=False):
            warn_once(self._said, (reason, gate.basis), reason)
        return gate

    @property
    def _is_unfitted(self) -> bool:
        """True if confidence comes from neither a fit nor a calibration."""
        return self.calibration is None and self.uec.fitted.confidence_model is None

    def __len__(self) -> int:
        return len(self.store)

    @property
    def changes(self) -> int:
        """The number of additions and removals so far by all processes; 0 for an engine."""
        return self.store.changes

    def add(
        self,
        texts: Iterable[str],
        ids: Iterable[str] | None = None,
        metadatas: Iterable[Mapping[str, Any]] | None = None,
        *,
        show_progress: bool | None = None,
    ) -> list[str]:
        """Encode and index texts; a text with the id of an existing one replaces it.

        All texts are added or none. To fill an index that is larger than the memory, add a few
        thousand at a time.

        Parameters
        ----------
        texts : iterable of str
        ids : iterable of str, optional
            Generated by default. If a text is given twice with one id, the last metadata stays.
        metadatas : iterable of mapping, optional
            One per text. Keys that begin with "uec_" are dropped, since a search uses them.
        show_progress : bool, optional
            Whether to show progress; by default on a terminal, after two seconds.

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
        kept = [passages[position] for position in last_of_each(passages)]
        searched = [passage.searched for passage in kept]
        words = [passage.with_source for passage in kept]
        self._follow()
        while True:
            uec = self.uec
            try:
                parts = uec.encode(searched, "passage", words=words, show_progress=show_progress)
            except NoDirection as error:
                row = next(
                    (at for at, one in enumerate(passages) if one.searched == error.text), None
                )
                raise ValueError(
                    f"{error} Nothing was added; leave out texts[{row}], and others of its kind."
                ) from error
            with self.changing():
                with self._own_fit.swapping:
                    is_same = self.uec is uec  # else it was fitted meanwhile
                if is_same:
                    self.add_encoded(kept, parts)
                    return [passage.id for passage in passages]

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
        self._check_fit()
        with self.changing():
            self._written.bind(self.uec.fingerprint)
            self._written.add(
                [without_findings(passage) for passage in passages],
                self.uec.fitted.combine_as(parts, "passage"),
            )
        return [passage.id for passage in passages]

    def _check_fit(self) -> None:
        """Accept a new fit of the ensemble; ValueError if there are passages of the old one."""
        if self.uec.fitted.posteriors is self._posteriors:
            return
        if len(self):
            raise ValueError(
                f"uec: it was fitted after these {len(self)} passages were indexed, whose "
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
        return self._written.delete(as_list(ids, "ids"))

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages with the given ids, in that order, leaving out unknown ids."""
        return self.store.get(as_list(ids, "ids"))

    def clear(self) -> None:
        """Remove every passage."""
        self.delete([passage.id for passage in self.store.passages()])

    def passages(self, filter: Filter | None = None) -> Passages:
        """Return all passages, or those that a filter selects, to loop over and to count.

        With a store in memory, they are those of now, in the order of insertion; with another
        store, each loop reads those that it has then.
        """
        return Passages(self.store.snapshot(filter))

    def vectors(self, ids: Sequence[str]) -> Gaussian:
        """Return the stored Gaussians of ids; KeyError if an id is unknown."""
        return self.store.vectors(as_list(ids, "ids"))

    def search(
        self,
        queries: Sequence[str],
        k: int = 4,
        *,
        filter: Filter | None = None,
        history: Sequence[Sequence[str]] | None = None,
        within: Within | None = None,
        diversity: Diversity | None = None,
        tenant: Filter | None = None,
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
            predicate on a `Passage`.
        history : sequence of n sequences of str, optional
            The turns before each query in a conversation, oldest first: those of the user and the
            questions that the user was asked back. Only the last 64 turns are looked at, and of
            these only the last 1,500 bytes are used. If the last turn asked back and the query is
            one of its labels, that reading is searched, as with `within=label`.
        within : Reading, mapping, sequence of str or str, optional
            The reading that the user chose when asked back (from `Decision.readings`), or its ids:
            only its passages that the filter selects are searched. Or the label of the reading, in
            which case one more search finds the readings again.
        diversity : Diversity, optional
            Choose hits that are relevant and diverse, by maximal marginal relevance.
        tenant : mapping or callable, optional
            A filter for all passages of one tenant, whose questions are searched and decided as if
            no others were there: words are counted and spelled among them alone. `filter` limits
            the search further.

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
        result, pending = self._begin(queries, k, options)
        if pending is not None:
            result = settled_result(pending, pending.finish(), k)
        log_decisions(result)
        return result

    async def asearch(
        self, queries: Sequence[str], k: int = 4, **options: Unpack[Options]
    ) -> SearchResult:
        """Run `search` in a thread; an asynchronous advisor is asked in this event loop."""
        await self.afit_once()
        with from_this_loop():
            result, pending = await asyncio.to_thread(self._begin, queries, k, options)
        if pending is not None:
            with from_this_loop():
                result = settled_result(pending, await pending.afinish(), k)
        log_decisions(result)
        return result

    def _begin(
        self, queries: Sequence[str], k: int, options: Options
    ) -> tuple[SearchResult, Pending[Result] | None]:
        """Search, and decide at the threshold of the gate, before its advisor is asked.

        Returns the result, and the gate's decisions if there is one.
        """
        is_being_fitted = self._fit_once()
        if (diversity := options.get("diversity")) is not None:
            check_type(diversity, Diversity, "diversity", "a Diversity")
        if (diversity is not None or is_being_fitted) and not self._is_snapshot:
            return self.snapshot()._begin(queries, k, options)  # no passage of it is deleted
        self._follow()
        self._remove_deleted()
        tenant = options.get("tenant")
        if (where := all_of(tenant, options.get("filter"))) is not None:
            parse(where)  # so that a wrong one costs no encoding
        gate, k = self._active_gate(where), check_k(k)
        asked = parse_queries(queries, options.get("history"), options.get("within"))
        spelled = self.store if tenant is None else self.store.of_tenant(tenant)
        asked = spell(asked, spelled, self.uec.rarity)
        most = k if gate is None else gate.depth(k)
        result = self._run(asked, most, options)
        if gate is None:
            return result, None

        def again(rewrites: Sequence[str]) -> SearchResult:
            # A rewrite needs no turns before it.
            return self._run([*map(Query, rewrites)], most, options)

        # A rewrite may lead away from a reading that was chosen.
        search = None if any(query.replies for query in asked) else again
        lines = [query.lines for query in asked]
        return result, pending_on_results(gate, result, lines, search)

    def _run(self, queries: Sequence[Query], k: int, options: Options) -> SearchResult:
        """Search for questions; see `search_queries`."""

        def search(_: Mapping[str, Any]) -> SearchResult:
            self._follow()
            self._check_fit()
            return self._search_with(self.uec, queries, k, options, ())

        return self._read(search)

    def _search_with(
        self, uec: UEC, queries: Sequence[Query], k: int, options: Options, failed: tuple[str, ...]
    ) -> SearchResult:
        """Search by an ensemble; without the encoders that have failed, if others are left."""
        store = self.store
        if failed and isinstance(store, SourceStore):
            store = store.with_ensemble(uec)
        caveat = ("fitting", "") if self._is_being_fitted else ()
        if failed:
            caveat = "failed", ", ".join(failed)
        where = all_of(options.get("tenant"), options.get("filter"))
        method = replace(self._method(where), caveat=caveat)
        try:
            return search_queries(uec, store, method, queries, k, options)
        except EncoderFailed as error:
            if (rest := uec.without(error.encoder)) is None:
                raise
            warn(f"{error} Searched without it, so that nothing is answered.")
            return self._search_with(rest, queries, k, options, (*failed, error.encoder))

    def _read(self, read: Callable[[Mapping[str, Any]], T]) -> T:
        """Read the passages with the ensemble that they are of; a snapshot's stays."""
        return read({}) if self._is_snapshot else save.read_whole(self._home, read)

    def basis(self, filter: Filter | None = None) -> str:
        """Return the fingerprint of the settings that confidence depends on in a search."""
        return self._method(filter).basis

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
            As in `search`.

        Raises
        ------
        TypeError, ValueError
            If the vector has another dimension, is zero or is not finite, or if k < 1.
        """
        self._follow()
        self._remove_deleted()
        k, language = check_k(k), check_language(self.language) or ENGLISH
        store = self.store if diversity is None else self.store.snapshot()
        options = Options(filter=filter, diversity=diversity)
        return ask_vector(self.uec, store, embedding, k, options, language)

    def snapshot(self) -> Self:
        """Return a read-only view of the current index, unaffected by later changes."""
        is_being_fitted = self._fit_once()

        def take(_: Mapping[str, Any]) -> Retriever:
            self._follow()
            view = type(self).__new__(type(self))
            view.__dict__ |= self.__dict__  # a copy would have settings of its own
            view.store, view._is_snapshot = self.store.snapshot(), True
            view._is_being_fitted |= is_being_fitted
            return view

        with self._own_fit.swapping:
            return cast(Self, self._read(take))

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
        k = check_k(k)
        check_share(unanswerable_rate, "unanswerable_rate", "a share in [0, 1)")
        self._fit_once()
        store = self.store.snapshot()
        wanted = check_labels(queries, relevant_ids, store)
        self.calibration = learn.calibrate_with_labels(
            self.uec, store, queries, wanted, unanswerable_rate=unanswerable_rate, k=k
        )
        if not self._home.read_only and not self._is_snapshot:
            self._home.change_settings({"calibration": self.calibration.metadata()})
            self._settings = self._home.settings
        return self

    @property
    def labels(self) -> dict[str, set[str]]:
        """The ids of the passages that answer each labelled question; none if nothing does."""
        return save.read_labels(self._home)

    def label(self, question: str, relevant_ids: Collection[str] | None) -> None:
        """Label a question of the saved index with the passages that answer it.

        `uec-rag gate` makes a gate of the labels. A label takes the place of one that the question
        had. Other processes may write at the same time.

        Parameters
        ----------
        question : str
        relevant_ids : collection of str, optional
            Ids of passages; empty if nothing in the index answers the question. None removes its
            label.

        Raises
        ------
        TypeError, ValueError
            If the question is empty, an id is not in the index, or the index has no folder yet.
        PermissionError, BlockingIOError
            If the index is only read, or other processes keep writing to it.
        """
        check_text(question, "question")
        ids = as_list(relevant_ids or [], "relevant_ids")
        there = {passage.id for passage in self.get(ids)}
        if unknown := [id_ for id_ in ids if id_ not in there]:
            raise ValueError(
                f"relevant_ids: expected ids of passages in the index, got {unknown[0]!r:.100}; "
                "pass [] if nothing in the index answers the question."
            )
        if self.folder is None:
            raise ValueError("label: the index has no folder; save it first.")
        save.write_label(self._home, question, None if relevant_ids is None else ids)

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
            Whether to show progress; by default on a terminal, after two seconds.

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
        given = learn.sample_passages(self.store) if passages is None else [*passages]
        instead = "; a retriever of LangChain or LlamaIndex takes its own kind in its fit_from"
        for passage in given:
            check_type(passage, Passage, "passages", "Passage objects", instead)
        before = self.uec
        self._use_fit(learn.fit_without_labels(before, given, show_progress=show_progress), given)
        if isinstance(self.store, SourceStore) and passages is not None:
            learn.remember(before, self.store, self.uec.fitted)
        return self

    def _fit_is_due(self) -> bool:
        """Return whether to fit the ensemble now."""
        own = self._own_fit
        if not own.is_due or self._is_snapshot or time.monotonic() < own.not_before:
            return False
        if self.uec.is_fitted or (self._is_large_enough and self._must_stay):
            own.is_due = False
        return own.is_due and self._is_large_enough

    @property
    def _is_large_enough(self) -> bool:
        """False if there may be more passages later, to fit the ensemble on."""
        return not isinstance(self.store, LocalStore) or len(self) >= learn.ENOUGH

    def _fit_once(self) -> bool:
        """Fit an ensemble without a fit at the first search, for which others of this index wait.

        Returns whether it is fitted beside searches now.
        """
        if not self._fit_is_due():
            return False
        beside = self._own_fit.mode == "background"
        running = self._own_fit.begin(self._fit, here=not beside)
        if beside:
            return not running.done()
        running.result()
        return False

    async def afit_once(self) -> None:
        """Wait for the fit that the first search makes, in a thread that no event loop needs."""
        own = self._own_fit
        if not own.is_due or self._is_snapshot or own.mode == "background":
            return

        def begin() -> Future[None] | None:
            return own.begin(self._fit, here=False) if self._fit_is_due() else None

        if (running := await asyncio.to_thread(begin)) is not None:
            await asyncio.wrap_future(running)

    def _fit(self) -> None:
        """Fit the ensemble; if a service fails, or in the background, it is tried again later."""
        own = self._own_fit
        try:
            with one_at_a_time(learn.key_of(self.uec, self.store)):
                if (found := learn.fit_own(self.uec, self.store)) is not None:
                    self._use_fit(*found)
        except Exception as error:
            own.not_before = time.monotonic() + _AGAIN
            if not isinstance(error, EncoderFailed) and own.mode != "background":
                raise
            _log.warning("uec_rag: not fitted, which is tried again later: %s", error)
            return
        own.is_due = False

    @property
    def _must_stay(self) -> bool:
        """True if something was made with the ensemble as it is."""
        gate = self.gate
        is_engine = isinstance(self.store, CandidateStore) and not isinstance(
            self.store, SourceStore
        )
        has_own_gate = gate is not None and gate.max_wrong is None
        is_calibrated = self.calibration is not None or has_own_gate or bool(self.labels)
        return is_engine or self._home.read_only or is_calibrated

    def _use_fit(self, made: UEC, passages: Sequence[Passage]) -> None:
        """Take another fit of the ensemble, with which all passages are scored from now on."""
        home, before = self._home, self.uec
        with ExitStack() as until_swapped:
            if isinstance(self.store, SourceStore):  # it encodes what it finds
                source = self.store.with_ensemble(made)
                if passages:
                    source.learn_words(passages)
                until_swapped.enter_context(self._own_fit.swapping)
                save.record(home, source, made, self.calibration)
                self.store = source
            else:
                with self.changing():
                    view = self.store.snapshot()
                    self._written.delete([passage.id for passage in view.passages()])
                    self._written.bind(made.fingerprint)
                    for some, gaussians in learn.refit(view, before, made):
                        self._written.add(some, gaussians)
                    save.record_ensemble(home, made)
                    until_swapped.enter_context(self._own_fit.swapping)  # before others see it
            self.uec, self._posteriors = made, made.fitted.posteriors
            self._settings = home.settings

    def _follow(self) -> None:
        """Read what other processes have recorded in the folder: an ensemble, a calibration.

        FingerprintMismatch if the ensemble is another one, and was not loaded from the folder.
        """
        if self._is_snapshot:
            return
        if self._home.settings is not self._settings:
            with self._own_fit.swapping:
                save.read_whole(self._home, self._take_over)

    def _take_over(self, settings: Mapping[str, Any]) -> None:
        """Take the ensemble and the calibration of settings of the folder."""
        expected, before = settings.get("ensemble_fingerprint"), self._settings or {}
        if expected is not None and len(self) and expected != self.uec.fingerprint:
            if self._reload is None:
                raise FingerprintMismatch(
                    "index: it was built again with another ensemble; load it again."
                )
            self.uec = self._reload(settings)
            self._posteriors = self.uec.fitted.posteriors
            if expected != self.uec.fingerprint:
                raise FingerprintMismatch(
                    "index: its words are counted with other stems (another PyStemmer) since; "
                    "load it again."
                )
        if settings.get("calibration") != before.get("calibration"):
            self.calibration = save.read_calibration(self._home, settings)
        self._settings = settings

    @property
    def report(self) -> str:
        """The description of how relevance and confidence were learned, and of limitations."""
        if self.calibration is not None:
            return str(self.calibration)
        if self._is_unfitted:
            return (
                "The ensemble is not fitted, so confidence is unreliable: it comes from a model "
                "that was learned on other ensembles' similarities, standardised over the corpus. "
                "Call fit_from(passages), which needs 32 questions made of them and no labels, or "
                "calibrate."
            )
        fit = self.uec.report
        made = f"The ensemble is {fit.source}. " if fit is not None and fit.source else ""
        return (
            f"{made}Confidence was learned on other collections and may be off on this one; with "
            "labels, calibrate corrects it."
        )

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
        target, home = as_path(path), self._home
        gate = self.gate if self._gate or home.folder != target else None
        if home.folder == target and not self._is_snapshot:
            save.record(home, self.store, self.uec, self.calibration)
            self._settings = home.settings
            made = home
        else:
            made = save.save_index(target, self.uec, self.store, self.calibration)
        if gate is not None:
            gate.save(target / GATE_FILE)
        if made is home:
            return
        if self._is_snapshot or home.folder is not None:
            made.close()
        else:
            home.move_to(made)
            self._settings = home.settings

    def check(self) -> None:
        """Verify the checksums of the saved ensemble, and of all vectors and passages.

        Passages in an engine are not read.

        Raises
        ------
        IndexCorrupted
            If something is damaged; the message names the file and what to do.
        """
        self._home.check()
        save.check_ensemble(self._home)

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
        if isinstance(self._written, LocalStore):
            self._written.compact()

    def _remove_deleted(self) -> None:
        if isinstance(self.store, LocalStore):
            self.store.remove_deleted()

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
        own = uec or partial(save.load_ensemble, home, encoders=encoders or {}, trust=trust)
        try:
            retriever = save.read_whole(home, partial(cls._open, home, own, store))
        except BaseException:
            home.close()
            raise
        retriever._own_fit = OwnFit(fit)
        with suppress(OSError, ValueError):  # a damaged gate is reported when it is to decide
            _ = retriever.gate
        return retriever

    @classmethod
    def _open(
        cls,
        home: LocalStore,
        uec: UEC | Callable[[Mapping[str, Any]], UEC],
        store: Store | None,
        settings: Mapping[str, Any],
    ) -> Self:
        """Open an index with these settings; `uec`: the ensemble, or what loads it."""
        elsewhere = saved_store(settings, store)
        load, own = (None, uec) if isinstance(uec, UEC) else (uec, uec(settings))
        have_other_stems = save.check_made_with(home, settings, own)
        if isinstance(elsewhere, SourceStore):
            elsewhere = elsewhere.with_ensemble(own)
        retriever = cls(own)
        retriever.store = home if elsewhere is None else elsewhere
        if len(retriever.store) and not have_other_stems:
            retriever._written.bind(own.fingerprint)
        retriever._home, retriever._settings, retriever._reload = home, settings, load
        retriever.calibration = save.read_calibration(home, settings)
        if have_other_stems:
            retriever._use_fit(own, learn.passages_to_count(own, retriever.store, home))
        return retriever

    def close(self) -> None:
        """Close the files of the index; it cannot be used after."""
        for store in {id(one): one for one in (self._home, self.store)}.values():
            if isinstance(store, Store):
                store.close()
