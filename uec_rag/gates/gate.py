"""The gate: answer only above a threshold, with a guarantee; in doubt, ask an advisor once.

`LabelledSearch` has what is searched for labelled questions, of which a guarantee is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, Self, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from uec_rag.advice.advisor import Advisor, ask_advisor, ask_rewriter
from uec_rag.advice.opinion import SHOWN, Opinion, apply_opinion
from uec_rag.base.checks import check_k, check_share, check_type
from uec_rag.base.loops import run_to_end
from uec_rag.base.records import cached_property
from uec_rag.clarify.replies import Within
from uec_rag.confidence.decision import Decision
from uec_rag.confidence.risk import (
    Guarantee,
    conformal_threshold,
    drift,
    lowest_threshold,
    risk_threshold,
)
from uec_rag.gates.labels import check_labels, warn_of_lost
from uec_rag.gates.policy import DOUBT, Policy, Stamp, check_advisor
from uec_rag.gates.rulings import case_of, pending_on_results
from uec_rag.retrieval.diversity import Diversity
from uec_rag.retrieval.hits import Result, SearchResult, read_by_model
from uec_rag.retrieval.query import Options
from uec_rag.stores.base import EVERYONE, Everyone, Filter, Searched
from uec_rag.stores.filters import all_of, check_tenant
from uec_rag.stores.passage import Passage

GATE_FILE = "gate.json"
"""The file name of the gate in an index's folder, which decides for every user of the index."""


WRONG = 0.1
"""The default of `max_wrong`, the largest share of all questions that get a wrong answer."""

_MOST_KEPT = 32  # passages by which a gate notices that its index has others


class Searchable(Protocol):
    """The index whose searches a gate decides, and is made of: `uec_rag.Retriever`."""

    usual_filter: Filter | None
    usual_tenant: Filter | None

    @property
    def store(self) -> Searched:
        """The store, or the view, with its passages."""

    def stamp(
        self, filter: Filter | None = None, of: Stamp | None = None, *, again: bool = True
    ) -> Stamp:
        """The stamp of everything that its confidence depends on."""

    def passages(
        self, filter: Filter | None = None, *, tenant: Filter | Everyone = EVERYONE
    ) -> Iterable[Passage]:
        """Iterate over its passages."""

    def with_gate(self, gate: Gate | None) -> Self:
        """Return a view in which another gate decides, or none."""

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
        """Search for questions."""


@dataclass(frozen=True, eq=False)
class LabelledSearch:
    """Labelled queries with their search results, for thresholds at any risk from one search.

    Attributes
    ----------
    result : SearchResult
    relevant : list of frozenset of str
        Ids of the passages that answer each query; empty if none does.
    k : int
    search : callable
        Searches for other queries in the same snapshot, with the same filter.
    stamp : Stamp
        That of the index; its passages are some labelled answers and first hits.
    """

    result: SearchResult
    relevant: list[frozenset[str]]
    k: int
    search: Callable[[Sequence[str]], SearchResult]
    stamp: Stamp

    @cached_property
    def confidence(self) -> NDArray[np.float64]:
        """The probability that each question is answered by its first k hits, shape (n,)."""
        return np.array([row.confidence_at(self.k) for row in self.result], dtype=np.float64)

    @cached_property
    def right(self) -> NDArray[np.bool_]:
        """True for each query that one of its first k hits answers, shape (n,)."""
        return self.are_right(self.result)

    def are_right(self, results: Iterable[Result]) -> NDArray[np.bool_]:
        """Return whether the first k hits that are shown for each query answer it, shape (n,)."""
        pairs = zip(results, self.relevant, strict=True)
        return np.array([any(hits.first(self.k).finds(ids)) for hits, ids in pairs], dtype=bool)

    @classmethod
    def from_queries(
        cls,
        retriever: Searchable,
        queries: Sequence[str],
        relevant_ids: Sequence[Collection[str]],
        *,
        k: int = 4,
        filter: Filter | None = None,
        tenant: Filter | Everyone = EVERYONE,
        depth: int = 0,
    ) -> Self:
        """Search labelled queries.

        Parameters
        ----------
        retriever, queries, relevant_ids, k, filter, tenant
            As in `Gate.from_labels`, with the same errors.
        depth : int
            Number of hits that an advisor reads, if these are more.
        """
        check_k(k)
        if not isinstance(getattr(retriever, "store", None), Searched):
            raise TypeError(
                f"retriever: expected a uec_rag.Retriever, got {type(retriever).__name__}; the "
                "UECRetriever of LangChain has it as .index, that of LlamaIndex as .retriever."
            )
        filter = retriever.usual_filter if filter is None else filter
        tenant = usual_tenant(retriever, tenant)
        retriever.passages(filter, tenant=tenant)  # checks them
        scope = all_of(check_tenant(tenant), filter)
        labels = check_labels(queries, relevant_ids, retriever.store, minimum=1)
        view = retriever.with_gate(None)
        result = view.search(queries, max(k, depth), filter=filter, tenant=tenant)
        warn_of_lost(view.store, labels)
        answers = (id_ for ids in labels for id_ in sorted(ids))
        heads = (row.passages[0].id for row in result if row.passages)
        ids = [*dict.fromkeys([*answers, *heads])]
        sample = view.store.fingerprints(ids[:: 1 + (len(ids) - 1) // _MOST_KEPT])
        search = partial(view.search, k=k, filter=filter, tenant=tenant)
        stamp = replace(view.stamp(scope), passages=tuple(sample.items()))
        return cls(result, labels, k, search, stamp)

    def threshold(
        self,
        max_risk: float | None = None,
        certainty: float = 0.95,
        *,
        max_wrong: float | None = None,
    ) -> Guarantee:
        """Find the lowest threshold that keeps a guarantee, as `Gate.from_labels` does."""
        asks = self.asks_back
        if max_risk is not None:
            # The risk is a share of the answers, and a question that is asked back has none.
            is_answered = ~asks if not asks.all() else asks
            return risk_threshold(
                self.confidence[is_answered], self.right[is_answered], max_risk, 1 - certainty
            )
        confidence = np.where(asks, -np.inf, self.confidence)
        return conformal_threshold(
            confidence, ~self.right, WRONG if max_wrong is None else max_wrong
        )

    @cached_property
    def asks_back(self) -> NDArray[np.bool_]:
        """True for each question that gets a clarifying question, shape (n,)."""
        asks = [decision.action == "clarify" for decision in self.result.decisions]
        return np.array(asks, dtype=bool)

    @property
    def sample(self) -> tuple[float, ...]:
        """The confidences in ascending order."""
        return tuple(np.sort(self.confidence).round(4).tolist())


@dataclass(frozen=True)
class Gate(Policy):
    """A rule that decides for each query whether to answer, ask for clarification or abstain.

    Attributes
    ----------
    threshold : float
        The confidence above which to answer.
    guarantee : Guarantee or None
        The limit on wrong answers that `from_labels` found the thresholds for.
    advisor : callable, decision model or None
        Reads ten passages once per borderline question; see `uec_rag.advice.advisor.Advisor`. It
        is not saved. It is taken at its word, whatever the confidence: if it says "answer", true or
        a probability above 0.5, the question is answered from its hits; if "clarify", the user is
        asked which of its options, or of the readings, is meant; else its rewrite is searched for,
        and answered if it is not in doubt itself. The passage that it names becomes the first hit.
        If it fails, or if there is none, `threshold` decides alone.
    rewriter : callable or None
        A second advisor, such as a chat model, that is asked for a rewrite where the first has
        declined. It is not saved.
    doubt : (float, float)
        An advisor is asked if the confidence is above the first and not above the second, or above
        the first and P(underspecified) above 0.5; but not if the user is asked which of
        several things is meant, and P(underspecified) is above nine tenths.
    rewritten : float
        The confidence above which a rewrite is answered.
    ask : {"borderline", "always", "shadow"}
        When an advisor is asked: in doubt, or also before each answer. "always" finds answers that
        are confident and wrong, such as those on the topic of the documents that they do not have,
        for a call for nearly each question. It has no guarantee. "shadow" asks in doubt, but
        decides without it, so that `log` shows what it would change.
    log : path, AdviceLog or None
        A file that gets a line of JSON for each question that an advisor was asked about. It is not
        saved.
    timeout : float
        Seconds after which an advisor counts as not asked.
    k : int
        A query counts as answered correctly if one of its first k hits is relevant. With a
        guarantee, a search for fewer hits returns as many, too.
    is_advised : bool
        Whether the guarantee is that of the gate with its advisor. It also holds without one; the
        gate then answers fewer questions, as `report` says.
    stamp : Stamp
        That of the index at calibration; empty if none was made.
    confidences : tuple of float
        Confidences of the calibration questions, ascending. The confidences of later questions are
        compared with them, without labels, by `drift`.
    max_wrong : float or None
        Without labels: the share of all questions that is expected to get a wrong answer at most.
        It chooses `threshold`, by what kept that share on four of five other collections
        (`uec_rag.confidence.risk`). Nothing is guaranteed; `from_labels` guarantees a share.
    clarify_from : float
        The lowest P(underspecified) at which to ask which reading is meant: the lower, the more
        ambiguous questions are asked back, and the more clear ones in vain, as docs/decisions.md
        shows. With a guarantee, at most the default.

    Raises
    ------
    TypeError, ValueError
        If a number is out of range, or there is an advisor and the guarantee is one without.

    Examples
    --------
    A threshold, for an index or for a search:

    >>> from uec_rag import UEC, Retriever
    >>> index = Retriever(UEC(["bm25"]))
    >>> ids = index.add(["Cats purr when they are content.", "Dogs bark at strangers."])
    >>> gate = Gate(0.7)
    >>> [decision.action for decision in gate.search(index, ["Why do cats purr?"]).decisions]
    ['answer']

    An expected limit on wrong answers, without labels; `Gate.from_labels` guarantees one:

    >>> Gate(max_wrong=0.1).threshold > Gate(max_wrong=0.2).threshold > Gate().threshold
    True

    A language model, or a function, for borderline questions:

    >>> advised = Gate(advisor=lambda question, texts: "opening hours" in texts[0])
    >>> advised.doubt
    (0.05, 0.85)
    """

    @classmethod
    def from_labels(
        cls,
        retriever: Searchable,
        queries: Sequence[str],
        relevant_ids: Sequence[Collection[str]],
        *,
        max_wrong: float | None = None,
        max_risk: float | None = None,
        certainty: float = 0.95,
        advisor: Advisor | None = None,
        rewriter: Advisor | None = None,
        k: int = 4,
        filter: Filter | None = None,
        tenant: Filter | Everyone = EVERYONE,
    ) -> Gate:
        """Choose the lowest thresholds that keep wrong answers below a target.

        `max_wrong` limits the share of all questions that get a wrong answer, on average over
        random calibration sets (`conformal_threshold`); a hundred labels are enough. `max_risk`
        limits the share of wrong answers among those given, with probability `certainty`
        (`risk_threshold`), which takes several hundred labels. An answer is wrong if none of its
        hits is relevant. Future queries must come from the same distribution, over the same index.

        Parameters
        ----------
        retriever : Retriever
            The retriever, calibrated before on other queries than these.
        queries : sequence of str
        relevant_ids : sequence of collection of str
            Ids of the passages that answer each query; empty if none does, or if the query does not
            say which of several answers it asks for.
        max_wrong : float, optional
            Largest share of all questions that get a wrong answer, in (0, 1); 0.1 by default; alpha
            of conformal risk control. A question that gets a clarifying question gets no answer.
        max_risk : float, optional
            Instead of `max_wrong`: largest share of wrong answers among those given, in (0, 1);
            alpha of Learn then Test.
        certainty : float
            Probability with which `max_risk` is kept, in (0, 1): 1 - delta.
        advisor : callable, optional
            The advisor of the gate, which is asked about each of these queries. The guarantee is
            that of the gate as it runs, with the advisor's errors, rewrites and failures. Not
            possible with `max_risk`.
        rewriter : callable, optional
            As in the class.
        k : int
            Number of hits per query that an answer may use.
        filter : mapping or callable, optional
            The filter that every later search will use; by default, `Retriever.usual_filter`.
        tenant : mapping or callable, optional
            The tenant of every later search; by default, `Retriever.usual_tenant`. Confidence among
            one tenant's passages is another than among those of a filter.

        Raises
        ------
        TypeError, ValueError
            As raised by `Retriever.calibrate`, or if a share is outside (0, 1), or `max_risk` is
            passed with `max_wrong` or `advisor`.
        """
        check_target(max_wrong, max_risk, certainty, advisor)
        options: dict[str, Any] = {"filter": filter, "tenant": tenant}
        options["depth"] = 0 if advisor is None else SHOWN
        searched = LabelledSearch.from_queries(retriever, queries, relevant_ids, k=k, **options)
        advice: dict[str, Any] = {"advisor": advisor, "rewriter": rewriter}
        return cls.from_search(searched, max_risk, certainty, max_wrong=max_wrong, **advice)

    @classmethod
    def from_search(
        cls,
        searched: LabelledSearch,
        max_risk: float | None = None,
        certainty: float = 0.95,
        *,
        max_wrong: float | None = None,
        advisor: Advisor | None = None,
        rewriter: Advisor | None = None,
    ) -> Gate:
        """Make the gate of `from_labels` from labelled questions that are searched already."""
        gate = cls(k=searched.k, stamp=searched.stamp, confidences=searched.sample)
        if advisor is None:
            guarantee = searched.threshold(max_risk, certainty, max_wrong=max_wrong)
            return replace(gate, threshold=min(guarantee.threshold, 1.0), guarantee=guarantee)
        gate = replace(gate, rewriter=rewriter)
        share = WRONG if max_wrong is None else max_wrong
        return with_guarantee(gate, searched, advisor, share)

    def search(
        self, retriever: Searchable, queries: Sequence[str], k: int = 4, **options: Unpack[Options]
    ) -> SearchResult:
        """Search, decide, and in doubt ask the advisor.

        Parameters
        ----------
        retriever, queries, k, **options
            `history`, `within`, `filter` and `tenant`, as in `Retriever.search`.

        Returns
        -------
        SearchResult
            The decisions in it are final. Of hits alike that a question does not tell apart, there
            are up to eight. The hits of a question whose rewrite is answered are
            those of the rewrite, and `Decision.searched_as` is the rewrite.
        """
        with read_by_model():
            return retriever.with_gate(self).search(queries, k, **options)

    def decide(self, result: SearchResult) -> list[Decision]:
        """Decide on each query of a result; an advisor is asked, but no rewrite is searched for.

        The decision rests on the confidence of the first `k` hits, however many were found. Warns
        if the result used another calibration or filter than the gate.
        """
        self.check_settings([item.decision for item in result])
        pending = pending_on_results(self, result, result.queries)
        return [decision for decision, _ in pending.finish()]

    def drift(self, confidences: Sequence[float]) -> str | None:
        """Return a warning if confidences are distributed differently from the calibration's."""
        return drift(self.confidences, confidences)

    def fits(
        self,
        retriever: Searchable,
        filter: Filter | None = None,
        tenant: Filter | Everyone = EVERYONE,
    ) -> bool:
        """Return whether the index is unchanged since the gate was made.

        Of an engine, or more than 100,000 passages, their number and a few of them are compared;
        of another store, its name, its model, a few of its vectors and of its passages, of which a
        tenth may be gone or changed.

        `filter`, `tenant`: those of the searches; by default, `Retriever.usual_filter` and
        `Retriever.usual_tenant`.
        """
        filter = retriever.usual_filter if filter is None else filter
        scope = all_of(check_tenant(usual_tenant(retriever, tenant)), filter)
        return not self.misfit(retriever, scope)

    def misfit(self, retriever: Searchable, filter: Filter | None, *, again: bool = True) -> str:
        """Return why the guarantee does not hold for an index; "" if it may.

        `filter`: all filters of its searches. `again`: whether passages of a remote store are
        looked up again, if they were before.
        """
        if self.stamp == Stamp():
            return ""
        return self.stamp.differs(retriever.stamp(filter, self.stamp, again=again))

    @property
    def report(self) -> str:
        """The result of the calibration, in plain words."""
        if self.guarantee is not None:
            text = self.guarantee.report
        else:
            text = f"Answering above confidence {self.threshold:.2f}."
            if self.max_wrong is not None:
                text += (
                    f" At most {self.max_wrong:.1%} of all questions are expected to be answered "
                    "wrongly, as on four of five English collections with 30% of the questions "
                    "without an answer."
                )
            text += " Nothing is guaranteed; a guarantee requires labels and `from_labels`."
        if self.advisor is not None:
            low, high = self.doubt
            text += (
                f" An advisor is asked from confidence {low:.3f} to {high:.3f}, and its rewrite "
                f"is answered above {self.rewritten:.3f}."
            )
        elif self.is_advised:
            text += " That is with its advisor; without one, as now, it answers fewer."
        return text


def usual_tenant(retriever: Searchable, tenant: Filter | Everyone) -> Filter | Everyone:
    """Return the tenant of a call, or where it names none that of the index's searches."""
    if tenant is not EVERYONE or retriever.usual_tenant is None:
        return tenant
    return retriever.usual_tenant


def check_gate(gate: object) -> Gate | None:
    """Return a gate or None; TypeError that says what to use if it is something else."""
    instead = "; load a saved gate with Gate.load(path), or make one with Gate(threshold)"
    check_type(gate, Gate | None, "gate", "a Gate", instead)
    return cast(Gate | None, gate)


def check_target(
    max_wrong: float | None,
    max_risk: float | None,
    certainty: float,
    advisor: Advisor | None = None,
) -> None:
    """Check the guarantee for `Gate.from_labels`; TypeError or ValueError if invalid."""
    if max_risk is not None and (max_wrong is not None or advisor is not None):
        rival = "advisor" if max_wrong is None else "max_wrong"
        raise ValueError(
            f"{rival}, max_risk: expected one of them, got both; max_wrong counts all questions, "
            "max_risk only answered ones, and an advisor goes with max_wrong."
        )
    for name, value in {"max_wrong": max_wrong, "max_risk": max_risk}.items():
        if value is not None:
            check_share(value, name, "a number in (0, 1)")
    check_share(certainty, "certainty", "a number in (0, 1)")
    check_advisor(advisor)


def with_guarantee(
    gate: Gate, searched: LabelledSearch, advisor: Advisor, max_wrong: float
) -> Gate:
    """Return a gate that keeps a guarantee with an advisor, which is asked each question."""
    result = searched.result
    rows = zip(result.decisions, result.queries, result.passages, strict=True)
    cases = [case_of(item, query, [hit.headed for hit in hits]) for item, query, hits in rows]
    opinions = run_to_end(ask_advisor(advisor, cases, gate.timeout))
    declined = [(opinion.contains or 0.0) < DOUBT[1] for opinion in opinions]
    opinions = run_to_end(ask_rewriter(gate.rewriter, cases, opinions, declined, gate.timeout))
    rewritten = [row for row, opinion in enumerate(opinions) if opinion.rewrite]
    results = searched.search([opinions[row].rewrite for row in rewritten])
    again = dict(zip(rewritten, results, strict=True))
    draft = replace(gate, advisor=advisor, is_advised=True)
    draft = advised_thresholds(draft, searched, opinions, again, max_wrong)
    rewrites = {opinions[row].rewrite: item for row, item in again.items()}
    pending = pending_on_results(
        draft,
        result,
        result.queries,
        lambda lines: SearchResult([*map(rewrites.__getitem__, lines)]),
    )
    settled = pending.settle([opinions[row] for row in pending.rows])
    answered = np.array([decision.action == "answer" for decision, _ in settled])
    wrong = answered & ~searched.are_right(item for _, item in settled)
    assert draft.guarantee is not None
    counts = {"answered": int(answered.sum()), "wrong": int(wrong.sum())}
    return replace(draft, guarantee=replace(draft.guarantee, **counts))


def advised_thresholds(
    gate: Gate,
    searched: LabelledSearch,
    opinions: Sequence[Opinion],
    again: Mapping[int, Result],
    max_wrong: float,
) -> Gate:
    """Choose the lowest thresholds at which a bounded share of all questions is wrong.

    One number, t, says for each question whether it is answered. The advisor is asked if the
    confidence is above t, so that this is also the least at which its yes is answered. A rewrite
    that is answered wrongly counts as such up to its confidence. The threshold without advice is
    at least that of the confidence alone, so that the limit is also kept if there is no advisor.

    Parameters
    ----------
    gate : Gate
        Whose advisor is asked in a range of confidence that does not depend on t.
    searched : LabelledSearch
    opinions : sequence of n Opinion
    again : mapping of int to Result
        What was found for the rewrites, by the position of the question.
    max_wrong : float
    """
    alone = min(searched.threshold(max_wrong=max_wrong).threshold, 1.0)
    gate = replace(gate, doubt=(DOUBT[0], max(DOUBT[1], alone)))
    hits, score = [*searched.result], np.full(len(opinions), -np.inf)
    for row, (result, opinion) in enumerate(zip(searched.result, opinions, strict=True)):
        decision = replace(result.decision, confidence=float(searched.confidence[row]))
        ruling, is_asked = decision, gate.is_doubted(decision)
        if is_asked:
            ruling, hits[row] = apply_opinion(decision, opinion), result.with_first(opinion.passage)
        declines = is_asked and opinion.contains is not None and ruling.action == "abstain"
        if ruling.action != "clarify" and not declines:
            score[row] = decision.confidence
    results = [again.get(row, result) for row, result in enumerate(searched.result)]
    sure = np.full(len(results), -np.inf)
    for row, result in again.items():
        sure[row] = result.confidence_at(gate.k)
    is_harmful = ~searched.are_right(results) & (sure > gate.rewritten)
    sure = np.minimum(sure, searched.confidence)
    harm = np.where(searched.are_right(hits), -np.inf, score)
    harm = np.maximum(harm, np.where(is_harmful, sure, -np.inf))
    low, guarantee = lowest_threshold(harm, max_wrong)
    threshold, is_kept = max(low, alone), len(harm) >= guarantee.needed
    lowest = max(gate.doubt[0], low)
    return replace(
        gate,
        threshold=threshold,
        doubt=(lowest, max(gate.doubt[1], lowest)),
        rewritten=max(gate.rewritten, low),
        guarantee=replace(guarantee, threshold=threshold if is_kept else math.inf),
    )
