"""The gate: answer only above a threshold, with a guarantee; in doubt, ask an advisor once."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack, cast

import numpy as np

from uec_rag.base.checks import check_share, check_type
from uec_rag.base.loops import run_to_end
from uec_rag.confidence.decision import Decision
from uec_rag.confidence.risk import drift, lowest_threshold
from uec_rag.gates.advisor import SHOWN, Advisor, ask_advisor, ask_rewriter
from uec_rag.gates.labelled_search import WRONG, LabelledSearch, Searchable, usual_tenant
from uec_rag.gates.opinion import Opinion, apply_opinion
from uec_rag.gates.policy import DOUBT, Policy, Stamp, check_advisor
from uec_rag.gates.rulings import case_of, pending_on_results
from uec_rag.retrieval.results import Result, SearchResult, read_by_model
from uec_rag.retrieval.search import Options
from uec_rag.stores.base import EVERYONE, Everyone, Filter
from uec_rag.stores.filters import all_of, check_tenant

GATE_FILE = "gate.json"
"""The file name of the gate in an index's folder, which decides for every user of the index."""


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
        Reads ten passages once per borderline question; see `uec_rag.gates.advisor.Advisor`. It
        is not saved. It is taken at its word, whatever the confidence: if it says "answer", true or
        a probability above 0.5, the question is answered from its hits; if "clarify", the user is
        asked which of its options, or of the readings, is meant, and a bool or a probability leaves
        a clarifying question; else its rewrite is searched for,
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
        decides without it, so that the log of decisions shows what it would change.
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
    tenant_required : bool
        Whether a `UECGate` of LangChain with it requires a tenant.

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

    def drift(self, confidences: Sequence[float | None]) -> str | None:
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
