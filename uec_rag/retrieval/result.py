"""What a search gives back."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_k, one_line, visible
from uec_rag.base.gaussian import FloatArray
from uec_rag.base.spans import Value, retrieval
from uec_rag.confidence.decision import Ambiguity, Decision, decide
from uec_rag.stores.base import Passage

if TYPE_CHECKING:
    import pandas

_Record = TypeVar("_Record", "Members", "SearchResult")
_Values: TypeAlias = Any  # an array, or lists in lists

# Along which axes the values of a result and of its members lie: queries, members, hits, cutoffs.
_AXES = {
    **dict.fromkeys(("queries", "coefficients", "shares", "confidence", "in_corpus"), "q"),
    **dict.fromkeys(("ambiguous", "decisions", "unfamiliar"), "q"),
    **dict.fromkeys(("passages", "scores", "mu", "within", "between", "relevance"), "qh"),
    **dict.fromkeys(("members", "words", "copies"), "qh"),
    **dict.fromkeys(("similarities", "ranks", "counted"), "qmh"),
    "by_cutoff": "qc",
}


def _changed(record: _Record, change: Callable[[_Values, str], _Values]) -> _Record:
    """A record with every value along axes changed; None, and what is of no axis, stays."""
    known = {name: getattr(record, name, None) for name in _AXES}
    made = {name: change(v, _AXES[name]) for name, v in known.items() if v is not None}
    return replace(record, **made)


def _row(record: _Record, row: int, count: int) -> _Record:
    """What is of one query, and of its first `count` hits."""

    def one(values: _Values, axes: str) -> _Values:
        if isinstance(values, Members):
            return _row(values, row, count) if count else None
        part = values[row : row + 1]
        if axes[-1] not in "hc":
            return part
        return part[..., :count] if isinstance(part, np.ndarray) else [part[0][:count]]

    return _changed(record, one)


def taken(record: _Record, places: NDArray[np.intp]) -> _Record:
    """Some of each query's hits, of places (n, m), and as many cutoffs."""

    def some(values: _Values, axes: str) -> _Values:
        if isinstance(values, Members):
            return taken(values, places)
        if axes[-1] == "c":
            return values[:, : places.shape[1]]
        if axes[-1] != "h":
            return values
        if isinstance(values, np.ndarray):
            among = places.reshape(len(places), *[1] * (values.ndim - 2), places.shape[1])
            return np.take_along_axis(values, among, axis=-1)
        rows = zip(values, places.tolist(), strict=True)
        return [[hits[place] for place in chosen] for hits, chosen in rows]

    return _changed(record, some)


def _concatenated(records: Sequence[_Record], width: int) -> _Record:
    """Several records one after the other, as wide as the widest; the rest is as in the first."""
    joined: dict[str, _Values] = {}
    for name, axes in _AXES.items():
        values: list[_Values] = [getattr(record, name, None) for record in records]
        if isinstance(values[0], list):
            joined[name] = [row for rows in values for row in rows or ()]
        elif isinstance(values[0], np.ndarray):
            wide = values if axes[-1] != "h" else [_widened(v, width, name) for v in values]
            joined[name] = np.concatenate(wide)
    return replace(records[0], **joined)


def _widened(values: _Values, width: int, name: str) -> _Values:
    """An array with as many hits, of which what is behind its own stands for none."""
    room = [(0, 0)] * (values.ndim - 1) + [(0, width - values.shape[-1])]
    return np.pad(values, room, constant_values=0 if name in ("ranks", "counted") else np.nan)


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
    words : list of lists of k dict of str to float, or None
        Words of the query that a hit holds, and what each counts in its similarity, the most first;
        None without an encoder that looks for words.
    """

    names: tuple[str, ...]
    similarities: FloatArray
    ranks: NDArray[np.int64]
    counted: FloatArray
    words: list[list[dict[str, float]]] | None

    def among(self, count: int) -> Members:
        """The first `count` members alone."""
        return _changed(
            replace(self, names=self.names[:count]),
            lambda values, axes: values[:, :count] if "m" in axes else values,
        )

    def metadata(self, row: int, rank: int) -> dict[str, Any]:
        """What is written on a hit, in plain Python types."""
        positive = np.maximum(self.counted[row, :, rank], 0)
        shares = positive / max(float(positive.sum()), 1e-30)
        found: dict[str, Any] = {
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
            found["uec_matched_terms"] = [*self.words[row][rank]]
        return found


@dataclass(frozen=True, eq=False)
class SearchResult:
    """Hits of n queries, best first: k each, or as many passages as match.

    If another package's vector store finds fewer hits for one query than for another, the rest of
    its row is NaN.

    Attributes
    ----------
    queries : list of str
    ids : list of list of str
    passages : list of list of Passage
    scores : array, shape (n, k)
        s_hat, the uncertainty-aware score the hits are ordered by (paper eq. 6).
    mu : array, shape (n, k)
        Mean of the similarity.
    within, between : array, shape (n, k)
        The two parts of its variance `sigma2`: that of the members' posteriors (paper eq. 5), which
        is the part that lowers the score, and the members' disagreement (`Fitted.disagreement`).
    relevance : array, shape (n, k)
        P(this hit is relevant).
    coefficients : array, shape (n, K)
        pi_k, each encoder's coefficient in the query.
    shares : array, shape (n, K)
        Share of each encoder in the scores: ``pi_k w_k`` over their sum.
    confidence : array, shape (n,)
        P(the query is answered by its hits).
    in_corpus : array, shape (n,)
        P(the corpus answers the query, whether or not these hits do).
    ambiguous : list of Ambiguity or None
        Why a query is ambiguous, if it is.
    decisions : list of Decision
        At a threshold of one half; `decide` applies another.
    exact : bool
        True if no other passage can score higher.
    names : list of str
        The encoders' names, for `coefficients` and `shares`.
    judged : bool
        Whether the query's text was known: without it there is no relevance or confidence, nor in
        `metadata`.
    by_cutoff : array, shape (n, k), or None
        Confidence of the first 1, 2, ... k hits that the search found, if known.
    unfamiliar : list of str
        How each query differs from those that confidence was fitted on; "" if it does not.
    basis : str
        Fingerprint of what confidence depends on: calibration, share of unanswerable questions,
        filter. See `Gate`.
    size : int
        How many passages were searched; 0 if not known.
    members : Members or None
        Contribution of each encoder, and of the verifier, to the hits; None if not known.
    verified : bool
        False if the verifier failed on a query's hits under `on_error="drop"`.
    copies : list of list of list of str, or None
        Ids of other passages with each hit's text, if duplicates are merged.
    """

    queries: list[str]
    passages: list[list[Passage]]
    scores: FloatArray
    mu: FloatArray
    within: FloatArray
    between: FloatArray
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
    size: int = 0
    verified: bool = True
    copies: list[list[list[str]]] | None = None

    @property
    def ids(self) -> list[list[str]]:
        """Ids of the hits."""
        return [[passage.id for passage in row] for row in self.passages]

    @property
    def sigma2(self) -> FloatArray:
        """Variance of the similarity, shape (n, k): `within` and `between` together."""
        total: FloatArray = self.within + self.between
        return total

    def __len__(self) -> int:
        return len(self.queries)

    def each(self) -> list[SearchResult]:
        """The result of each query alone, as wide as it has hits."""
        return [_row(self, row, len(hits)) for row, hits in enumerate(self.passages)]

    def taking(self, places: Sequence[Sequence[int]]) -> SearchResult:
        """The same result with some of each query's hits, equally many, in the order given.

        Confidence is that of equally many best hits: choosing among more hits does not raise it. It
        is at most the sum of their relevance, and at least the highest.
        """
        count = len(places[0]) if len(places) else 0
        some = taken(self, np.asarray(places, dtype=np.intp).reshape(len(self), count))
        if some.by_cutoff is None or not count:
            return some
        sure = np.minimum(some.by_cutoff, np.nancumsum(some.relevance, axis=1))
        sure = np.fmax(sure, np.fmax.accumulate(some.relevance, axis=1))
        confidence = sure[:, -1]
        decisions = some.decided_on(confidence)
        return replace(some, by_cutoff=sure, confidence=confidence, decisions=decisions)

    def decide(self, threshold: float) -> list[Decision]:
        """Decide at another threshold of confidence; nothing is recomputed."""
        check_threshold(threshold)
        return self.decided_on(self.confidence, threshold)

    def decide_at(self, threshold: float, k: int) -> list[Decision]:
        """Decide on the confidence of the first k hits that the search found."""
        check_threshold(threshold)
        check_k(k)
        sure = self.confidence
        if self.by_cutoff is not None and k < self.by_cutoff.shape[1]:
            sure = self.by_cutoff[:, k - 1]
        return self.decided_on(sure, threshold)

    def decided_on(self, confidence: FloatArray, threshold: float = 0.5) -> list[Decision]:
        """Decide from another confidence, shape (n,)."""
        return decide(confidence, self.ambiguous, threshold, self.in_corpus, self.unfamiliar)

    def metadata(self, row: int, rank: int, details: bool = False) -> dict[str, Any]:
        """The metadata that every adapter adds to a hit: numbers and texts, for any store.

        Parameters
        ----------
        row, rank : int
            Which query, and which of its hits.
        details : bool
            Whether to add details of the score and the decision: `uec_mu`, `uec_within`,
            `uec_between`, `uec_members`, `uec_matched_terms`, `uec_coefficients`,
            `uec_candidates`, `uec_basis`, and `uec_unfamiliar` where the query is.
        """
        within, between = float(self.within[row, rank]), float(self.between[row, rank])
        found: dict[str, Any] = {
            "uec_score": float(self.scores[row, rank]),
            "uec_sigma2": within + between,
        }
        if self.copies is not None and self.copies[row][rank]:
            found["uec_copies"] = self.copies[row][rank]
        if details:
            mu = float(self.mu[row, rank])
            found |= {"uec_mu": mu, "uec_within": within, "uec_between": between}
        decision = self.decision(row)
        if decision is None:
            return found
        found |= {
            "uec_relevance": float(self.relevance[row, rank]),
            "uec_confidence": decision.confidence,
            "uec_in_corpus": decision.in_corpus,
            "uec_decision": decision.action,
            "uec_reason": decision.reason,
        }
        if not details:
            return found
        if self.members is not None:
            found |= self.members.metadata(row, rank)
        if decision.unfamiliar:
            found["uec_unfamiliar"] = decision.unfamiliar
        return found | {
            "uec_candidates": list(decision.candidates),
            "uec_basis": f"{decision.basis}@{decision.hits}/{decision.size}",
            "uec_coefficients": dict(zip(self.names, self.shares[row].tolist(), strict=True)),
        }

    def to_frame(self) -> pandas.DataFrame:
        """A row for each hit: query, rank, id, text, its own metadata, and `metadata`.

        Raises ImportError if pandas is not installed.
        """
        import pandas

        rows = []
        for row, hits in enumerate(self.passages):
            for rank, hit in enumerate(hits):
                known = {"query": self.queries[row], "rank": rank + 1, "id": hit.id}
                rows.append(known | {"text": hit.text} | hit.metadata | self.metadata(row, rank))
        return pandas.DataFrame(rows)

    def _repr_html_(self) -> str:
        """Decisions and hits, as notebooks show them: scores as bars, texts escaped and cut."""
        parts = []
        for row, hits in enumerate(self.passages[:_SHOWN]):
            decision = self.decision(row)
            said = "" if decision is None else f"<b>{decision.action}</b>: {_html(decision.reason)}"
            lines = []
            for rank, hit in enumerate(hits):
                score, off = float(self.scores[row, rank]), float(self.sigma2[row, rank]) ** 0.5
                bar = f"<progress max=1 value={max(score, 0):.3f}></progress>"
                sure = f"{self.relevance[row, rank]:.2f}" if decision is not None else ""
                cells = (str(rank + 1), f"{bar} {score:.3f} ±{2 * off:.3f}", sure, _html(hit.text))
                lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
            head = "<tr><th></th><th>score ±2σ</th><th>relevance</th><th></th></tr>"
            question = f"<p>{_html(self.queries[row])}<br>{said}</p>"
            parts.append(f"{question}<table>{head}{''.join(lines)}</table>")
        more = len(self.passages) - _SHOWN
        return "".join(parts) + (f"<p>{more} more questions</p>" if more > 0 else "")

    def traced(self, row: int) -> dict[str, Value]:
        """What a trace shows of one query and its hits; see `uec_rag.base.spans.retrieval`."""
        hits = [
            (passage.id, passage.text, float(score), passage.metadata, self.metadata(row, rank))
            for rank, (passage, score) in enumerate(
                zip(self.passages[row], self.scores[row], strict=False)
            )
        ]
        return retrieval(self.queries[row], self.scores.shape[1], hits)

    def decision(self, row: int) -> Decision | None:
        """The decision on one query, with what a gate needs; None if nothing was judged."""
        if not self.judged:
            return None
        hits = len(self.passages[row])
        return replace(self.decisions[row], basis=self.basis, hits=hits, size=self.size)


_SHOWN, _CUT = 20, 300  # questions, and characters of a text, in a notebook


def _html(text: str) -> str:
    return html.escape(visible(textwrap.shorten(text[: 4 * _CUT], _CUT, placeholder=" ...")))


def _known(value: np.float32) -> float | None:
    return None if np.isnan(value) else float(value)


def check_threshold(threshold: float) -> None:
    """Raise unless a threshold of confidence is a number, as infinity is."""
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.number):
        raise TypeError(f"threshold: expected a number, got {threshold!r:.60}.")
    if np.isnan(threshold):
        raise ValueError("threshold: expected a number, got NaN.")


KEY = "uec_"
"""What the keys begin with that are written into a hit's metadata: no passage has others' there."""


def own_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata without the keys that are ours: nobody else says what a search found."""
    return {key: value for key, value in metadata.items() if not key.startswith(KEY)}


def without_findings(passage: Passage) -> Passage:
    """A passage with its `own_metadata`, as all that is stored and all that is found has it."""
    if not any(key.startswith(KEY) for key in passage.metadata):
        return passage
    return replace(passage, metadata=own_metadata(passage.metadata))


class FoundMetadata(dict[str, Any]):
    """Metadata of a hit: a dict, equal to another hit's whatever two queries said of them.

    LangChain tells documents apart by all of their metadata, and its `MultiQueryRetriever` keeps of
    equal ones the first. A document that two queries find has other `uec_` values from each, and
    is still one document.

    Examples
    --------
    >>> FoundMetadata(page=1, uec_score=0.8) == FoundMetadata(page=1, uec_score=0.6)
    True
    >>> FoundMetadata(page=1, uec_score=0.8) == {"page": 1}
    False
    """

    decision: Decision | None = None
    """On the query that found it, with what has no key of its own; forgotten where a hit is
    written down."""

    @classmethod
    def of(
        cls,
        metadata: Mapping[str, Any],
        found: Mapping[str, Any],
        decision: Decision | None = None,
    ) -> Self:
        """Join what is stored beside a text and what is known of it as a hit."""
        joined = cls(own_metadata(metadata) | dict(found))
        joined.decision = decision
        return joined

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FoundMetadata):
            return own_metadata(self) == own_metadata(other)
        return dict(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None


def surest_decision(metadatas: Iterable[Mapping[str, Any]]) -> Decision | None:
    """The decision that `SearchResult.metadata` wrote on hits; None where it is on none of them.

    Where hits come from several queries, the one of the highest confidence counts. What stands in
    the metadata of other retrievers' documents counts only where no document is known to be a hit
    of ours (on the way through a file or another process that is forgotten).
    """
    given = list(metadatas)
    ours = [metadata for metadata in given if isinstance(metadata, FoundMetadata)]
    known = [found for metadata in ours or given if (found := _decision_in(metadata)) is not None]
    return max(known, key=lambda decision: decision.confidence, default=None)


def _decision_in(metadata: Mapping[str, Any]) -> Decision | None:
    """The decision on a hit, in one line and checked; None where there is no such."""
    action, reason = metadata.get("uec_decision"), metadata.get("uec_reason")
    sure, held = metadata.get("uec_confidence"), metadata.get("uec_in_corpus", 1.0)
    if (
        action not in ("answer", "clarify", "abstain")
        or not isinstance(reason, str)
        or not _is_share(sure)
        or not _is_share(held)
    ):
        return None
    decision = Decision(action, one_line(reason), (), float(sure), float(held))
    known = getattr(metadata, "decision", None)
    if isinstance(known, Decision):
        return replace(
            decision,
            candidates=known.candidates,
            unfamiliar=known.unfamiliar,
            basis=known.basis,
            hits=known.hits,
            size=known.size,
        )
    rivals, unfamiliar = metadata.get("uec_candidates", ()), metadata.get("uec_unfamiliar", "")
    if not isinstance(rivals, Sequence) or not isinstance(unfamiliar, str):
        return None
    basis, _, counts = str(metadata.get("uec_basis", "")).partition("@")
    hits, _, size = counts.partition("/")
    return replace(
        decision,
        candidates=tuple(map(str, rivals)),
        unfamiliar=one_line(unfamiliar),
        basis=basis,
        hits=int(hits) if hits.isdecimal() else 0,
        size=int(size) if size.isdecimal() else 0,
    )


def _is_share(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def joined(results: Sequence[SearchResult]) -> SearchResult:
    """One result of several blocks of queries, as wide as the widest."""
    if len(results) == 1:
        return results[0]
    width = max(result.scores.shape[1] for result in results)

    known = any(result.by_cutoff is not None for result in results)
    parts = [
        replace(result, by_cutoff=_cutoffs(result, width) if known else None, members=None)
        for result in results
    ]
    return replace(
        _concatenated(parts, width),
        exact=all(result.exact for result in results),
        size=max(result.size for result in results),  # 0 where nothing was found
        verified=all(result.verified for result in results if result.scores.size),
        members=_joined_members(results, width),
    )


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
            words = (
                None if first.words is None else [list[dict[str, float]]() for _ in result.queries]
            )
            parts.append(Members(first.names, none, none.astype(np.int64), none, words))
    return _concatenated(parts, width)
