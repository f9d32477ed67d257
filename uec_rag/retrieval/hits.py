"""The results of a search: one for each question, and a collection of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Literal, TypeVar, cast

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from uec_rag.base.checks import check_k, check_share, one_line
from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.records import Record
from uec_rag.confidence.decision import Action, Decision, decide_again
from uec_rag.confidence.languages import ENGLISH, Code, check_language, language_of
from uec_rag.confidence.model import JUDGED
from uec_rag.confidence.readings import Reading
from uec_rag.stores.base import Passage, copy_value


def _none() -> FloatArray:
    return np.zeros(0, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Result:
    """The hits of one question, best first: k, or as many passages as match.

    Attributes
    ----------
    query : str
    decision : Decision
        The decision at a threshold of 0.5; `decide` applies another threshold. It has the
        confidence, P(one of the first `uec_rag.confidence.model.JUDGED` hits answers the question),
        and `in_corpus`, P(any passage of the corpus does).
    names : tuple of K str
        Names of the encoders, for `coefficients` and `shares`.
    coefficients : array, shape (K,)
        pi_k, the coefficient of each encoder for the question.
    shares : array, shape (K,)
        Share of each encoder in the scores: ``pi_k w_k``, divided by their sum.
    passages : list of Passage
    scores : array, shape (k,)
        s_hat, the uncertainty-aware score by which the hits are ordered (paper eq. 6).
    mu : array, shape (k,)
        Mean of the similarity.
    model_variance, disagreement : array, shape (k,)
        The two parts of its variance `sigma2`: the part due to the members' posteriors (paper
        eq. 5), which lowers the score, and the members' disagreement (`Fitted.disagreement`).
    relevance : array, shape (k,)
        P(this hit is relevant).
    confidence_at_k : array, shape (m,)
        P(one of the first 1, 2, ... m hits answers the question), for all hits that were judged.
    exact : bool
        True if no other passage can have a higher score.
    judged : bool
        Whether the text of the question was known. Otherwise relevance and confidence cannot be
        estimated, and `metadata` omits them.
    parts : list of k dict
        What each encoder says of each hit: "encoders", by name its "similarity" (a cosine, or a
        BM25 score from 0 to 1), "rank" by that among all passages (None if not known), and "share"
        of the score; and "matched_terms", if an encoder is lexical, the words of the question that
        the hit has, those that add most first. Empty if not known.
    copies : list of k lists of Passage
        The other passages with the text of each hit; empty if not known.
    why : tuple of str
        What each feature of the question adds to the log odds of `in_corpus`, in words.
    """

    query: str
    decision: Decision
    names: tuple[str, ...]
    coefficients: FloatArray
    shares: FloatArray
    passages: list[Passage] = field(default_factory=list)
    scores: FloatArray = field(default_factory=_none)
    mu: FloatArray = field(default_factory=_none)
    model_variance: FloatArray = field(default_factory=_none)
    disagreement: FloatArray = field(default_factory=_none)
    relevance: FloatArray = field(default_factory=_none)
    confidence_at_k: FloatArray = field(default_factory=_none)
    exact: bool = True
    judged: bool = True
    parts: Sequence[Mapping[str, Any]] = ()
    copies: Sequence[Sequence[Passage]] = ()
    why: tuple[str, ...] = ()

    @property
    def ids(self) -> list[str]:
        """The ids of the hits."""
        return [passage.id for passage in self.passages]

    @property
    def sigma2(self) -> FloatArray:
        """The variance of the similarity, shape (k,): `model_variance` + `disagreement`."""
        total: FloatArray = self.model_variance + self.disagreement
        return total

    def merge_copies(self, ids: Collection[str]) -> set[str]:
        """Return ids with those of copies replaced by those of their hits."""
        merged = {*ids}
        for hit, copies in zip(self.passages, self.copies, strict=False):
            same = {copy.id for copy in copies}
            if not merged.isdisjoint(same):
                merged = (merged - same) | {hit.id}
        return merged

    def finds(self, ids: Collection[str]) -> list[bool]:
        """Return for each hit whether it, or a copy of it, has one of some ids."""
        merged = self.merge_copies(ids)
        return [hit.id in merged for hit in self.passages]

    def with_copies(self, k: int) -> Result:
        """Return the result with each copy of a hit as a hit after it, the first k of all."""
        every = [
            (at, one)
            for at, (hit, of_hit) in enumerate(zip(self.passages, self.copies, strict=False))
            for one in (hit, *of_hit)
        ][:k]
        if not every:
            return self
        shown = self._take([at for at, _ in every])
        return replace(shown, passages=[one for _, one in every], copies=())

    def select(self, positions: Sequence[int]) -> Result:
        """Return the result with the hits at the given positions, in the given order.

        The confidence by cutoff is that of the same number of best hits, but at most the sum and at
        least the maximum of the relevance of the chosen hits. The decision is on the first `JUDGED`
        of them, so choose at least that many before taking the `first` k.
        """
        taken = self._take(positions)
        if not taken.passages or not self.judged:
            return taken
        sure = np.minimum(self.confidence_at_k[: len(positions)], np.cumsum(taken.relevance))
        at_k = np.maximum(sure, np.maximum.accumulate(taken.relevance))
        confidence = max(float(at_k[min(JUDGED, len(positions)) - 1]), float(taken.relevance.max()))
        decision = self.decision
        if confidence != decision.confidence:
            decision = decide_again(replace(decision, confidence=confidence), 0.5)
        return replace(taken, confidence_at_k=at_k, decision=decision)

    def first(self, k: int) -> Result:
        """Return the result with the first k hits and unchanged confidence and decision."""
        return self if k >= len(self.passages) else self._take(range(k))

    def with_first(self, position: int) -> Result:
        """Return the result with the hit at a position as the first, as an advisor names it."""
        if not 0 < position < len(self.passages):
            return self
        others = [at for at in range(len(self.passages)) if at != position]
        taken = self._take([position, *others])
        taken.relevance[0] = self.relevance.max()
        return taken

    def scaled(self, factor: float) -> Result:
        """Return the result with relevance as its decision's confidence, which a factor changed.

        The relevance of no hit exceeds the confidence, and their sum is at least the confidence.
        """
        if factor == 1 or not self.passages:
            return self
        sure = self.decision.confidence
        each = np.minimum(self.relevance * np.float32(factor), np.float32(sure))
        each[0] = max(each[0], sure - each[1:].sum())
        at_k = np.minimum(self.confidence_at_k * np.float32(factor), self.decision.in_corpus)
        return replace(self, relevance=each, confidence_at_k=at_k.astype(np.float32))

    def _take(self, positions: Sequence[int]) -> Result:
        at = [*positions]
        taken: dict[str, Any] = {name: getattr(self, name)[at] for name in _ARRAYS}
        for name in _LISTS:
            values = getattr(self, name)
            taken[name] = [values[position] for position in at] if values else values
        return replace(self, **taken)

    def decide(self, threshold: float, k: int | None = None) -> Decision:
        """Decide at another threshold of confidence, without searching again.

        `k`: number of hits to base the confidence on, `JUDGED` by default.
        """
        check_threshold(threshold)
        sure = self.confidence_at(k)
        return decide_again(replace(self.decision, confidence=sure), threshold)

    def confidence_at(self, k: int | None = None) -> float:
        """Return P(one of the first k hits answers the question); k is `JUDGED` by default."""
        if k is None or not self.passages:
            return self.decision.confidence
        return float(self.confidence_at_k[min(check_k(k), len(self.confidence_at_k)) - 1])

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
        decision, numbers = self.decision, self.numbers(rank)
        plain = ("score", "sigma2", "relevance")
        fields = numbers if details else {key: numbers[key] for key in plain if key in numbers}
        if self.judged:
            fields |= told_of(decision)
            if decision.action == "clarify":
                hit = self.passages[rank].id
                titles = [one.title for one in decision.readings if hit in one.ids]
                fields["reading"] = titles[0] if titles else ""
        if self.judged and details:
            fields |= {"weights": self.weights, "why": [*self.why]}
            if decision.unfamiliar:
                fields["unfamiliar"] = decision.unfamiliar
            if self.copies and self.copies[rank]:
                sources = (copy.about.source or copy.id for copy in self.copies[rank])
                fields["sources"] = [*dict.fromkeys(sources)]
        return {f"{KEY}{key}": value for key, value in fields.items()}

    def numbers(self, rank: int) -> dict[str, Any]:
        """Return the numbers of a hit, and what each encoder says of it, as `metadata` names them.

        `rank`: position of the hit, from 0.
        """
        arrays = {
            "score": self.scores,
            "mu": self.mu,
            "model_variance": self.model_variance,
            "disagreement": self.disagreement,
        }
        if self.judged:
            arrays["relevance"] = self.relevance
        numbers = {name: float(array[rank]) for name, array in arrays.items()}
        numbers["sigma2"] = numbers["model_variance"] + numbers["disagreement"]
        return {**numbers, **(self.parts[rank] if self.parts else {})}

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each encoder for the question: its share of the scores."""
        return dict(zip(self.names, self.shares.tolist(), strict=True))


# The fields of a `Result` that have an item for each hit.
_ARRAYS = ("scores", "mu", "model_variance", "disagreement", "relevance")
_LISTS = ("passages", "parts", "copies")


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

    def with_copies(self, k: int) -> SearchResult:
        """Return the results with each copy of a hit as a hit after it, the first k of all.

        Where there are more than k hits, as a gate may hand over, their number stays.
        """
        return SearchResult([one.with_copies(max(k, len(one.passages))) for one in self])

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
        return _stack([result.scores for result in self.results])

    @property
    def mu(self) -> FloatArray:
        """The mean of the similarity, shape (n, k)."""
        return _stack([result.mu for result in self.results])

    @property
    def sigma2(self) -> FloatArray:
        """The variance of the similarity, shape (n, k)."""
        return _stack([result.sigma2 for result in self.results])

    @property
    def relevance(self) -> FloatArray:
        """P(this hit is relevant), shape (n, k)."""
        return _stack([result.relevance for result in self.results])

    @property
    def confidence_at_k(self) -> FloatArray:
        """P(one of the first 1, 2, ... m hits answers the question), shape (n, m)."""
        return _stack([result.confidence_at_k for result in self.results])

    @property
    def coefficients(self) -> FloatArray:
        """pi_k, the coefficient of each encoder for the question, shape (n, K)."""
        return _stack([result.coefficients for result in self.results])

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
        """The decisions at a threshold of 0.5, or those of a gate; see `decide`."""
        return [result.decision for result in self.results]

    @property
    def exact(self) -> bool:
        """True if, for every question, no other passage can have a higher score."""
        return all(result.exact for result in self.results)

    def decide(self, threshold: float, k: int | None = None) -> list[Decision]:
        """Decide at another threshold of confidence; see `Result.decide`."""
        check_threshold(threshold)
        return [result.decide(threshold, k) for result in self.results]


def cover(
    whole: Result, parts: Sequence[Result], asked: Sequence[str], k: int, reserved: int
) -> Result:
    """Answer a question by hits of both of its parts, with the confidence of the weaker one.

    The hits are those of the question as one, of which some give way to the first of its parts: a
    question that only looks like two must not lose them.

    Parameters
    ----------
    whole : Result
        That of the question as one.
    parts : sequence of two Result
    asked : sequence of two str
        The parts; the reason names the weaker one if it is not answered.
    k : int
        Number of hits.
    reserved : int
        How many of the first `JUDGED` hits are those of the parts.
    """
    every = (whole, *parts)
    own = [*range(len(whole.passages))]
    best = [len(own) + at for at in _in_turn(parts, min(k, JUDGED))[:reserved]]
    texts = [passage.text for one in every for passage in one.passages]
    sure = [part.decision.confidence for part in parts]
    weaker = int(np.argmin(sure))
    least = parts[weaker].decision
    joined: dict[str, Any] = {}
    for name in _ARRAYS:
        joined[name] = np.concatenate([getattr(one, name) for one in every])
    for name in _LISTS:
        joined[name] = [each for one in every for each in getattr(one, name)]
    joined["relevance"] = np.minimum(joined["relevance"], np.float32(least.confidence))
    decision = replace(
        least,
        underspecified=min(whole.decision.underspecified, least.underspecified),
        readings=whole.decision.readings,
        searched_as=asked[weaker] if least.action != "answer" else whole.decision.searched_as,
    )
    taken = replace(parts[weaker], **joined)._take(_covering(texts, own, best, k))
    return replace(taken, decision=decide_again(decision, least.threshold))


def _covering(texts: Sequence[str], own: Sequence[int], best: Sequence[int], k: int) -> list[int]:
    """Order a question's own hits so that the best of its parts are judged, in place of the last.

    `texts`: of all hits. `own`, `best`: positions of hits. Returns at most k positions.
    """
    most = min(k, JUDGED)
    head = {texts[at]: at for at in own[:most]}
    wanted = {texts[at]: at for at in reversed(best if most > 1 else ())}
    new = [at for text, at in reversed(wanted.items()) if text not in head]
    others = [at for text, at in head.items() if text not in wanted]
    out = others[len(others) - max(len(head) + len(new) - most, 0) :]
    first = dict[str, int]()
    for at in [*(at for at in head.values() if at not in out), *new, *out, *own[most:]]:
        first.setdefault(texts[at], at)
    return [*first.values()][:k]


def _in_turn(parts: Sequence[Result], k: int) -> list[int]:
    """Order the hits of two parts in turn, first those with which both are most likely answered."""
    first, second = parts
    odds = {
        most: first.confidence_at(most) * second.confidence_at(k - most) for most in range(1, k)
    }
    best = max(odds, key=lambda most: (odds[most], -abs(2 * most - k)), default=1)
    ranks = [
        (rank >= most, rank)
        for part, most in zip(parts, (best, k - best), strict=True)
        for rank in range(len(part.passages))
    ]
    return sorted(range(len(ranks)), key=ranks.__getitem__)


def diversify(
    vectors: Callable[[Sequence[str]], Gaussian],
    result: SearchResult,
    k: int,
    lambda_mult: float = 0.5,
) -> SearchResult:
    """Choose k of the hits of each query by maximal marginal relevance.

    Hits without vectors, of words alone, stay in the order of their relevance.

    Parameters
    ----------
    vectors : callable(ids) -> Gaussian
        `Retriever.vectors` of the index, or of the snapshot if passages may be deleted meanwhile.
    result : SearchResult
    k : int
    lambda_mult : float
        As in `maximal_marginal_relevance`.
    """
    chosen = []
    for one in result:
        means = vectors(one.ids).mean if one.ids else np.zeros((0, 1), dtype=np.float32)
        enough = max(check_k(k), JUDGED)  # confidence is in the first JUDGED hits, whatever k is
        positions = maximal_marginal_relevance(one.scores, means, enough, lambda_mult)
        chosen.append(one.select(positions).first(k))
    return SearchResult(chosen)


def maximal_marginal_relevance(
    relevance: FloatArray, vectors: FloatArray, k: int, lambda_mult: float = 0.5
) -> list[int]:
    """Choose k of m candidates greedily, trading relevance off against redundancy.

    The first choice is the most relevant candidate. Each further one maximises
    ``lambda * relevance - (1 - lambda) * max cosine to those chosen`` (Carbonell and Goldstein,
    1998).

    Parameters
    ----------
    relevance : array, shape (m,)
        Relevance on the scale of a cosine, such as s_hat.
    vectors : array, shape (m, d)
        Vectors of any length. The cosine of a zero vector with any other counts as 0.
    k : int
        Number of candidates to choose; if there are fewer, all are returned.
    lambda_mult : float
        Weight of relevance, from 0 (diversity only) to 1 (relevance only).

    Returns
    -------
    list of int
        Indices of the chosen candidates, in the order of choice.

    Raises
    ------
    TypeError, ValueError
        If lambda_mult is not a number from 0 to 1.

    Examples
    --------
    >>> relevance = np.float32([0.9, 0.8, 0.3])
    >>> vectors = np.float32([[1, 0], [0.99, 0.1], [0, 1]])
    >>> maximal_marginal_relevance(relevance, vectors, k=2, lambda_mult=0.5)
    [0, 2]
    """
    check_share(lambda_mult, "lambda_mult", "a number from 0 to 1")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.maximum(lengths, np.float32(1e-30))
    redundancy: NDArray[np.floating] = np.zeros(len(unit), dtype=np.float32)
    left = np.ones(len(unit), dtype=bool)
    chosen: list[int] = []
    while left.any() and len(chosen) < k:
        weight = lambda_mult if chosen else 1.0
        worth = np.where(left, weight * relevance - (1 - weight) * redundancy, -np.inf)
        best = int(worth.argmax())
        similarity = unit @ unit[best]
        redundancy = np.maximum(redundancy, similarity) if chosen else similarity
        left[best] = False
        chosen.append(best)
    return chosen


def _stack(rows: Sequence[FloatArray]) -> FloatArray:
    """Stack arrays of n questions as rows, padded with NaN."""
    width = max(map(len, rows), default=0)
    out = np.full((len(rows), width), np.nan, dtype=np.float32)
    for target, row in zip(out, rows, strict=True):
        target[: len(row)] = row
    return out


def check_threshold(threshold: float) -> None:
    """Check that a threshold of confidence is a number, which may be infinite."""
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.number):
        raise TypeError(f"threshold: expected a number, got {threshold!r:.60}.")
    if np.isnan(threshold):
        raise ValueError("threshold: expected a number, got NaN.")


KEY = "uec_"
"""The prefix of the keys that a search adds to the metadata of a hit, reserved for them."""


def own_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata without the keys that a search adds."""
    return {key: value for key, value in metadata.items() if not key.startswith(KEY)}


def without_findings(passage: Passage) -> Passage:
    """Return a passage without the metadata that a search adds."""
    own = own_metadata(passage.metadata)
    return passage if len(own) == len(passage.metadata) else replace(passage, metadata=own)


def own_copy(passage: Passage) -> Passage:
    """Return a passage of its own, with a copy of its metadata but those that a search adds."""
    metadata = {
        key: copy_value(value) if isinstance(value, dict | list) else value
        for key, value in passage.metadata.items()
        if not key.startswith(KEY)
    }
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


def surest_decision(metadatas: Iterable[Mapping[str, Any]]) -> Decision | None:
    """Read the decision of the highest confidence from the metadata of hits; None if there is none.

    Hits of several queries may have several decisions. Metadata other than `HitMetadata` may be
    from other retrievers; they are only read if there are no `HitMetadata`, which lose their type
    in a file or on the way to another process.
    """
    hits = list(metadatas)
    ours = [metadata for metadata in hits if isinstance(metadata, HitMetadata)]
    decisions = filter(None, map(_decision_in, ours or hits))
    return max(decisions, key=lambda decision: decision.confidence, default=None)


_Share = Annotated[float, Meta(ge=0, le=1)]
_Count = Annotated[int, Meta(ge=0)]


@dataclass(frozen=True)
class _Search(Record):
    """The fields of a `Decision` about its search, which only gates need."""

    threshold: float | None = 0.5
    unfamiliar: str = ""
    basis: str = ""
    hits: _Count = 0
    size: _Count = 0
    language: str = ""
    closest: tuple[Reading, ...] = ()


@dataclass(frozen=True)
class _Told(Record):
    """A decision in the metadata of a hit, under `KEY` and these names."""

    decision: Action
    reason: str
    confidence: _Share
    in_corpus: _Share = 1.0
    underspecified: _Share = 0.0
    reason_code: Code | Literal[""] = ""
    readings: tuple[Reading, ...] = ()
    advice: str = ""
    searched_as: str = ""
    search: _Search = _Search()
    advice_probability: _Share | None = None
    advice_calls: _Count = 0
    advice_tokens: _Count = 0


# What is left out where there is none.
_COSTS = ("advice_probability", "advice_calls", "advice_tokens")
_SELDOM = ("readings", "advice", "searched_as", "suggestions", *_COSTS)
_NAMES = {"decision": "action", "reason_code": "code"}  # of fields that are others in a `Decision`

_R = TypeVar("_R", bound=Record)


def _record(kind: type[_R], decision: Decision, **known: Any) -> _R:
    """Make a record of the fields of a decision."""
    names = [field.name for field in fields(cast(Any, kind)) if field.name not in known]
    return kind(**{name: getattr(decision, _NAMES.get(name, name)) for name in names}, **known)


def told_of(decision: Decision) -> dict[str, Any]:
    """Return what hits tell of a decision, as JSON values from which it can be read again."""
    told = _record(_Told, decision, search=_record(_Search, decision)).metadata()
    told["suggestions"] = decision.suggested()
    return {name: value for name, value in told.items() if value or name not in _SELDOM}


def tell(metadata: dict[str, Any], decision: Decision) -> None:
    """Replace the decision in the metadata of a hit."""
    for name in _SELDOM:
        metadata.pop(f"{KEY}{name}", None)
    metadata.update((f"{KEY}{name}", value) for name, value in told_of(decision).items())


def _decision_in(metadata: Mapping[str, Any]) -> Decision | None:
    """Read and check the decision on a hit; None if there is none, or it is damaged."""
    names = [field.name for field in fields(_Told) if f"{KEY}{field.name}" in metadata]
    try:
        told = _Told.restore({name: metadata[f"{KEY}{name}"] for name in names})
        language = check_language(told.search.language or language_of(told.reason))
    except ValueError:
        return None
    known = {_NAMES.get(name, name): getattr(told, name) for name in names} | vars(told.search)
    known.pop("search", None)
    for name in ("reason", "advice", "searched_as"):
        known[name] = one_line(getattr(told, name))
    known["readings"] = tuple(replace(one, title=one_line(one.title)) for one in told.readings)
    known["language"] = language or ENGLISH
    if known["threshold"] is None:  # JSON has no infinity
        known["threshold"] = math.inf
    return Decision(**known)
