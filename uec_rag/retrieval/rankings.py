"""Searching a store for questions: arrays over a block of them, then a `Ranking` for each.

find          finds the hits of phrasings, in a `Block` of them; yields a `Ranking` for each
view_for      looks at the passages; in a remote store, at the candidates of its question
top_k         finds the columns with the highest s_hat, and which of them have the same text
features_of   computes what the confidence in each question's hits is estimated from
judge         estimates it
texts_first   puts what answers by its text alone before what questions beside texts find

From there on, all is about one question: `uec_rag.retrieval.search` decides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate, repeat
from operator import attrgetter
from typing import Any, Literal, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.counts import LookedUp
from uec_rag.base.gaussian import FloatArray, Gaussian, Terms, stack_rows
from uec_rag.base.records import Memory, cached_property
from uec_rag.base.similarity import cosines_of_pairs
from uec_rag.base.text import FUNCTION_WORDS, QUESTION_KEYS, own_text, telling_words
from uec_rag.clarify.outline import Node, Outline, underspecified
from uec_rag.clarify.outline import features as clarity
from uec_rag.confidence.decision import CLARIFY_FROM
from uec_rag.confidence.model import (
    JUDGED,
    NEAREST,
    READ,
    SURE,
    WORDS,
    ConfidenceModel,
    Features,
    Probabilities,
    features,
    shipped_model,
)
from uec_rag.encoders.base import Encoded
from uec_rag.ensemble import sketches
from uec_rag.ensemble.fitted import Fitted
from uec_rag.ensemble.uec import UEC
from uec_rag.evidence.absence import unheard_names
from uec_rag.evidence.asked import LIKENED, Asked
from uec_rag.evidence.family import family_of
from uec_rag.evidence.table import OF_HITS, OPEN, Comparison, Openness, sameness, weigh, weigh_open
from uec_rag.evidence.table import weights as evidence_weights
from uec_rag.evidence.words import QuestionWords, Rarity, shares_beside
from uec_rag.questions.languages import check_language, function_words, sentence
from uec_rag.questions.phrasing import Phrasing
from uec_rag.stores.base import Filter, Searched, StoreHits
from uec_rag.stores.candidates import CandidateStore
from uec_rag.stores.encodings import GIVEN, Schema
from uec_rag.stores.filters import normal_form
from uec_rag.stores.local import View
from uec_rag.stores.local.segments import Compared, Part, Segment
from uec_rag.stores.local.view import gaussians_of
from uec_rag.stores.passage import Passage

_METHOD = 1
"""The version of how confidence is computed: another one voids guarantees of gates made before.

Raise it with each change by which the same similarities get another confidence.
"""

_NAMESAKES = [row.name for row in OPEN].index("namesakes")
_BLOCK = 2**26  # similarities held at a time, over questions, passages and encoders
_FEWEST = 4  # candidates to fetch from a remote store for each hit
_DEEPEST = 1024  # hits to search for different texts


@dataclass(frozen=True)
class Method:
    """The method of a search, the same at all its stages.

    Attributes
    ----------
    fitted : Fitted
    model : ConfidenceModel
    basis : str
        Fingerprint of everything that confidence depends on.
    check_familiar : bool
        Whether to detect questions unlike those of the fit; False after `calibrate`.
    language : str or None
        The language in which decisions are told; None for that of each question.
    caveat : tuple of str
        The key of a sentence on why the search is not what it usually is, and what it names; empty
        if it is.
    rarity : callable or None
        How rare a word is in general, see `UEC.rarity`.
    clarify_from : float
        The lowest P(underspecified) at which to ask for clarification.
    """

    fitted: Fitted
    model: ConfidenceModel
    basis: str = ""
    check_familiar: bool = True
    language: str | None = None
    caveat: tuple[str, str] | tuple[()] = ()
    rarity: Rarity | None = field(default=None, repr=False, compare=False)
    clarify_from: float = CLARIFY_FROM

    def caveat_in(self, language: str) -> str:
        """Return the caveat in a language; "" if there is none."""
        return sentence(self.caveat[0], language, name=self.caveat[1]) if self.caveat else ""


def method_of(
    fitted: Fitted,
    calibrated: ConfidenceModel | None,
    language: str | None,
    filter: Filter | None = None,
) -> Method:
    """Return the method of a search: the ensemble and what was learned from the corpus.

    The model from logits to probabilities is the calibrated, the fitted or the default one. The
    basis is the hash of everything that turns a search's similarities into confidence, except
    the passages, and of the version of the method, which a patch release leaves as it is.

    `filter`: those of one meaning are the same, and of a callable, everything but its type counts.
    """
    model = calibrated or fitted.confidence_model or shipped_model("unfitted")
    weights = fitted.rule.evidence
    filtered = "" if filter is None else normal_form(filter) or type(filter).__name__
    basis = _basis(model.fingerprint, weights and weights.fingerprint, _METHOD, filtered)
    return Method(fitted, model, basis, calibrated is None, check_language(language))


@lru_cache(256)
def _basis(model: str, weights: str | None, version: int, filtered: str) -> str:
    state = model, weights, sorted(evidence_weights().items()), version, filtered
    return hashlib.sha256(repr(state).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Rivals:
    """The competitors of passages that are few, of which the first would look like an answer.

    Attributes
    ----------
    store : Searched or None
        What the caller may see, besides them.
    profile : {"absolute", "relative", ""}
        Whether the logits that the hits of a question usually have compete, too, up to `NEAREST`:
        as they are, or from that of the first hit. Nothing that the caller may not see does.
    """

    store: Searched | None
    profile: Literal["absolute", "relative", ""] = ""


@dataclass(frozen=True, eq=False)
class Block:
    """The hits of n phrasings of questions, in arrays with a row for each.

    Attributes
    ----------
    method : Method
    phrasings : sequence of n Phrasing
    parts : sequence of K Gaussian
        Those of the phrasings in each block of the ensemble (`Fitted.blocks`).
    size : int
        The number of passages that were compared.
    is_elsewhere : bool
        Whether others may have the words of the questions, as in a store of someone else.
    top : StoreHits
        The m best columns of each.
    texts : array, shape (n, m)
        The numbers of all texts, see `text_keys`.
    similarities : array, shape (n, K, m)
        Of each block to a hit.
    leading : list of K arrays with n rows
        The highest similarities of each block to a passage.
    disagreement : array, shape (n, m)
        As in `uec_rag.retrieval.results.Hit`.
    coefficients : array, shape (n, K)
        Those of the blocks.
    of_encoders : array, shape (n, E)
        Those of the encoders.
    slope, offset : number; array, shape (n,)
        Of the ensemble's logit as a function of mu_s.
    copies : sequence of n pairs of arrays
        See `Ranking.numbers` and `Ranking.distinct`.
    passages : sequence of n mappings of int to Passage
        See `Ranking.passages`.
    words : sequence of n QuestionWords
    unfamiliar : sequence of n pairs of str and bool
        How each question differs from those of the fit, "" if it does not; and whether it is in a
        script that no encoder knows.
    rivals : Rivals or None
        What competes with the hits, if these are few.
    """

    method: Method
    phrasings: Sequence[Phrasing]
    parts: Sequence[Gaussian]
    size: int
    is_elsewhere: bool
    top: StoreHits
    texts: NDArray[np.uint64]
    similarities: FloatArray
    leading: list[FloatArray]
    disagreement: FloatArray
    coefficients: FloatArray
    of_encoders: FloatArray
    slope: np.float32
    offset: FloatArray
    copies: Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]]
    passages: Sequence[Mapping[int, Passage]]
    words: Sequence[QuestionWords]
    unfamiliar: Sequence[tuple[str, bool]]
    rivals: Rivals | None = None


@dataclass(frozen=True, eq=False)
class Ranking:
    """The m hits of one phrasing of a question, best first: a row of a block of them.

    Attributes
    ----------
    block : Block
    row : int
    phrasing : Phrasing
        What was searched for.
    words : QuestionWords
        Those of the question, and which of the different hits have them.
    comparison : Comparison
        The question compared with its different hits.
    passages : mapping of int to Passage
        Of the first different texts, all that are looked at, and their copies; by their positions.
    numbers : array, shape (m,)
        The number of each hit's text, from 0; copies of a text share its number.
    distinct : array
        The first position of each different text.
    mu : array, shape (m,)
        The mean of the similarity of each hit.
    evidence : sequence of float
        The value of each row of `OF_HITS`.
    features : Features
        The features of confidence.
    probabilities : Probabilities
        What the model of confidence makes of them.
    """

    block: Block
    row: int
    phrasing: Phrasing
    words: QuestionWords
    comparison: Comparison
    passages: Mapping[int, Passage]
    numbers: NDArray[np.intp]
    distinct: NDArray[np.intp]
    mu: FloatArray
    evidence: Sequence[float]
    features: Features
    probabilities: Probabilities

    @property
    def confidence(self) -> float:
        """P(the first `JUDGED` texts answer the question)."""
        return float(self.probabilities.confidence[0])

    @property
    def unsure(self) -> float:
        """The distance of the hits from an answer that is sure, from 0 to 1."""
        return min((1 - self.confidence) / (1 - SURE), 1.0)

    @cached_property
    def ambiguity(self) -> tuple[float, Node, Sequence[float]]:
        """P(the question leaves open which reading is meant), their node, the values of `OPEN`."""
        phrasing, node = self.phrasing, outline_of(self).split()
        unsaid = underspecified(clarity(phrasing.text, node, phrasing.turns))
        openness = Openness(self.comparison, node, self.features.meant[0] == 1)
        unsaid, values = weigh_open(unsaid, openness)
        if values[_NAMESAKES]:
            node = node.outline.among(self.words.namesakes)
        return unsaid, node, values


def find(
    method: Method,
    store: Searched,
    phrasings: Sequence[Phrasing],
    parts: Sequence[Gaussian],
    k: int,
    rivals: Rivals | None = None,
    groups: Sequence[int] = (),
) -> Iterator[Ranking | None]:
    """Find the hits of questions and their features, from which `calibrate` learns, too.

    Yields what was found for each, None if there are no passages. A block has as many questions as
    fit in memory. In a remote store, it has the ways of asking one, among whose candidates each is
    searched.

    `rivals`: what competes with the passages of `store`, if these are few. `groups`: how many
    phrasings each question has, by default one.
    """
    steps = groups or [1] * len(phrasings)
    if not store.is_elsewhere:
        step = max(1, _BLOCK // max(1, len(store) * (len(parts) + 1)))
        steps = [step] * -(-len(phrasings) // step)
    for end, step in zip(accumulate(steps), steps, strict=True):
        rows = slice(end - step, end)
        of_rows = parts if len(phrasings) <= step else [part[rows] for part in parts]
        if not step:  # of a blank question
            continue
        questions = [phrasing.lines for phrasing in phrasings[rows]]
        view = view_for(method.fitted, store, questions, of_rows, k)
        if len(view):
            block = find_block(method, store, view, phrasings[rows], of_rows, k, rivals)
            yield from texts_first(block, judge(block))
        else:
            yield from [None] * len(phrasings[rows])


def find_block(
    method: Method,
    store: Searched,
    view: View,
    phrasings: Sequence[Phrasing],
    parts: Sequence[Gaussian],
    k: int,
    rivals: Rivals | None,
) -> Block:
    """Find the hits of a block of questions in a view with passages."""
    fitted, compared = (
        method.fitted,
        view.compare([part.terms[0] if part.terms else part.mean for part in parts]),
    )
    best = np.stack([leading[:, 0] for leading in compared.leading], axis=1)
    pi = fitted.weigh(parts, compared.leading, best)
    query = fitted.combine(parts, pi)
    top, texts = top_k(fitted, view, query, compared, pi * fitted.weights, max(k, NEAREST))
    to_hits = [
        np.take_along_axis(columns, top.columns, axis=1) for columns in compared.similarities
    ]
    similarities = np.stack(to_hits, axis=1).astype(np.float32, copy=False)
    line = unfitted_logit_line(fitted, store, parts) if method.model.standardised else None
    slope, offset = line or fitted.logit_line(parts, pi)
    copies, depth = [*map(_copies, texts)], max(k, READ)
    places = [np.flatnonzero(numbers < depth) for numbers, _ in copies]
    gathered = zip(places, view.gather(map(np.take, top.columns, places)), strict=True)
    passages = [dict(zip(at.tolist(), hits, strict=True)) for at, hits in gathered]
    firsts = [distinct[:depth] for _, distinct in copies]
    amounts = view.contributions(compared, [*map(np.take, top.columns, firsts)])
    of_queries = [terms for part in parts for terms in part.terms]
    terms = [*zip(of_queries, compared.looked_up, amounts, strict=True)]
    near_hits = [
        [*map(hits.__getitem__, at.tolist())] for hits, at in zip(passages, firsts, strict=True)
    ]
    size = repeat(view.corpus_size)
    are_all = view.corpus_size > len(view) or not isinstance(store, CandidateStore)
    are_all = are_all or cast(CandidateStore, store).vocabulary is not None
    rows = range(len(phrasings))
    words = [*map(_words_of, phrasings, rows, near_hits, repeat(terms), size, repeat(are_all))]
    return Block(
        method=method,
        phrasings=phrasings,
        parts=parts,
        size=len(view),
        is_elsewhere=store.is_elsewhere,
        top=top,
        texts=texts,
        similarities=similarities,
        leading=compared.leading,
        disagreement=fitted.disagreement(similarities, best, pi),
        coefficients=pi,
        of_encoders=fitted.encoder_coefficients(parts, pi),
        slope=slope,
        offset=offset,
        copies=copies,
        passages=passages,
        words=words,
        unfamiliar=[*map(_unfamiliar, repeat(method), phrasings, passages)],
        rivals=rivals if len(view) < NEAREST else None,
    )


def texts_first(block: Block, rankings: list[Ranking]) -> list[Ranking]:
    """Return the rankings of a block, in which what answers by its text alone is first.

    It is before what was found by questions beside it, which anybody may have written.
    """
    orders = dict[int, list[int]]()
    for row, words in enumerate(block.words):
        if words.tables_beside:
            logits = rankings[row].comparison.logits[:LIKENED]
            order = np.argsort(-logits, kind="stable").tolist()
            orders |= {row: order} if order[0] else {}
    by_texts = judge(_in_order(block, orders), by_texts=True) if orders else rankings
    for row in orders:
        if by_texts[row].confidence >= SURE:
            rankings[row] = by_texts[row]
    return rankings


def _in_order(block: Block, orders: Mapping[int, list[int]]) -> Block:
    """Return a block in which the first different hits of some rows have another order."""
    places, words = list[NDArray[np.intp]](), [*block.words]
    for row, (numbers, distinct) in enumerate(block.copies):
        ranks = np.arange(len(distinct))
        if row in orders:
            ranks[orders[row]] = np.arange(len(orders[row]))
            words[row] = words[row].in_order(orders[row])
        places.append(np.argsort(ranks[numbers], kind="stable"))
    order = np.stack(places)

    def sort(array: NDArray[Any]) -> NDArray[Any]:
        return np.take_along_axis(array, order, axis=1)

    top, texts = block.top, sort(block.texts)
    passages = [
        {at: hits[row] for at, row in enumerate(of_row.tolist()) if row in hits}
        for hits, of_row in zip(block.passages, order, strict=True)
    ]
    return replace(
        block,
        top=replace(
            top,
            columns=sort(top.columns),
            scores=sort(top.scores),
            mu=sort(top.mu),
            sigma2=sort(top.sigma2),
        ),
        texts=texts,
        similarities=np.take_along_axis(block.similarities, order[:, None], axis=2),
        disagreement=sort(block.disagreement),
        copies=[*map(_copies, texts)],
        passages=passages,
        words=words,
        unfamiliar=[*map(_unfamiliar, repeat(block.method), block.phrasings, passages)],
    )


def judge(block: Block, *, by_texts: bool = False) -> list[Ranking]:
    """Compute the confidence in the hits of each question of a block.

    `by_texts`: whether questions beside the texts are no evidence.
    """
    features, comparisons, evidence = features_of(block, by_texts=by_texts)
    probabilities = block.method.model.probabilities(features)
    return [
        Ranking(
            block=block,
            row=row,
            phrasing=phrasing,
            words=block.words[row],
            comparison=comparisons[row],
            passages=block.passages[row],
            numbers=numbers,
            distinct=distinct,
            mu=block.top.mu[row],
            evidence=evidence[row],
            features=features.of_question(row, len(distinct)),
            probabilities=probabilities.of_question(row, len(distinct)),
        )
        for row, (phrasing, (numbers, distinct)) in enumerate(
            zip(block.phrasings, block.copies, strict=True)
        )
    ]


def _unfamiliar(
    method: Method, phrasing: Phrasing, hits: Mapping[int, Passage]
) -> tuple[str, bool]:
    """Return how a question differs from those of the fit, see `Block`.

    It is told by one hit only, so that the result does not depend on k.
    """
    profile = method.fitted.training_profile if method.check_familiar else None
    if profile is None:
        return "", False
    return profile.unfamiliar(phrasing.text, hits[0].text, method.language or phrasing.language)


def _copies(texts: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return `numbers` and `distinct` of the numbers of hits' texts; see `Ranking`."""
    number: dict[int, int] = {}
    numbers = np.array([number.setdefault(t, len(number)) for t in texts.tolist()], dtype=np.intp)
    return numbers, np.unique(numbers, return_index=True)[1]


def view_for(
    fitted: Fitted,
    store: Searched,
    questions: Sequence[str],
    parts: Sequence[Gaussian],
    k: int,
    weights: FloatArray | None = None,
) -> View:
    """Return the passages of a store; of a remote one, the candidates for one question.

    `weights`: those of the blocks, by which candidates are found; of the rule by default.
    """
    if isinstance(store, CandidateStore):
        if weights is None:
            weights = fitted.coefficients(parts, "query") * fitted.weights
        query = fitted.as_query(parts, weights)
        view = store.fetch(questions, query, _FEWEST * max(k, NEAREST))
    else:
        view = cast(View, store.snapshot())
    return view if fitted.is_direct else _convolved(view, fitted)


_CONVOLVED = Memory(WeakKeyDictionary[Segment, Segment])  # of fits


def _convolved(view: View, fitted: Fitted) -> View:
    """Return a view in which the Gaussians in the shared space are given, made once for each."""
    segments, parts = _CONVOLVED.of(fitted), list[Part]()
    for part in view.state.parts:
        segment = segments.get(part.segment)
        if segment is None:
            batches = [Encoded(of.mean, of.variance) for of in gaussians_of(fitted, part.segment)]
            shared = [Encoded.join(batches)]
            segment = segments[part.segment] = replace(part.segment, vectors=shared)
        parts.append(replace(part, segment=segment))
    width = view.state.schema.widths[:1]
    return View(replace(view.state, parts=parts, schema=Schema(width, width)), view.texts)


def find_vector(
    uec: UEC, store: Searched, mean: FloatArray, k: int, filter: Filter | None
) -> StoreHits:
    """Find the k best hits of a query of which only the mean is known, shape (1, d)."""
    fitted, widths = uec.fitted, [encoder.dimension for encoder in uec.encoders]
    blocks = np.split(mean, np.cumsum(widths)[:-1], axis=1) if fitted.is_direct else [mean]
    parts = [*map(Gaussian.certain, blocks)]
    view = view_for(fitted, store.snapshot(filter), [""], parts, k, fitted.lengths[None])
    is_exact = not store.is_elsewhere or (filter is None and len(view) >= len(store))
    beta, fit = fitted.options.beta, fitted if fitted.is_direct else GIVEN
    hits = view.search(Gaussian.certain(mean), k, beta=beta, fit=fit)
    return replace(hits, exact=is_exact)


def top_k(
    fitted: Fitted,
    view: View,
    query: Gaussian,
    compared: Compared,
    weights: FloatArray,
    different: int,
) -> tuple[StoreHits, NDArray[np.uint64]]:
    """Find the best columns until they hold `different` different texts, and the texts' numbers.

    The search ends at `_DEEPEST` columns, if these are more.
    """
    size = len(view)
    count = min(size, different)
    while True:
        fit, beta = fitted if fitted.is_direct else GIVEN, fitted.options.beta
        top = view.top_k(fit, query, count, beta=beta, compared=compared, weights=weights)
        texts = view.text_keys(top.columns)
        distinct = min(len({*of_query}) for of_query in texts.tolist())
        if distinct >= different or count == size or count >= max(different, _DEEPEST):
            return top, texts
        count = min(size, 2 * count)


def _words_of(
    phrasing: Phrasing,
    row: int,
    hits: Sequence[Passage],
    terms: Sequence[tuple[Terms, LookedUp, Sequence[FloatArray]]],
    size: int,
    are_all: bool,
) -> QuestionWords:
    """Find which words of a question its different hits have, and what each adds.

    `terms`: those of all questions for each encoder that counts words, what the corpus has of them,
    and what each adds to the hits of its question.
    """
    if not terms:
        return QuestionWords.match(phrasing, hits, size)
    rarity, tables = dict[str, float](), [dict[str, float]() for _ in hits]
    asks = [not hit.metadata.keys().isdisjoint(QUESTION_KEYS) for hit in hits]
    tables_beside = [dict[str, float]() for _ in hits] if any(asks) else []
    for of_queries, looked_up, amounts in terms:
        if of_queries.labels is None:
            continue
        span = looked_up.spans[row]
        keys = of_queries.keys[span].tolist()
        labels = [*map(of_queries.labels[row].get, keys)]
        for word, rare in zip(labels, looked_up.idf[span].tolist(), strict=True):
            if word is not None:  # as of a part of a word
                rarity[word] = max(rarity.get(word, 0.0), rare)
        for at, of_hit in enumerate(amounts[row].tolist()):
            shares = shares_beside(hits[at], keys) if asks[at] else {}
            for key, word, amount in zip(keys, labels, of_hit, strict=True):
                if amount and word is not None:
                    share = shares.get(key, 0.0)
                    if share:
                        tables_beside[at][word] = amount * share
                    if share < 1:
                        tables[at][word] = amount * (1 - share)
    family = family_of(phrasing.text, [hit.text for hit in hits[:READ]], phrasing.language)
    return QuestionWords(
        *(phrasing, hits, tables, rarity, size),
        are_all=are_all,
        family=family,
        tables_beside=tables_beside,
    )


def features_of(
    block: Block, *, by_texts: bool = False
) -> tuple[Features, list[Comparison], list[list[float]]]:
    """Compute the features of the first different texts of each question, and its evidence.

    This is the comparison with them, and the value of each row of `OF_HITS`. `by_texts`: whether
    questions beside the texts are no evidence.
    """
    model, slope = block.method.model, block.slope
    logits, variance = list[FloatArray](), list[FloatArray]()
    comparisons, evidence = list[Comparison](), list[list[float]]()
    similarities = np.zeros((len(block.phrasings), len(block.parts)), dtype=np.float32)
    for row, (of_words, (_, distinct)) in enumerate(zip(block.words, block.copies, strict=True)):
        to_hits, mu, likeness = _compare_texts(block, row)
        similarities[row] = to_hits[:, 0]
        logits.append((slope * mu + block.offset[row]).astype(np.float32))
        variance.append(slope**2 * block.top.sigma2[row][distinct])
        gap = float((mu[0] - mu[1]) / max(float(mu[0]), 1e-7)) if len(mu) > 1 else 1.0
        scaled, names = logits[row] / model.temperature, unheard_names(of_words)
        is_judged = likeness is None or model.standardised or by_texts
        same = 0.0 if likeness is None or is_judged else sameness(likeness)
        is_learned = not model.standardised
        comparison = Comparison(of_words, scaled, gap, names, likeness, same, is_learned)
        comparisons.append(comparison)
        evidence.append([])
        for piece in OF_HITS:
            evidence[row].append(piece.value(comparison))
    stacked, values = stack_rows(logits, -np.inf), np.array(evidence, dtype=np.float32)
    against, chances = zip(*(weigh(of[len(WORDS) :]) for of in evidence), strict=True)
    computed = features(
        stacked,
        stack_rows(variance, 0.0),
        stacked[:, :1] if model.standardised else member_evidence(block, similarities),
        model.temperature,
        values[:, : len(WORDS)],
        _competing(block, logits),
        np.array(against, dtype=np.float32),
        np.array(chances, dtype=np.float32),
    )
    return computed, comparisons, evidence


def _compare_texts(block: Block, row: int) -> tuple[FloatArray, FloatArray, Asked | None]:
    """Compare a question with its different hits: each encoder's similarity, mu, what is written.

    Where questions and names stand beside texts, these are compared alone: the text itself is to
    answer, by which confidence was learned.
    """
    distinct, words = block.copies[row][1], block.words[row]
    mu, to_hits = block.top.mu[row][distinct], block.similarities[row][:, distinct]
    before, likeness = to_hits, None
    if block.phrasings[row].turns:
        # The mean of several texts is shorter, which lowers all similarities to it, and the
        # confidence model was fitted on single texts.
        to_hits = to_hits / _mean_lengths(block, row)[:, None]
    if words.tables_beside:
        by_words = np.array([bool(part.terms) for part in block.parts])
        to_hits, shares = to_hits.copy(), np.array(words.own_shares, dtype=np.float32)
        to_hits[by_words, : len(shares)] *= shares
        likeness = _compare_written(block, row, to_hits, ~by_words)
    if to_hits is not before:
        weights = (block.coefficients[row] * block.method.fitted.weights)[:, None]
        mu = mu + (weights * (to_hits - before)).sum(axis=0)
    return to_hits, mu, likeness


def _compare_written(
    block: Block, row: int, to_hits: FloatArray, are_vectors: NDArray[np.bool_]
) -> Asked | None:
    """Compare a question with those written for its first hits; None if no hit has a sketch.

    `to_hits`: its cosines to them by each encoder; those to the vectors of passages are replaced by
    those to their texts.
    """
    words = block.words[row]
    drawings = [hit.sketch for hit in words.hits[:LIKENED]]
    if not any(drawings):
        return None
    means = [part.mean[row] for part in block.parts if not part.terms]
    vectors = [mean / (np.linalg.norm(mean) or np.float32(1)) for mean in means]
    likenesses = sketches.read(drawings, vectors, to_hits[are_vectors, : len(drawings)])
    before = to_hits[:, : len(drawings)].copy()
    for at, of_hit in enumerate(likenesses):
        if of_hit is not None:
            to_hits[are_vectors, at] = of_hit.text
    if block.phrasings[row].turns:  # which are near to more of what is written, beyond these, too
        to_hits[:, len(drawings) :] += (to_hits[:, : len(drawings)] - before).mean(axis=1)[:, None]
    texts = to_hits[are_vectors, : len(drawings)].mean(axis=0)
    return Asked(words, likenesses, texts) if any(likenesses[:JUDGED]) else None


def _competing(block: Block, logits: Sequence[FloatArray]) -> FloatArray | None:
    """Return the logits of what competes with hits that are few, shape (n, c); None if nothing.

    `logits`: of the different hits of each question.
    """
    if (rivals := block.rivals) is None:
        return None
    model, competing = block.method.model, list[FloatArray]()
    usual = np.array(model.profile, dtype=np.float32) * np.float32(model.temperature)
    for row, of_hits in enumerate(logits):
        extra = of_hits[:0]
        if rivals.store is not None:
            mu = _beyond(block, row, rivals.store)
            extra = (block.slope * mu + block.offset[row]).astype(np.float32)
        count = len(of_hits) + len(extra)
        if rivals.profile and count < len(usual):
            start = of_hits[0] - usual[0] if rivals.profile == "relative" else 0
            extra = np.append(extra, usual[count:] + start)
        competing.append(extra)
    return stack_rows(competing, -np.inf)


def _beyond(block: Block, row: int, store: Searched) -> FloatArray:
    """Return mu_s of the nearest passages of a store that are not among the hits of a question.

    With the different texts of the hits, they are `NEAREST`.
    """
    method, phrasing, pi = block.method, block.phrasings[row], block.coefficients[row : row + 1]
    parts = [part[row : row + 1] for part in block.parts]
    view = view_for(method.fitted, store, [phrasing.lines], parts, NEAREST)
    if not len(view):
        return block.top.mu[row, :0]
    weights = pi * method.fitted.weights
    if phrasing.turns:
        weights = weights / _mean_lengths(block, row)
    compared = view.compare([part.terms[0] if part.terms else part.mean for part in parts])
    query = method.fitted.combine(parts, pi)
    top, [texts] = top_k(method.fitted, view, query, compared, weights, 2 * NEAREST)
    of_hits = {*block.texts[row].tolist()}
    places = [at for at in _copies(texts)[1].tolist() if int(texts[at]) not in of_hits]
    mu: FloatArray = top.mu[0, places[: max(0, NEAREST - len(of_hits))]]
    return mu


def _mean_lengths(block: Block, row: int) -> FloatArray:
    """Return the length of a question's mean in each block of the ensemble, shape (K,)."""
    lengths = np.array([np.linalg.norm(part.mean[row]) for part in block.parts], dtype=np.float32)
    lengths[lengths == 0] = 1  # lexical encoders
    return lengths


def member_evidence(block: Block, similarities: FloatArray) -> FloatArray:
    """Compute the logit of each encoder for the first hits, shape (n, K), as evidence of an answer.

    That a passage has "what" and "of" is no evidence: of the matched words' weight, the share of
    English function words does not count. To an encoder, all texts in a script that it does not
    know are similar, so only lexical evidence counts for a question in such a script.

    `similarities`: each encoder's to the first hit of each question, shape (n, K); overwritten.
    """
    parts, fitted = block.parts, block.method.fitted
    by_words = np.array([bool(part.terms) for part in parts])
    if not by_words.any():
        return fitted.member_logits(parts, similarities)
    for row, words in enumerate(block.words):
        if amounts := words.tables[0]:
            content = [amounts[word] for word in telling_words(amounts, FUNCTION_WORDS)]
            similarities[row, by_words] *= np.float32(sum(content) / sum(amounts.values()))
    logits = fitted.member_logits(parts, similarities)
    for row in [row for row, (_, is_foreign) in enumerate(block.unfamiliar) if is_foreign]:
        logits[row, ~by_words] = logits[row, by_words].max()
    return logits


_UNRELATED = 64  # passages to compare with each other
_USUAL_PAIRS, _USUAL_MEAN, _USUAL_DEVIATION = 2, 0.2, 0.1


def unfitted_logit_line(
    fitted: Fitted, store: Searched, parts: Sequence[Gaussian]
) -> tuple[np.float32, FloatArray]:
    """Return slope and offset, shape (n,), of the logits ``slope * mu_s + offset`` without a fit.

    They standardise similarities by the mean and standard deviation between passages of the corpus,
    that is, of unrelated texts, above which that of an answering passage stands out. A typical
    encoder serves as a prior worth a few pairs. To a lexical encoder, unrelated texts are assumed
    to have a similarity of 0.
    """
    sample = store.sample(_UNRELATED)
    unrelated = fitted.passages(sample).mean if sample else np.zeros((0, 0), dtype=np.float32)
    cosine = cosines_of_pairs(unrelated[: 2 * _UNRELATED])
    count = len(cosine) + _USUAL_PAIRS
    centre = (cosine.sum() + _USUAL_PAIRS * _USUAL_MEAN) / count
    square = ((cosine - centre) ** 2).sum() + _USUAL_PAIRS * _USUAL_DEVIATION**2
    words = sum(bool(part.terms) for part in parts) / len(parts)
    mean = float(centre * (1 - words))
    deviation = float(np.sqrt(square / count) * max(1 - words, 0.5))
    offset = np.full(len(parts[0]), -mean / deviation, dtype=np.float32)
    return np.float32(1 / deviation), offset


def outline_of(ranking: Ranking) -> Outline:
    """Return the outline of the first texts of a question, in which its readings are found."""
    hits, phrasing, words = ranking.words.hits[:READ], ranking.phrasing, ranking.words
    bodies = [own_text(hit.metadata, hit.text) for hit in hits]
    # Metadata tell apart what is otherwise the same.
    pairs = zip(hits, bodies, strict=True)
    texts = [hit.text if bodies.count(body) > 1 else body for hit, body in pairs]
    # On the scale of confidence, since the raw similarities of an ensemble that was not fitted
    # would be nearly equal.
    logits = ranking.features.relevance[0, : len(hits), 1].copy()
    return Outline(
        [*map(attrgetter("id"), hits)],
        texts,
        [*map(attrgetter("about"), hits)],
        logits,
        words.tables[:READ],
        words.idf,
        words.size,
        function_words(phrasing.language),
        phrasing.language,
        [hit.metadata for hit in hits],
    )
