"""The gate: answer only if the risk of a wrong answer is controlled."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Self, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_k, check_share, check_type
from uec_rag.base.errors import IndexCorrupted, warn
from uec_rag.base.gaussian import FloatArray
from uec_rag.base.records import Record
from uec_rag.base.saved.files import read_json, replace_file
from uec_rag.base.spans import span
from uec_rag.confidence.decision import Decision, decide_again, is_asked_back, outcome
from uec_rag.confidence.model import JUDGED
from uec_rag.confidence.readings import ASK
from uec_rag.confidence.risk import Drift, RiskThreshold, conformal_threshold, risk_threshold
from uec_rag.confidence.second_opinion import Judge, SecondOpinion, cascade, opinions
from uec_rag.retrieval.calibrate import check_labels, corpus_fingerprint, make_trial
from uec_rag.retrieval.result import Result, SearchResult, check_threshold
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Filter

Progress: TypeAlias = Callable[[int, int], None]
"""A callback, called as `progress(done, total)` with numbers of queries."""

GATE_FILE = "gate.json"
"""The file name of the gate in an index's folder, which decides for every user of the index."""

_BATCH = 32  # queries between two calls of `progress`
_CHECKSUM = "sha256"  # key of the checksum in a saved gate


OUTDATED = (
    "the gate was made for other passages, another calibration or other settings than the index "
    "has now, so its guarantee does not hold; make it again with 'uec-rag gate'"
)
"""The note on a gate that no longer `Gate.fits`."""


@dataclass(frozen=True)
class Gate(Record):
    """A rule that decides for each query whether to answer, ask for clarification or abstain.

    Attributes
    ----------
    threshold : RiskThreshold
        The confidence above which to answer, and its guarantee.
    k : int
        A query counts as answered correctly if one of its first k hits is relevant.
    basis : str
        Fingerprint of the calibration, share of unanswerable questions and filter at calibration
        (see `Retriever.basis`); "" if unknown.
    corpus : str
        Fingerprint of the passages; "" if unknown.
    abstain : float or None
        Share of questions to leave unanswered, for a gate made by `budget`, which gives no
        guarantee.
    confidences : tuple of float
        Confidences of the calibration questions, ascending, at most 1,000 of them. The confidences
        of later questions are compared with them, without labels: see `Drift`.
    size : int
        Number of passages that were searched at calibration; 0 if unknown.
    ask : float
        Ask for clarification if P(underspecified) is at least this.
    needless : float or None
        Largest share of the answerable questions that may be asked back, if it determined `ask`.
    second : SecondOpinion or None
        The thresholds between which a judge decides, if the gate was calibrated with one. If the
        judge has no opinion, `threshold` applies. Each of the two keeps the guarantee.

    Raises
    ------
    TypeError, ValueError
        If a number is out of range.
    """

    threshold: RiskThreshold
    k: int
    basis: str = ""
    corpus: str = ""
    abstain: float | None = None
    confidences: tuple[float, ...] = field(default=(), repr=False)
    size: int = 0
    ask: float = ASK
    needless: float | None = None
    second: SecondOpinion | None = None

    def __post_init__(self) -> None:
        check_type(self.threshold, RiskThreshold, "threshold", "a RiskThreshold")
        check_k(self.k)
        if self.abstain is not None:
            check_share(self.abstain, "abstain", "a share in [0, 1)")
        least = self.threshold.threshold
        # A gate that answers everything may have a threshold just below a confidence of 0.
        if least < np.nextafter(0, -1) or 1 < least < math.inf:
            raise ValueError(
                f"threshold: expected a confidence from 0 to 1, or infinity, got {least}."
            )
        if any(not 0 <= confidence <= 1 for confidence in self.confidences):
            raise ValueError("confidences: expected numbers from 0 to 1.")
        if self.size < 0:
            raise ValueError(f"size: expected a number of passages, got {self.size}.")
        if not 0 <= self.ask <= _NEVER:
            raise ValueError(f"ask: expected a probability from 0 to 1, got {self.ask}.")
        if self.needless is not None:
            check_share(self.needless, "needless", "a number in (0, 1)")

    @classmethod
    def calibrate(
        cls,
        retriever: Retriever,
        queries: Sequence[str],
        relevant_ids: Sequence[Collection[str]],
        *,
        wrong: float | None = None,
        risk: float | None = None,
        certainty: float = 0.95,
        needless: float | None = None,
        second: Judge | None = None,
        k: int = 4,
        filter: Filter | None = None,
        groups: Sequence[Hashable] | None = None,
    ) -> Gate:
        """Choose the lowest threshold that keeps wrong answers below a target.

        `wrong` limits the share of all questions that get a wrong answer, on average over random
        calibration sets (`conformal_threshold`); a hundred labels are enough. `risk` limits the
        share of wrong answers among those given, with probability `certainty` (`risk_threshold`),
        which takes several hundred labels. An answer is wrong if none of its hits is relevant.
        Future queries must come from the same distribution, over the same index.

        Parameters
        ----------
        retriever : Retriever
            The retriever, calibrated before on other queries than these.
        queries : sequence of str
        relevant_ids : sequence of collection of str
            Ids of the passages that answer each query; empty if none does, or if the query does not
            say which of several answers it asks for.
        wrong : float, optional
            Largest share of all questions that get a wrong answer, in (0, 1); 0.1 by default. A
            question that is asked back gets no answer.
        risk : float, optional
            Instead of `wrong`: largest share of wrong answers among those given, in (0, 1).
        certainty : float
            Probability with which `risk` is kept, in (0, 1).
        needless : float, optional
            Largest share of the answerable questions that are asked back, on average over random
            calibration sets. By default, `uec_rag.confidence.readings.ASK` is the threshold.
        second : callable(question, texts) -> bool or float, optional
            A judge of whether the passages suffice, which is later asked only between two
            thresholds. Calibration asks it about each of these queries. Not possible with `risk`.
        k : int
            Number of hits per query that an answer may use.
        filter : mapping or callable, optional
            The filter that every later search will use.
        groups : sequence of hashable, optional
            The group of each query. Queries about the same passage succeed or fail together, while
            the guarantee assumes independent queries; the threshold is then chosen on one random
            query of each group. `shared_answers` computes groups from the labels.

        Raises
        ------
        TypeError, ValueError
            As raised by `Retriever.calibrate`, or if a share is outside (0, 1), `risk` is given
            with `wrong` or `second`, or the number of groups is not that of queries.

        Warns
        -----
        UserWarning
            If several queries are answered by the same passage, and `groups` is not given.
        """
        check_k(k)
        check_promise(wrong, risk, certainty, needless, second)
        searched = LabelledSearch.of(
            retriever, queries, relevant_ids, k=k, filter=filter, groups=groups
        )
        return searched.gate(risk, certainty, wrong=wrong, needless=needless, second=second)

    @classmethod
    def budget(
        cls,
        retriever: Retriever,
        queries: Sequence[str],
        *,
        abstain: float = 0.1,
        k: int = 4,
        filter: Filter | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Set the threshold such that a given share of the questions is left unanswered.

        This needs no labels and gives no guarantee.

        Parameters
        ----------
        retriever : Retriever
        queries : sequence of str
            Questions like those that users ask.
        abstain : float
            Share of the questions to leave unanswered, those of the lowest confidence, in [0, 1).
        k, filter
            As in `calibrate`.
        progress : callable, optional
            Called as `progress(done, total)`.

        Raises
        ------
        ValueError
            If there are no queries, or abstain is outside [0, 1).
        """
        check_k(k)
        check_share(abstain, "abstain", "a share in [0, 1)")
        if not len(queries):
            raise ValueError("queries: expected at least one, got none.")
        _check_searched(retriever, filter)
        corpus = corpus_fingerprint(retriever.store)
        result = _search(retriever, queries, k, filter, progress)
        ordered = np.sort(confidence_at(result, k))
        left = math.floor(abstain * len(ordered))
        threshold = float(ordered[left - 1] if left else np.nextafter(ordered[0], -np.inf))
        answered = int((ordered > threshold).sum())
        made = RiskThreshold(threshold, 1.0, 1.0, len(ordered), answered, 0, 0)
        return cls(made, k, result.basis, corpus, abstain, _thinned(ordered), result.size)

    @classmethod
    def at(cls, threshold: float | str | PathLike[str]) -> Self:
        """Make a gate from a plain confidence threshold, which gives no guarantee.

        Raises ValueError if the threshold is not a number from 0 to 1.
        """
        if isinstance(threshold, str | PathLike):
            raise ValueError(
                f"gate: expected a Gate or a confidence from 0 to 1, got {str(threshold)!r}; load "
                f"a saved one with Gate.load({str(threshold)!r})."
            )
        check_threshold(threshold)
        return cls(RiskThreshold(float(threshold), 1.0, 1.0, 0, 0, 0, 0), JUDGED)

    def decide(self, result: SearchResult, second: Judge | None = None) -> list[Decision]:
        """Decide on each query of a result.

        The decision rests on the confidence of the first `k` hits, however many were found. Warns
        if the result used another calibration, share, filter or number of passages than the gate,
        or if the confidences so far are distributed differently from those of the calibration.

        Parameters
        ----------
        result : SearchResult
        second : callable, optional
            The judge that the gate was calibrated with. Without it, the guarantee also holds, but
            fewer questions are answered.

        Raises
        ------
        ValueError
            If a judge is given and the gate was calibrated without one.
        """
        self._check(result)
        self.check_second(second)
        with span("gate", queries=len(result), threshold=self.threshold.threshold) as note:
            decisions = result.decide(self.threshold.threshold, self.k, self.ask)
            if second is not None:
                texts = [[hit.text for hit in hits[: self.k]] for hits in result.passages]
                decisions = self._with_second(second, result.queries, texts, decisions)
            note(**outcome(decisions))
        self._watch([decision.confidence for decision in decisions])
        return decisions

    def check_second(self, second: Judge | None) -> None:
        """Raise ValueError if a judge is given and the gate was calibrated without one."""
        if second is not None and self.second is None:
            raise ValueError(
                "second: this gate was calibrated without a second opinion, so its guarantee would "
                "not hold with one; pass it to Gate.calibrate(..., second=...)."
            )

    def _with_second(
        self,
        judge: Judge,
        questions: Sequence[str],
        texts: Sequence[Sequence[str]],
        decisions: Sequence[Decision],
    ) -> list[Decision]:
        """Replace the decisions between the two thresholds by those of the judge."""
        assert self.second is not None
        judged = [
            row
            for row, decision in enumerate(decisions)
            if decision.action != "clarify" and self.second.is_asked(decision.confidence)
        ]
        replies = opinions(judge, [questions[i] for i in judged], [texts[i] for i in judged])
        of_row = dict(zip(judged, replies, strict=True))
        decided = []
        for row, decision in enumerate(decisions):
            opinion = of_row.get(row)
            if row in of_row and opinion is None:
                decided.append(decision)
                continue
            threshold = self.second.low if opinion else self.second.high
            again = decide_again(decision, threshold, self.ask)
            if opinion is not None:
                again = replace(again, reason=_SECOND_SAYS[opinion])
            decided.append(again)
        return decided

    @cached_property
    def drift(self) -> Drift:
        """The test of whether confidences are still distributed as at calibration."""
        return Drift(self.confidences)

    @cached_property
    def _grown(self) -> list[int]:
        """The first number of passages that differed from that at calibration, if any."""
        return []

    def _watch(self, confidences: Sequence[float]) -> None:
        if self.confidences and (found := self.drift.seen(confidences)):
            warn(found)

    def fits(self, retriever: Retriever, filter: Filter | None = None) -> bool:
        """Return whether the index is unchanged since the gate was made; reads every passage."""
        same = not self.basis or self.basis == retriever.basis(filter)
        return same and (not self.corpus or self.corpus == corpus_fingerprint(retriever.store))

    def _check(self, known: SearchResult | Decision) -> None:
        changed = ""
        if self.basis and known.basis and self.basis != known.basis:
            changed = "another calibration, share of unanswerable questions or filter"
        elif self.size and known.size and self.size != known.size and not self._grown:
            self._grown.append(known.size)  # warn once: an index may grow all day
            changed = "other passages"
        if changed:
            warn(
                f"The gate was made with {changed} than this search, so its guarantee does not "
                "apply. Make the gate again, after calibrating."
            )

    def redecide(
        self,
        decision: Decision,
        question: str = "",
        texts: Sequence[str] = (),
        second: Judge | None = None,
    ) -> Decision:
        """Repeat the decision of a search that used another threshold.

        Warns as `decide` does, and if the decision is about another number of hits than `k`.

        Parameters
        ----------
        decision : Decision
        question : str, optional
        texts : sequence of str, optional
            Texts of the hits, for the judge.
        second : callable, optional
            The judge that the gate was calibrated with.
        """
        self._check(decision)
        self.check_second(second)
        if decision.hits not in (0, self.k):
            warn(
                f"The decision is about the first {decision.hits} hits, and the gate was made for "
                f"{self.k}, so its guarantee does not apply. Make a gate with k={decision.hits}."
            )
        with span("gate", queries=1, threshold=self.threshold.threshold) as note:
            decided = decide_again(decision, self.threshold.threshold, self.ask)
            if second is not None:
                [decided] = self._with_second(second, [question], [texts[: self.k]], [decided])
            note(**outcome([decided]))
        self._watch([decided.confidence])
        return decided

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the gate to a JSON file atomically, with a checksum."""
        state = self.metadata()
        written = json.dumps(state | {_CHECKSUM: _checksum(state)}, ensure_ascii=False, indent=1)
        replace_file(Path(path), written)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a gate that `save` wrote.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        IndexCorrupted
            If the file is not a JSON object, or its checksum is wrong.
        ValueError
            If the object is not a gate, or a number is out of range.
        """
        if not Path(path).exists():
            raise FileNotFoundError(f"path: there is no gate in {os.fspath(path)!r}.")
        mend = "make it again with 'uec-rag gate' or Gate.calibrate, or delete it."
        try:
            state = read_json(Path(path))
        except IndexCorrupted as error:
            raise IndexCorrupted(
                f"gate: {Path(path).name} is damaged ({error.__cause__ or error}); {mend}"
            ) from error
        given = state.pop(_CHECKSUM, None)  # earlier versions wrote none
        if given not in (None, _checksum(state)):
            raise IndexCorrupted(f"gate: it is damaged or was changed by hand; {mend}")
        return cls.restore(state)

    @classmethod
    def of_index(cls, retriever: Retriever) -> Self | None:
        """Load the gate of an index, `GATE_FILE` in its folder; None if there is none.

        Raises the errors of `load`.
        """
        for generation in retriever.saved_as[-1:]:
            file = generation.parent.parent / GATE_FILE
            if file.exists():
                return cls.load(file)
        return None

    @property
    def report(self) -> str:
        """The result of the calibration, in plain words."""
        if not self.threshold.queries:
            return (
                f"Answering above confidence {self.threshold.threshold:.2f}. Nothing is guaranteed;"
                " a guarantee requires labels and `calibrate`."
            )
        if self.abstain is None:
            parts = [self.threshold.report]
            if self.second is not None:
                parts.append(self.second.report)
            if self.needless is not None:
                asks = f"A clarifying question is asked if P(underspecified) >= {self.ask:.3f}"
                parts.append(
                    f"{'No clarifying question is asked' if self.ask > 1 else asks}: for at most "
                    f"{self.needless:.1%} of the answerable questions, on average over random sets "
                    "of calibration queries."
                )
            return " ".join(parts)
        return (
            f"Answering above confidence {self.threshold.threshold:.3f}: "
            f"{self.threshold.answered} of {self.threshold.queries} questions are answered, and at "
            f"most {self.abstain:.0%} are left unanswered. Nothing is guaranteed; a guarantee "
            "requires labels and `calibrate`."
        )


_NEVER = float(np.nextafter(1, 2))  # a threshold above every probability: never ask back

_SECOND_SAYS = {
    True: "The documents seem to answer this: a second opinion says so.",
    False: "A second opinion says that the passages found do not answer this.",
}


_T = TypeVar("_T")


def as_gate(gate: float | str | PathLike[str] | _T) -> Gate | _T:
    """Make a gate from a plain threshold; return anything else unchanged.

    Raises ValueError as `Gate.at` does.
    """
    return Gate.at(gate) if isinstance(gate, int | float | str | PathLike) else gate


def check_promise(
    wrong: float | None,
    risk: float | None,
    certainty: float,
    needless: float | None,
    second: Judge | None = None,
) -> None:
    """Check the guarantee that `Gate.calibrate` is to give; TypeError or ValueError if invalid."""
    if wrong is not None and risk is not None:
        raise ValueError(
            "wrong, risk: expected one of them, got both; wrong is a share of all questions, risk "
            "a share of the answers that are given."
        )
    shares = {"wrong": wrong, "risk": risk, "certainty": certainty, "needless": needless}
    for name, value in shares.items():
        if value is not None or name == "certainty":
            check_share(cast(float, value), name, "a number in (0, 1)")
    if second is not None and not callable(second):
        raise TypeError(
            "second: expected a callable(question, texts) -> bool or float, got "
            f"{type(second).__name__}."
        )
    if second is not None and risk is not None:
        raise ValueError("second, risk: expected one of them, got both; use second with wrong.")


def _checksum(state: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _check_searched(retriever: Retriever, filter: Filter | None) -> None:
    if not callable(getattr(retriever, "check_filter", None)):
        raise TypeError(
            f"retriever: expected a uec_rag.Retriever, got {type(retriever).__name__}; the "
            "UECRetriever of LangChain has it as .index, that of LlamaIndex as .retriever."
        )
    retriever.check_filter(filter)


def _search(
    retriever: Retriever,
    queries: Sequence[str],
    k: int,
    filter: Filter | None,
    progress: Progress | None,
) -> SearchResult:
    if progress is None:
        return retriever.search(queries, k, filter=filter)
    results: list[Result] = []
    for start in range(0, len(queries), _BATCH):
        batch = queries[start : start + _BATCH]
        results += retriever.search(batch, k, filter=filter)
        progress(start + len(batch), len(queries))
    return SearchResult(results)


def confidence_at(result: SearchResult, k: int) -> NDArray[np.float64]:
    """Return the probability that each question is answered by its first k hits, shape (n,)."""
    return np.array([each.confidence_at(k) for each in result], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class LabelledSearch:
    """Labelled queries with their search results, for thresholds at any risk from one search.

    Attributes
    ----------
    result : SearchResult
    relevant : list of frozenset of str
        Ids of the passages that answer each query; empty if none does.
    right : bool array, shape (n,)
        Whether one of a query's first k hits answers it.
    rows : int array
        Indices of the queries that a threshold is chosen on: all, or one of each group.
    k : int
    corpus : str
        Fingerprint of the passages.
    size : int
        Number of passages.
    """

    result: SearchResult
    relevant: list[frozenset[str]]
    right: NDArray[np.bool_]
    rows: NDArray[np.intp]
    k: int
    corpus: str
    size: int

    @cached_property
    def confidence(self) -> NDArray[np.float64]:
        """The probability that each question is answered by its first k hits, shape (n,)."""
        return confidence_at(self.result, self.k)

    @classmethod
    def of(
        cls,
        retriever: Retriever,
        queries: Sequence[str],
        relevant_ids: Sequence[Collection[str]],
        *,
        k: int = 4,
        filter: Filter | None = None,
        groups: Sequence[Hashable] | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Search labelled queries.

        Parameters
        ----------
        retriever, queries, relevant_ids, k, filter, groups
            As in `Gate.calibrate`, with the same errors.
        progress : callable, optional
            Called as `progress(done, total)`.
        """
        check_k(k)
        _check_searched(retriever, filter)
        wanted = check_labels(queries, relevant_ids, retriever.store, fewest=1)
        rows = one_of_each(wanted, groups)
        corpus = corpus_fingerprint(retriever.store)
        result = _search(retriever, queries, k, filter, progress)
        pairs = zip(result.ids, wanted, strict=True)
        right = np.array([not ids.isdisjoint(hits) for hits, ids in pairs])
        return cls(result, wanted, right, rows, k, corpus, result.size)

    @classmethod
    def made(
        cls, retriever: Retriever, *, k: int = 4, progress: Progress | None = None
    ) -> LabelledSearch:
        """Search for questions made from the passages, to be used if there are no labels.

        They are harder to answer than the questions of users, and every fifth has no answer (see
        `questions_from_passages`). A threshold is chosen on one question per answer.

        Raises ValueError if too few questions can be made.
        """
        queries, relevant, tried = questions_from_passages(retriever)
        groups = shared_answers(relevant)
        found = cls.of(tried, queries, relevant, k=k, groups=groups, progress=progress)
        corpus = corpus_fingerprint(retriever.store)
        return replace(found, corpus=corpus, size=len(retriever))

    def threshold(
        self,
        risk: float | None = None,
        certainty: float = 0.95,
        *,
        wrong: float | None = None,
        ask: float = ASK,
    ) -> RiskThreshold:
        """Find the lowest threshold that keeps a guarantee, as `Gate.calibrate` does.

        `ask`: P(underspecified) at and above which a question is asked back instead of answered.
        """
        rows, confidence = self.rows, self._confidence_unless_asked(ask)
        if risk is not None:
            # The risk is a share of the answers, and a question that is asked back has none.
            answered = rows[np.isfinite(confidence[rows])]
            given = answered if len(answered) else rows
            return risk_threshold(self.confidence[given], self.right[given], risk, 1 - certainty)
        return conformal_threshold(
            confidence[rows], ~self.right[rows], _WRONG if wrong is None else wrong
        )

    def _confidence_unless_asked(self, ask: float) -> NDArray[np.float64]:
        """Return confidence, shape (n,); -infinity if a question is asked back instead."""
        return np.where(self._asked(ask), -np.inf, self.confidence)

    def _asked(self, ask: float) -> list[bool]:
        return [
            is_asked_back(each.underspecified, each.in_corpus, each.readings, ask)
            for each in self._decisions
        ]

    @cached_property
    def _decisions(self) -> list[Decision]:
        return self.result.decisions

    def _ask(self, needless: float) -> float:
        """Find P(underspecified) at which at most `needless` of the answerable are asked back."""
        probability = np.array([each.underspecified for each in self._decisions])
        score = np.where(self._asked(0.0), probability, -np.inf)
        rows = [row for row in self.rows if self.relevant[row]]
        if not rows:
            return _NEVER
        found = conformal_threshold(score[rows], np.ones(len(rows), dtype=bool), needless)
        return min(float(np.nextafter(max(found.threshold, 0.0), np.inf)), _NEVER)

    def gate(
        self,
        risk: float | None = None,
        certainty: float = 0.95,
        *,
        wrong: float | None = None,
        needless: float | None = None,
        second: Judge | None = None,
    ) -> Gate:
        """Make the gate that `Gate.calibrate` makes."""
        check_promise(wrong, risk, certainty, needless, second)
        rows, ask = self.rows, ASK if needless is None else self._ask(needless)
        # If the same labels chose `ask`, questions that are asked back still count as answered.
        spared = ask if needless is None else _NEVER
        found = self.threshold(risk, certainty, wrong=wrong, ask=spared)
        both = None
        if second is not None:
            texts = [[hit.text for hit in hits[: self.k]] for hits in self.result.passages]
            questions = [self.result.queries[row] for row in rows]
            replies = opinions(second, questions, [texts[row] for row in rows])
            confidence = self._confidence_unless_asked(spared)
            both = cascade(confidence[rows], self.right[rows], replies, found.risk)
        return Gate(
            found,
            self.k,
            self.result.basis,
            self.corpus,
            None,
            _thinned(self.confidence[rows]),
            self.size,
            ask,
            needless,
            both,
        )


def questions_from_passages(retriever: Retriever) -> tuple[list[str], list[set[str]], Retriever]:
    """Make questions from the passages.

    Returns the questions, the ids that answer each, and the index to ask, with the retriever's own
    calibration; see `uec_rag.retrieval.calibrate.make_trial`. Raises ValueError if too few
    questions can be made.
    """
    queries, relevant, store = make_trial(retriever.uec, retriever.store)
    tried = Retriever(retriever.uec, store, unanswerable=retriever.unanswerable)
    tried.set_calibration(retriever.calibration, current=True)
    return queries, relevant, tried


def shared_answers(relevant_ids: Sequence[Collection[str]]) -> list[int]:
    """Group queries that share an answer, directly or through other queries.

    `relevant_ids`: as in `Gate.calibrate`. A query without an answer forms its own group. Returns
    the group number of each query.

    Examples
    --------
    >>> shared_answers([["a"], ["b"], ["a", "c"], [], ["c"], []])
    [0, 1, 0, 2, 0, 3]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = [(row, id_) for row, ids in enumerate(relevant_ids) for id_ in set(ids)]
    places = {
        id_: len(relevant_ids) + i for i, id_ in enumerate(dict.fromkeys(e[1] for e in edges))
    }
    ends = np.array([(row, places[id_]) for row, id_ in edges], dtype=np.intp).reshape(-1, 2)
    size = len(relevant_ids) + len(places)
    graph = coo_array((np.ones(len(ends), dtype=bool), (ends[:, 0], ends[:, 1])), (size, size))
    labels = connected_components(graph, directed=False)[1][: len(relevant_ids)]
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels.tolist()))}
    return [numbers[label] for label in labels.tolist()]


def one_of_each(
    relevant_ids: Sequence[Collection[str]], groups: Sequence[Hashable] | None
) -> NDArray[np.intp]:
    """Select the queries that a threshold is chosen on: one of each group, or all.

    `relevant_ids`, `groups`: as in `Gate.calibrate`. Warns if queries share answers and `groups` is
    None. Raises ValueError unless there is one group per query.
    """
    count = len(relevant_ids)
    if groups is None:
        if alike := count - len(set(shared_answers(relevant_ids))):
            warn(
                f"relevant_ids: {alike} of {count} queries share an answer with an earlier one. "
                "They succeed or fail together, and the guarantee, which assumes independent "
                "questions, would fail more often than stated. Choose the threshold on one "
                "question per answer: by --one-per-answer on the command line, in Python by "
                "groups=shared_answers(relevant_ids), of uec_rag.retrieval.gate."
            )
        return np.arange(count)
    if isinstance(groups, str) or len(groups) != count:
        raise ValueError(
            f"groups: expected one per query, {count}, got {len(groups)}; "
            "shared_answers(relevant_ids) makes them."
        )
    order = np.random.default_rng(0).permutation(count).tolist()
    return np.sort(list({groups[row]: row for row in order}.values())).astype(np.intp)


_WRONG = 0.1  # default of `wrong`
_MOST = 1000  # confidences of the calibration that a gate keeps


def _thinned(confidences: FloatArray | NDArray[np.float64]) -> tuple[float, ...]:
    """Sort confidences, and keep at most `_MOST` evenly spaced ones."""
    ordered = np.sort(confidences).astype(np.float64)
    places = np.linspace(0, len(ordered) - 1, min(len(ordered), _MOST)).round().astype(np.intp)
    return tuple(ordered[places].round(4).tolist())
