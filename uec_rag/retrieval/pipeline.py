"""The steps of a search, from encoded queries to results.

    judge                    yields what is found for each query, and its estimates
      observe                computes what is found, in blocks of queries
        RemoteStore.fetch    looks up the candidates of its query, if the store is remote
        compare              computes the similarity of every encoder to every column
        Fitted.weigh         computes the coefficients, that is, the weight of each encoder
        fuse                 sums them to the ensemble's mean similarities mu_s
        top_k                finds the columns with the highest s_hat, and their passages
        attribute            looks up the contribution of each encoder to each hit
        confidence_features  computes the features from which probabilities are estimated
      estimate               computes P(the corpus answers), P(these hits do), P(underspecified)
    conclude                 decides, and assembles the `Result` of a query

`uec_rag.retrieval.conversation.search` runs them for each question, alone and with its turns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray, Gaussian, Terms
from uec_rag.base.properties import cached_property
from uec_rag.base.similarity import cosines_of_pairs, largest, weighted_sum
from uec_rag.base.text import FUNCTION_WORDS
from uec_rag.confidence import readings
from uec_rag.confidence.decision import decide_one
from uec_rag.confidence.model import (
    JUDGED,
    NEAREST,
    ConfidenceModel,
    Features,
    Probabilities,
    features,
)
from uec_rag.confidence.readings import Candidates, Reading, candidates_of
from uec_rag.confidence.wording import is_small_talk, named_words
from uec_rag.encoders.lexical import LATIN, has_words, writing_of
from uec_rag.ensemble.convolution import EvidenceWeights, block_scales
from uec_rag.ensemble.fitted import Fitted
from uec_rag.retrieval.result import Members, Result, own_metadata
from uec_rag.stores.base import Passage, Store, copied_value
from uec_rag.stores.memory import MemoryStore

_BLOCK = 2**26  # similarities held at a time, over questions, passages and encoders
_FEWEST = 4  # candidates to fetch from a remote store for each hit
_MOST_LOOKED_AT = 1024  # hits to search for different texts
_RANKED = 100  # ranks beyond this are reported as unknown
_WORTH_ASKING = 0.05  # P(underspecified) below which no threshold asks back
_EQUAL = np.float32(1e-5)  # largest difference of similarities that rounding may cause
# Subtracted from the log odds of an answer if no encoder knows the script, or if no first passage
# has all names in the question; `benchmarks/quality/decisions.py` measures the effect.
_FOREIGN_SCRIPT, _MISSING_NAME = np.float32(2.0), np.float32(2.0)
_SMALL_TALK = np.float32(16.0)  # the same for "Thanks!" and "both", which ask nothing


@dataclass(frozen=True)
class Method:
    """The method of a search: an ensemble and what was learned from the corpus.

    Attributes
    ----------
    fitted : Fitted
    weights : EvidenceWeights or None
        The model from evidence of the corpus to coefficients; if None, the ensemble's rule is used.
    model : ConfidenceModel
    basis : str
        Fingerprint of everything that confidence depends on.
    unanswerable : float or None
        Share of the questions that the corpus does not answer, if known.
    check_familiar : bool
        Whether to detect questions unlike those of the fit; False after `calibrate`.
    """

    fitted: Fitted
    weights: EvidenceWeights | None
    model: ConfidenceModel
    basis: str = ""
    unanswerable: float | None = None
    check_familiar: bool = True


@dataclass(frozen=True)
class Query:
    """A question to search for.

    Attributes
    ----------
    text : str
    turns : sequence of str
        The turns before it that are searched with it, oldest first.
    """

    text: str
    turns: Sequence[str] = ()

    @property
    def joined(self) -> str:
        """The turns, followed by the question, one per line."""
        return "\n".join([*self.turns, self.text])


def judge(
    method: Method, store: Store, queries: Sequence[Query], parts: Sequence[Gaussian], k: int
) -> Iterator[JudgedQuery]:
    """Yield what is found for each query, and the probabilities that are estimated from it."""
    for found in observe(method, store, queries, parts, k):
        each = None
        if found.features is not None:
            each = method.model.probabilities(found.features, method.unanswerable)
        for row in range(len(found.queries)):
            known = Estimate() if each is None else estimate(found, row, each.of(row))
            yield JudgedQuery(found, row, known)


class RemoteStore(Protocol):
    """A store whose passages are stored elsewhere."""

    def fetch(self, question: str, query: Gaussian, count: int) -> MemoryStore:
        """Fetch at least `count` passages that probably have the highest mu_s for one query.

        Parameters
        ----------
        question : str
            Text of the query; "" if only its vector is known.
        query : Gaussian
            One query.
        """


@dataclass(frozen=True, eq=False)
class Findings:
    """The findings for n questions that are compared with one view.

    Attributes
    ----------
    method : Method
    view : MemoryStore
    queries : sequence of n Query
    coefficients : array, shape (n, K)
    similarities : Similarities
    hits : Hits
    attribution : Attribution
    unfamiliar : list of n str
        How each question differs from those of the fit; "" if it does not.
    features : Features or None
        None if nothing was found.
    """

    method: Method
    view: MemoryStore
    queries: Sequence[Query]
    coefficients: FloatArray
    similarities: Similarities
    hits: Hits
    attribution: Attribution
    unfamiliar: list[str]
    features: Features | None

    @classmethod
    def nothing(
        cls, method: Method, view: MemoryStore, queries: Sequence[Query], coefficients: FloatArray
    ) -> Self:
        """Return the findings of a search without any passages."""
        count = len(queries)
        none = np.zeros((count, 0), dtype=np.float32)
        return cls(
            method,
            view,
            queries,
            coefficients,
            similarities=Similarities([], none),
            hits=Hits(none.astype(np.int64), none, none, none, [[] for _ in queries]),
            attribution=Attribution(none[:, :, None], None, [{} for _ in queries]),
            unfamiliar=[""] * count,
            features=None,
        )


def observe(
    method: Method, store: Store, queries: Sequence[Query], parts: Sequence[Gaussian], k: int
) -> Iterator[Findings]:
    """Compute the hits of queries and their features, from which `calibrate` learns, too.

    A block has as many queries as fit in memory. In a remote store, it has one, since the
    candidates differ between queries.
    """
    step = 1
    if not store.remote:
        step = max(1, _BLOCK // max(1, len(store) * (len(parts) + 1)))
    for start in range(0, len(queries), step):
        rows = slice(start, start + step)
        yield observe_block(method, store, queries[rows], [part[rows] for part in parts], k)


def observe_block(
    method: Method, store: Store, queries: Sequence[Query], parts: Sequence[Gaussian], k: int
) -> Findings:
    """Compute what `observe` yields for queries that are compared with the same passages."""
    fitted, view = method.fitted, cast(MemoryStore, store)
    if store.remote:  # the candidates of a query
        [query], combined = queries, fitted.combine_as(parts, "query")
        fewest = _FEWEST * max(k, NEAREST)
        view = cast(RemoteStore, store).fetch(query.joined, combined, fewest)
    if not len(view):
        return Findings.nothing(method, view, queries, fitted.coefficients(parts, "query"))
    similarities = compare(fitted, view, parts)
    pi = fitted.weigh(method.weights, parts, similarities.members, similarities.best)
    combined = fitted.combine(parts, pi)
    mu = fuse(fitted, view, combined, similarities, pi)
    hits = top_k(fitted, view, combined, mu, k, different=NEAREST)
    attribution = attribute(view, parts, similarities, hits)
    unfamiliar, foreign = unfamiliar_queries(method, queries, hits)
    seen = hits, attribution
    if any(query.turns for query in queries):
        seen = at_unit_length(fitted, queries, parts, pi, hits, attribution)
    known = confidence_features(method, store, queries, parts, pi, *seen, foreign)
    return Findings(method, view, queries, pi, similarities, hits, attribution, unfamiliar, known)


@dataclass(frozen=True, eq=False)
class Similarities:
    """The similarities of n questions to the C columns of a view.

    Attributes
    ----------
    members : list of K arrays, shape (n, C)
        Similarities of each encoder: cosines, or BM25 scores from 0 to 1. Empty in the shared
        space, which does not keep the encoders apart.
    best : array, shape (n, K)
        Highest similarity of each encoder. In the shared space, the shape is (n, 0).
    """

    members: list[FloatArray]
    best: FloatArray


def compare(fitted: Fitted, view: MemoryStore, parts: Sequence[Gaussian]) -> Similarities:
    """Compare each encoder's Gaussians of the questions with its own block of the passages."""
    if fitted.space == "shared":
        return Similarities([], np.zeros((len(parts[0]), 0), dtype=np.float32))
    # With this scale, products with the stored blocks are the cosines of each encoder.
    blocks: list[FloatArray | Terms] = []
    for part, scale in zip(parts, block_scales(fitted.weights), strict=True):
        blocks.append(part.terms[0].scaled(1 / scale) if part.terms else part.mean / scale)
    members = view.compare(blocks)
    best = [similarities.max(axis=1, initial=-np.inf) for similarities in members]
    return Similarities(members, np.stack(best, axis=1))


def fuse(
    fitted: Fitted, view: MemoryStore, query: Gaussian, similarities: Similarities, pi: FloatArray
) -> FloatArray:
    """Compute the ensemble's mu_s to every column, ``sum_k pi_k w_k s_k``, shape (n, C)."""
    if not similarities.members:
        [mu] = view.compare([query.mean])
        return mu
    return weighted_sum(similarities.members, pi * fitted.weights)


@dataclass(frozen=True, eq=False)
class Hits:
    """The best m columns of a view for n questions, best first; arrays are of shape (n, m).

    Attributes
    ----------
    columns, scores, mu, sigma2 : array
    passages : list of lists of Passage
    """

    columns: NDArray[np.int64]
    scores: FloatArray
    mu: FloatArray
    sigma2: FloatArray
    passages: list[list[Passage]]

    @cached_property
    def text_number(self) -> NDArray[np.intp]:
        """The number of each hit's text, from 0, best first; copies of a text share its number."""
        numbers = []
        for row in self.passages:
            seen: dict[str, int] = {}
            numbers.append([seen.setdefault(passage.text, len(seen)) for passage in row])
        return np.array(numbers, dtype=np.intp)

    @cached_property
    def distinct(self) -> NDArray[np.intp]:
        """The first position of each different text, shape (n, m), padded with -1."""
        places = np.full_like(self.text_number, -1)
        for row, numbers in zip(places, self.text_number, strict=True):
            first = np.unique(numbers, return_index=True)[1]
            row[: len(first)] = first
        return places

    def holding(self, wanted: Sequence[Collection[str]]) -> NDArray[np.bool_]:
        """Return which different texts have a wanted id or a copy with one, shape (n, m)."""
        of_text = np.zeros(self.text_number.shape, dtype=bool)
        for row, (passages, ids) in enumerate(zip(self.passages, wanted, strict=True)):
            right = [passage.id in ids for passage in passages]
            of_text[row, self.text_number[row, right]] = True
        return of_text


def top_k(
    fitted: Fitted, view: MemoryStore, query: Gaussian, mu: FloatArray, k: int, different: int
) -> Hits:
    """Find the best k columns, or more until they hold `different` different texts.

    The search for different texts ends at `_MOST_LOOKED_AT` columns.
    """
    count = min(len(view), max(k, different))
    while True:
        top = view.top_k(query, count, beta=fitted.beta, mu=mu)
        hits = Hits(*top, view.gather(top.columns))
        seen = hits.text_number.max(axis=1).min() + 1
        if seen >= different or count == len(view) or count >= max(k, _MOST_LOOKED_AT):
            return hits
        count = min(len(view), 2 * count)


@dataclass(frozen=True, eq=False)
class Attribution:
    """Each encoder's contribution to the hits of n questions.

    Attributes
    ----------
    similarities : array, shape (n, K, m)
        Each encoder's similarity to a hit; no encoders in the shared space.
    words : list of n lists of dict of str to float, or None
        Words of the question that a hit contains, with the similarity that each adds; None if no
        member is lexical.
    idf : list of n dict of str to float
        Inverse document frequency of the words of each question; empty if no member is lexical.
    """

    similarities: FloatArray
    words: list[list[dict[str, float]]] | None
    idf: list[dict[str, float]]


def attribute(
    view: MemoryStore, parts: Sequence[Gaussian], similarities: Similarities, hits: Hits
) -> Attribution:
    """Look up each encoder's similarity to the hits, and the words that they match."""
    columns, members = hits.columns, similarities.members
    to_hits = np.empty((len(columns), len(members), columns.shape[1]), dtype=np.float32)
    for member, to_all in enumerate(members):
        to_hits[:, member] = np.take_along_axis(to_all, columns, axis=1)
    terms = [block for part in parts for block in part.terms]
    idf: list[dict[str, float]] = [{} for _ in columns]
    if not terms:
        return Attribution(to_hits, None, idf)
    words = list[list[dict[str, float]]]()
    contributions = view.contributions(terms, columns)
    for row, of_words in enumerate(idf):
        of_hits: list[dict[str, float]] = [{} for _ in columns[row]]
        for block, (added, rarities) in zip(terms, contributions, strict=True):
            if block.labels is None:
                continue
            keys = block.keys[block.starts[row] : block.starts[row + 1]].tolist()
            labels = [block.labels[row].get(key) for key in keys]  # None for a part of a word
            for word, rarity in zip(labels, rarities[row].tolist(), strict=True):
                if word is not None:
                    of_words[word] = max(of_words.get(word, 0.0), rarity)
            place, term = np.nonzero(added[row] > 0)
            amounts = added[row][place, term].tolist()
            for hit, key, amount in zip(place.tolist(), term.tolist(), amounts, strict=True):
                if (word := labels[key]) is not None:
                    of_hits[hit][word] = amount
        words.append(of_hits)
    return Attribution(to_hits, words, idf)


def at_unit_length(
    fitted: Fitted,
    queries: Sequence[Query],
    parts: Sequence[Gaussian],
    coefficients: FloatArray,
    hits: Hits,
    attribution: Attribution,
) -> tuple[Hits, Attribution]:
    """Return hits and attribution as if the means of queries with turns had length 1.

    The mean of several texts is shorter, which lowers all similarities to it, and the confidence
    model was fitted on single texts.
    """
    if not attribution.similarities.size:
        return hits, attribution
    lengths = np.stack([np.linalg.norm(part.mean, axis=1) for part in parts], axis=1)
    lengths[[not query.turns for query in queries]] = 1
    lengths[lengths == 0] = 1  # lexical encoders
    whole = attribution.similarities / lengths[:, :, None]
    weights = (coefficients * fitted.weights)[:, :, None]
    gain = (weights * (whole - attribution.similarities)).sum(axis=1)
    return replace(hits, mu=hits.mu + gain), replace(attribution, similarities=whole)


def unfamiliar_queries(
    method: Method, queries: Sequence[Query], hits: Hits
) -> tuple[list[str], NDArray[np.bool_]]:
    """Return how each query differs from those of the fit, and whether its script is unknown.

    The difference is "" if there is none.
    """
    reasons, foreign = [""] * len(queries), np.zeros(len(queries), dtype=bool)
    profile = method.fitted.training_profile if method.check_familiar else None
    if profile is not None:
        for row, (query, passages) in enumerate(zip(queries, hits.passages, strict=True)):
            # One hit only, so that the result does not depend on k.
            first = passages[0].text if passages else ""
            reasons[row], foreign[row] = profile.unfamiliar(query.text, first)
    return reasons, foreign


def confidence_features(
    method: Method,
    store: Store,
    queries: Sequence[Query],
    parts: Sequence[Gaussian],
    coefficients: FloatArray,
    hits: Hits,
    attribution: Attribution,
    foreign: NDArray[np.bool_],
) -> Features:
    """Compute the features of the first different texts of n questions.

    `foreign`: whether each question is in a script that no encoder knows.
    """
    if method.model.standardised:
        slope, offset = standardised_line(store, parts)
    else:
        slope, offset = method.fitted.logit_line(coefficients)
    places = hits.distinct
    mu = np.where(places >= 0, np.take_along_axis(hits.mu, places, axis=1), -np.inf)
    sigma2 = np.take_along_axis(hits.sigma2, places, axis=1)
    logits = (slope * mu + offset[:, None]).astype(np.float32)
    members = logits[:, :1]
    if not method.model.standardised and attribution.similarities.size:
        members = member_evidence(method.fitted, parts, attribution, foreign)
    # Lexical encoders, which have no vectors, are not misled by an unknown script.
    vectors = np.array([part.mean.shape[1] > 0 for part in parts])
    return features(
        logits,
        slope**2 * sigma2,
        members,
        method.model.temperature,
        wording_penalty=wording_penalties(queries, hits, attribution),
        foreign_script_penalty=_FOREIGN_SCRIPT * foreign * coefficients[:, vectors].sum(axis=1),
    )


_UNRELATED = 64  # passages to compare with each other
_USUAL_PAIRS, _USUAL_MEAN, _USUAL_DEVIATION = 2, 0.2, 0.1


def standardised_line(store: Store, parts: Sequence[Gaussian]) -> tuple[np.float32, FloatArray]:
    """Return slope and offset, shape (n,), of the logits ``slope * mu_s + offset`` without a fit.

    They standardise similarities by the mean and standard deviation between passages of the corpus,
    that is, of unrelated texts, above which that of an answering passage stands out. A typical
    encoder serves as a prior worth a few pairs. To a lexical encoder, unrelated texts are assumed
    to have a similarity of 0.
    """
    cosine = cosines_of_pairs(store.sample(_UNRELATED).mean[: 2 * _UNRELATED])
    count = len(cosine) + _USUAL_PAIRS
    centre = (cosine.sum() + _USUAL_PAIRS * _USUAL_MEAN) / count
    square = ((cosine - centre) ** 2).sum() + _USUAL_PAIRS * _USUAL_DEVIATION**2
    words = sum(bool(part.terms) for part in parts) / len(parts)
    mean = float(centre * (1 - words))
    deviation = float(np.sqrt(square / count) * max(1 - words, 0.5))
    offset = np.full(len(parts[0]), -mean / deviation, dtype=np.float32)
    return np.float32(1 / deviation), offset


def wording_penalties(queries: Sequence[Query], hits: Hits, attribution: Attribution) -> FloatArray:
    """Return the `Features.wording_penalty` of each question, shape (n,).

    A question has one if it is small talk or a single word that no hit has, and if none of the
    first texts has all of its names.
    Names are also numbers, identifiers and quotations, as found by `named_words`. They are not
    looked for if the question is not in English, or if no member is lexical.
    """
    penalties = np.zeros(len(queries), dtype=np.float32)
    for row, places in enumerate(hits.distinct[:, :JUDGED].tolist()):
        question, idf = queries[row].text, attribution.idf[row]
        penalties[row] = _SMALL_TALK * is_small_talk(question)
        # Only in English: all German nouns are capitalised.
        if attribution.words is None or writing_of(question) != LATIN:
            continue
        said, of_hits = named_words(question), attribution.words[row]
        content = [word for word in idf if word.casefold() not in FUNCTION_WORDS]
        if len(content) == 1 and not any(content[0] in words for words in of_hits):
            penalties[row] = _SMALL_TALK  # "asdf"
        names = {word for word in idf if word.casefold() in said}
        passages = hits.passages[row]
        if names and not any(
            names <= of_hits[place].keys() and has_words(passages[place].text, names)
            for place in places
            if place >= 0
        ):
            penalties[row] += _MISSING_NAME
    return penalties


def member_evidence(
    fitted: Fitted,
    parts: Sequence[Gaussian],
    attribution: Attribution,
    foreign: NDArray[np.bool_],
) -> FloatArray:
    """Compute the logit of each encoder for the first hit, shape (n, K), as evidence of an answer.

    Only content words are evidence (`content_share`). To an encoder, all texts in a script that it
    does not know are similar, so only lexical evidence counts for a question in such a script.
    """
    similarities = attribution.similarities[:, :, 0].copy()
    by_words = np.array([bool(part.terms) for part in parts])
    if attribution.words is not None:
        share = np.array([content_share(of_hits[0]) for of_hits in attribution.words])
        similarities[:, by_words] *= share[:, None]
    logits = fitted.member_logits(similarities)
    if foreign.any() and by_words.any():
        heard = logits[:, by_words].max(axis=1, keepdims=True)
        logits = np.where(foreign[:, None] & ~by_words, heard, logits)
    return logits


def content_share(matched: Mapping[str, float]) -> np.float32:
    """Return the share of the matched words' weight that is not of English function words.

    That a passage has "what" and "of" is no evidence that it answers. The share is 1 if no word
    matches.
    """
    content = [value for word, value in matched.items() if word.casefold() not in FUNCTION_WORDS]
    total = sum(matched.values())
    return np.float32(sum(content) / total if total else 1)


@dataclass(frozen=True, eq=False)
class Estimate:
    """The estimates for one question.

    Attributes
    ----------
    probabilities : Probabilities or None
        Probabilities of relevance, confidence and `in_corpus`; None if nothing was found.
    underspecified : float
        P(the question does not say which of its readings is meant).
    competing : Candidates or None
        The texts in which the readings are found; None if there are none.
    """

    probabilities: Probabilities | None = None
    underspecified: float = 0.0
    competing: Candidates | None = None

    @property
    def confidence(self) -> float:
        """P(the first `JUDGED` texts answer the question)."""
        return 0.0 if self.probabilities is None else float(self.probabilities.confidence[0])

    @property
    def clarity(self) -> float:
        """P(the question says what it means, and the first texts answer it), as if independent."""
        return self.confidence * (1 - self.underspecified)


@dataclass(frozen=True, eq=False)
class JudgedQuery:
    """One query of `Findings`, with its estimates."""

    found: Findings
    row: int
    estimate: Estimate


def estimate(found: Findings, row: int, probabilities: Probabilities) -> Estimate:
    """Add P(underspecified), which is 0 if no member is lexical, to a question's probabilities."""
    words = found.attribution.words
    if words is None or found.features is None:
        return Estimate(probabilities)
    near = found.hits.distinct[row, :NEAREST]
    near = near[near >= 0]
    passages = [found.hits.passages[row][place] for place in near]
    competing = candidates_of(
        passages,
        # On the scale of confidence, since the raw similarities of an ensemble that was not fitted
        # would be nearly equal.
        found.features.relevance[row, : len(near), 1],
        [words[row][place] for place in near],
        found.attribution.idf[row],
        len(found.view),
        None
        if all(passage.about.subject for passage in passages)
        else found.view.means(found.hits.columns[row, near]),
    )
    query = found.queries[row]
    [underspecified] = readings.underspecified(
        readings.features(query.text, competing, query.turns)[None],
        probabilities.confidence,
    ).tolist()
    return Estimate(probabilities, underspecified, competing)


def conclude(judged: JudgedQuery, k: int, size: int) -> Result:
    """Decide on a query, and assemble its result.

    `size`: number of passages that were searched.
    """
    found, row, estimate = judged.found, judged.row, judged.estimate
    method, hits, one = found.method, found.hits, slice(judged.row, judged.row + 1)
    fitted, question, pi = method.fitted, found.queries[row].text, found.coefficients[one]
    [shares], probabilities = fitted.shares(pi), estimate.probabilities
    if probabilities is None:
        return Result.of_nothing(question, pi[0], shares, fitted.names, method.basis)
    kept = slice(0, min(k, hits.mu.shape[1]))
    between, members = np.zeros_like(hits.sigma2[row, kept]), None
    similarities = found.attribution.similarities[one, :, kept]
    if similarities.size:
        [between] = fitted.disagreement(similarities, found.similarities.best[one], pi)
        members = _members(found, row, kept)
    meant: list[Reading] = []
    if estimate.competing is not None and estimate.underspecified >= _WORTH_ASKING:
        meant = readings.readings(estimate.competing)
    decision = decide_one(
        estimate.confidence,
        estimate.underspecified,
        tuple(meant),
        in_corpus=float(probabilities.in_corpus[0]),
        unfamiliar=found.unfamiliar[row],
    )
    return Result(
        question,
        [
            Passage(hit.id, hit.text, copied_value(own_metadata(hit.metadata)))
            for hit in hits.passages[row][kept]
        ],
        hits.scores[row, kept],
        hits.mu[row, kept],
        hits.sigma2[row, kept],
        between,
        at_hits(probabilities.relevance[0], hits.text_number[row], hits.mu[row])[kept],
        pi[0],
        shares,
        probabilities.by_cutoff[0],
        replace(decision, basis=method.basis, hits=JUDGED, size=size),
        exact=0 < size <= len(found.view),  # an engine may not know its size
        names=fitted.names,
        members=members,
    )


def at_hits(of_texts: FloatArray, text_number: NDArray[np.intp], mu: FloatArray) -> FloatArray:
    """Assign a value per different text to each of one question's hits, shape (m,).

    Copies of a text get the same value. Equally similar texts get that of the first of them, since
    their order is arbitrary. `text_number`: see `Hits`.
    """
    found = of_texts[text_number]
    first = np.arange(len(found))
    close = np.abs(np.diff(mu)) <= _EQUAL
    # Compare with the first of a group, not with the previous hit: small differences add up.
    for place in np.flatnonzero(close).tolist():
        if abs(mu[place + 1] - mu[first[place]]) <= _EQUAL:
            first[place + 1] = first[place]
    spread: FloatArray = found[first]
    return spread


def _members(found: Findings, row: int, kept: slice) -> Members:
    """Collect the contributions of the members to one question's hits."""
    method, hits, words = found.method, found.hits, found.attribution.words
    names, similarities = method.fitted.names, found.attribution.similarities[row, :, kept]
    counted = (found.coefficients[row] * method.fitted.weights)[:, None] * similarities
    ranks = np.zeros(similarities.shape, dtype=np.int64)
    for member, of_all in enumerate(found.similarities.members):
        to_all = of_all[row]
        best = to_all[largest(to_all, min(_RANKED, len(to_all)))]
        above = best > to_all[hits.columns[row, kept]][:, None]
        ranks[member] = above.sum(axis=1) + 1
    ranks[ranks > _RANKED] = 0  # not known
    matched = None
    if words is not None:
        by_share = (
            sorted(hit.items(), key=itemgetter(1), reverse=True) for hit in words[row][kept]
        )
        matched = [*map(dict, by_share)]
    return Members(names, similarities, ranks, counted, matched)
