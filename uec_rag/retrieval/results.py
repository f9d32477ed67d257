"""The results of a search: the hits of each question, with its decision, and those of all."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from uec_rag.base.checks import check_k
from uec_rag.base.gaussian import FloatArray, stack_rows
from uec_rag.base.records import cached_property
from uec_rag.confidence.decision import DECISION_KEYS, Criteria, Decision, decide, restrict
from uec_rag.confidence.model import JUDGED
from uec_rag.evidence import Explanation
from uec_rag.stores.metadata import DEEPEST, KeptText, normalise
from uec_rag.stores.passage import Passage, copy_value

KEY = "uec_"
"""The prefix of the keys that a search adds to the metadata of a hit, reserved for them."""

PARTS = f"{KEY}parts"
"""The key for score and relevance of each of the hits that a longer passage was merged of."""


def own_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata without the keys that a search adds."""
    return {key: value for key, value in metadata.items() if not key.startswith(KEY)}


def as_json(value: Any, depth: int = 0) -> Any:  # noqa: ANN401
    """Convert a value of another package's metadata to what JSON knows, and nothing is refused.

    Numbers are converted as `normalise` does, arrays and sets become lists, models dicts, infinity
    None, and anything else its text, whole numbers of more than 64 bits among it.

    Examples
    --------
    >>> import numpy as np
    >>> as_json({"score": np.float32(0.5), "pages": np.arange(2), "tags": {"a"}})
    {'score': 0.5, 'pages': [0, 1], 'tags': ['a']}
    """
    if value is None or type(value) in (str, bool):
        return value
    if type(value) is int:
        is_kept = -(2**63) <= value < 2**64  # else msgpack refuses it
        return value if is_kept else KeptText.of("number", value)
    if type(value) is float:
        return value if math.isfinite(value) else None
    if depth > DEEPEST:
        return str(value)
    if isinstance(value, Mapping):
        return {  # most are texts: every hit of another package's store has some
            str(key): item if type(item) is str else as_json(item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | Set):
        return [as_json(item, depth + 1) for item in value]
    with suppress(TypeError, ValueError):
        return normalise({"": value}, "metadata")[""]
    for method in ("tolist", "model_dump"):  # of arrays, of models
        if convert := getattr(value, method, None):
            return as_json(convert(), depth + 1)
    return as_json(int(value)) if isinstance(value, int) else str(value)


def without_findings(passage: Passage) -> Passage:
    """Return a passage without the metadata that a search adds."""
    metadata = own_metadata(passage.metadata)
    return (
        passage if len(metadata) == len(passage.metadata) else replace(passage, metadata=metadata)
    )


def own_copy(passage: Passage) -> Passage:
    """Return a passage of its own, with a copy of its metadata but those that a search adds."""
    metadata = copy_value(own_metadata(passage.metadata))
    return Passage(passage.id, passage.text, metadata)


class HitMetadata(dict[str, Any]):
    """The metadata of a hit, a dict whose comparison with others ignores what a search added.

    LangChain compares documents by all of their metadata, and its `MultiQueryRetriever` keeps the
    first of equal ones. A document found by two queries has different `uec_` values in each, but is
    the same document.

    Examples
    --------
    >>> one, other = ({"page": 1, "uec_score": score} for score in (0.8, 0.6))
    >>> HitMetadata(one) == HitMetadata(other), HitMetadata(one) == {"page": 1}
    (True, False)
    """

    def __eq__(self, other: object) -> bool:
        if isinstance(other, HitMetadata):
            return own_metadata(self) == own_metadata(other)
        return dict(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None


def tell(metadata: dict[str, Any], decision: Decision) -> None:
    """Replace the decision in the metadata of a hit."""
    for name in DECISION_KEYS:
        metadata.pop(f"{KEY}{name}", None)
    metadata.update((f"{KEY}{name}", value) for name, value in decision.findings().items())


def hits_in(metadatas: Iterable[Mapping[str, Any]]) -> dict[tuple[float, float], str]:
    """Return the different hits of a search among some metadata: their readings, "" if none.

    A hit is told by its score and relevance, so that the parts of one that was split count once.
    One that was merged of several has those of all (`PARTS`). What is damaged is passed over.
    """
    readings = dict[tuple[float, float], str]()
    for metadata in metadatas:
        numbers = [metadata.get(f"{KEY}score"), metadata.get(f"{KEY}relevance")]
        parts = metadata.get(PARTS)
        for pair in [*parts, numbers] if isinstance(parts, list | tuple) else [numbers]:
            if _are_of_hit(pair):
                score, relevance = map(float, pair)
                readings[score, relevance] = str(metadata.get(f"{KEY}reading", ""))
    return readings


def _are_of_hit(pair: object) -> bool:
    """Return whether a value is the score of a hit, and its relevance."""
    return (
        isinstance(pair, list | tuple)
        and len(pair) == 2
        and all(isinstance(number, float | int) for number in pair)
        and abs(pair[0]) <= sys.float_info.max
        and 0 <= pair[1] <= 1
    )


def surest_decision(metadatas: Iterable[Mapping[str, Any]]) -> Decision | None:
    """Read the decision of the highest confidence from the metadata of hits; None if there is none.

    It is about these hits: of those that a step after the search has dropped, none counts. Hits of
    several queries may have several decisions. Metadata other than `HitMetadata` may be from other
    retrievers; they are only read if there are no `HitMetadata`, which lose their type in a file or
    on the way to another process.
    """
    hits = list(metadatas)
    ours = [metadata for metadata in hits if isinstance(metadata, HitMetadata)] or hits
    readings = hits_in(ours)
    relevance, titles = [share for _, share in readings], {*readings.values()}
    by_reason = {item.reason: item for item in map(_decision_in, ours) if item is not None}
    decisions = [*by_reason.values()]
    if readings:
        decisions = [restrict(decision, relevance, titles) for decision in decisions]
    return max(decisions, key=attrgetter("confidence"), default=None)


def _decision_in(metadata: Mapping[str, Any]) -> Decision | None:
    """Read and check the decision on a hit; None if there is none, or it is damaged."""
    keys = [name for name in DECISION_KEYS if f"{KEY}{name}" in metadata]
    try:
        return Decision.restore({name: metadata[f"{KEY}{name}"] for name in keys})
    except (ValueError, RecursionError):
        return None


@dataclass(frozen=True)
class Hit:
    """A passage that was found, and its numbers.

    Attributes
    ----------
    passage : Passage
    score : float
        s_hat, the uncertainty-aware score by which the hits are ordered (paper eq. 6).
    mu : float
        Mean of the similarity.
    model_variance, disagreement : float
        The two parts of its variance `sigma2`: the part due to the encoders' posteriors (paper
        eq. 5), which lowers the score, and the encoders' disagreement (`Fitted.disagreement`).
    relevance : float
        P(this hit is relevant).
    matched_terms : sequence of str, optional
        If an encoder is lexical, the words of the question that the hit has, those that add most
        first.
    copies : tuple of Passage
        The other passages with the same text.
    encoders : mapping of str to mapping, optional
        The numbers of each encoder, by name, unless the question is only a vector: "similarity" is
        a cosine, or a BM25 score from 0 to 1; "rank" is that among all passages by it (None if not
        known), and "share" that of the score.
    """

    passage: Passage
    score: float
    mu: float
    model_variance: float
    disagreement: float
    relevance: float
    matched_terms: Sequence[str] | None = None
    copies: tuple[Passage, ...] = ()
    encoders: Mapping[str, Mapping[str, Any]] | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def sigma2(self) -> float:
        """The variance of the similarity, `model_variance` + `disagreement`."""
        return self.model_variance + self.disagreement

    @property
    def ids(self) -> set[str]:
        """The ids of the passage and of its copies."""
        return {self.passage.id, *(copy.id for copy in self.copies)}


HANDED = 8
"""The number of hits alike that a model gets, if a question does not tell them apart."""

_is_read = ContextVar("_is_read", default=False)


@contextmanager
def read_by_model() -> Iterator[None]:
    """Let searches of the block find up to `HANDED` hits alike, for a model that reads them."""
    token = _is_read.set(True)
    try:
        yield
    finally:
        _is_read.reset(token)


def is_read_by_model() -> bool:
    """Return whether a model reads what is found."""
    return _is_read.get()


_UNJUDGED = "score", "mu", "model_variance", "disagreement", "sigma2", "encoders", "matched_terms"
_SAID = (*_UNJUDGED, "relevance")
_SAME = attrgetter("score", "relevance")  # by which parts of one hit are told from other hits


@dataclass(frozen=True, eq=False)
class Result:
    """The hits of one question, best first: k, or as many passages as match.

    Attributes
    ----------
    query : str
    decision : Decision
        The decision at the default threshold; `decide` applies another threshold. It has the
        confidence, P(one of the first `uec_rag.confidence.model.JUDGED` hits answers the question),
        and `in_corpus`, P(any passage of the corpus does).
    weights : mapping of str to float
        The weight of each encoder for the question: its share of the scores, ``pi_k w_k`` divided
        by their sum.
    coefficients : array, shape (K,)
        pi_k, the coefficient of each encoder for the question.
    hits : tuple of k Hit
    confidence_at_k : array, shape (m,)
        P(one of the first 1, 2, ... m hits answers the question), for all hits that were judged.
    exact : bool
        True if no other passage can have a higher score.
    judged : bool
        Whether the text of the question was known. Otherwise relevance and confidence cannot be
        estimated, and `metadata` omits them.
    alike : int
        How many of the hits a question does not tell apart, if a model reads them; see
        `read_by_model`.
    explanation : Explanation, optional
        The parts of the log odds of `in_corpus`.
    """

    query: str
    decision: Decision
    weights: Mapping[str, float]
    coefficients: FloatArray
    hits: tuple[Hit, ...] = ()
    confidence_at_k: FloatArray = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    exact: bool = True
    judged: bool = True
    alike: int = 0
    explanation: Explanation | None = None

    @property
    def why(self) -> tuple[str, ...]:
        """The parts of the log odds of `in_corpus` in words, one for each feature."""
        return () if self.explanation is None else self.explanation.lines

    @property
    def passages(self) -> list[Passage]:
        """The passages of the hits."""
        return [hit.passage for hit in self.hits]

    @property
    def ids(self) -> list[str]:
        """The ids of the hits."""
        return [hit.passage.id for hit in self.hits]

    def column(self, name: str) -> FloatArray:
        """Return a number of each hit, such as "score", shape (k,)."""
        return np.array([getattr(hit, name) for hit in self.hits], dtype=np.float32)

    @property
    def scores(self) -> FloatArray:
        """The score of each hit, shape (k,)."""
        return self.column("score")

    @property
    def mu(self) -> FloatArray:
        """The mean of the similarity of each hit, shape (k,)."""
        return self.column("mu")

    @property
    def sigma2(self) -> FloatArray:
        """The variance of the similarity of each hit, shape (k,)."""
        return self.column("sigma2")

    @property
    def relevance(self) -> FloatArray:
        """P(this hit is relevant) of each hit, shape (k,)."""
        return self.column("relevance")

    def merge_copies(self, ids: Collection[str]) -> set[str]:
        """Return ids with those of copies replaced by those of their hits."""
        merged = {*ids}
        for hit in self.hits:
            if not merged.isdisjoint(hit.ids):
                merged = (merged - hit.ids) | {hit.passage.id}
        return merged

    def finds(self, ids: Collection[str]) -> list[bool]:
        """Return for each hit whether it, or a copy of it, has one of some ids."""
        return [not hit.ids.isdisjoint(ids) for hit in self.hits]

    def with_copies(self, k: int, *, last: bool = False) -> Result:
        """Return the result with each copy of a hit as a hit after it, the first k of all.

        `last`: whether copies come after all other hits, as where these are chosen to differ.
        """
        rows = [
            (bool(at and last), replace(hit, passage=passage, copies=()))
            for hit in self.hits
            for at, passage in enumerate((hit.passage, *hit.copies))
        ]
        rows.sort(key=itemgetter(0))
        return replace(self, hits=tuple(hit for _, hit in rows[:k]))

    def select(self, positions: Sequence[int]) -> Result:
        """Return the result with the hits at the given positions, in the given order.

        The confidence by cutoff is that of the same number of best hits, but at most the sum and at
        least the maximum of the relevance of the chosen hits. The decision is on the first `JUDGED`
        of them, so choose at least that many before taking the `first` k.
        """
        result = replace(self, hits=tuple(self.hits[at] for at in positions))
        if not result.hits or not self.judged:
            return result
        relevance = result.relevance
        sure = np.minimum(self.confidence_at_k[: len(positions)], np.cumsum(relevance))
        at_k = np.maximum(sure, np.maximum.accumulate(relevance))
        confidence = max(float(at_k[min(JUDGED, len(positions)) - 1]), float(relevance.max()))
        result = replace(result, confidence_at_k=at_k)
        is_same = confidence == self.decision.confidence
        return result if is_same else result.with_evidence(confidence=confidence)

    def with_evidence(self, **evidence: Any) -> Result:
        """Return the result, decided by the same criteria on other `Evidence`."""
        decision = replace(self.decision, **evidence)
        return replace(self, decision=decide(decision, decision.criteria))

    def first(self, k: int) -> Result:
        """Return the result with the first k hits and unchanged confidence and decision."""
        return self if k >= len(self.hits) else replace(self, hits=self.hits[:k])

    def with_first(self, position: int) -> Result:
        """Return the result with the hit at a position as the first, as an advisor names it."""
        if not 0 < position < len(self.hits):
            return self
        highest = max(hit.relevance for hit in self.hits)
        tail = self.hits[:position] + self.hits[position + 1 :]
        return replace(self, hits=(replace(self.hits[position], relevance=highest), *tail))

    def scaled(self, factor: float) -> Result:
        """Return the result with relevance as its decision's confidence, which a factor changed.

        The relevance of no hit exceeds the confidence, and their sum is at least the confidence.
        """
        if factor == 1 or not self.hits:
            return self
        sure = self.decision.confidence
        relevance = np.minimum(self.relevance * np.float32(factor), np.float32(sure))
        relevance[0] = max(relevance[0], sure - relevance[1:].sum())
        pairs = zip(self.hits, relevance.tolist(), strict=True)
        at_k = np.minimum(self.confidence_at_k * np.float32(factor), self.decision.in_corpus)
        hits = tuple(replace(hit, relevance=share) for hit, share in pairs)
        return replace(self, hits=hits, confidence_at_k=at_k.astype(np.float32))

    def decide(
        self, threshold: float, k: int | None = None, clarify_from: float | None = None
    ) -> Decision:
        """Decide at another threshold of confidence, without searching again.

        `k`: number of hits to base the confidence on, `JUDGED` by default. `clarify_from`: lowest
        P(underspecified) at which to ask for clarification; that of the search by default.
        """
        check_threshold(threshold)
        hits = k or self.decision.hits if self.decision.hits else 0  # 0 if there are none
        evidence = replace(self.decision, confidence=self.confidence_at(k), hits=hits)
        usual = evidence.clarify_from if clarify_from is None else clarify_from
        return decide(evidence, Criteria(threshold, usual))

    def confidence_at(self, k: int | None = None) -> float:
        """Return P(one of the first k hits answers the question); k is `JUDGED` by default."""
        if k is None or not self.hits:
            return self.decision.confidence
        return float(self.confidence_at_k[min(check_k(k), len(self.confidence_at_k)) - 1])

    @property
    def told(self) -> Decision:
        """The decision with the number of different hits that it is handed over with."""
        return replace(self.decision, shown=len({*map(_SAME, self.hits)}))

    @cached_property
    def _findings(self) -> dict[str, Any]:
        return self.told.findings()

    def metadata(self, rank: int, details: bool = False) -> dict[str, Any]:
        """Return the metadata that every adapter adds to a hit, in plain Python types.

        Parameters
        ----------
        rank : int
            Position of the hit, from 0.
        details : bool
            Whether to add details of the score and the decision: `uec_mu`, `uec_model_variance`,
            `uec_disagreement`, `uec_encoders`, `uec_matched_terms`, `uec_weights`, `uec_why`,
            `uec_sources` of its copies if there are any, and `uec_unfamiliar` if the question is
            unlike those of the fit.
        """
        decision, hit, numbers = self.decision, self.hits[rank], self.numbers(rank)
        plain = ("score", "sigma2", "relevance")
        fields = numbers if details else {key: numbers[key] for key in plain if key in numbers}
        if self.judged:
            fields |= self._findings
            if decision.action == "clarify":
                titles = (r.title for r in decision.readings if hit.passage.id in r.ids)
                fields["reading"] = next(titles, "")
        if self.judged and details:
            fields |= {"weights": {**self.weights}, "why": [*self.why]}
            if decision.unfamiliar:
                fields["unfamiliar"] = decision.unfamiliar
            if hit.copies:
                sources = (copy.about.source or copy.id for copy in hit.copies)
                fields["sources"] = [*dict.fromkeys(sources)]
        return {f"{KEY}{key}": value for key, value in copy_value(fields).items()}

    def numbers(self, rank: int) -> dict[str, Any]:
        """Return the numbers of a hit, and what each encoder says of it, as `metadata` names them.

        `rank`: position of the hit, from 0.
        """
        hit = self.hits[rank]
        names = _SAID if self.judged else _UNJUDGED
        return {name: value for name in names if (value := getattr(hit, name)) is not None}


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The results of n questions.

    Iteration yields the `Result` of each question, which has more than this. The properties are
    lists, or arrays with a row for each question; a row with fewer hits than the longest is padded
    with NaN.

    Attributes
    ----------
    results : list of Result
    """

    results: list[Result]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def __getitem__(self, row: int) -> Result:
        return self.results[row]

    def with_copies(self, k: int, *, last: bool = False) -> SearchResult:
        """Return the results with each copy of a hit as a hit after it, the first k of all.

        Where there are more than k hits, as a gate may hand over, their number stays.

        `last`: as in `Result.with_copies`.
        """
        return SearchResult(
            [result.with_copies(max(k, len(result.hits)), last=last) for result in self]
        )

    @property
    def queries(self) -> list[str]:
        """The questions."""
        return [result.query for result in self.results]

    @property
    def passages(self) -> list[list[Passage]]:
        """The hits, best first."""
        return [result.passages for result in self.results]

    @property
    def ids(self) -> list[list[str]]:
        """The ids of the hits."""
        return [result.ids for result in self.results]

    @property
    def scores(self) -> FloatArray:
        """s_hat, the uncertainty-aware score that orders the hits (paper eq. 6), (n, k)."""
        return stack_rows([result.scores for result in self.results])

    @property
    def mu(self) -> FloatArray:
        """The mean of the similarity, shape (n, k)."""
        return stack_rows([result.mu for result in self.results])

    @property
    def sigma2(self) -> FloatArray:
        """The variance of the similarity, shape (n, k)."""
        return stack_rows([result.sigma2 for result in self.results])

    @property
    def relevance(self) -> FloatArray:
        """P(this hit is relevant), shape (n, k)."""
        return stack_rows([result.relevance for result in self.results])

    @property
    def confidence_at_k(self) -> FloatArray:
        """P(one of the first 1, 2, ... m hits answers the question), shape (n, m)."""
        return stack_rows([result.confidence_at_k for result in self.results])

    @property
    def coefficients(self) -> FloatArray:
        """pi_k, the coefficient of each encoder for the question, shape (n, K)."""
        return stack_rows([result.coefficients for result in self.results])

    @property
    def confidence(self) -> FloatArray:
        """P(the question is answered by its first `JUDGED` hits), shape (n,)."""
        return np.array([result.decision.confidence for result in self.results], dtype=np.float32)

    @property
    def in_corpus(self) -> FloatArray:
        """P(the corpus answers the question, whether or not these hits do), shape (n,)."""
        return np.array([result.decision.in_corpus for result in self.results], dtype=np.float32)

    @property
    def decisions(self) -> list[Decision]:
        """The decisions at the default threshold, or those of a gate; see `decide`."""
        return [result.decision for result in self.results]

    @property
    def exact(self) -> bool:
        """True if, for every question, no other passage can have a higher score."""
        return all(result.exact for result in self.results)

    def decide(self, threshold: float, k: int | None = None) -> list[Decision]:
        """Decide at another threshold of confidence; see `Result.decide`."""
        check_threshold(threshold)
        return [result.decide(threshold, k) for result in self.results]


def check_threshold(threshold: float) -> None:
    """Check that a threshold of confidence is a number, which may be infinite."""
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.number):
        raise TypeError(f"threshold: expected a number, got {threshold!r:.60}.")
    if np.isnan(threshold):
        raise ValueError("threshold: expected a number, got NaN.")
