"""The results of a search: one for each question, and a collection of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self, TypeGuard, get_args

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_k, one_line
from uec_rag.base.gaussian import FloatArray
from uec_rag.base.spans import Value, retrieval
from uec_rag.confidence.decision import Action, Decision, decide_again
from uec_rag.confidence.languages import ENGLISH
from uec_rag.confidence.model import JUDGED
from uec_rag.confidence.readings import Reading
from uec_rag.confidence.sentences import Code, language_told_in, sentence
from uec_rag.stores.base import Passage, StoreHits, copy_value


@dataclass(frozen=True, eq=False)
class Members:
    """The contributions of each of K members to the k hits of a question.

    Attributes
    ----------
    names : tuple of K str
        Names of the encoders.
    similarities : array, shape (K, k)
        Similarity by each member: a cosine, or a BM25 score from 0 to 1.
    ranks : int array, shape (K, k)
        Rank by that similarity among all passages, from 1; 0 if not known.
    contributions : array, shape (K, k)
        ``pi_k w_k s_k``, the summands of mu_s.
    words : list of k dict of str to float, or None
        Words of the question that a hit contains, with the similarity that each adds, largest
        first; None if no encoder is lexical.
    """

    names: tuple[str, ...]
    similarities: FloatArray
    ranks: NDArray[np.int64]
    contributions: FloatArray
    words: list[dict[str, float]] | None

    def select(self, positions: Sequence[int]) -> Members:
        """Return the contributions to some of the hits."""
        at = [*positions]
        return Members(
            self.names,
            self.similarities[:, at],
            self.ranks[:, at],
            self.contributions[:, at],
            None if self.words is None else [self.words[position] for position in at],
        )

    def metadata(self, rank: int) -> dict[str, Any]:
        """Return the metadata to add to a hit, in plain Python types."""
        positive = np.maximum(self.contributions[:, rank], 0)
        shares = positive / max(float(positive.sum()), 1e-30)
        fields: dict[str, Any] = {
            "uec_encoders": {
                name: {
                    "similarity": float(self.similarities[k, rank]),
                    "rank": int(self.ranks[k, rank]) or None,
                    "share": float(shares[k]),
                }
                for k, name in enumerate(self.names)
            }
        }
        if self.words is not None:
            fields["uec_matched_terms"] = [*self.words[rank]]
        return fields


@dataclass(frozen=True, eq=False)
class Result:
    """The hits of one question, best first: k, or as many passages as match.

    Attributes
    ----------
    query : str
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
    coefficients : array, shape (K,)
        pi_k, the coefficient of each encoder for the question.
    shares : array, shape (K,)
        Share of each encoder in the scores: ``pi_k w_k``, divided by their sum.
    confidence_at_k : array, shape (m,)
        P(one of the first 1, 2, ... m hits answers the question), for all hits that were judged.
    decision : Decision
        The decision at a threshold of 0.5; `decide` applies another threshold. It has the
        confidence, P(one of the first `uec_rag.confidence.model.JUDGED` hits answers the question),
        and `in_corpus`, P(any passage of the corpus does).
    exact : bool
        True if no other passage can have a higher score.
    names : tuple of K str
        Names of the encoders, for `coefficients` and `shares`.
    judged : bool
        Whether the text of the question was known. Otherwise relevance and confidence cannot be
        estimated, and `metadata` omits them.
    members : Members or None
        Contributions of the encoders to the hits; None if not known.
    copies : list of k lists of Passage
        The other passages with the text of each hit; empty if not known.
    """

    query: str
    passages: list[Passage]
    scores: FloatArray
    mu: FloatArray
    model_variance: FloatArray
    disagreement: FloatArray
    relevance: FloatArray
    coefficients: FloatArray
    shares: FloatArray
    confidence_at_k: FloatArray
    decision: Decision
    exact: bool
    names: tuple[str, ...]
    judged: bool = True
    members: Members | None = None
    copies: Sequence[Sequence[Passage]] = ()

    @classmethod
    def empty(
        cls,
        query: str,
        coefficients: FloatArray,
        shares: FloatArray,
        names: tuple[str, ...],
        decision: Decision,
    ) -> Self:
        """Create the result of a question without any hits."""
        none = np.zeros(0, dtype=np.float32)
        numbers = (none, none, none, none, none, coefficients, shares, none)
        return cls(query, [], *numbers, decision, exact=True, names=names)

    @classmethod
    def from_vector(
        cls,
        hits: StoreHits,
        coefficients: FloatArray,
        shares: FloatArray,
        names: tuple[str, ...],
        language: str = ENGLISH,
    ) -> Self:
        """Create the result of a query vector, with the similarity as relevance.

        `hits`: hits of one query.
        """
        mu = hits.mu[0]
        relevance = np.clip(mu, 0, 1)
        best = float(relevance.max(initial=0.0))
        reason = sentence("vector", language)
        return cls(
            "",
            [*map(without_findings, hits.passages[0])],
            hits.scores[0],
            mu,
            hits.sigma2[0],
            np.zeros_like(mu),
            relevance,
            coefficients,
            shares,
            np.maximum.accumulate(relevance),
            Decision("answer", reason, (), best, best, language=language),
            exact=hits.exact,
            names=names,
            judged=False,
        )

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
        shown = self._select_hits([at for at, _ in every])
        return replace(shown, passages=[one for _, one in every], copies=())

    def select(self, positions: Sequence[int]) -> Result:
        """Return the result with the hits at the given positions, in the given order.

        The confidence by cutoff is that of the same number of best hits, but at most the sum and at
        least the maximum of the relevance of the chosen hits. The decision is on the first `JUDGED`
        of them, so choose at least that many before taking the `first` k.
        """
        taken = self._select_hits(positions)
        if not taken.passages or not self.judged:
            return taken
        sure = np.minimum(self.confidence_at_k[: len(positions)], np.cumsum(taken.relevance))
        taken = replace(
            taken, confidence_at_k=np.maximum(sure, np.maximum.accumulate(taken.relevance))
        )
        judged = float(taken.confidence_at_k[min(JUDGED, len(positions)) - 1])
        confidence = max(judged, float(taken.relevance.max()))
        decision = self.decision
        if confidence == decision.confidence:
            return taken
        return replace(taken, decision=replace(decision, confidence=confidence)).with_threshold(0.5)

    def first(self, k: int) -> Result:
        """Return the result with the first k hits and unchanged confidence and decision."""
        return self if k >= len(self.passages) else self._select_hits(range(k))

    def _select_hits(self, positions: Sequence[int]) -> Result:
        at = [*positions]
        return replace(
            self,
            passages=[self.passages[position] for position in at],
            scores=self.scores[at],
            mu=self.mu[at],
            model_variance=self.model_variance[at],
            disagreement=self.disagreement[at],
            relevance=self.relevance[at],
            members=None if self.members is None else self.members.select(at),
            copies=[self.copies[position] for position in at] if self.copies else (),
        )

    @property
    def without_clarifying(self) -> Result:
        """The result with the decision to answer or abstain, without asking back."""
        clear = replace(self.decision, underspecified=0.0, readings=())
        return replace(self, decision=clear).with_threshold(self.decision.threshold)

    def with_threshold(self, threshold: float) -> Result:
        """Return the result with the decision at another threshold."""
        return replace(self, decision=self.decide(threshold))

    def decide(self, threshold: float, k: int | None = None) -> Decision:
        """Decide at another threshold of confidence, without searching again.

        `k`: number of hits to base the confidence on, `JUDGED` by default.
        """
        check_threshold(threshold)
        sure = self.confidence_at(k)
        return decide_again(replace(self.decision, confidence=sure), threshold)

    def confidence_at(self, k: int | None = None) -> float:
        """Return P(one of the first k hits answers the question); k is `JUDGED` by default."""
        if k is None:
            return self.decision.confidence
        check_k(k)
        if not self.passages:
            return self.decision.confidence
        return float(self.confidence_at_k[min(k, len(self.confidence_at_k)) - 1])

    def metadata(self, rank: int, details: bool = False) -> dict[str, Any]:
        """Return the metadata that every adapter adds to a hit, in plain Python types.

        Parameters
        ----------
        rank : int
            Position of the hit, from 0.
        details : bool
            Whether to add details of the score and the decision: `uec_mu`, `uec_model_variance`,
            `uec_disagreement`, `uec_encoders`, `uec_matched_terms`, `uec_weights`,
            `uec_readings`, `uec_basis`, `uec_sources` of its copies if there are any, and
            `uec_unfamiliar` if the question is unlike those of the fit.
        """
        model_variance = float(self.model_variance[rank])
        disagreement = float(self.disagreement[rank])
        fields: dict[str, Any] = {
            "uec_score": float(self.scores[rank]),
            "uec_sigma2": model_variance + disagreement,
        }
        if details:
            fields |= {
                "uec_mu": float(self.mu[rank]),
                "uec_model_variance": model_variance,
                "uec_disagreement": disagreement,
            }
        if not self.judged:
            return fields
        decision = self.decision
        fields |= {
            "uec_relevance": float(self.relevance[rank]),
            "uec_confidence": decision.confidence,
            "uec_in_corpus": decision.in_corpus,
            "uec_underspecified": decision.underspecified,
            "uec_decision": decision.action,
            "uec_reason": decision.reason,
            "uec_reason_code": decision.code,
        }
        fields |= {f"{KEY}{key}": value for key, value in decision.advice_metadata().items()}
        if decision.action == "clarify":
            hit = self.passages[rank].id
            labels = [reading.title for reading in decision.readings if hit in reading.ids]
            fields["uec_reading"] = labels[0] if labels else ""
        if not details:
            return fields
        if self.members is not None:
            fields |= self.members.metadata(rank)
        if decision.unfamiliar:
            fields["uec_unfamiliar"] = decision.unfamiliar
        if self.copies and self.copies[rank]:
            sources = (copy.about.source or copy.id for copy in self.copies[rank])
            fields["uec_sources"] = [*dict.fromkeys(sources)]
        return fields | {
            "uec_readings": [asdict(reading) for reading in decision.readings],
            "uec_basis": {
                "settings": decision.basis,
                "hits": decision.hits,
                "size": decision.size,
            },
            "uec_weights": dict(zip(self.names, self.shares.tolist(), strict=True)),
        }

    def trace_attributes(self) -> dict[str, Value]:
        """Return the attributes of a trace; see `uec_rag.base.spans.retrieval`."""
        hits = [
            (passage.id, passage.text, float(self.scores[rank]), passage.metadata, fields)
            for rank, passage in enumerate(self.passages)
            for fields in [self.metadata(rank)]
        ]
        return retrieval(self.query, len(self.passages), hits)


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The results of n questions.

    Iteration yields the `Result` of each question. The properties are lists, or arrays with a row
    for each question; a row with fewer hits than the longest is padded with NaN.

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
    def model_variance(self) -> FloatArray:
        """The part of the variance due to the members' posteriors (paper eq. 5), shape (n, k)."""
        return _stack([result.model_variance for result in self.results])

    @property
    def disagreement(self) -> FloatArray:
        """The part of the variance due to the members' disagreement, shape (n, k)."""
        return _stack([result.disagreement for result in self.results])

    @property
    def sigma2(self) -> FloatArray:
        """The variance of the similarity, shape (n, k): `model_variance` + `disagreement`."""
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
    def shares(self) -> FloatArray:
        """The share of each encoder in the scores, shape (n, K)."""
        return _stack([result.shares for result in self.results])

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
    def unfamiliar(self) -> list[str]:
        """The difference of each question from those confidence was fitted on; "" if none."""
        return [result.decision.unfamiliar for result in self.results]

    @property
    def exact(self) -> bool:
        """True if, for every question, no other passage can have a higher score."""
        return all(result.exact for result in self.results)

    @property
    def names(self) -> list[str]:
        """The names of the encoders, for `coefficients` and `shares`."""
        return [*self.results[0].names] if self.results else []

    @property
    def basis(self) -> str:
        """The fingerprint of everything that confidence depends on; see `Gate`."""
        return self.results[0].decision.basis if self.results else ""

    @property
    def size(self) -> int:
        """The number of passages that were searched; 0 if not known."""
        return max((result.decision.size for result in self.results), default=0)

    def decide(self, threshold: float, k: int | None = None) -> list[Decision]:
        """Decide at another threshold of confidence; see `Result.decide`."""
        check_threshold(threshold)
        return [result.decide(threshold, k) for result in self.results]

    def with_decisions(self, decisions: Sequence[Decision]) -> SearchResult:
        """Return the results with other decisions, such as a gate's."""
        pairs = zip(self.results, decisions, strict=True)
        return SearchResult([replace(result, decision=decision) for result, decision in pairs])

    def first(self, k: int) -> SearchResult:
        """Return the results with the first k hits of each question."""
        return SearchResult([result.first(k) for result in self.results])


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


_MOST_PASSAGES = 10**12  # a count above it is none of an index
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
        key: copy_value(value) for key, value in passage.metadata.items() if not key.startswith(KEY)
    }
    return Passage(passage.id, passage.text, metadata)


class HitMetadata(dict[str, Any]):
    """The metadata of a hit, a dict whose comparison with others ignores what a search added.

    LangChain compares documents by all of their metadata, and its `MultiQueryRetriever` keeps the
    first of equal ones. A document found by two queries has different `uec_` values in each, but is
    the same document.

    Examples
    --------
    >>> HitMetadata(page=1, uec_score=0.8) == HitMetadata(page=1, uec_score=0.6)
    True
    >>> HitMetadata(page=1, uec_score=0.8) == {"page": 1}
    False
    """

    decision: Decision | None = None
    """The whole decision on the query, including what the keys omit; lost on serialisation."""

    @classmethod
    def from_metadata(
        cls,
        metadata: Mapping[str, Any],
        fields: Mapping[str, Any],
        decision: Decision | None = None,
    ) -> Self:
        """Join the own metadata of a hit with those that a search adds."""
        joined = cls({**metadata, **fields})
        joined.decision = decision
        return joined

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
    decisions = [
        verdict for metadata in ours or hits if (verdict := _decision_in(metadata)) is not None
    ]
    return max(decisions, key=lambda decision: decision.confidence, default=None)


_PROBABILITIES = ("confidence", "in_corpus", "underspecified")


def _decision_in(metadata: Mapping[str, Any]) -> Decision | None:
    """Read and check the decision on a hit; None if there is none."""
    action, reason = metadata.get("uec_decision"), metadata.get("uec_reason")
    numbers = (
        metadata.get("uec_confidence"),
        metadata.get("uec_in_corpus", 1.0),
        metadata.get("uec_underspecified", 0.0),
    )
    if action not in get_args(Action) or not isinstance(reason, str):
        return None
    if not all(map(_is_share, numbers)):
        return None
    code = metadata.get("uec_reason_code")
    told: dict[str, Any] = {
        "action": action,
        "reason": one_line(reason),
        "code": code if code in get_args(Code) else "",
        **dict(zip(_PROBABILITIES, map(float, numbers), strict=True)),
    }
    decision = getattr(metadata, "decision", None)
    if isinstance(decision, Decision):
        return replace(decision, **told)
    details = _details_in(metadata)
    language = language_told_in(reason)
    return None if details is None else Decision(**told, **details, language=language)


def _details_in(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    """Read the details of a decision that was written down; None if they are damaged."""
    unfamiliar, told = metadata.get("uec_unfamiliar", ""), metadata.get("uec_basis")
    if not isinstance(unfamiliar, str):
        return None
    basis = told if isinstance(told, Mapping) else {}
    try:
        readings = tuple(
            Reading(
                one_line(reading["title"]),
                tuple(map(str, reading["ids"])),
                float(reading["probability"]),
            )
            for reading in metadata.get("uec_readings", ())
        )
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
        return None
    settings = basis.get("settings")
    return {
        "readings": readings,
        "unfamiliar": one_line(unfamiliar),
        "basis": settings if isinstance(settings, str) else "",
        **{name: _count(basis.get(name)) for name in ("hits", "size")},
    }


def _count(value: object) -> int:
    """Return a number of hits or passages; 0 if it is none that an index has."""
    return value if isinstance(value, int) and 0 <= value <= _MOST_PASSAGES else 0


def _is_share(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
