"""The gate: answer only above a threshold, with a guarantee; in doubt, ask an advisor once."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar, cast

import numpy as np

from uec_rag.base.checks import check_k, check_pickles, check_share, check_type
from uec_rag.base.errors import IndexCorrupted, warn
from uec_rag.base.files import as_path, read_json, replace_file
from uec_rag.base.properties import cached_property
from uec_rag.base.records import Record
from uec_rag.confidence.advice import (
    Advice,
    Advisor,
    Reply,
    ask_advisor,
    ask_rewriter,
    run_to_end,
)
from uec_rag.confidence.decision import Decision, apply_advice, apply_opinion, decide_again
from uec_rag.confidence.decision_models import decision_model
from uec_rag.confidence.model import JUDGED
from uec_rag.confidence.opinion import READ, Opinion, OpinionModel, shipped_opinion_model
from uec_rag.confidence.risk import Guarantee, drift, expected_threshold
from uec_rag.encoders.base import NotCopied, are_of_one_model
from uec_rag.retrieval.advice_log import AdviceLog
from uec_rag.retrieval.advised import (
    DOUBT,
    MOST_ASKED,
    UNDERSPECIFIED,
    case_of,
    fit_opinion,
    own_cases,
    with_guarantee,
)
from uec_rag.retrieval.hits import Result, SearchResult
from uec_rag.retrieval.labelled import WRONG, LabelledSearch, Searchable
from uec_rag.stores.base import Filter

GATE_FILE = "gate.json"
"""The file name of the gate in an index's folder, which decides for every user of the index."""

_CHECKSUM = "sha256"  # key of the checksum in a saved gate

_T = TypeVar("_T")
_Search: TypeAlias = Callable[[Sequence[str]], Sequence[tuple[Decision, _T]]]

OUTDATED = (
    "the gate was made for other passages, another calibration or other settings than the index "
    "has now, so its guarantee does not hold; recalibrate it with 'uec-rag gate'"
)
"""The note on a gate that no longer `Gate.fits`."""

OTHER_SETTINGS = (
    "The gate was made with another calibration or filter, or another version: its guarantee does "
    "not apply to this search. Make it again from its labels."
)
"""The note on a gate for a search with other settings."""

OTHER_PASSAGES = (
    "{} of the {} compared passages that the gate was made with are gone or have other texts, so "
    "its guarantee does not hold; make the gate again from its labels"
)
"""The note on a gate over a store whose passages are others."""

OTHER_MODEL = (
    "the gate was made with another embedding model than the index has now, or the store has "
    "vectors of another one, so its guarantee does not hold; make the gate again from its labels"
)
"""The note on a gate that was made with other vectors."""


@dataclass(frozen=True, eq=False)
class Pending(Generic[_T]):
    """The questions of a search, some of which a gate's advisor is to be asked about.

    Attributes
    ----------
    gate : Gate
    decisions : sequence of n Decision
        The decisions at the gate's threshold.
    found : sequence of n T
        What was found for each question: a `Result`, or a list of hits.
    questions : sequence of n str
        Each with the turns before it, one per line.
    texts : sequence of n sequences of str
        The texts of the hits of each.
    search : callable, optional
        Searches for rewrites; returns the decision at the threshold on each and what was found.
    """

    gate: Gate
    decisions: Sequence[Decision]
    found: Sequence[_T]
    questions: Sequence[str] = ()
    texts: Sequence[Sequence[str]] = ()
    search: _Search[_T] | None = None

    @cached_property
    def rows(self) -> list[int]:
        """The positions of the questions to ask about; none without an advisor."""
        if self.gate.advisor is None:
            return []
        doubted = map(self.gate.is_doubted, self.decisions)
        return [row for row, doubt in enumerate(doubted) if doubt and self.texts[row]]

    def finish(self) -> list[tuple[Decision, _T]]:
        """Ask from synchronous code; return each final decision with what it is about."""
        return self.settle(run_to_end(self.consult()) if self.rows else [])

    async def afinish(self) -> list[tuple[Decision, _T]]:
        """Run `finish`; an asynchronous advisor is asked in this event loop."""
        return await asyncio.to_thread(self.settle, await self.consult())

    async def consult(self) -> list[Reply]:
        """Ask the advisor about each of `rows`, and then the rewriter where it declines.

        An asynchronous one is asked in this event loop, others in threads.
        """
        gate, rows = self.gate, self.rows
        if not rows or gate.advisor is None:
            return []
        cases = [case_of(self.decisions[r], self.questions[r], self.texts[r]) for r in rows]
        replies = await ask_advisor(gate.advisor, cases, gate.timeout)
        if gate.rewriter is None or gate.ask == "shadow":
            return replies
        advised = map(gate.advised, (self.decisions[row] for row in rows), replies)
        declined = [decision.action == "abstain" for decision in advised]
        return await ask_rewriter(gate.rewriter, cases, replies, declined, gate.timeout)

    def settle(self, replies: Sequence[Reply]) -> list[tuple[Decision, _T]]:
        """Decide on all questions, given what `consult` returned.

        What was found is that of the rewrite if this is answered.
        """
        gate, final = self.gate, [*zip(self.decisions, self.found, strict=True)]
        advised = dict(zip(self.rows, replies, strict=True))
        made = {row: gate.advised(self.decisions[row], reply) for row, reply in advised.items()}
        rewrites = {
            row: line
            for row, reply in advised.items()
            if made[row].action == "abstain"
            and (line := reply.question_to_search(self.questions[row].rpartition("\n")[2]))
        }
        if rewrites and self.search is not None and gate.ask != "shadow":
            again = self.search([*rewrites.values()])
            for (row, line), (decision, found) in zip(rewrites.items(), again, strict=True):
                if decision.confidence > gate.rewritten:
                    counts = made.pop(row)
                    taken = apply_advice(decision, Advice("answer"), line)
                    costs = counts.advice_calls, counts.advice_tokens
                    taken = replace(taken, advice_calls=costs[0], advice_tokens=costs[1])
                    final[row] = taken, found
        for row, decision in made.items():
            known, found = final[row]
            if gate.ask == "shadow":
                decision = replace(known, **decision.advice_metadata())
            elif decision.action == "answer" and not isinstance(said := advised[row].said, str):
                found = with_first(found, said.named)
            final[row] = decision, found
        self._write_log(replies, made, final)
        return final

    def _write_log(
        self,
        replies: Sequence[Reply],
        made: Mapping[int, Decision],
        final: Sequence[tuple[Decision, _T]],
    ) -> None:
        """Log the questions that the advisor was asked about, if there is a log."""
        log, rows = self.gate.log, self.rows
        if log is None or not rows:
            return
        after = [made.get(row, final[row][0]) for row in rows]
        asked, before = [self.questions[row] for row in rows], [self.decisions[row] for row in rows]
        log.write(asked, before, after, replies, is_shadow=self.gate.ask == "shadow")


def with_first(found: _T, position: int) -> _T:
    """Return a `Result`, or a list of hits, with the hit at a position as the first."""
    if isinstance(found, Result):
        return cast(_T, found.with_first(position))
    hits = cast(list[Any], found)
    first = hits[position : position + 1]
    return cast(_T, [*first, *hits[:position], *hits[position + 1 :]]) if position else found


@dataclass(frozen=True)
class Gate(NotCopied, Record):
    """A rule that decides for each query whether to answer, ask for clarification or abstain.

    Attributes
    ----------
    threshold : float
        The confidence above which to answer.
    guarantee : Guarantee or None
        The limit on wrong answers that `from_labels` found the thresholds for.
    advisor : callable, decision model or None
        Reads ten passages once per borderline question; see `uec_rag.confidence.advice.Advisor`. It
        is not saved. A verdict decides: if it is "answer", the question is answered from its hits;
        if "clarify", the user is asked which of its options, or of the readings, is meant; if "no",
        its rewrite is searched for, and answered if it is not in doubt itself. A probability, of a
        decision model, becomes one with the confidence (`opinion`), which `threshold` is compared
        with. The passage that it names becomes the first hit. If it fails, or if there is none,
        `threshold` decides alone.
    rewriter : callable or None
        A second advisor, such as a chat model, that is asked for a rewrite where the first has
        declined. It is not saved.
    opinion : OpinionModel or None
        How confidence and an advisor's probability become one; `fit_from` learns it of an index. By
        default, that of `uec_rag.confidence.opinion.shipped_opinion_model`, which is cautious.
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
    advised_threshold : float or None
        The probability above which a question with a second opinion is answered; `threshold` by
        default. `from_labels` sets it.
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
    basis, corpus : str
        Fingerprints of the settings that confidence depended on at calibration
        (`Retriever._method`), and of the passages; "" if unknown.
    probes : tuple of tuple of float
        The vectors of a few texts by each model of the index, and by that of the store below it;
        empty if unknown.
    passages : tuple of (str, str)
        The ids of up to 32 passages that it was made with, and hashes of their texts; empty if
        unknown, or if the store cannot look up ids.
    confidences : tuple of float
        Confidences of the calibration questions, ascending. The confidences of later questions are
        compared with them, without labels, by `drift`.
    max_wrong : float or None
        Without labels: the share of all questions that is expected to get a wrong answer at most.
        It chooses `threshold`, by what kept that share on four of five other collections
        (`uec_rag.confidence.risk`). Nothing is guaranteed; `from_labels` guarantees a share.

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

    threshold: float = 0.5
    guarantee: Guarantee | None = None
    advisor: Advisor | None = field(default=None, repr=False, compare=False)
    doubt: tuple[float, float] = DOUBT
    rewritten: float = DOUBT[1]
    rewriter: Advisor | None = field(default=None, repr=False, compare=False)
    opinion: OpinionModel | None = None
    advised_threshold: float | None = None
    log: AdviceLog | None = field(default=None, compare=False)
    ask: Literal["borderline", "always", "shadow"] = "borderline"
    timeout: float = 30.0
    k: int = JUDGED
    is_advised: bool = False
    basis: str = ""
    corpus: str = ""
    probes: tuple[tuple[float, ...], ...] = field(default=(), repr=False)
    passages: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    confidences: tuple[float, ...] = field(default=(), repr=False)
    max_wrong: float | None = None

    def __post_init__(self) -> None:
        if self.max_wrong is not None:
            object.__setattr__(self, "threshold", self._expected_threshold(self.max_wrong))
        if isinstance(self.log, str | os.PathLike):
            object.__setattr__(self, "log", AdviceLog(os.fspath(self.log)))
        check_type(self.log, AdviceLog | None, "log", "a path or an AdviceLog")
        check_type(self.guarantee, Guarantee | None, "guarantee", "a Guarantee or None")
        low, high = self.doubt
        numbers = {"threshold": self.threshold, "rewritten": self.rewritten}
        for name, value in (numbers | {"doubt[0]": low, "doubt[1]": high}).items():
            if value != np.nextafter(0, -1):  # a threshold at which everything is answered
                check_share(value, name, "a number from 0 to 1")
        if low > high:
            raise ValueError(f"doubt: expected the lower confidence first, got {self.doubt}.")
        if self.ask not in ("borderline", "always", "shadow"):
            expected = "'borderline', 'always' or 'shadow'"
            raise ValueError(f"ask: expected {expected}, got {self.ask!r:.60}.")
        check_k(self.k)
        _check_advisor(self.advisor)
        _check_advisor(self.rewriter, "rewriter")
        if self.guarantee is None:
            return
        if self.ask == "always":
            raise ValueError(
                "ask: expected 'borderline' for a gate with a guarantee, which labels gave it with "
                "the advisor asked in doubt alone; or omit guarantee=."
            )
        if self.advisor is not None and not self.is_advised:
            raise ValueError(
                "advisor: this gate was calibrated without one, so its guarantee would not hold "
                "with one; pass it to Gate.from_labels(..., advisor=...), or use a plain threshold."
            )

    def __getstate__(self) -> dict[str, Any]:
        """Pickle it with its advisor; TypeError if that does not pickle."""
        instead = (
            "Define it at the top of a module; or save the gate, and load it where it is needed: "
            "Gate.load(path, advisor=...)."
        )
        check_pickles(self.advisor, "advisor: it", instead)
        check_pickles(self.rewriter, "rewriter: it", instead)
        return self.__dict__

    def _expected_threshold(self, max_wrong: float) -> float:
        """Check `max_wrong` and what is given beside it, and return its threshold."""
        share = check_share(max_wrong, "max_wrong", "a number in (0, 1)")
        threshold = expected_threshold(share)
        others = (self.guarantee, self.advisor, self.k)
        if self.threshold not in (Gate.threshold, threshold) or others != (None, None, JUDGED):
            raise ValueError(
                f"max_wrong: without labels, {max_wrong} stands for a threshold of "
                f"{threshold:.3f}, without an advisor and with k={JUDGED}: omit threshold=, "
                f"advisor= and k=, or use Gate.from_labels(..., max_wrong={max_wrong})."
            )
        return threshold

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
        opinion: OpinionModel | None = None,
        k: int = 4,
        filter: Filter | None = None,
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
            Largest share of all questions that get a wrong answer, in (0, 1); 0.1 by default. A
            question that gets a clarifying question gets no answer.
        max_risk : float, optional
            Instead of `max_wrong`: largest share of wrong answers among those given, in (0, 1).
        certainty : float
            Probability with which `max_risk` is kept, in (0, 1).
        advisor : callable, optional
            The advisor of the gate, which is asked about each of these queries. The guarantee is
            that of the gate as it runs, with the advisor's errors, rewrites and failures. Not
            possible with `max_risk`.
        rewriter, opinion : optional
            As in the class; `opinion` may come from `fit_from`, but not from these labels.
        k : int
            Number of hits per query that an answer may use.
        filter : mapping or callable, optional
            The filter that every later search will use; by default, `Retriever.usual_filter`.

        Raises
        ------
        TypeError, ValueError
            As raised by `Retriever.calibrate`, or if a share is outside (0, 1), or `max_risk` is
            passed with `max_wrong` or `advisor`.
        """
        check_target(max_wrong, max_risk, certainty, advisor)
        read = 0 if advisor is None else READ
        searched = LabelledSearch.from_queries(
            retriever, queries, relevant_ids, k=k, filter=filter, read=read
        )
        advice: dict[str, Any] = {"advisor": advisor, "rewriter": rewriter, "opinion": opinion}
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
        opinion: OpinionModel | None = None,
    ) -> Gate:
        """Make the gate of `from_labels` from labelled questions that are searched already."""
        made = cls(
            k=searched.k,
            basis=searched.basis,
            corpus=searched.corpus,
            probes=searched.retriever.probes,
            passages=searched.passages,
            confidences=searched.sample,
        )
        if advisor is None:
            kept = searched.threshold(max_risk, certainty, max_wrong=max_wrong)
            return replace(made, threshold=min(kept.threshold, 1.0), guarantee=kept)
        made = replace(made, rewriter=rewriter, opinion=opinion)
        most = WRONG if max_wrong is None else max_wrong
        return cast(Gate, with_guarantee(made, searched, advisor, most))

    def fit_from(self, retriever: Searchable, most: int = MOST_ASKED) -> Gate:
        """Learn, without labels, how far to trust the advisor's probabilities on an index.

        The advisor is asked about questions made of the passages, once with and once without those
        that answer them: at most ``2 * most`` calls, whose number of tokens is logged before. What
        is learned is kept with the gate, and `report` tells what the advisor adds.

        Parameters
        ----------
        retriever : Retriever
            The index.
        most : int
            Largest number of questions.

        Returns
        -------
        Gate
            With another `opinion`.

        Raises
        ------
        ValueError
            If there is no advisor, if fewer than 20 questions can be made whose answers are found,
            or if the advisor gives no probabilities.
        """
        if self.advisor is None:
            raise ValueError("advisor: fit_from learns of an advisor; make Gate(advisor=...).")
        cases = own_cases(retriever, check_k(most, "most"), self.k)
        return cast(Gate, fit_opinion(self, self.advisor, cases))

    def search(
        self, retriever: Searchable, queries: Sequence[str], k: int = 4, **options: Any
    ) -> SearchResult:
        """Search, decide, and in doubt ask the advisor.

        Parameters
        ----------
        retriever, queries, k, **options
            `history`, `within` and `filter`, as in `Retriever.search`.

        Returns
        -------
        SearchResult
            The decisions in it are final. The hits of a question whose rewrite is answered are
            those of the rewrite, and `Decision.searched_as` is the rewrite.
        """
        found: SearchResult = retriever.with_gate(self).search(queries, k, **options)
        return found

    def decide(self, result: SearchResult) -> list[Decision]:
        """Decide on each query of a result; an advisor is asked, but no rewrite is searched for.

        The decision rests on the confidence of the first `k` hits, however many were found. Warns
        if the result used another calibration or filter than the gate.
        """
        self._check_settings([one.decision for one in result])
        return [decision for decision, _ in self.pending(result, result.queries).finish()]

    def pending(
        self,
        result: SearchResult,
        questions: Sequence[str],
        search: Callable[[Sequence[str]], SearchResult] | None = None,
    ) -> Pending[Result]:
        """Decide at the threshold, and list what the advisor is to be asked.

        Parameters
        ----------
        result : SearchResult
        questions : sequence of str
            The queries with the turns before them, one per line.
        search : callable, optional
            Searches for rewrites of queries.
        """

        def again(rewrites: Sequence[str]) -> list[tuple[Decision, Result]]:
            assert search is not None
            found = search(rewrites)
            return [*zip(self._at_threshold(found), found, strict=True)]

        texts = [[hit.searched for hit in one.passages] for one in result]
        decisions = self._at_threshold(result)
        return Pending(self, decisions, [*result], questions, texts, search and again)

    def _at_threshold(self, result: SearchResult) -> list[Decision]:
        known = [replace(one.decision, confidence=one.confidence_at(self.k)) for one in result]
        return [decide_again(decision, self.threshold) for decision in known]

    def _check_settings(self, known: Sequence[Decision]) -> None:
        if any(self.basis and one.basis not in ("", self.basis) for one in known):
            warn(OTHER_SETTINGS)

    def decide_again(self, decision: Decision, hits: int | None = None) -> Decision:
        """Repeat the decision of a search at this gate's threshold, without the advisor.

        Warns as `decide` does, and if the decision is about another number of hits than `k`.

        `hits`: number of hits that are left of the search. With a guarantee, a question is not
        answered from fewer than `k`, unless fewer passages were searched; this warns.
        """
        threshold = self.threshold
        if hits is not None and hits < min(decision.size, self.hits_needed(0)):
            threshold = math.inf
            warn(
                f"The gate was made for {self.k} hits, and fewer of them are left, here {hits}. "
                "Its guarantee does not hold for these, so it abstains. Search for "
                f"{self.k} hits and keep them all, or use a gate without a guarantee."
            )
        if decision.hits not in (0, self.k):
            warn(
                f"The decision is about the first {decision.hits} hits, and the gate was made for "
                f"{self.k}, so its guarantee does not apply. Make a gate with k={decision.hits}."
            )
        self._check_settings([decision])
        return decide_again(decision, threshold)

    def advised(self, decision: Decision, reply: Reply) -> Decision:
        """Decide again, given what the advisor says of the hits of a question."""
        said, tokens = reply.said, 0
        if isinstance(said, str):
            made = replace(decision, advice=f"none: {said}")
        elif isinstance(said, Opinion):
            model, tokens = self.opinion or shipped_opinion_model(), said.tokens
            made = apply_opinion(decision, said, model, self._threshold_with_opinion)
        else:
            made = apply_advice(decision, said)
        return replace(made, advice_calls=reply.calls, advice_tokens=tokens)

    @property
    def _threshold_with_opinion(self) -> float:
        known = self.advised_threshold
        return self.threshold if known is None else known

    def is_doubted(self, decision: Decision) -> bool:
        """Return whether the advisor is asked about a question."""
        low, high = self.doubt
        if self.advised_threshold is None:
            high = max(high, self.threshold)
        unclear, vague = UNDERSPECIFIED
        if decision.action == "clarify" and decision.underspecified > vague:
            return False
        if math.isinf(decision.threshold):  # too few hits are left
            return False
        unsure = decision.confidence <= high or decision.underspecified > unclear
        unsure |= self.ask == "always" and decision.action == "answer"
        return low < decision.confidence and unsure

    def depth(self, k: int) -> int:
        """Return how many hits are searched for, for those that are judged and read as well."""
        return max(k, self.k, READ if self.advisor is not None else 0)

    def hits_needed(self, k: int) -> int:
        """Return how many hits a search for k returns: with a guarantee, at least the gate's k."""
        return k if self.guarantee is None else max(k, self.k)

    def drift(self, confidences: Sequence[float]) -> str | None:
        """Return a warning if confidences are distributed differently from the calibration's."""
        return drift(self.confidences, confidences)

    def fits(self, retriever: Searchable, filter: Filter | None = None) -> bool:
        """Return whether the index is unchanged since the gate was made.

        Of an engine, or more than 100,000 passages, the number and `passages` are compared; of
        another store, its name, its model, a few of its vectors and `passages`, of which a tenth
        may be gone or changed.

        `filter`: that of the searches; by default, `Retriever.usual_filter`.
        """
        return not self.misfit(retriever, retriever.usual_filter if filter is None else filter)

    def misfit(self, retriever: Searchable, filter: Filter | None, *, again: bool = True) -> str:
        """Return why the guarantee does not hold for an index; "" if it may.

        `again`: whether passages of a remote store are looked up again, if they were before.
        """
        if not self.knows(retriever):
            return OTHER_MODEL
        if self.corpus not in ("", retriever.corpus):
            return OUTDATED
        lost = retriever.count_lost(self.passages, again=again)
        if lost > len(self.passages) / 10:  # fewer change in any corpus
            return OTHER_PASSAGES.format(lost, len(self.passages))
        return "" if self.basis in ("", retriever._method(filter).basis) else OTHER_SETTINGS

    def knows(self, retriever: Searchable) -> bool:
        """Return whether the models of an index, and of the store below it, are the gate's."""
        if not self.probes:
            return True
        alike = map(are_of_one_model, self.probes, retriever.probes)
        are_as_many = len(self.probes) == len(retriever.probes)
        return are_as_many and all(alike) and retriever.has_own_vectors

    def metadata(self) -> dict[str, Any]:
        """Return the state as a JSON object, without the advisors and the log."""
        state = Record.metadata(replace(self, advisor=None, rewriter=None, log=None))
        here = ("advisor", "rewriter", "log")
        return {name: value for name, value in state.items() if name not in here}

    @classmethod
    def restore(cls, metadata: Mapping[str, Any]) -> Self:
        """Rebuild from `metadata`; a guarantee's threshold may be infinite, which JSON lacks."""
        if not isinstance(guarantee := metadata.get("guarantee"), Mapping):
            return super().restore(metadata)
        gate = super().restore({**metadata, "guarantee": None})
        return replace(gate, guarantee=Guarantee.restore(guarantee))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the gate to a JSON file atomically, with a checksum; the advisor is not saved."""
        state = self.metadata()
        written = json.dumps(state | {_CHECKSUM: _checksum(state)}, ensure_ascii=False, indent=1)
        replace_file(as_path(path), written)

    @classmethod
    def load(cls, path: str | PathLike[str], advisor: Advisor | None = None) -> Self:
        """Load a gate that `save` wrote, with the advisor that it was calibrated with.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        IndexCorrupted
            If the file is not a JSON object, or its checksum is wrong.
        ValueError
            If the object is not a gate, or a number is out of range.
        """
        file = as_path(path)
        if not file.exists():
            raise FileNotFoundError(f"path: there is no gate in {os.fspath(path)!r}.")
        mend = "recalibrate it with 'uec-rag gate' or Gate.from_labels, or delete it."
        try:
            state = read_json(file)
        except IndexCorrupted as error:
            raise IndexCorrupted(
                f"gate: {file.name} is damaged ({error.__cause__ or error}); {mend}"
            ) from error
        digest = state.pop(_CHECKSUM, None)
        if digest not in (None, _checksum(state)):
            raise IndexCorrupted(f"gate: it is damaged, edited, or of a newer uec-rag; {mend}")
        return replace(cls.restore(state), advisor=advisor)

    @property
    def report(self) -> str:
        """The result of the calibration, in plain words."""
        if self.guarantee is not None:
            said = self.guarantee.report
        else:
            said = f"Answering above confidence {self.threshold:.2f}."
            if self.max_wrong is not None:
                said += (
                    f" At most {self.max_wrong:.1%} of all questions are expected to be answered "
                    "wrongly, as on four of five English collections with 30% of the questions "
                    "without an answer."
                )
            said += " Nothing is guaranteed; a guarantee requires labels and `from_labels`."
        if self.advisor is not None:
            low, high = self.doubt
            said += (
                f" An advisor is asked from confidence {low:.3f} to {high:.3f}, and its rewrite "
                f"is answered above {self.rewritten:.3f}."
            )
            if self.opinion is not None:
                said += f" {self.opinion.report}"
        elif self.is_advised:
            said += " That is with its advisor; without one, as now, it answers fewer."
        return said


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
        other = "advisor" if max_wrong is None else "max_wrong"
        raise ValueError(
            f"{other}, max_risk: expected one of them, got both; max_wrong counts all questions, "
            "max_risk only answered ones, and an advisor goes with max_wrong."
        )
    for name, value in {"max_wrong": max_wrong, "max_risk": max_risk}.items():
        if value is not None:
            check_share(value, name, "a number in (0, 1)")
    check_share(certainty, "certainty", "a number in (0, 1)")
    _check_advisor(advisor)


def _check_advisor(advisor: object, argument: str = "advisor") -> None:
    if advisor is not None and not callable(advisor) and decision_model(advisor) is None:
        raise TypeError(
            f"{argument}: expected a callable(question, texts) -> Advice, or a decision model, "
            f"got {type(advisor).__name__}. For a chat model, use chat_advisor of "
            "uec_rag.langchain or llm_advisor of uec_rag.llama_index."
        )


def _checksum(state: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
