"""One search: similarities to the corpus, coefficients, hits, and what to make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.softmax_sums import Digest, SoftmaxSums
from uec_rag.base.terms import Terms
from uec_rag.base.tiles import weighted_sum
from uec_rag.confidence.features import CorpusSummary
from uec_rag.confidence.model import ConfidenceModel
from uec_rag.ensemble.coefficients import Uniform
from uec_rag.ensemble.convolution import block_scales, blocks
from uec_rag.ensemble.evidence import EvidenceWeights
from uec_rag.ensemble.fitted import Fitted, without_silent
from uec_rag.ensemble.similarity_summary import Rest, SimilaritySummary
from uec_rag.retrieval.result import Members
from uec_rag.stores.base import Found, Store

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

    @property
    def everywhere(self) -> FloatArray | None:
        """The similarities, where they are those to the whole corpus."""
        return self.similarities if self.rest is None else None

    def sums(self, slope: float) -> SoftmaxSums:
        """Sums of the softmax of ``slope * mu_s`` over the corpus."""
        if self.rest is None:
            return Digest.of(self.similarities).softmax(slope)
        return self.rest.sums(self.similarities, slope)


def queries_at_once(passages: int, encoders: int) -> int:
    """How many queries to ask at a time, so that their similarities take bounded memory."""
    return max(1, _BLOCK // max(1, passages * (encoders + 1)))


def ask(
    fitted: Fitted, weights: EvidenceWeights | None, store: Store, parts: Sequence[Gaussian]
) -> Asked:
    """Compare encoded queries with everything in a store.

    With evidence weights the encoders' own similarities come first, which costs what one search
    does, and the ensemble's are their weighted sum.

    Parameters
    ----------
    fitted : Fitted
    weights : EvidenceWeights or None
    store : Store
    parts : sequence of Gaussian
        Each encoder's Gaussians of the queries.
    """
    if weights is None or not len(store):
        return _ask_without_evidence(fitted, store, parts)
    own = own_similarities(fitted, store, parts)
    summaries = [
        SimilaritySummary.of(s, slope) for s, slope in zip(own, fitted.slopes, strict=True)
    ]
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
    scaled = _scaled(fitted, parts)
    members = [i for i, part in enumerate(parts) if part.terms]
    found = store.similarities([scaled[i].terms[0] for i in members])
    return dict(zip(members, found, strict=True))


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


def _added(
    fitted: Fitted, store: Store, parts: Sequence[Gaussian], ids: Sequence[Sequence[str]]
) -> list[list[FloatArray]]:
    """What each term adds to the similarities of the encoders without vectors."""
    terms = [block for part in _scaled(fitted, parts) for block in part.terms]
    return store.contributions(terms, ids) if terms else []


def own_at(
    fitted: Fitted,
    store: Store,
    parts: Sequence[Gaussian],
    ids: Sequence[Sequence[str]],
    added: list[list[FloatArray]] | None = None,
) -> list[FloatArray]:
    """Each encoder's similarities of n queries to c passages of each, shape (n, c).

    `added`, where it is known, is what each term adds.
    """
    means = store.vectors([id_ for row in ids for id_ in row]).mean
    dense = blocks(
        means.reshape(len(ids), len(means) // len(ids), means.shape[1]),
        [part.dimension for part in parts],
        fitted.weights,
    )
    by_terms = iter(_added(fitted, store, parts, ids) if added is None else added)
    return [
        np.stack([columns.sum(axis=1) for columns in next(by_terms)])
        if part.terms
        else np.einsum("nd,ncd->nc", part.mean, block)
        for part, block in zip(parts, dense, strict=True)
    ]


def _own_blocks(fitted: Fitted, parts: Sequence[Gaussian]) -> list[FloatArray | Terms]:
    """What each encoder's own similarities to the stored blocks are asked by."""
    return [part.terms[0] if part.terms else part.mean for part in _scaled(fitted, parts)]


def _scaled(fitted: Fitted, parts: Sequence[Gaussian]) -> list[Gaussian]:
    """Queries whose products with the stored blocks of a direct sum are each encoder's own."""
    # Rather the queries are scaled than their similarities to everything.
    return [
        Gaussian.certain(part.mean / scale, [block.scaled(1 / scale) for block in part.terms])
        for part, scale in zip(parts, block_scales(fitted.weights), strict=True)
    ]


@dataclass(frozen=True, eq=False)
class Scale:
    """From the ensemble's similarities to logits, ``slope * mu_s + offset``.

    Attributes
    ----------
    slope : float
    offset : array, shape (n,)
        Of each query.
    """

    slope: float
    offset: FloatArray

    @classmethod
    def of(cls, fitted: Fitted, model: ConfidenceModel, store: Store, asked: Asked) -> Self:
        """What a model's logits are: the fitted ones, or standardised similarities.

        Parameters
        ----------
        fitted, model
        store : Store
            What is searched.
        asked : Asked
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

    Parameters
    ----------
    store : Store
    words : float
        Share of the encoders that look at words.
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
    ids = [[passage.id for passage in row] for row in found.passages]
    added = _added(fitted, store, asked.parts, ids)
    if len(asked.parts) == 1 and not added:
        own = found.mu[:, None]
    else:
        own = np.stack(own_at(fitted, store, asked.parts, ids, added), axis=1)
    ranks = np.zeros(own.shape, dtype=np.int64)
    for member, summary in enumerate(asked.summaries or ()):
        ranks[:, member] = summary.ranks(own[:, member])
    counted = (asked.coefficients * fitted.weights)[:, :, None] * own
    return Members(fitted.names, own, ranks, counted, _matched(asked.parts, ids, added))


def _matched(
    parts: Sequence[Gaussian], ids: Sequence[Sequence[str]], added: list[list[FloatArray]]
) -> list[list[list[str]]] | None:
    """The words of each query that each hit holds, those that count most first."""
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
    return [[sorted(hit, key=hit.__getitem__, reverse=True) for hit in row] for row in words]
