"""One search: similarities to the corpus, coefficients, hits, and what to make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Self

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray, Gaussian, Terms, probit
from uec_rag.base.sums import Digest, SoftmaxSums, weighted_sum
from uec_rag.confidence.model import ConfidenceModel, CorpusSummary
from uec_rag.encoders.lexical import whole_share
from uec_rag.ensemble.coefficients import Uniform
from uec_rag.ensemble.convolution import block_scales, blocks
from uec_rag.ensemble.evidence import EvidenceWeights, Rest, SimilaritySummary
from uec_rag.ensemble.fitted import Fitted, without_silent
from uec_rag.ensemble.verifier import Verification
from uec_rag.retrieval.result import Members
from uec_rag.stores.base import Found, Passage, Store

_id = attrgetter("id")

_BLOCK = 2**26  # similarities held at a time, over queries, passages and encoders
_CANDIDATES = 256  # of an approximate search, that stand for what is near a query
_SAMPLE = 4096  # passages that stand for the corpus
_UNRELATED = 64  # passages that are compared with one another
_SAME = 0.999  # cosines above it are of one text twice
_USUAL_PAIRS, _USUAL_MEAN, _USUAL_DEVIATION = 2, 0.2, 0.1


@dataclass(frozen=True, eq=False)
class Asked:
    """What n queries and a corpus of N passages say of each other.

    Attributes
    ----------
    parts : sequence of Gaussian
        Each encoder's Gaussians of the queries.
    summaries : sequence of K SimilaritySummary, or None
        Of each encoder's own similarities to the corpus; None where the coefficients do not need
        them.
    coefficients : array, shape (n, K)
    query : Gaussian
        The ensemble's.
    similarities : array, shape (n, N) or (n, C)
        The ensemble's mu_s to the whole corpus, or to candidates.
    rest : Rest or None
        What is known of the corpus where `similarities` are those of candidates.
    """

    parts: Sequence[Gaussian]
    summaries: Sequence[SimilaritySummary] | None
    coefficients: FloatArray
    query: Gaussian
    similarities: FloatArray
    rest: Rest | None = None

    def sums(self, slope: float) -> SoftmaxSums:
        """Sums of the softmax of ``slope * mu_s`` over the corpus."""
        if self.rest is None:
            return Digest.of(self.similarities).softmax(slope)
        return self.rest.sums(self.similarities, slope)


def ids_of(passages: Sequence[Sequence[Passage]]) -> list[list[str]]:
    """The ids of each query's hits."""
    return [[*map(_id, row)] for row in passages]


def queries_at_once(passages: int, encoders: int) -> int:
    """How many queries to ask at a time, so that their similarities take bounded memory."""
    return max(1, _BLOCK // max(1, passages * (encoders + 1)))


def ask(
    fitted: Fitted, weights: EvidenceWeights | None, store: Store, parts: Sequence[Gaussian]
) -> Asked:
    """Compare encoded queries with everything in a store.

    With evidence weights the encoders' own similarities come first, which costs what one search
    does, and the ensemble's are their weighted sum.

    `parts`: each encoder's Gaussians of the queries.
    """
    if weights is None or not len(store):
        return _ask_without_evidence(fitted, store, parts)
    own = own_similarities(fitted, store, parts)
    summaries = list(map(SimilaritySummary.of, own, fitted.slopes))
    pi = fitted.weigh(weights, parts, summaries)
    fused = weighted_sum(own, pi * fitted.weights, out=own[0])
    return Asked(parts, summaries, pi, fitted.combine(parts, pi), fused)


def _ask_without_evidence(fitted: Fitted, store: Store, parts: Sequence[Gaussian]) -> Asked:
    """`ask` where all that coefficients take from the corpus is who knows no word of a query."""
    pi = fitted.coefficients(parts, "query")
    words = _words_everywhere(fitted, store, parts)
    if words and len(store):
        pi = without_silent(pi, _known(words, pi))
    query = fitted.combine(parts, pi)
    fused = store.similarities([query.mean])[0]
    for member, similarities in words.items():
        fused += (pi[:, member] * fitted.weights[member])[:, None] * similarities
    return Asked(parts, None, pi, query, fused)


def _words_everywhere(
    fitted: Fitted, store: Store, parts: Sequence[Gaussian]
) -> dict[int, FloatArray]:
    """Similarities to the corpus, shape (n, N), of the encoders without vectors."""
    own = _own_blocks(fitted, parts)
    words = {i: block for i, block in enumerate(own) if isinstance(block, Terms)}
    return dict(zip(words, store.similarities([*words.values()]), strict=True))


def _known(words: Mapping[int, FloatArray], pi: FloatArray) -> NDArray[np.bool_]:
    """Which encoder finds anything at all, shape (n, K); those with vectors always do."""
    known = np.ones(pi.shape, dtype=bool)
    for member, similarities in words.items():
        known[:, member] = similarities.max(axis=1, initial=0.0) > 0
    return known


def ask_nearest(
    fitted: Fitted, weights: EvidenceWeights | None, store: Store, parts: Sequence[Gaussian]
) -> Asked:
    """`ask` of a store that searches approximately: candidates and a sample stand for the corpus.

    With evidence weights the candidates are those of uniform coefficients. The sample's mean and
    deviation tell what the passages that are no candidates add to a softmax.
    """
    plain = fitted.coefficients(parts, "query") if weights is None else Uniform()(parts)
    query, size = fitted.combine(parts, plain), len(store)
    if not size or not len(query):
        return ask(fitted, weights, store, parts)
    sample = store.sample(_SAMPLE).mean
    if weights is None and not query.terms:
        [mu] = store.similarities_near(query, _CANDIDATES, [query.mean])
        return Asked(parts, None, plain, query, mu, Rest.of(query.mean @ sample.T, size))
    own = _own_blocks(fitted, parts)
    at = store.similarities_near(query, _CANDIDATES, own)
    # Where passages are at hand the words of all cost little.
    words = {} if store.remote else _words_everywhere(fitted, store, parts)
    sampled = _of_sample(store, own, sample)
    if weights is None:
        found = words or {i: at[i] for i, part in enumerate(parts) if part.terms}
        summaries, pi = None, without_silent(plain, _known(found, plain))
    else:
        summaries = [
            SimilaritySummary.of(words[i], slope)
            if i in words
            else SimilaritySummary.of_candidates(s, Rest.of(sampled[i], size), slope)
            for i, (s, slope) in enumerate(zip(at, fitted.slopes, strict=True))
        ]
        pi = fitted.weigh(weights, parts, summaries)
    query = fitted.combine(parts, pi)
    counted = pi * fitted.weights
    return Asked(
        parts,
        summaries,
        pi,
        query,
        weighted_sum(store.similarities_near(query, _CANDIDATES, own), counted),
        Rest.of(weighted_sum(sampled, counted), size),
    )


def _of_sample(
    store: Store, own: Sequence[FloatArray | Terms], sample: FloatArray
) -> list[FloatArray]:
    """Each encoder's similarities of n queries to the m passages of a sample, shape (n, m)."""
    terms = [block for block in own if isinstance(block, Terms)]
    by_terms, start, out = iter(store.sampled(terms, _SAMPLE) if terms else ()), 0, []
    for block in own:
        if isinstance(block, Terms):
            out.append(next(by_terms))
        else:
            stop = start + block.shape[1]
            out.append(block @ sample[:, start:stop].T)
            start = stop
    return out


def own_similarities(fitted: Fitted, store: Store, parts: Sequence[Gaussian]) -> list[FloatArray]:
    """Each encoder's similarities of the queries to the corpus of a direct sum, shape (n, N)."""
    return store.similarities(_own_blocks(fitted, parts))


def terms_at(
    fitted: Fitted, store: Store, parts: Sequence[Gaussian], ids: Sequence[Sequence[str]]
) -> list[list[FloatArray]]:
    """What each term adds to the similarities of the encoders without vectors."""
    terms = [block for block in _own_blocks(fitted, parts) if isinstance(block, Terms)]
    return store.contributions(terms, ids) if terms else []


def own_at(
    fitted: Fitted,
    store: Store,
    parts: Sequence[Gaussian],
    ids: Sequence[Sequence[str]],
    added: list[list[FloatArray]],
) -> list[FloatArray]:
    """Each encoder's similarities of n queries to c passages of each, shape (n, c).

    `added` is what each term adds, of `terms_at`.
    """
    means = store.vectors([*chain.from_iterable(ids)]).mean
    dense = blocks(
        means.reshape(len(ids), len(means) // len(ids), means.shape[1]),
        [part.dimension for part in parts],
        fitted.weights,
    )
    by_terms = iter(added)
    own: list[FloatArray] = []
    for part, block in zip(parts, dense, strict=True):
        if part.terms:
            own.append(np.stack([columns.sum(axis=1) for columns in next(by_terms)]))
        else:
            own.append(np.einsum("nd,ncd->nc", part.mean, block))
    return own


def _own_blocks(fitted: Fitted, parts: Sequence[Gaussian]) -> list[FloatArray | Terms]:
    """Queries whose products with the stored blocks of a direct sum are each encoder's own."""
    # Rather the queries are scaled than their similarities to everything.
    own: list[FloatArray | Terms] = []
    for part, scale in zip(parts, block_scales(fitted.weights), strict=True):
        own.append(part.terms[0].scaled(1 / scale) if part.terms else part.mean / scale)
    return own


@dataclass(frozen=True, eq=False)
class Scale:
    """From the ensemble's similarities to logits, ``slope * mu_s + offset``.

    Attributes
    ----------
    offset : array, shape (n,)
        Of each query.
    """

    slope: float
    offset: FloatArray

    @classmethod
    def of(cls, fitted: Fitted, model: ConfidenceModel, store: Store, asked: Asked) -> Self:
        """What a model's logits are: the fitted ones, or standardised similarities.

        `store`: what is searched.
        """
        pi = asked.coefficients
        if not model.standardised:
            return cls(fitted.slope, fitted.logits(np.zeros((len(pi), 1), np.float32), pi)[:, 0])
        mean, deviation = unrelated(
            store, sum(bool(part.terms) for part in asked.parts) / len(asked.parts)
        )
        return cls(1 / deviation, np.full(len(pi), -mean / deviation, dtype=np.float32))

    def logits(self, mu: FloatArray) -> FloatArray:
        """Logits of similarities, shape (n, m) as `mu`."""
        return np.float32(self.slope) * mu + self.offset[:, None]

    def variance(self, sigma2: FloatArray) -> FloatArray:
        """Variance of the logits."""
        return np.float32(self.slope) ** 2 * sigma2

    def summary(self, sums: SoftmaxSums, temperature: float) -> CorpusSummary:
        """What the logits say over a corpus, of sums at ``slope / temperature``."""
        return CorpusSummary.of(sums).shifted(self.offset / np.float32(temperature))


def unrelated(store: Store, words: float = 0.0) -> tuple[float, float]:
    """Mean and deviation of the similarity of passages of a corpus to one another.

    What encoders that were never fitted make of texts with nothing but a corpus in common: a
    passage that answers stands out from it. A few pairs of a usual encoder count as seen before;
    words are taken to have nothing in common.

    `words`: share of the encoders that look at words.
    """
    mean = store.sample(_UNRELATED).mean[: 2 * _UNRELATED]
    unit = mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), np.float32(1e-12))
    cosine = (unit @ unit.T)[np.triu_indices(len(unit), 1)]
    cosine = cosine[cosine < _SAME]
    count = len(cosine) + _USUAL_PAIRS
    centre = (cosine.sum() + _USUAL_PAIRS * _USUAL_MEAN) / count
    square = ((cosine - centre) ** 2).sum() + _USUAL_PAIRS * _USUAL_DEVIATION**2
    deviation = np.sqrt(square / count)
    return float(centre * (1 - words)), float(deviation * max(1 - words, 0.5))


def members_at(fitted: Fitted, store: Store, asked: Asked, found: Found) -> Members | None:
    """What each encoder has to do with the hits; None where a shared space does not keep it."""
    count, k = found.mu.shape
    if fitted.space == "shared" or not k or not count:
        return None
    ids = ids_of(found.passages)
    added = terms_at(fitted, store, asked.parts, ids)
    if len(asked.parts) == 1 and not added:
        own = found.mu[:, None]
    else:
        own = np.stack(own_at(fitted, store, asked.parts, ids, added), axis=1)
    ranks = np.zeros(own.shape, dtype=np.int64)
    for member, summary in enumerate(asked.summaries or ()):
        ranks[:, member] = summary.ranks(own[:, member])
    counted = (asked.coefficients * fitted.weights)[:, :, None] * own
    return Members(fitted.names, own, ranks, counted, matched(asked.parts, ids, added))


def first_evidence(
    parts: Sequence[Gaussian],
    own: FloatArray,
    words: list[list[dict[str, float]]] | None,
    hits: Sequence[Sequence[Passage]],
) -> FloatArray:
    """Each encoder's similarity of the first hit, shape (n, K), as evidence of an answer.

    What orders passages may rest on stems and on parts of words; whether there is an answer at all
    rests on whole words, see `whole_share`.

    `own`: array, shape (n, K). `words`: what each word counts in each query's hits.
    """
    counted = [bool(part.terms) and part.terms[0].saturation is not None for part in parts]
    if words is None or not any(counted):
        return own
    shares = [
        whole_share(row[0], passages[0].text) if row else 1.0
        for row, passages in zip(words, hits, strict=True)
    ]
    return np.where(counted, own * np.array(shares, np.float32)[:, None], own)


def matched(
    parts: Sequence[Gaussian], ids: Sequence[Sequence[str]], added: list[list[FloatArray]]
) -> list[list[dict[str, float]]] | None:
    """What each word of each query counts in each hit, those that count most first."""
    terms = [block for part in parts for block in part.terms]
    if not terms:
        return None
    words: list[list[dict[str, float]]] = [[{} for _ in row] for row in ids]
    for block, of_block in zip(terms, added, strict=True):
        for i, columns in enumerate(of_block):
            keys = block.keys[block.starts[i] : block.starts[i + 1]].tolist()
            labels = {} if block.labels is None else block.labels[i]
            for rank, term in np.argwhere(columns > 0).tolist():
                if keys[term] in labels:
                    words[i][rank][labels[keys[term]]] = float(columns[rank, term])
    return [
        [dict(sorted(hit.items(), key=itemgetter(1), reverse=True)) for hit in row] for row in words
    ]


@dataclass(frozen=True, eq=False)
class Reread:
    """Hits of which a verifier has read the first v texts, wherever they stand.

    Attributes
    ----------
    found : Found
        All m hits, those that were read ordered anew, the others after them as they were.
    before : array, shape (n, m)
        Their similarities without the verifier.
    name : str
        The verifier's.
    floor : array, shape (n,)
        Logits that every passage has: what the worst that was read has.
    scores, ranks : array, shape (n, m)
        The verifier's own, and places by them; NaN and 0 where it has not read the hit.
    """

    found: Found
    before: FloatArray
    name: str
    floor: FloatArray
    scores: FloatArray
    ranks: NDArray[np.int64]

    def scale(self, scale: Scale) -> Scale:
        """The scale of logits, where every passage has what the worst that was read has."""
        return replace(scale, offset=scale.offset + self.floor)

    def sums(self, sums: SoftmaxSums, slope: float) -> SoftmaxSums:
        """Sums over a corpus, at a slope, with the new similarities of what was read."""
        read = slice(0, int(np.isfinite(self.scores).sum(axis=1).max()))
        old, new = self.before[:, read], self.found.mu[:, read]
        return sums.replacing(np.float32(slope) * old, np.float32(slope) * new)

    def members(self, members: Members | None) -> Members | None:
        """Who found the first k hits, the verifier among them."""
        if members is None:
            return None
        hits = slice(0, members.ranks.shape[2])
        gain = (self.found.mu - self.before)[:, None, hits]
        return Members(
            (*members.names, self.name),
            np.concatenate([members.similarities, self.scores[:, None, hits]], axis=1),
            np.concatenate([members.ranks, self.ranks[:, None, hits]], axis=1),
            np.concatenate([members.counted, gain], axis=1),
            members.words,
        )


@dataclass(frozen=True, eq=False)
class Reading:
    """Who reads the first hits of some queries."""

    verification: Verification | None
    queries: Sequence[str]

    def fetched(self, k: int) -> int:
        """How many hits to search for where k are wanted."""
        return k if self.verification is None else max(k, self.verification.fitted.k)

    def reread(
        self, fitted: Fitted, found: Found, hidden: NDArray[np.bool_] | None = None
    ) -> Reread | None:
        """Have the first texts read; None where nobody reads, nothing was found, or it failed.

        What is said of a text holds for every hit that has it. None of those that were read falls
        behind the others: its score is at least that of the last of them before.

        `found`: m hits. `hidden`, array of bool, shape (n, m): hits that count as not read.
        """
        if self.verification is None or not found.mu.size:
            return None
        of_text = _first_of_text(found)
        again = of_text < np.arange(of_text.shape[1])
        first = np.argsort(again, axis=1, kind="stable")[:, : self.verification.fitted.k]
        texts = [
            [row[place].text for place in places]
            for row, places in zip(found.passages, first.tolist(), strict=True)
        ]
        verified = self.verification.verify(
            self.queries,
            texts,
            None if hidden is None else np.take_along_axis(hidden, first, axis=1),
        )
        if verified is None:
            return None
        place = np.take_along_axis(np.cumsum(~again, axis=1) - 1, of_text, axis=1)
        read = place < first.shape[1]
        place = np.where(read, place, 0)
        mu = found.mu + np.take_along_axis(verified.gain, place, axis=1) * read / np.float32(
            fitted.slope
        )
        last = np.take_along_axis(found.scores, first, axis=1).min(axis=1, keepdims=True)
        scores: FloatArray = np.where(
            read, np.maximum(probit(mu, found.sigma2, fitted.beta), last), found.scores
        )
        own: FloatArray = np.where(
            read, np.take_along_axis(verified.scores, place, axis=1), np.float32(np.nan)
        )
        ranks = np.take_along_axis(verified.ranks(), place, axis=1) * read
        order = np.argsort(np.where(read, -scores, np.inf), axis=1, kind="stable")
        scores, mu, sigma2, before, own, ranks = (
            np.take_along_axis(values, order, axis=1)
            for values in (scores, mu, found.sigma2, found.mu, own, ranks)
        )
        passages = [
            [row[place] for place in places]
            for row, places in zip(found.passages, order.tolist(), strict=True)
        ]
        moved = Found(passages, scores, mu, sigma2, found.exact)
        return Reread(moved, before, self.verification.fitted.name, verified.floor, own, ranks)


NOBODY = Reading(None, ())

_COPIES = 256  # passages behind the hits that are looked at for copies of them, at least
_MORE = 32  # times as many of them as before: each look is another search, maybe of a server
_NOTHING = np.float32(80)  # logits below the top at which a passage has no share


@dataclass(frozen=True, eq=False)
class Copies:
    """Which of n queries' hits have the text of a better one, and what is left without these.

    Attributes
    ----------
    again : array of bool, shape (n, k)
        Whether a hit repeats the text of one before it.
    count : array, shape (n, k)
        How many passages have a hit's text, as far as was looked; of those that repeat one 0.
    gone : array, shape (n, c)
        Similarities of the passages that repeat the text of a hit, among the hits or behind them;
        -inf where there are fewer than c.
    of_first : array, shape (n, c)
        The same of those as similar as the first hit: which of equal vectors is first is chance.
    different, variance : array, shape (n, k)
        Similarities, and their variance, of the first k passages of which no two have one text;
        -inf where there are fewer.
    place : int array, shape (n, k)
        Place of each hit's text among these.
    """

    again: NDArray[np.bool_]
    count: FloatArray
    gone: FloatArray
    of_first: FloatArray
    different: FloatArray
    variance: FloatArray
    place: NDArray[np.intp]

    @classmethod
    def among(cls, found: Found, k: int) -> Self | None:
        """Look for equal texts among m hits, of which the first k are given back; None: no two."""
        rows, width = found.mu.shape
        first = _first_of_text(found)
        again = first < np.arange(width)
        if not again.any():
            return None
        different = np.where(again, -np.inf, found.mu)
        # A place among the different ones: those behind the k first are none of the hits'.
        among = np.take_along_axis(np.cumsum(~again, axis=1) <= k, first, axis=1)
        count = np.zeros((rows, width), dtype=np.float32)
        np.add.at(count, (np.arange(rows)[:, None], first), np.float32(1))
        gone, of_first = (
            -np.sort(-np.where(some, found.mu, -np.inf), axis=1)[
                :, : max(1, some.sum(axis=1).max())
            ]
            for some in (
                again & (among | _no_worse(found, again, k)),
                again & _no_worse(found, again, 1),
            )
        )
        order = np.argsort(again, axis=1, kind="stable")[:, :k]
        return cls(
            again[:, :k],
            count[:, :k],
            gone,
            of_first,
            np.take_along_axis(different, order, axis=1),
            np.take_along_axis(found.sigma2, order, axis=1),
            np.take_along_axis(np.cumsum(~again, axis=1) - 1, first, axis=1)[:, :k],
        )

    def left_of(self, sums: SoftmaxSums, slope: float, *, first: bool = False) -> SoftmaxSums:
        """Sums over a corpus, at a slope, as if every text, or the `of_first`, were there once."""
        gone = self.of_first if first else self.gone
        least = (sums.top - _NOTHING)[:, None]
        return sums.replacing(
            np.maximum(np.float32(slope) * gone, least), np.broadcast_to(least, gone.shape)
        )


_ALIKE = np.float32(1e-5)  # similarities that rounding alone may have parted


def _first_of_text(found: Found) -> NDArray[np.intp]:
    """Place of the best hit that has the text of a hit, shape (n, k)."""
    first = np.zeros(found.mu.shape, dtype=np.intp)
    for place, row in zip(first, found.passages, strict=True):
        best: dict[str, int] = {}
        place[:] = [best.setdefault(passage.text, i) for i, passage in enumerate(row)]
    return first


def _no_worse(found: Found, again: NDArray[np.bool_], k: int) -> NDArray[np.bool_]:
    """Which of m hits score as much as the k-th different text, but for rounding, shape (n, m).

    All where there are fewer texts. `again`, array of bool, shape (n, m): which repeat one.
    """
    last = np.minimum((np.cumsum(~again, axis=1) < k).sum(axis=1), again.shape[1] - 1)
    least = np.take_along_axis(found.scores, last[:, None], axis=1) - _ALIKE
    as_much: NDArray[np.bool_] = found.scores >= least
    return as_much


def first_alike(mu: FloatArray) -> NDArray[np.intp]:
    """Place of the first of the hits that are as similar as a hit, but for rounding, shape (n, k).

    `mu`, array, shape (n, k): of hits, best first.
    """
    first = np.broadcast_to(np.arange(mu.shape[1]), mu.shape).copy()
    close = np.abs(np.diff(mu, axis=1)) <= _ALIKE
    # Not of the one before alone: of many hits each may be close to the next.
    for row, place in np.argwhere(close).tolist():
        before = first[row, place]
        if abs(mu[row, place + 1] - mu[row, before]) <= _ALIKE:
            first[row, place + 1] = before
    return first


def search_apart(
    store: Store, query: Gaussian, k: int, beta: float, mu: FloatArray | None
) -> Found:
    """Search for k hits and as many more as it takes to have seen all copies of the k first texts.

    And of all that scores as much as the k-th: which of equals comes first is chance. That is one
    more where no text comes twice.
    """
    count = k + 1
    while True:
        found = store.search(query, count, beta=beta, mu=mu)
        if found.mu.shape[1] < count or count > k + _COPIES:
            return found
        again = _first_of_text(found) < np.arange(count)
        if not _no_worse(found, again, k)[:, -1].any():
            return found
        count = k + _MORE * (count - k)


@dataclass(frozen=True, eq=False)
class Hits:
    """The first k hits of n queries, and what is known of them.

    Attributes
    ----------
    members : Members or None
        What each encoder, and a verifier, has to do with them; None where that is not known.
    reread : Reread or None
        What a verifier makes of them, which `found` and `members` are in the order of.
    copies : Copies or None
        Which of them repeat the text of others.
    """

    found: Found
    members: Members | None = None
    reread: Reread | None = None
    copies: Copies | None = None


def search(reading: Reading, fitted: Fitted, store: Store, asked: Asked, k: int) -> Hits:
    """Search for k hits and have them read."""
    everywhere = asked.similarities if asked.rest is None else None
    wide = search_apart(store, asked.query, reading.fetched(k), fitted.beta, everywhere)
    reread = reading.reread(fitted, wide)
    if reread is None:
        found = first_hits(wide, k)
        return Hits(found, members_at(fitted, store, asked, found), None, Copies.among(wide, k))
    found = first_hits(reread.found, k)
    members = members_at(fitted, store, asked, replace(found, mu=reread.before[:, :k]))
    return Hits(found, reread.members(members), reread, Copies.among(reread.found, k))


def first_hits(found: Found, k: int) -> Found:
    """The first k hits."""
    return Found(
        [row[:k] for row in found.passages],
        found.scores[:, :k],
        found.mu[:, :k],
        found.sigma2[:, :k],
        found.exact,
    )
