"""The results of a search: one for each question, and all of them together."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeGuard

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_k, one_line, visible
from uec_rag.base.gaussian import FloatArray
from uec_rag.base.spans import Value, retrieval
from uec_rag.confidence.decision import NOTHING_FOUND, Decision, decide_again, with_note
from uec_rag.confidence.model import JUDGED
from uec_rag.confidence.readings import ASK, Reading
from uec_rag.stores.base import Found, Passage

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Members:
    """The contributions of each of K members to the k hits of a question.

    Attributes
    ----------
    names : tuple of K str
        The encoders', and at last a verifier's if there is one.
    similarities : array, shape (K, k)
        Each one's own: a cosine, BM25 from 0 to 1, or a verifier's score, NaN if it has not read
        the hit.
    ranks : int array, shape (K, k)
        Place among all passages by that similarity, or among those that a verifier has read, from
        1; 0 if it is not known.
    counted : array, shape (K, k)
        ``pi_k w_k s_k``: the summands of mu_s.
    words : list of k dict of str to float, or None
        Words of the question that a hit holds, and the similarity that each adds, the most first;
        None without an encoder that looks for words.
    """

    names: tuple[str, ...]
    similarities: FloatArray
    ranks: NDArray[np.int64]
    counted: FloatArray
    words: list[dict[str, float]] | None

    def taking(self, places: Sequence[int]) -> Members:
        """Return the contributions to some of the hits."""
        at = [*places]
        return Members(
            self.names,
            self.similarities[:, at],
            self.ranks[:, at],
            self.counted[:, at],
            None if self.words is None else [self.words[place] for place in at],
        )

    def metadata(self, rank: int) -> dict[str, Any]:
        """Return the keys written on a hit, in plain Python types."""
        positive = np.maximum(self.counted[:, rank], 0)
        shares = positive / max(float(positive.sum()), 1e-30)
        found: dict[str, Any] = {
            "uec_members": {
                name: {
                    "similarity": _known(self.similarities[k, rank]),
                    "rank": int(self.ranks[k, rank]) or None,
                    "share": float(shares[k]),
                }
                for k, name in enumerate(self.names)
            }
        }
        if self.words is not None:
            found["uec_matched_terms"] = [*self.words[rank]]
        return found


@dataclass(frozen=True, eq=False)
class Result:
    """The hits of one question, best first: k, or as many passages as match.

    Attributes
    ----------
    query : str
    passages : list of Passage
    scores : array, shape (k,)
        s_hat, the uncertainty-aware score the hits are ordered by (paper eq. 6).
    mu : array, shape (k,)
        Mean of the similarity.
    within, between : array, shape (k,)
        The two parts of its variance `sigma2`: that of the members' posteriors (paper eq. 5), which
        is the part that lowers the score, and the members' disagreement (`Fitted.disagreement`).
    relevance : array, shape (k,)
        P(this hit is relevant).
    coefficients : array, shape (K,)
        pi_k, each encoder's coefficient in the question.
    shares : array, shape (K,)
        Share of each encoder in the scores: ``pi_k w_k`` over their sum.
    by_cutoff : array, shape (m,)
        P(one of the first 1, 2, ... m hits answers the question), of as many hits as were judged.
    decision : Decision
        At a threshold of one half; `decide` applies another. It holds the confidence, P(one of the
        first `uec_rag.confidence.model.JUDGED` hits answers the question), and `in_corpus`, P(any
        passage of the corpus does).
    exact : bool
        True if no other passage can score higher.
    names : tuple of K str
        The encoders' names, for `coefficients` and `shares`.
    judged : bool
        Whether the question's text was known: without it there is no relevance or confidence, nor
        in `metadata`.
    members : Members or None
        Contribution of each encoder, and of the verifier, to the hits; None if not known.
    verified : bool
        False if the verifier failed under `on_error="drop"`.
    copies : list of list of str, or None
        Ids of other passages with each hit's text, if duplicates are merged.
    """

    query: str
    passages: list[Passage]
    scores: FloatArray
    mu: FloatArray
    within: FloatArray
    between: FloatArray
    relevance: FloatArray
    coefficients: FloatArray
    shares: FloatArray
    by_cutoff: FloatArray
    decision: Decision
    exact: bool
    names: tuple[str, ...]
    judged: bool = True
    members: Members | None = None
    verified: bool = True
    copies: list[list[str]] | None = None

    @classmethod
    def of_nothing(
        cls,
        query: str,
        coefficients: FloatArray,
        shares: FloatArray,
        names: tuple[str, ...],
        basis: str = "",
    ) -> Self:
        """Make the result of a question for which there is no passage."""
        none = np.zeros(0, dtype=np.float32)
        decision = Decision("abstain", NOTHING_FOUND, basis=basis, in_corpus=0.0)
        numbers = (none, none, none, none, none, coefficients, shares, none)
        return cls(query, [], *numbers, decision, exact=True, names=names)

    @classmethod
    def of_vector(
        cls, found: Found, coefficients: FloatArray, shares: FloatArray, names: tuple[str, ...]
    ) -> Self:
        """Make the result of a query vector: nothing is judged, relevance is the similarity.

        `found`: of one query.
        """
        mu = found.mu[0]
        relevance = np.clip(mu, 0, 1)
        best = float(relevance.max(initial=0.0))
        reason = "A vector does not tell how far to trust its hits: search with the text."
        return cls(
            "",
            [*map(without_findings, found.passages[0])],
            found.scores[0],
            mu,
            found.sigma2[0],
            np.zeros_like(mu),
            relevance,
            coefficients,
            shares,
            np.maximum.accumulate(relevance),
            Decision("answer", reason, (), best, best),
            exact=found.exact,
            names=names,
            judged=False,
        )

    @property
    def ids(self) -> list[str]:
        """The ids of the hits."""
        return [passage.id for passage in self.passages]

    @property
    def sigma2(self) -> FloatArray:
        """The variance of the similarity, shape (k,): `within` and `between` together."""
        total: FloatArray = self.within + self.between
        return total

    def taking(self, places: Sequence[int]) -> Result:
        """Return the result with some of the hits, in the order given.

        The confidence by cutoff is that of equally many best hits, at most the sum of the
        relevance of those taken, and at least the highest: choosing does not raise it. The decision
        is on the first `JUDGED` of them: take as many, and then the `first` k.
        """
        taken = self._at(places)
        if not taken.passages or not self.judged:
            return taken
        sure = np.minimum(self.by_cutoff[: len(places)], np.cumsum(taken.relevance))
        taken = replace(taken, by_cutoff=np.maximum(sure, np.maximum.accumulate(taken.relevance)))
        judged = float(taken.by_cutoff[min(JUDGED, len(places)) - 1])
        confidence = max(judged, float(taken.relevance.max()))
        known = self.decision
        if confidence == known.confidence:
            return taken
        return replace(taken, decision=replace(known, confidence=confidence)).deciding(0.5)

    def first(self, k: int) -> Result:
        """Return the result with the first k hits: confidence and decision stay."""
        return self if k >= len(self.passages) else self._at(range(k))

    def _at(self, places: Sequence[int]) -> Result:
        at = [*places]
        return replace(
            self,
            passages=[self.passages[place] for place in at],
            scores=self.scores[at],
            mu=self.mu[at],
            within=self.within[at],
            between=self.between[at],
            relevance=self.relevance[at],
            members=None if self.members is None else self.members.taking(at),
            copies=None if self.copies is None else [self.copies[place] for place in at],
        )

    def asked_as(self, query: str) -> Result:
        """Return the result under the question as asked, before its spelling was corrected."""
        if query == self.query:
            return self
        note = f"it was read as {visible(self.query)!r}"
        return replace(self, query=query, decision=with_note(self.decision, note))

    @property
    def settled(self) -> Result:
        """The result of a question that is not asked back about."""
        clear = replace(self.decision, underspecified=0.0, readings=())
        return replace(self, decision=clear).deciding(self.decision.threshold)

    def deciding(self, threshold: float) -> Result:
        """Return the result with the decision at a threshold."""
        return replace(self, decision=self.decide(threshold))

    def decide(self, threshold: float, k: int | None = None, ask: float = ASK) -> Decision:
        """Decide at another threshold of confidence; nothing is recomputed.

        `k`: on the confidence in the first k hits, instead of `JUDGED`. `ask`: P(underspecified)
        from which on to ask back.
        """
        check_threshold(threshold)
        sure = self.confidence_at(k)
        return decide_again(replace(self.decision, confidence=sure), threshold, ask)

    def confidence_at(self, k: int | None = None) -> float:
        """Return P(one of the first k hits answers the question), by default of `JUDGED`."""
        if k is None:
            return self.decision.confidence
        check_k(k)
        if not self.passages:
            return self.decision.confidence
        return float(self.by_cutoff[min(k, len(self.by_cutoff)) - 1])

    def metadata(self, rank: int, details: bool = False) -> dict[str, Any]:
        """Return the metadata that every adapter adds to a hit: numbers and texts, for any store.

        Parameters
        ----------
        rank : int
            Which of the hits, from 0.
        details : bool
            Whether to add details of the score and the decision: `uec_mu`, `uec_within`,
            `uec_between`, `uec_members`, `uec_matched_terms`, `uec_coefficients`,
            `uec_readings`, `uec_basis`, and `uec_unfamiliar` if the question is.
        """
        within, between = float(self.within[rank]), float(self.between[rank])
        found: dict[str, Any] = {
            "uec_score": float(self.scores[rank]),
            "uec_sigma2": within + between,
        }
        if self.copies is not None and self.copies[rank]:
            found["uec_copies"] = self.copies[rank]
        if details:
            found |= {"uec_mu": float(self.mu[rank]), "uec_within": within, "uec_between": between}
        if not self.judged:
            return found
        decision = self.decision
        found |= {
            "uec_relevance": float(self.relevance[rank]),
            "uec_confidence": decision.confidence,
            "uec_in_corpus": decision.in_corpus,
            "uec_underspecified": decision.underspecified,
            "uec_decision": decision.action,
            "uec_reason": decision.reason,
        }
        if decision.action == "clarify":
            hit = self.passages[rank].id
            labels = [reading.label for reading in decision.readings if hit in reading.ids]
            found["uec_reading"] = labels[0] if labels else ""
        if not details:
            return found
        if self.members is not None:
            found |= self.members.metadata(rank)
        if decision.unfamiliar:
            found["uec_unfamiliar"] = decision.unfamiliar
        return found | {
            "uec_readings": [asdict(reading) for reading in decision.readings],
            "uec_basis": f"{decision.basis}@{decision.hits}/{decision.size}",
            "uec_coefficients": dict(zip(self.names, self.shares.tolist(), strict=True)),
        }

    def traced(self) -> dict[str, Value]:
        """Return the attributes of a trace, see `uec_rag.base.spans.retrieval`."""
        hits = [
            (passage.id, passage.text, float(self.scores[rank]), passage.metadata, found)
            for rank, passage in enumerate(self.passages)
            for found in [self.metadata(rank)]
        ]
        return retrieval(self.query, len(self.passages), hits)


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The results of n questions.

    Iterating gives each question's `Result`; the properties are those of all of them: lists, or
    arrays with a row for each question. If one has fewer hits than another, the rest of its row is
    NaN.

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

    @property
    def queries(self) -> list[str]:
        """The questions."""
        return [one.query for one in self.results]

    @property
    def passages(self) -> list[list[Passage]]:
        """The hits, best first."""
        return [one.passages for one in self.results]

    @property
    def ids(self) -> list[list[str]]:
        """The ids of the hits."""
        return [one.ids for one in self.results]

    @property
    def scores(self) -> FloatArray:
        """s_hat, the uncertainty-aware score the hits are ordered by (paper eq. 6), (n, k)."""
        return _stacked([one.scores for one in self.results])

    @property
    def mu(self) -> FloatArray:
        """The mean of the similarity, shape (n, k)."""
        return _stacked([one.mu for one in self.results])

    @property
    def within(self) -> FloatArray:
        """The variance of the similarity by the members' posteriors (paper eq. 5), shape (n, k)."""
        return _stacked([one.within for one in self.results])

    @property
    def between(self) -> FloatArray:
        """The variance of the similarity by the members' disagreement, shape (n, k)."""
        return _stacked([one.between for one in self.results])

    @property
    def sigma2(self) -> FloatArray:
        """The variance of the similarity, shape (n, k): `within` and `between` together."""
        return _stacked([one.sigma2 for one in self.results])

    @property
    def relevance(self) -> FloatArray:
        """P(this hit is relevant), shape (n, k)."""
        return _stacked([one.relevance for one in self.results])

    @property
    def by_cutoff(self) -> FloatArray:
        """P(one of the first 1, 2, ... m hits answers the question), shape (n, m)."""
        return _stacked([one.by_cutoff for one in self.results])

    @property
    def coefficients(self) -> FloatArray:
        """pi_k, each encoder's coefficient in the question, shape (n, K)."""
        return _stacked([one.coefficients for one in self.results])

    @property
    def shares(self) -> FloatArray:
        """The share of each encoder in the scores, shape (n, K)."""
        return _stacked([one.shares for one in self.results])

    @property
    def confidence(self) -> FloatArray:
        """P(the question is answered by its first `JUDGED` hits), shape (n,)."""
        return np.array([one.decision.confidence for one in self.results], dtype=np.float32)

    @property
    def in_corpus(self) -> FloatArray:
        """P(the corpus answers the question, whether or not these hits do), shape (n,)."""
        return np.array([one.decision.in_corpus for one in self.results], dtype=np.float32)

    @property
    def decisions(self) -> list[Decision]:
        """The decisions at a threshold of one half, or a gate's; `decide` applies another one."""
        return [one.decision for one in self.results]

    @property
    def unfamiliar(self) -> list[str]:
        """The difference of each question from those confidence was fitted on; "" if none."""
        return [one.decision.unfamiliar for one in self.results]

    @property
    def exact(self) -> bool:
        """True if no other passage can score higher, for any question."""
        return all(one.exact for one in self.results)

    @property
    def verified(self) -> bool:
        """False if the verifier failed on a question's hits under `on_error="drop"`."""
        return all(one.verified for one in self.results)

    @property
    def names(self) -> list[str]:
        """The encoders' names, for `coefficients` and `shares`."""
        return [*self.results[0].names] if self.results else []

    @property
    def basis(self) -> str:
        """The fingerprint of everything that confidence depends on; see `Gate`.

        If the verifier failed on some of the questions, that of these.
        """
        known = [one for one in self.results if not one.verified] or self.results
        return known[0].decision.basis if known else ""

    @property
    def size(self) -> int:
        """The number of passages that were searched; 0 if not known."""
        return max((one.decision.size for one in self.results), default=0)

    def decide(self, threshold: float, k: int | None = None, ask: float = ASK) -> list[Decision]:
        """Decide at another threshold of confidence; nothing is recomputed.

        `k`, `ask`: as in `Result.decide`.
        """
        check_threshold(threshold)
        return [one.decide(threshold, k, ask) for one in self.results]

    def asked_as(self, queries: Sequence[str]) -> SearchResult:
        """Return the results under the questions as they were asked: see `Result.asked_as`."""
        return SearchResult([one.asked_as(query) for one, query in zip(self, queries, strict=True)])

    def deciding(self, decisions: Sequence[Decision]) -> SearchResult:
        """Return the results with other decisions, such as a gate's."""
        pairs = zip(self.results, decisions, strict=True)
        return SearchResult([replace(one, decision=decision) for one, decision in pairs])

    def first(self, k: int) -> SearchResult:
        """Return the results with the first k hits of each question."""
        return SearchResult([one.first(k) for one in self.results])

    def to_frame(self) -> pandas.DataFrame:
        """Return a row for each hit: query, rank, id, text, its own metadata, and `metadata`.

        Raises ImportError if pandas is not installed.
        """
        import pandas

        rows = []
        for one in self.results:
            for rank, hit in enumerate(one.passages):
                known = {"query": one.query, "rank": rank + 1, "id": hit.id}
                rows.append(known | {"text": hit.text} | hit.metadata | one.metadata(rank))
        return pandas.DataFrame(rows)

    def _repr_html_(self) -> str:
        """Render decisions and hits for notebooks: scores as bars, texts escaped and cut."""
        parts = []
        for one in self.results[:_SHOWN]:
            decision, lines = one.decision, []
            said = f"<b>{decision.action}</b>: {_html(decision.reason)}" if one.judged else ""
            said += f"<br><small>{decision.figures}</small>" if one.judged else ""
            for rank, hit in enumerate(one.passages):
                score, off = float(one.scores[rank]), float(one.sigma2[rank]) ** 0.5
                bar = f"<progress max=1 value={max(score, 0):.3f}></progress>"
                sure = f"{one.relevance[rank]:.2f}" if one.judged else ""
                cells = (str(rank + 1), f"{bar} {score:.3f} ±{2 * off:.3f}", sure, _html(hit.text))
                lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
            head = "<tr><th></th><th>score ±2σ</th><th>relevance</th><th></th></tr>"
            question = f"<p>{_html(one.query)}<br>{said}</p>"
            parts.append(f"{question}<table>{head}{''.join(lines)}</table>")
        more = len(self) - _SHOWN
        return "".join(parts) + (f"<p>{more} more questions</p>" if more > 0 else "")


def _stacked(rows: Sequence[FloatArray]) -> FloatArray:
    """Stack arrays of n questions as rows of one; shorter ones are filled up with NaN."""
    width = max(map(len, rows), default=0)
    out = np.full((len(rows), width), np.nan, dtype=np.float32)
    for place, row in zip(out, rows, strict=True):
        place[: len(row)] = row
    return out


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
"""The prefix of the keys that are written into a hit's metadata; passages may not use it."""


def own_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata without the keys that only a search writes."""
    return {key: value for key, value in metadata.items() if not key.startswith(KEY)}


def without_findings(passage: Passage) -> Passage:
    """Return a passage with its `own_metadata` alone, as it is stored and found."""
    own = own_metadata(passage.metadata)
    return passage if len(own) == len(passage.metadata) else replace(passage, metadata=own)


class FoundMetadata(dict[str, Any]):
    """The metadata of a hit: a dict that compares equal whatever a search wrote into it.

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
    """On the query that found it, with what has no key of its own; forgotten if a hit is
    written down."""

    @classmethod
    def of(
        cls,
        metadata: Mapping[str, Any],
        found: Mapping[str, Any],
        decision: Decision | None = None,
    ) -> Self:
        """Join a passage's stored metadata and those of a hit."""
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
    """Read the decision that `Result.metadata` wrote on hits; None if it is on none.

    If hits come from several queries, the one of the highest confidence counts. What stands in
    the metadata of other retrievers' documents counts only if no document is known to be a hit
    of ours (on the way through a file or another process that is forgotten).
    """
    given = list(metadatas)
    ours = [metadata for metadata in given if isinstance(metadata, FoundMetadata)]
    known = [found for metadata in ours or given if (found := _decision_in(metadata)) is not None]
    return max(known, key=lambda decision: decision.confidence, default=None)


def _decision_in(metadata: Mapping[str, Any]) -> Decision | None:
    """Read and check the decision on a hit; None if there is none."""
    action, reason = metadata.get("uec_decision"), metadata.get("uec_reason")
    sure, held = metadata.get("uec_confidence"), metadata.get("uec_in_corpus", 1.0)
    if (
        action not in ("answer", "clarify", "abstain")
        or not isinstance(reason, str)
        or not _is_share(sure)
        or not _is_share(held)
    ):
        return None
    unsaid = metadata.get("uec_underspecified", 0.0)
    if not _is_share(unsaid):
        return None
    decision = Decision(action, one_line(reason), (), float(sure), float(held), float(unsaid))
    known = getattr(metadata, "decision", None)
    if isinstance(known, Decision):
        return replace(
            known,
            action=decision.action,
            reason=decision.reason,
            confidence=decision.confidence,
            in_corpus=decision.in_corpus,
            underspecified=decision.underspecified,
        )
    unfamiliar, saved = metadata.get("uec_unfamiliar", ""), metadata.get("uec_readings", ())
    if not isinstance(unfamiliar, str):
        return None
    try:
        meant = tuple(
            Reading(one_line(one["label"]), tuple(map(str, one["ids"])), float(one["probability"]))
            for one in saved
        )
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
    basis, _, counts = str(metadata.get("uec_basis", "")).partition("@")
    hits, _, size = counts.partition("/")
    return replace(
        decision,
        readings=meant,
        unfamiliar=one_line(unfamiliar),
        basis=basis,
        hits=int(hits) if hits.isdecimal() else 0,
        size=int(size) if size.isdecimal() else 0,
    )


def _is_share(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
