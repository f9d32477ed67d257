"""The gate: answer only if the risk of a wrong answer is under control."""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Self, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_k, check_share
from uec_rag.base.errors import IndexCorrupted
from uec_rag.base.gaussian import FloatArray
from uec_rag.base.records import Record
from uec_rag.base.saved.files import read_json, replace_file
from uec_rag.base.spans import span
from uec_rag.confidence.decision import Decision, decide_again, is_asked_back, outcome
from uec_rag.confidence.model import JUDGED
from uec_rag.confidence.readings import ASK
from uec_rag.confidence.risk import (
    Drift,
    RiskThreshold,
    conformal_threshold,
    risk_threshold,
)
from uec_rag.confidence.second_opinion import Judge, SecondOpinion, cascade, opinions
from uec_rag.retrieval.calibrate import check_labels, corpus_fingerprint
from uec_rag.retrieval.result import Result, SearchResult, check_threshold
from uec_rag.retrieval.retriever import Retriever
from uec_rag.retrieval.self_calibrate import trial
from uec_rag.stores.base import Filter

Progress: TypeAlias = Callable[[int, int], None]
"""Called as `progress(done, total)`, of queries."""

GATE_FILE = "gate.json"
"""In the folder of an index: the gate that decides for every user of it."""

_AT_ONCE = 32  # queries between two reports of progress
_CHECKSUM = "sha256"  # in a saved gate: of all else


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
        (see `Retriever.basis`); empty if not known.
    corpus : str
        Fingerprint of the passages.
    abstain : float or None
        Share of questions to leave unanswered, for a gate made by `budget`, which guarantees
        nothing.
    confidences : tuple of float
        Of the calibration questions, ascending, a thousand at most. Those of the questions that
        are decided are compared with them, without labels: see `Drift`.
    size : int
        How many passages were searched at calibration; 0 if not known.
    ask : float
        P(underspecified) from which on to ask back.
    needless : float or None
        Largest share of the answerable questions that are asked back, if `ask` was found by it.
    second : SecondOpinion or None
        The thresholds between which a judge decides, if the gate was made with one. They and
        `threshold`, which holds for a question on which the judge is silent, each keep the promise.

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
        if not isinstance(self.threshold, RiskThreshold):
            raise TypeError(
                f"threshold: expected a RiskThreshold, got {type(self.threshold).__name__}."
            )
        check_k(self.k)
        if self.abstain is not None:
            check_share(self.abstain, "abstain", "a share in [0, 1)")
        sure = self.threshold.threshold
        # A gate that answers everything may have a threshold just below a confidence of 0.
        if sure < np.nextafter(0, -1) or 1 < sure < math.inf:
            raise ValueError(
                f"threshold: expected a confidence from 0 to 1, or infinity, got {sure}."
            )
        if any(not 0 <= one <= 1 for one in self.confidences):
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

        With `wrong`, the share of all questions that get a wrong answer, on average over the draws
        of labels (`conformal_threshold`); a hundred labels are enough. With `risk`, the share of
        wrong answers among those given, with probability `certainty` (`risk_threshold`), which
        takes several hundred. An answer is wrong if no relevant passage is among its hits. Future
        queries must come from the same distribution, over the same index.

        Parameters
        ----------
        retriever : Retriever
            Calibrate it first, on other queries than these.
        queries : sequence of str
        relevant_ids : sequence of collection of str
            Ids of the passages that answer each query; empty if none does, or if the query does not
            say which of several answers it asks for.
        wrong : float, optional
            Largest share of all questions that get a wrong answer, in (0, 1); .1 if there is no
            `risk`. A question that is asked back gets none.
        risk : float, optional
            Instead of `wrong`: largest share of wrong answers among those given, in (0, 1).
        certainty : float
            Probability with which `risk` is kept, in (0, 1).
        needless : float, optional
            Largest share of the answerable questions that are asked back, on average over the draws
            of labels. By default the gate asks back from `uec_rag.confidence.readings.ASK` on.
        second : callable(question, passages) -> bool or float, optional
            A judge of whether the passages suffice, asked between two thresholds alone. It is asked
            about every one of these queries. It takes `wrong`.
        k : int
            Hits per query that an answer may use.
        filter : mapping or callable, optional
            The filter that every later search will use.
        groups : sequence of hashable, optional
            Of each query, what it has in common with others: the guarantee counts independent
            questions, and several about one passage succeed or fail together. The threshold is then
            chosen on one query of each group, at random. `shared_answers` makes them of the labels.

        Raises
        ------
        TypeError, ValueError
            As `Retriever.calibrate`, or if a share is outside (0, 1), both `wrong` and `risk` are
            given, or `second` with `risk`, or groups are not one per query.

        Warns
        -----
        UserWarning
            If queries share a passage that answers them, and `groups` is not given.
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
        """Set the threshold by the share of questions to leave unanswered.

        Needs no labels and guarantees nothing: the least confident share `abstain` of these
        questions is left unanswered.

        Parameters
        ----------
        retriever : Retriever
        queries : sequence of str
            As users ask them.
        abstain : float
            Share of them, in [0, 1).
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
        sure = np.sort(confidence_at(result, k))
        left = math.floor(abstain * len(sure))
        threshold = float(sure[left - 1]) if left else float(np.nextafter(sure[0], -np.inf))
        answered = int((sure > threshold).sum())
        made = RiskThreshold(threshold, 1.0, 1.0, len(sure), answered, 0, 0)
        return cls(made, k, result.basis, corpus, abstain, _some_of(sure), result.size)

    @classmethod
    def at(cls, threshold: float | str | PathLike[str]) -> Self:
        """Make the gate of a plain threshold of confidence, from 0 to 1; it guarantees nothing.

        ValueError if it is none; of a path, with how a saved gate is loaded.
        """
        if isinstance(threshold, str | PathLike):
            raise ValueError(
                f"gate: expected a Gate or a confidence from 0 to 1, got {str(threshold)!r}; load "
                f"a saved one with Gate.load({str(threshold)!r})."
            )
        check_threshold(threshold)
        return cls(RiskThreshold(float(threshold), 1.0, 1.0, 0, 0, 0, 0), JUDGED)

    def decide(self, result: SearchResult, second: Judge | None = None) -> list[Decision]:
        """Decide on each query of a result, with what the search knew of its readings.

        Uses the confidence of the first `k` hits, however many were found. Warns if the result used
        another calibration, share, filter or number of passages than the gate, or if the
        confidences of what was asked so far are not those of its calibration.

        Parameters
        ----------
        result : SearchResult
        second : callable, optional
            The judge that the gate was calibrated with. Without it the promise holds as well, and
            fewer are answered.

        Raises
        ------
        ValueError
            If the gate was calibrated without a judge.
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
        """Raise ValueError if there is a judge, and the gate was calibrated without one."""
        if second is not None and self.second is None:
            raise ValueError(
                "second: this gate was calibrated without a second opinion, and its promise is not "
                "for one; give it to Gate.calibrate(..., second=...)."
            )

    def _with_second(
        self,
        judge: Judge,
        questions: Sequence[str],
        texts: Sequence[Sequence[str]],
        decisions: Sequence[Decision],
    ) -> list[Decision]:
        """Replace some of n decisions by the judge's."""
        assert self.second is not None
        asked = [
            row
            for row, one in enumerate(decisions)
            if one.action != "clarify" and self.second.is_asked(one.confidence)
        ]
        said = opinions(judge, [questions[row] for row in asked], [texts[row] for row in asked])
        of_row = dict(zip(asked, said, strict=True))
        decided = []
        for row, one in enumerate(decisions):
            opinion = of_row.get(row)
            if row in of_row and opinion is None:
                decided.append(one)
                continue
            threshold = self.second.low if opinion else self.second.high
            again = decide_again(one, threshold, self.ask)
            if opinion is not None:
                again = replace(again, reason=_SECOND_SAYS[opinion])
            decided.append(again)
        return decided

    @cached_property
    def drift(self) -> Drift:
        """The test of whether confidences are still distributed as those of the calibration."""
        return Drift(self.confidences)

    @cached_property
    def _grown(self) -> list[int]:
        """The first number of passages searched that differs from the calibration's, if any."""
        return []

    def _watch(self, confidences: Sequence[float]) -> None:
        if self.confidences and (found := self.drift.seen(confidences)):
            warnings.warn(found, UserWarning, stacklevel=3)

    def fits(self, retriever: Retriever, filter: Filter | None = None) -> bool:
        """Tell if the index is unchanged since the gate was made; reads every passage once."""
        same = not self.basis or self.basis == retriever.basis(filter)
        return same and (not self.corpus or self.corpus == corpus_fingerprint(retriever.store))

    def _check(self, known: SearchResult | Decision) -> None:
        changed = ""
        if self.basis and known.basis and self.basis != known.basis:
            changed = "another calibration, share of unanswerable questions or filter"
        elif self.size and known.size and self.size != known.size and not self._grown:
            self._grown.append(known.size)  # said once: an index may grow all day
            changed = "other passages"
        if changed:
            warnings.warn(
                f"The gate was made with {changed} than this search, so its guarantee does not "
                "apply. Make the gate again, after calibrating.",
                UserWarning,
                stacklevel=3,
            )

    def redecide(
        self,
        decision: Decision,
        question: str = "",
        texts: Sequence[str] = (),
        second: Judge | None = None,
    ) -> Decision:
        """Repeat the decision of a search that used another threshold.

        Warns as `decide`, and if the decision is about another number of hits than the gate's `k`.

        Parameters
        ----------
        decision : Decision
        question, texts, second : optional
            The judge that the gate was calibrated with, and what it reads: texts of the hits.
        """
        self._check(decision)
        self.check_second(second)
        if decision.hits not in (0, self.k):
            warnings.warn(
                f"The decision is about the first {decision.hits} hits, and the gate was made for "
                f"{self.k}: its guarantee is for answers among that many. Make a gate of "
                f"{decision.hits}.",
                UserWarning,
                stacklevel=2,
            )
        with span("gate", queries=1, threshold=self.threshold.threshold) as note:
            decided = decide_again(decision, self.threshold.threshold, self.ask)
            if second is not None:
                [decided] = self._with_second(second, [question], [texts[: self.k]], [decided])
            note(**outcome([decided]))
        self._watch([decided.confidence])
        return decided

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the gate to a JSON file, completely or not at all, with a checksum."""
        state = self.metadata()
        written = json.dumps(state | {_CHECKSUM: _checksum(state)}, ensure_ascii=False, indent=1)
        replace_file(Path(path), written)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        IndexCorrupted
            If it is no JSON object, or not what was saved.
        ValueError
            If it is no gate, or a number is out of range.
        """
        if not Path(path).exists():
            raise FileNotFoundError(f"path: there is no gate in {os.fspath(path)!r}.")
        state = read_json(Path(path))
        given = state.pop(_CHECKSUM, None)  # earlier versions wrote none
        if given not in (None, _checksum(state)):
            raise IndexCorrupted(
                "gate: it is damaged or was changed by hand; make it again with 'uec-rag gate', or "
                "Gate.calibrate."
            )
        return cls.restore(state)

    @classmethod
    def of_index(cls, retriever: Retriever) -> Self | None:
        """Find the gate of an index, the `GATE_FILE` in its folder. Raises as `load`."""
        for generation in retriever.saved_as[-1:]:
            file = generation.parent.parent / GATE_FILE
            if file.exists():
                return cls.load(file)
        return None

    @property
    def report(self) -> str:
        """The result of the calibration, in plain words."""
        if not self.threshold.queries:
            sure = self.threshold.threshold
            return (
                f"Answering above confidence {sure:.2f}; nothing is guaranteed: that takes "
                "labels, and `calibrate`."
            )
        if self.abstain is None:
            said = [self.threshold.report]
            if self.second is not None:
                said.append(self.second.report)
            if self.needless is not None:
                often = "never" if self.ask > 1 else f"from P(underspecified) {self.ask:.3f} on"
                said.append(
                    f"Asking back {often}: at most {self.needless:.1%} of the answerable, "
                    "on average over the draws of calibration queries."
                )
            return " ".join(said)
        return (
            f"Answering above confidence {self.threshold.threshold:.3f}: "
            f"{self.threshold.answered} of {self.threshold.queries} questions are answered, and at "
            f"most {self.abstain:.0%} left. Nothing is guaranteed: that takes labels, and "
            "`calibrate`."
        )


_NEVER = float(np.nextafter(1, 2))  # to ask back from here on is not to ask back

_SECOND_SAYS = {
    True: "The documents seem to answer this: a second opinion says so.",
    False: "A second opinion says that the passages found do not answer this.",
}


_T = TypeVar("_T")


def as_gate(gate: float | str | PathLike[str] | _T) -> Gate | _T:
    """Make the gate of a plain threshold; return anything else as it is.

    ValueError as of `Gate.at`.
    """
    return Gate.at(gate) if isinstance(gate, int | float | str | PathLike) else gate


def check_promise(
    wrong: float | None,
    risk: float | None,
    certainty: float,
    needless: float | None,
    second: Judge | None = None,
) -> None:
    """Check what `Gate.calibrate` is to promise; TypeError, ValueError as there."""
    if wrong is not None and risk is not None:
        raise ValueError(
            "wrong, risk: expected one of them, got both; wrong is a share of all questions, risk "
            "one of the answers that are given."
        )
    shares = {"wrong": wrong, "risk": risk, "certainty": certainty, "needless": needless}
    for name, value in shares.items():
        if value is not None or name == "certainty":
            check_share(cast(float, value), name, "a number in (0, 1)")
    if second is not None and not callable(second):
        raise TypeError(
            "second: expected a callable(question, passages) -> bool or float, got "
            f"{type(second).__name__}."
        )
    if second is not None and risk is not None:
        raise ValueError("second, risk: expected second with wrong, whose promise it keeps.")


def _checksum(state: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _check_searched(retriever: Retriever, filter: Filter | None) -> None:
    if not callable(getattr(retriever, "check_filter", None)):
        raise TypeError(
            f"retriever: expected a uec_rag.Retriever, got {type(retriever).__name__}; the "
            "UECRetriever of LangChain has its own as .index, that of LlamaIndex as .retriever."
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
    for start in range(0, len(queries), _AT_ONCE):
        some = queries[start : start + _AT_ONCE]
        results += retriever.search(some, k, filter=filter)
        progress(start + len(some), len(queries))
    return SearchResult(results)


def confidence_at(result: SearchResult, k: int) -> NDArray[np.float64]:
    """The probability that the question is answered by its first k hits, shape (n,)."""
    return np.array([one.confidence_at(k) for one in result], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class LabelledSearch:
    """Labelled queries with their search results: thresholds of any risk without another search.

    Attributes
    ----------
    result : SearchResult
    relevant : list of frozenset of str
        Ids that answer each query; empty if the corpus does not.
    right : bool array, shape (n,)
        Whether one of a query's first k hits answers it.
    rows : int array
        Of the queries that a threshold is chosen on: all, or one of each group.
    k : int
    corpus : str
        Fingerprint of the passages.
    size : int
        How many there are.
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
        """The probability that the question is answered by its first k hits, shape (n,)."""
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
            As in `Gate.calibrate`; so is what is raised.
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
        """Search questions made from the passages, if there are no labels.

        They are harder to answer than users' are, and every fifth has no answer: see
        `made_up`. A threshold is chosen on one of each answer.

        Raises ValueError if too few can be made.
        """
        queries, relevant, tried = made_up(retriever)
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
        """Find the lowest threshold that keeps a promise, as `Gate.calibrate` chooses it.

        `ask`: P(underspecified) from which on a question is asked back, and not answered.
        """
        rows, sure = self.rows, self._confidence_unless_asked(ask)
        if risk is not None:
            # A share of the answers: what is asked back is none of them.
            answered = rows[np.isfinite(sure[rows])]
            given = answered if len(answered) else rows
            return risk_threshold(self.confidence[given], self.right[given], risk, 1 - certainty)
        return conformal_threshold(
            sure[rows], ~self.right[rows], _WRONG if wrong is None else wrong
        )

    def _confidence_unless_asked(self, ask: float) -> NDArray[np.float64]:
        """Return confidence, shape (n,); -infinity if a question is asked back instead."""
        return np.where(self._asked(ask), -np.inf, self.confidence)

    def _asked(self, ask: float) -> list[bool]:
        return [
            is_asked_back(one.underspecified, one.in_corpus, one.readings, ask)
            for one in self._decisions
        ]

    @cached_property
    def _decisions(self) -> list[Decision]:
        return self.result.decisions

    def _ask(self, needless: float) -> float:
        """Find P(underspecified) from which on at most a share of the answerable is asked back."""
        unsaid = np.array([one.underspecified for one in self._decisions])
        unsaid = np.where(self._asked(0.0), unsaid, -np.inf)
        rows = [row for row in self.rows if self.relevant[row]]
        if not rows:
            return _NEVER
        found = conformal_threshold(unsaid[rows], np.ones(len(rows), dtype=bool), needless)
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
        # A threshold of asking back that these labels chose must not excuse their wrong answers.
        spared = ask if needless is None else _NEVER
        found = self.threshold(risk, certainty, wrong=wrong, ask=spared)
        both = None
        if second is not None:
            texts = [[hit.text for hit in hits[: self.k]] for hits in self.result.passages]
            asked = [self.result.queries[row] for row in rows]
            said = opinions(second, asked, [texts[row] for row in rows])
            sure = self._confidence_unless_asked(spared)
            both = cascade(sure[rows], self.right[rows], said, found.risk)
        return Gate(
            found,
            self.k,
            self.result.basis,
            self.corpus,
            None,
            _some_of(self.confidence[rows]),
            self.size,
            ask,
            needless,
            both,
        )


def made_up(retriever: Retriever) -> tuple[list[str], list[set[str]], Retriever]:
    """Make questions from the passages; return also the ids that answer, and an index to ask.

    As `uec_rag.retrieval.self_calibrate.trial` makes them, with the retriever's own calibration.

    Raises ValueError if too few can be made.
    """
    queries, relevant, store = trial(retriever.uec, retriever.store)
    tried = Retriever(retriever.uec, store, unanswerable=retriever.unanswerable)
    tried.set_calibration(retriever.calibration, current=True)
    return queries, relevant, tried


def shared_answers(relevant_ids: Sequence[Collection[str]]) -> list[int]:
    """Put queries that share an answer, or share one with another that does, into one group.

    `relevant_ids`: as `Gate.calibrate` takes them. A query that nothing answers is a group of its
    own. Returns a number for each query.

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

    Warns if there are no groups, though queries share answers. `relevant_ids`, `groups`: as
    `Gate.calibrate` takes them. Raises ValueError unless groups are one per query.
    """
    count = len(relevant_ids)
    if groups is None:
        if alike := count - len(set(shared_answers(relevant_ids))):
            warnings.warn(
                f"relevant_ids: {alike} of {count} queries share what answers them with one "
                "before. They succeed or fail together, and the guarantee, which is for "
                "independent questions, fails more often than it says. Pass "
                "groups=shared_answers(relevant_ids), from uec_rag.retrieval.gate, or on the "
                "command line --one-per-answer.",
                UserWarning,
                stacklevel=4,
            )
        return np.arange(count)
    if isinstance(groups, str) or len(groups) != count:
        raise ValueError(
            f"groups: expected one per query, {count}, got {len(groups)}; "
            "shared_answers(relevant_ids) makes them."
        )
    order = np.random.default_rng(0).permutation(count).tolist()
    return np.sort(list({groups[row]: row for row in order}.values())).astype(np.intp)


_WRONG = 0.1  # share of all questions, if nothing else is promised
_MOST = 1000  # confidences that a gate remembers of its calibration


def _some_of(confidences: FloatArray | NDArray[np.float64]) -> tuple[float, ...]:
    """Sort confidences, and thin them evenly if they are many."""
    ordered = np.sort(confidences).astype(np.float64)
    places = np.linspace(0, len(ordered) - 1, min(len(ordered), _MOST)).round().astype(np.intp)
    return tuple(ordered[places].round(4).tolist())
