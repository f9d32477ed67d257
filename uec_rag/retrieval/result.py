"""What a search gives back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence.decision import Ambiguity, Decision, decide
from uec_rag.stores.base import Passage

_T = TypeVar("_T", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Members:
    """What each of K members has to do with the k hits of n queries.

    Attributes
    ----------
    names : tuple of K str
        The encoders', and at last a verifier's where there is one.
    similarities : array, shape (n, K, k)
        Each one's own: a cosine, BM25 from 0 to 1, or a verifier's score, NaN where it has not
        read the hit.
    ranks : int array, shape (n, K, k)
        Place among all passages by that similarity, or among those that a verifier has read, from
        1; 0 where it is not known.
    counted : array, shape (n, K, k)
        ``pi_k w_k s_k``: what each adds to mu_s.
    words : list of lists of k lists of str, or None
        Words of the query that a hit holds; None without an encoder that looks for words.
    """

    names: tuple[str, ...]
    similarities: FloatArray
    ranks: NDArray[np.int64]
    counted: FloatArray
    words: list[list[list[str]]] | None

    def taking(self, rows: NDArray[np.intp]) -> Members:
        """Some of each query's hits, places of shape (n, m)."""
        places = rows[:, None]
        words = self.words and [
            [hits[place] for place in chosen]
            for hits, chosen in zip(self.words, rows.tolist(), strict=True)
        ]
        return Members(
            self.names,
            np.take_along_axis(self.similarities, places, axis=2),
            np.take_along_axis(self.ranks, places, axis=2),
            np.take_along_axis(self.counted, places, axis=2),
            words,
        )

    def joined_by(
        self, name: str, similarities: FloatArray, ranks: NDArray[np.int64], counted: FloatArray
    ) -> Members:
        """These and one more, of arrays of shape (n, k)."""
        return Members(
            (*self.names, name),
            np.concatenate([self.similarities, similarities[:, None]], axis=1),
            np.concatenate([self.ranks, ranks[:, None]], axis=1),
            np.concatenate([self.counted, counted[:, None]], axis=1),
            self.words,
        )

    def of(self, row: int, count: int) -> Members:
        """Those of one query and its first `count` hits."""
        return Members(
            self.names,
            self.similarities[row : row + 1, :, :count],
            self.ranks[row : row + 1, :, :count],
            self.counted[row : row + 1, :, :count],
            self.words and self.words[row : row + 1],
        )

    def among(self, count: int) -> Members:
        """The first `count` members alone."""
        return Members(
            self.names[:count],
            self.similarities[:, :count],
            self.ranks[:, :count],
            self.counted[:, :count],
            self.words,
        )

    def metadata(self, row: int, rank: int) -> dict[str, Any]:
        """What is written on a hit, in plain Python types."""
        positive = np.maximum(self.counted[row, :, rank], 0)
        shares = positive / max(float(positive.sum()), 1e-30)
        told: dict[str, Any] = {
            "uec_members": {
                name: {
                    "similarity": _known(self.similarities[row, k, rank]),
                    "rank": int(self.ranks[row, k, rank]) or None,
                    "share": float(shares[k]),
                }
                for k, name in enumerate(self.names)
            }
        }
        if self.words is not None:
            told["uec_matched_terms"] = self.words[row][rank]
        return told


@dataclass(frozen=True, eq=False)
class SearchResult:
    """Hits of n queries, best first: k each, or as many passages as match.

    Where a vector store of someone else's finds fewer for one query than for another, what stands
    behind that one's hits is NaN.

    Attributes
    ----------
    queries : list of str
    ids : list of list of str
    passages : list of list of Passage
    scores : array, shape (n, k)
        s_hat, the uncertainty-aware score the hits are ordered by (paper eq. 6).
    mu, sigma2 : array, shape (n, k)
        Mean and variance of the similarity (paper eq. 5).
    relevance : array, shape (n, k)
        P(this hit is relevant).
    coefficients : array, shape (n, K)
        pi_k, each encoder's coefficient in the query.
    shares : array, shape (n, K)
        How much each encoder counted in the scores: ``pi_k w_k`` over their sum.
    confidence : array, shape (n,)
        P(the query is answered by its hits).
    in_corpus : array, shape (n,)
        P(the corpus answers the query, whether or not these hits do).
    ambiguous : list of Ambiguity or None
        Why a query is ambiguous, where it is.
    decisions : list of Decision
        At a threshold of one half; for another see `decide`.
    exact : bool
        Whether nothing outside the hits can score higher.
    names : list of str
        The encoders' names, for `coefficients` and `shares`.
    judged : bool
        Whether the query's text was known: a vector alone says nothing of relevance and confidence,
        and neither does `metadata` then.
    by_cutoff : array, shape (n, k), or None
        Confidence of the first 1, 2, ... k hits that the search found, where anything is known.
    unfamiliar : list of str
        What makes each query unlike those that confidence was learned from; "" where nothing does.
    basis : str
        Fingerprint of what confidence rests on: calibration, told share, filter. See `Gate`.
    members : Members or None
        What each encoder, and a verifier, has to do with the hits; None where that is not known.
    verified : bool
        False where a verifier that was to read the hits of a query failed, and may.
    """

    queries: list[str]
    passages: list[list[Passage]]
    scores: FloatArray
    mu: FloatArray
    sigma2: FloatArray
    relevance: FloatArray
    coefficients: FloatArray
    shares: FloatArray
    confidence: FloatArray
    in_corpus: FloatArray
    ambiguous: list[Ambiguity | None]
    decisions: list[Decision]
    exact: bool
    names: list[str]
    judged: bool = True
    members: Members | None = None
    by_cutoff: FloatArray | None = None
    unfamiliar: list[str] = field(default_factory=list)
    basis: str = ""
    verified: bool = True

    @property
    def ids(self) -> list[list[str]]:
        """Ids of the hits."""
        return [[passage.id for passage in row] for row in self.passages]

    def __len__(self) -> int:
        return len(self.queries)

    def each(self) -> list[SearchResult]:
        """The result of each query alone, as wide as it has hits."""
        return [
            replace(
                self,
                queries=[self.queries[row]],
                passages=[hits],
                scores=self.scores[one, : len(hits)],
                mu=self.mu[one, : len(hits)],
                sigma2=self.sigma2[one, : len(hits)],
                relevance=self.relevance[one, : len(hits)],
                coefficients=self.coefficients[one],
                shares=self.shares[one],
                confidence=self.confidence[one],
                in_corpus=self.in_corpus[one],
                ambiguous=self.ambiguous[one],
                decisions=self.decisions[one],
                unfamiliar=self.unfamiliar[one],
                by_cutoff=None if self.by_cutoff is None else self.by_cutoff[one, : len(hits)],
                members=self.members.of(row, len(hits)) if self.members and hits else None,
            )
            for row, hits in enumerate(self.passages)
            for one in [slice(row, row + 1)]
        ]

    def taking(self, places: Sequence[Sequence[int]]) -> SearchResult:
        """The same result with some of each query's hits, as many of each, in the order given.

        Confidence is that of as many of the best hits: what was chosen among more is not taken to
        answer more.
        """
        rows = np.asarray(places, dtype=np.intp).reshape(
            len(self), len(places[0]) if len(places) else 0
        )

        def taken(values: FloatArray) -> FloatArray:
            return np.take_along_axis(values, rows, axis=1)

        confidence, decisions, last = self.confidence, self.decisions, rows.shape[1]
        if self.by_cutoff is not None and 0 < last < self.by_cutoff.shape[1]:
            confidence = self.by_cutoff[:, last - 1]
            decisions = self._decided(confidence)
        return replace(
            self,
            confidence=confidence,
            decisions=decisions,
            by_cutoff=None if self.by_cutoff is None else self.by_cutoff[:, :last],
            passages=[
                [hits[place] for place in chosen]
                for hits, chosen in zip(self.passages, rows.tolist(), strict=True)
            ],
            scores=taken(self.scores),
            mu=taken(self.mu),
            sigma2=taken(self.sigma2),
            relevance=taken(self.relevance),
            members=None if self.members is None else self.members.taking(rows),
        )

    def decide(self, threshold: float) -> list[Decision]:
        """Decide again at another threshold of confidence; nothing is computed anew."""
        return self._decided(self.confidence, threshold)

    def decide_at(self, threshold: float, k: int) -> list[Decision]:
        """Decide on the confidence of the first k hits that the search found."""
        sure = self.confidence
        if self.by_cutoff is not None and k < self.by_cutoff.shape[1]:
            sure = self.by_cutoff[:, k - 1]
        return self._decided(sure, threshold)

    def _decided(self, confidence: FloatArray, threshold: float = 0.5) -> list[Decision]:
        return decide(confidence, self.ambiguous, threshold, self.in_corpus, self.unfamiliar)

    def metadata(self, row: int, rank: int) -> dict[str, Any]:
        """What every adapter writes on a hit, in plain Python types.

        Parameters
        ----------
        row, rank : int
            Which query, and which of its hits.
        """
        found: dict[str, Any] = {
            "uec_score": float(self.scores[row, rank]),
            "uec_mu": float(self.mu[row, rank]),
            "uec_sigma2": float(self.sigma2[row, rank]),
        }
        if not self.judged:
            return found
        if self.members is not None:
            found |= self.members.metadata(row, rank)
        if self.decisions[row].unfamiliar:
            found["uec_unfamiliar"] = self.decisions[row].unfamiliar
        return found | {
            "uec_relevance": float(self.relevance[row, rank]),
            "uec_confidence": float(self.confidence[row]),
            "uec_in_corpus": float(self.in_corpus[row]),
            "uec_decision": self.decisions[row].action,
            "uec_reason": self.decisions[row].reason,
            "uec_candidates": list(self.decisions[row].candidates),
            "uec_basis": f"{self.basis}@{len(self.passages[row])}",
            "uec_coefficients": dict(zip(self.names, self.shares[row].tolist(), strict=True)),
        }


def _known(value: np.float32) -> float | None:
    return None if np.isnan(value) else float(value)


def surest_decision(metadatas: Iterable[Mapping[str, Any]]) -> Decision | None:
    """The decision that `SearchResult.metadata` wrote on hits; None where it is on none of them.

    Where hits come from several queries, the one of the highest confidence counts.
    """
    known = [metadata for metadata in metadatas if "uec_decision" in metadata]
    if not known:
        return None
    surest = max(known, key=lambda metadata: float(metadata["uec_confidence"]))
    basis, _, hits = surest.get("uec_basis", "").partition("@")
    return Decision(
        surest["uec_decision"],
        surest["uec_reason"],
        tuple(surest["uec_candidates"]),
        float(surest["uec_confidence"]),
        float(surest.get("uec_in_corpus", 1.0)),
        surest.get("uec_unfamiliar", ""),
        basis,
        int(hits or 0),
    )


def joined(results: Sequence[SearchResult]) -> SearchResult:
    """One result of several blocks of queries, as wide as the widest."""
    if len(results) == 1:
        return results[0]
    width = max(result.scores.shape[1] for result in results)

    def stacked(name: str) -> FloatArray:
        return np.concatenate([getattr(result, name) for result in results])

    def of_hits(name: str) -> FloatArray:
        return np.concatenate([_widened(getattr(r, name), width, np.nan) for r in results])

    known = any(result.by_cutoff is not None for result in results)
    return SearchResult(
        queries=[query for result in results for query in result.queries],
        passages=[row for result in results for row in result.passages],
        scores=of_hits("scores"),
        mu=of_hits("mu"),
        sigma2=of_hits("sigma2"),
        relevance=of_hits("relevance"),
        coefficients=stacked("coefficients"),
        shares=stacked("shares"),
        confidence=stacked("confidence"),
        in_corpus=stacked("in_corpus"),
        ambiguous=[ambiguity for result in results for ambiguity in result.ambiguous],
        decisions=[decision for result in results for decision in result.decisions],
        exact=all(result.exact for result in results),
        names=results[0].names,
        by_cutoff=np.concatenate([_cutoffs(r, width) for r in results]) if known else None,
        unfamiliar=[told for result in results for told in result.unfamiliar],
        basis=results[0].basis,
        verified=all(result.verified for result in results if result.scores.size),
        members=_joined_members(results, width),
    )


def _widened(values: NDArray[_T], width: int, fill: float) -> NDArray[_T]:
    """An array with as many places at its last axis, filled behind its own."""
    room = [(0, 0)] * (values.ndim - 1) + [(0, width - values.shape[-1])]
    return np.pad(values, room, constant_values=fill)


def _cutoffs(result: SearchResult, width: int) -> FloatArray:
    """Confidence by cutoff; beyond the last hit that of all."""
    known = result.by_cutoff
    if known is None or not known.shape[1]:
        known = result.confidence[:, None]
    return np.pad(known, [(0, 0), (0, width - known.shape[1])], mode="edge")


def _joined_members(results: Sequence[SearchResult], width: int) -> Members | None:
    known = [r.members for r in results if r.members is not None]
    if not known or any(r.members is None and r.scores.size for r in results):
        return None
    fewest = min(len(part.names) for part in known)  # a verifier may have failed on a part
    first = known[0].among(fewest)
    parts = []
    for result in results:
        if result.members is not None:
            parts.append(result.members.among(fewest))
        else:  # nothing was found
            none = np.zeros((len(result), fewest, 0), dtype=np.float32)
            words = None if first.words is None else [list[list[str]]() for _ in result.queries]
            parts.append(Members(first.names, none, none.astype(np.int64), none, words))
    return Members(
        first.names,
        np.concatenate([_widened(part.similarities, width, np.nan) for part in parts]),
        np.concatenate([_widened(part.ranks, width, 0) for part in parts]),
        np.concatenate([_widened(part.counted, width, 0) for part in parts]),
        None if first.words is None else [row for part in parts for row in part.words or ()],
    )
