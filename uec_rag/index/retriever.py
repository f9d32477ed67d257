"""The retriever: an index that is searched, with a decision for each question."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import Any, Self, Unpack, cast

from uec_rag.base.checks import check_k, check_type
from uec_rag.base.errors import EncoderFailed, warn, warn_once
from uec_rag.base.loops import beside
from uec_rag.base.progress import span
from uec_rag.clarify.outline import CLARIFY_FROM
from uec_rag.clarify.replies import Within
from uec_rag.ensemble.convolution import make_rule
from uec_rag.ensemble.uec import UEC
from uec_rag.gates.gate import Gate
from uec_rag.gates.policy import Stamp
from uec_rag.gates.rulings import Pending, pending_on_results, settled_result
from uec_rag.index import save
from uec_rag.index.fitted_index import FittedIndex
from uec_rag.questions.languages import ENGLISH, check_language
from uec_rag.retrieval.diversity import Diversity
from uec_rag.retrieval.hits import Result, SearchResult, is_read_by_model
from uec_rag.retrieval.query import Options, Query, Request, parse_queries
from uec_rag.retrieval.rankings import Method, method_of
from uec_rag.retrieval.results import ask_vector, search_queries
from uec_rag.stores.base import EVERYONE, Everyone, Filter, Searched
from uec_rag.stores.filters import all_of, parse
from uec_rag.stores.source import SourceStore

LOG = logging.getLogger("uec_rag.decisions")
"""Gets a line of JSON for each question at the level INFO, which is off unless you set it."""


class Retriever(FittedIndex):
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
    tenant_required : bool
        Whether each search, label, list and count of passages needs a `tenant`, and is refused
        without one. It is saved; what is learned (`fit_from`, `calibrate`) needs none. The
        attribute may be set later.

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

    def with_gate(self, gate: Gate | None) -> Self:
        """Return a read-only view of the current index in which another gate decides, or none."""
        view = self.snapshot()
        view.gate = gate
        return view

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
            if again or pairs not in self._living:
                now = store.fingerprints([id_ for id_, _ in pairs])
                self._living[pairs] = tuple(pair for pair in pairs if now.get(pair[0]) == pair[1])
            pairs = self._living[pairs]
        probes: tuple[tuple[float, ...], ...] = ()
        if of is None or of.probes:
            probes = (*self.uec.probes, *store.probes)
        corpus = store.corpus() if of is None or of.corpus else ""
        return Stamp(self._method(filter).basis, corpus, probes, pairs)

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
        with suppress(EncoderFailed):  # what fails is compared as soon as it answers again
            if reason := gate.misfit(self, filter, again=False):
                warn_once(self._warnings, (reason, gate.stamp.basis), reason)
        return gate

    def search(
        self,
        queries: Sequence[str],
        k: int = 4,
        *,
        filter: Filter | None = None,
        history: Sequence[Sequence[str]] | None = None,
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
            result, pending = self._begin(queries, k, options)
            if pending is not None:
                result = settled_result(pending, pending.finish(), k)
            log_decisions(result, facts)
        return result

    async def asearch(
        self, queries: Sequence[str], k: int = 4, **options: Unpack[Options]
    ) -> SearchResult:
        """Run `search` in a thread; an asynchronous advisor is asked in this event loop."""
        await self.afit_once()
        with span("search") as facts:
            result, pending = await beside(self._begin, queries, k, options)
            if pending is not None:
                result = settled_result(pending, await pending.afinish(), k)
            log_decisions(result, facts)
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
        self.store.remove_deleted()
        tenant = options.get("tenant", EVERYONE)
        is_open = tenant is EVERYONE and not self.tenant_required
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
        gate = self._active_gate(scope)
        questions = parse_queries(queries, options.get("history"), request.within)
        depth = request.k if gate is None else gate.depth(request.k)
        request = replace(request, queries=questions, k=depth)
        result = self._run(request)
        if gate is None:
            return result, None

        def again(rewrites: Sequence[str]) -> SearchResult:
            # A rewrite needs no turns before it, and is spelled correctly.
            return self._run(replace(request, queries=[*map(Query, rewrites)], spells=False))

        # A rewrite may lead away from a reading that was chosen.
        search = None if any(query.replies for query in questions) else again
        lines = [query.lines for query in questions]
        return result, pending_on_results(gate, result, lines, search)

    def _run(self, request: Request) -> SearchResult:
        """Search for questions; see `search_queries`.

        Encoders that fail are left out, if others are left. It is repeated if another process has
        saved another ensemble meanwhile.
        """
        home, failed = self._settings.home, list[str]()
        while True:
            settings = replace(self._settings, values=home.settings)
            self._follow()
            self._check_fit()
            uec, store = self.uec, self.store
            if failed:
                uec, store = without(uec, store, failed) or (uec, store)
            caveat: tuple[str, str] | tuple[()] = ("fitting", "") if self._is_being_fitted else ()
            if failed:
                caveat = "failed", ", ".join(failed)
            method = replace(
                self._method(request.scope),
                caveat=caveat,
                rarity=uec.rarity,
                clarify_from=CLARIFY_FROM if self.gate is None else self.gate.clarify_from,
            )
            try:
                result = search_queries(uec, store, method, request)
            except EncoderFailed as error:
                is_repeated = error.encoder in failed  # something else asks it
                names = [*failed, error.encoder]
                if is_repeated or without(self.uec, self.store, names) is None:
                    raise
                warn(f"{error} Searched without it, so that nothing is answered.")
                failed.append(error.encoder)
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
        self._follow()
        self.store.remove_deleted()
        condition = all_of(self._tenant_of(tenant), filter)
        request = Request((), check_k(k), condition, diversity=diversity)
        store = self.store if diversity is None else self.store.snapshot()
        language = check_language(self.language) or ENGLISH
        return ask_vector(self.uec, store, embedding, request, language)

    def snapshot(self) -> Self:
        """Return a read-only view of the current index, unaffected by later changes."""
        is_being_fitted = self._fit_once()

        def take(_: save.Settings) -> Retriever:
            self._follow()
            view = type(self).__new__(type(self))
            view.__dict__ |= self.__dict__  # a copy would have settings of its own
            view.store, view._is_snapshot = self.store.snapshot(), True
            view._is_being_fitted |= is_being_fitted
            return view

        with self._own_fit.swapping:
            is_read = self._is_snapshot
            return cast(Self, take(self._settings) if is_read else self._settings.read_whole(take))

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


def without(uec: UEC, store: Searched, failed: Sequence[str]) -> tuple[UEC, Searched] | None:
    """Return an ensemble and a store without what failed; None if nothing else is left."""
    models = {encoder.name: encoder for encoder in uec.encoders}
    for name in failed:
        encoder = models.get(name)
        twin = store.without(name, encoder) if isinstance(store, SourceStore) else store
        quiet = uec if encoder is None and twin is not store else uec.without(name)
        if quiet is None or twin is None:
            return None
        uec, store = quiet, twin.with_ensemble(quiet)
    return uec, store


def log_decisions(result: SearchResult, facts: dict[str, Any]) -> None:
    """Log each question with its final decision and what led to it, as JSON, if that is asked.

    Those of a search that was not what it usually is are left out of the log.

    `facts`: of the search's `span`, to which actions and codes are added in any case, and how many
    questions were borderline.
    """
    decisions = result.decisions
    facts["decisions"] = [item.action for item in decisions]
    facts["reasons"] = [item.code for item in decisions]
    facts["borderline"] = sum(bool(item.advice) or item.code == "uncertain" for item in decisions)
    # Else an application that logs at INFO would log questions.
    if LOG.level == logging.NOTSET or not LOG.isEnabledFor(logging.INFO):
        return
    for row in [row for row in result if not row.decision.caveat]:
        line: dict[str, Any] = {"question": row.query, "searched_as": row.decision.searched_as}
        line |= row.decision.metadata() | {"why": [*row.why]}
        line["lacking"] = [*row.decision.lacking]
        line["closest"] = [section.title for section in row.decision.closest]
        LOG.info("%s", json.dumps(line, ensure_ascii=False))
