"""The stages of a search, from encoded queries to results.

run           searches for each question in its views, and decides in the clearest
rank          finds the hits of queries, in blocks: a `Ranking` for each block
view_for      looks at the passages; in a remote store, at the candidates of its query
compare       computes the similarity of every encoder to every column
weigh         computes the coefficients, that is, the weight of each encoder
top_k         finds the columns with the highest s_hat, and their passages
contribute    looks up each encoder's similarity to the hits, and the words that they match
features_of   computes the features from which probabilities are estimated
assess        estimates P(these hits answer), P(underspecified): an `Assessment` of each query
clearest      chooses the view in which a question is best understood
decide        decides, and assembles the `Result` of a question
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray, Gaussian, Terms
from uec_rag.base.similarity import cosines_of_pairs
from uec_rag.base.text import FUNCTION_WORDS, SOURCE_KEYS, first_value, says_little, stems
from uec_rag.confidence import readings
from uec_rag.confidence.counterevidence import counterevidence
from uec_rag.confidence.decision import Decision, decide_one, needs_clarification
from uec_rag.confidence.languages import Code, function_words
from uec_rag.confidence.model import (
    JUDGED,
    NEAREST,
    WORDS,
    ConfidenceModel,
    Features,
    Probabilities,
    features,
    log_odds,
    sigmoid,
)
from uec_rag.confidence.readings import ASK, Candidates, Reading
from uec_rag.confidence.wording import complete_question, refers_back
from uec_rag.ensemble.convolution import block_scales
from uec_rag.ensemble.fitted import Fitted
from uec_rag.retrieval.query import SHARE, Query, in_context
from uec_rag.retrieval.result import Result, cover, own_copy
from uec_rag.retrieval.why import explain
from uec_rag.retrieval.words import Content, match, missing, name_evidence, word_evidence
from uec_rag.stores.base import Filter, Passage, Searched, Top
from uec_rag.stores.candidates import CandidateStore
from uec_rag.stores.local import View
from uec_rag.stores.local.scan import Compared

_BLOCK = 2**26  # similarities held at a time, over questions, passages and encoders
_FEWEST = 4  # candidates to fetch from a remote store for each hit
_MOST_LOOKED_AT = 1024  # hits to search for different texts
_RANKED = 100  # ranks beyond this are reported as unknown
_MAY_ABSTAIN = 0.95  # confidence below which an abstention names the closest sections
_ANSWERED = 0.5  # confidence from which a reading is worth offering, whatever the gate
_WORTH_ASKING = 0.05  # P(underspecified) below which no threshold asks back
# What the log odds of an answer to a corrected question weigh in those that it is what was meant.
_TELLS = 0.75
_COVERED = 0.5  # share of the words of both halves of a question by which a hit is about both
_OF_PARTS = 2  # hits that are reserved for the parts of a question that may be one
_EQUAL = np.float32(1e-5)  # largest difference of similarities that rounding may cause
# Confidence above which a question is searched without its turns, and without earlier subjects.
_NEEDS_NO_TURNS, _NEEDS_LATEST = 0.85, 0.5


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
    """

    fitted: Fitted
    model: ConfidenceModel
    basis: str = ""
    check_familiar: bool = True
    language: str | None = None


@dataclass(eq=False)
class Ranking:
    """The hits of n queries that are compared with one view of C columns.

    Attributes
    ----------
    method : Method
    view : View
    queries : sequence of n Query
    parts : sequence of K Gaussian
        The Gaussians of the queries in each block (`Fitted.blocks`).
    coefficients : array, shape (n, K)
    leading : list of K arrays, shape (n, L)
        The highest similarities of each block to a column: cosines, or BM25 scores from 0 to 1.
    disagreement : array, shape (n, m)
        The disagreement of the encoders about each hit, see `Fitted.disagreement`.
    top : Top
        The best m columns, best first, with their scores.
    passages : list of n lists of m Passage
    text_number : array, shape (n, m)
        The number of each hit's text, from 0, best first; copies of a text share its number.
    distinct : array, shape (n, m)
        The first position of each different text, padded with -1.
    to_hits : array, shape (n, K, m)
        Each block's similarity to a hit.
    words : list of n lists of dict of str to float, or None
        Words of the question that a hit contains, with the similarity that each adds; None if no
        member is lexical.
    idf : list of n dict of str to float
        Inverse document frequency of the words of each question; empty if no member is lexical.
    unfamiliar : sequence of n pairs of str and bool
        How each question differs from those of the fit, "" if it does not, and whether it is in a
        script that no encoder knows.
    features : Features
        The features of confidence.
    probabilities : Probabilities
        What the model of confidence makes of them.
    """

    method: Method
    view: View
    queries: Sequence[Query]
    parts: Sequence[Gaussian]
    coefficients: FloatArray
    leading: list[FloatArray]
    disagreement: FloatArray
    top: Top
    passages: list[list[Passage]]
    text_number: NDArray[np.intp]
    distinct: NDArray[np.intp]
    to_hits: FloatArray
    words: list[list[dict[str, float]]] | None
    idf: list[dict[str, float]]
    unfamiliar: Sequence[tuple[str, bool]]
    features: Features = field(init=False)
    probabilities: Probabilities = field(init=False)

    def first(self, row: int, most: int | None = None) -> NDArray[np.intp]:
        """Return which hits of a query are the first with their texts, `most` at most."""
        places: NDArray[np.intp] = self.distinct[row, :most]
        return places[places >= 0]


@dataclass(frozen=True, eq=False)
class Assessment:
    """The estimates for one query of a ranking: the stage after `assess`, before `decide`.

    Attributes
    ----------
    ranking : Ranking
    row : int
        Position of the query in the ranking.
    probabilities : Probabilities
        Probabilities of relevance, confidence and `in_corpus`.
    confidence : float
        P(the first `JUDGED` texts answer the question).
    underspecified : float
        P(the question does not say which of its readings is meant).
    competing : Candidates
        The texts in which the readings are found.
    """

    ranking: Ranking
    row: int
    probabilities: Probabilities
    confidence: float
    underspecified: float
    competing: Candidates

    @property
    def clarity(self) -> float:
        """P(the question says what it means, and the first texts answer it), as if independent."""
        return self.confidence * (1 - self.underspecified)

    def estimated_by(self, probabilities: Probabilities) -> Assessment:
        """Return the assessment with other probabilities, those of one query."""
        sure = float(probabilities.confidence[0])
        return replace(self, probabilities=probabilities, confidence=sure)

    def asks(self, meant: Sequence[Reading]) -> bool:
        """Return whether the decision is to ask which of some readings is meant."""
        in_corpus = float(self.probabilities.in_corpus[0])
        return needs_clarification(self.underspecified, in_corpus, meant)


def run(
    method: Method,
    store: Searched,
    queries: Sequence[Query],
    rows: Mapping[str, int],
    parts: Sequence[Gaussian],
    k: int,
    among: Filter | None = None,
    rest: Filter | None = None,
) -> list[Result]:
    """Search a store for questions in their conversations.

    Parameters
    ----------
    queries : sequence of n Query
    rows : mapping of str to int
        The row of each text, of questions and of their turns, in `parts`.
    parts : sequence of K Gaussian
        Each encoder's Gaussians of the texts.
    k : int
        Number of hits of each question.
    among : Filter, optional
        Selects the passages.
    rest : Filter, optional
        Selects those that compete with these: with few, nothing would compete with the first of
        them, and a question would look answered.
    """
    view, whole = store.snapshot(among), None if among is None else store.snapshot(rest)
    others = None if whole is None else partial(_left_out_of, whole, k)
    # Of an engine, those that a filter selects are not counted.
    is_counted = isinstance(view, View) or among is None
    size, results = len(view) if is_counted else 0, list[Result]()
    flat = [one for query in queries for one in query.views.values()]
    blocks = rank(method, view, flat, in_context(flat, rows, parts), k, others)
    assessments = chain.from_iterable(
        [None] * len(asked) if ranking is None else assess(ranking) for asked, ranking in blocks
    )
    for query in queries:
        seen = dict(zip(query.views, assessments))  # noqa: B905 (as many as it has views)
        chosen = clearest(query, seen) if seen else None
        if chosen is not None:
            found = decide(chosen, query, k, size)
            halves = [one for view in (-2, -3) if (one := seen.get(view)) is not None]
            if halves and (not query.possible_parts or _are_two(chosen, halves)):
                own = [decide(half, query, k, size) for half in halves]
                reserved = _OF_PARTS if query.possible_parts else JUDGED
                found = cover(found, own, query.parts, k, reserved)
            results.append(found)
            continue
        names, language = method.fitted.names, method.language or query.language
        equal = np.full(len(names), 1 / len(names), dtype=np.float32)
        code: Code = "nothing_found" if query.text.strip() else "no_question"
        nothing = Decision.empty(method.basis, language, code)
        shares = method.fitted.shares(equal[None])[0]
        results.append(Result(query.said or query.text, nothing, names, equal, shares))
    return results


def _are_two(whole: Assessment, halves: Sequence[Assessment]) -> bool:
    """Return whether a question is two: no first hit of it has most of the words of each half."""
    rarity, without = whole.competing.idf, whole.competing.function_words
    hits = [{*words} for words in whole.competing.words[:JUDGED]]
    least = np.ones(len(hits))
    for half in halves:
        said = [word for word in half.competing.idf if not says_little(word, without)]
        total = sum(rarity.get(word, 0.0) for word in said)
        has = [sum(rarity.get(word, 0.0) for word in said if word in hit) for hit in hits]
        least = np.minimum(least, np.array(has) / max(total, 1e-9))
    return float(least.max(initial=0.0)) < _COVERED


def clearest(query: Query, views: Mapping[int | None, Assessment | None]) -> Assessment | None:
    """Choose the view in which a question is best understood; None if nothing was found.

    Alone, the question must be complete, and be answered confidently, unless what else there is is
    the rest of its message, which is seldom on the subject.

    Parameters
    ----------
    query : Query
    views : mapping of int or None to Assessment
        The assessment of each of `Query.views`.
    """
    question, (alone, chosen) = query.text, (views.get(0), views[None])
    least = 0.0 if query.is_part else _NEEDS_NO_TURNS
    clear = alone and alone.confidence > least and alone.underspecified < ASK
    if clear and complete_question(question):
        return alone
    since = [one for at, one in views.items() if at is not None and at > 0 and one is not None]
    since = [one for one in since if one.confidence > _NEEDS_LATEST]
    chosen = max((*filter(None, [chosen]), *since), key=attrgetter("clarity"), default=None)
    read = [one for place in range(len(query.switched)) if (one := views.get(-4 - place))]
    chosen = _goes_on(query, read, chosen or read[0]) if read else chosen
    if alone is not None and chosen is not None:
        chosen = _combine_with_standalone(chosen, alone, question)
    return _as_spelled(chosen or alone, views.get(-1), query.likely)


def _goes_on(query: Query, read: Sequence[Assessment], in_turn: Assessment) -> Assessment:
    """Choose among the readings of a follow-up that goes on to another thing, and its turns.

    Readings whose hits are about it are preferred to the likeliest, and this to the turns, unless
    it is not confident, or less clear where turns before the question before may be needed, too.
    Of hits about what was asked before, no confidence counts.
    """
    told = [one for one in read if one.confidence > _NEEDS_LATEST and _tells(one, query) > 0]
    best = max(told or read[:1], key=attrgetter("clarity"))
    tells, is_whole = _tells(in_turn, query), query.turns[0] == query.before
    sure = max(best.confidence, in_turn.confidence if tells < is_whole else 0.0)
    is_clear = is_whole or tells < 0 or best.clarity > in_turn.clarity
    return best if sure > _NEEDS_LATEST and is_clear else in_turn


def _tells(assessed: Assessment, query: Query) -> int:
    """Return 1 if the first hit has what a follow-up goes on to, -1 if it is about the other.

    It is if its title or source has words that this takes the place of, and none of this.
    """
    ranking, row = assessed.ranking, assessed.row
    asked, hit = ranking.queries[row].text, ranking.passages[row][ranking.first(row, 1)[0]]
    after = stems(query.switched[0] if asked == query.text else asked)
    before, source = stems(query.before), first_value(hit.metadata, SOURCE_KEYS)
    new, about = (after - before) or after, stems(f"{hit.about.subject} {source}")
    if about & (before - after) and not about & new:
        return -1
    return int(not stems(hit.with_source).isdisjoint(new))


def _as_spelled(
    written: Assessment | None, spelled: Assessment | None, likely: float
) -> Assessment | None:
    """Choose between a question as it is written and as its words are in the index.

    The log odds of both are averaged, by how likely the latter is meant: the more so, the surer its
    answer, which a wrong correction seldom has.
    """
    if written is None or spelled is None:
        return written or spelled
    odds, sure = log_odds(np.array([likely, spelled.confidence], np.float32))
    meant = float(sigmoid(odds + _TELLS * sure))
    mixed = spelled.probabilities.mix(written.probabilities.in_corpus, 1 - meant)
    if mixed.confidence[0] <= written.confidence:
        return written
    return spelled.estimated_by(mixed)


def _combine_with_standalone(in_turn: Assessment, alone: Assessment, question: str) -> Assessment:
    """Combine the estimates for a question with its turns and alone.

    A question that refers back to its turns ("Do they expire?") says nothing alone. Of another, the
    probabilities are mixed, and P(underspecified) is that of the question alone, but at least that
    with the turns; it is reduced by a confidence above 0.5 if the turns raise it.
    """
    if refers_back(question):
        return in_turn
    mixed = in_turn.probabilities.mix(alone.probabilities.in_corpus, 1 - SHARE)
    unresolved = alone.underspecified
    # Turns that say what is meant raise the confidence, and those on another subject do not.
    if in_turn.confidence > alone.confidence:
        unresolved *= min(1, 2 * (1 - in_turn.confidence))
    chosen = in_turn if unresolved <= in_turn.underspecified else alone
    unresolved = max(unresolved, in_turn.underspecified)
    resolved = replace(in_turn, underspecified=unresolved, competing=chosen.competing)
    return resolved.estimated_by(mixed)


def rank(
    method: Method,
    store: Searched,
    queries: Sequence[Query],
    parts: Sequence[Gaussian],
    k: int,
    others: Callable[[Ranking], FloatArray] | None = None,
) -> Iterator[tuple[Sequence[Query], Ranking | None]]:
    """Find the hits of queries and their features, from which `calibrate` learns, too.

    Yields blocks of queries with their ranking, which is None if there are no passages. A block has
    as many queries as fit in memory. In a remote store, it has one, since the candidates differ
    between queries.

    `others`: computes mu_s of what competes with a few passages (`left_out`).
    """
    fitted, step = method.fitted, 1
    profile = fitted.training_profile if method.check_familiar else None
    if not isinstance(store, CandidateStore):
        step = max(1, _BLOCK // max(1, len(store) * (len(parts) + 1)))
    for start in range(0, len(queries), step):
        block = slice(start, start + step)
        asked = queries[block]
        some = parts if len(queries) <= step else [part[block] for part in parts]
        view = view_for(method, store, asked, some, k)
        if not len(view):
            yield asked, None
            continue
        compared = compare(fitted, view, some)
        leading = compared.leading
        best = np.stack([of_block[:, 0] for of_block in leading], axis=1)
        pi = fitted.weigh(some, leading, best)
        query, weights = fitted.combine(some, pi), pi * fitted.weights
        found = top_k(fitted, view, query, compared, weights, max(k, NEAREST))
        top, passages, _, _ = found
        unfamiliar = [("", False)] * len(asked)
        if profile is not None:
            # By one hit only, so that the result does not depend on k.
            unfamiliar = [
                profile.unfamiliar(query.text, hits[0].text, method.language or query.language)
                for query, hits in zip(asked, passages, strict=True)
            ]
        matched = contribute(view, some, compared.similarities, top.columns)
        apart = fitted.disagreement(matched[0], best, pi)
        ranking = Ranking(
            method, view, asked, some, pi, leading, apart, *found, *matched, unfamiliar
        )
        rest = others(ranking) if others is not None and len(view) < NEAREST else None
        ranking.features = features_of(ranking, store, rest)
        ranking.probabilities = method.model.probabilities(ranking.features)
        yield asked, ranking


def view_for(
    method: Method, store: Searched, queries: Sequence[Query], parts: Sequence[Gaussian], k: int
) -> View:
    """Return the passages of a store; of a remote one, the candidates for the only query."""
    if not isinstance(store, CandidateStore):
        return cast(View, store.snapshot())
    [query], combined = queries, method.fitted.combine_as(parts, "query")
    return store.fetch(query.lines, combined, _FEWEST * max(k, NEAREST))


def compare(fitted: Fitted, view: View, parts: Sequence[Gaussian]) -> Compared:
    """Compare the Gaussians of the questions with the passages, block by block."""
    # With this scale, products with the stored blocks are cosines.
    blocks: list[FloatArray | Terms] = []
    for part, scale in zip(parts, block_scales(fitted.weights), strict=True):
        blocks.append(part.terms[0].scale_by(1 / scale) if part.terms else part.mean / scale)
    return view.compare(blocks)


def top_k(
    fitted: Fitted,
    view: View,
    query: Gaussian,
    compared: Compared,
    weights: FloatArray,
    different: int,
) -> tuple[Top, list[list[Passage]], NDArray[np.intp], NDArray[np.intp]]:
    """Find the best columns until they hold `different` different texts.

    The search ends at `_MOST_LOOKED_AT` columns, if these are more. Returns `top`, `passages`,
    `text_number` and `distinct` of a `Ranking`.
    """
    size = len(view)
    count = min(size, different)
    while True:
        beta = fitted.options.beta
        top = view.top_k(query, count, beta=beta, compared=compared, weights=weights)
        passages = view.gather(top.columns)
        text_number = np.empty((len(weights), count), dtype=np.intp)
        for numbers, of_query in zip(text_number, passages, strict=True):
            seen: dict[str, int] = {}
            numbers[:] = [seen.setdefault(passage.text, len(seen)) for passage in of_query]
        fewest = text_number.max(axis=1).min() + 1
        if fewest >= different or count == size or count >= max(different, _MOST_LOOKED_AT):
            break
        count = min(size, 2 * count)
    distinct = np.full_like(text_number, -1)
    for row, of_row in zip(distinct, text_number.tolist(), strict=True):
        first: dict[int, int] = {}
        for place, number in enumerate(of_row):
            first.setdefault(number, place)
        row[: len(first)] = [*first.values()]
    return top, passages, text_number, distinct


def contribute(
    view: View,
    parts: Sequence[Gaussian],
    to_columns: Sequence[FloatArray],
    columns: NDArray[np.int64],
) -> tuple[FloatArray, list[list[dict[str, float]]] | None, list[dict[str, float]]]:
    """Look up each encoder's similarity to the hits, and the words that they match.

    Returns `to_hits`, `words` and `idf` of a `Ranking`.
    """
    to_hits = np.empty((len(columns), len(to_columns), columns.shape[1]), dtype=np.float32)
    for member, to_all in enumerate(to_columns):
        to_hits[:, member] = np.take_along_axis(to_all, columns, axis=1)
    terms = [block for part in parts for block in part.terms]
    idf_of: list[dict[str, float]] = [{} for _ in columns]
    if not terms:
        return to_hits, None, idf_of
    words: list[list[dict[str, float]]] = [[{} for _ in row] for row in columns]
    contributions = view.contributions(terms, columns)
    for row, (of_words, of_hits) in enumerate(zip(idf_of, words, strict=True)):
        for block, (added, rarities) in zip(terms, contributions, strict=True):
            if block.labels is None:
                continue
            keys = block.keys[block.starts[row] : block.starts[row + 1]].tolist()
            labels = [*map(block.labels[row].get, keys)]  # None for a part of a word
            for word, rarity in zip(labels, rarities[row].tolist(), strict=True):
                if word is not None:
                    of_words[word] = max(of_words.get(word, 0.0), rarity)
            hits, numbers = np.nonzero(added[row] > 0)
            amounts = added[row][hits, numbers].tolist()
            for hit, number, amount in zip(hits.tolist(), numbers.tolist(), amounts, strict=True):
                if (word := labels[number]) is not None:
                    of_hits[hit][word] = amount
    return to_hits, words, idf_of


def features_of(ranking: Ranking, store: Searched, rest: FloatArray | None = None) -> Features:
    """Compute the features of the first different texts of n questions.

    Parameters
    ----------
    ranking : Ranking
    store : Store
        What was searched.
    rest : array, shape (n, m), optional
        mu_s of the passages that compete with the few ones of a filter, see `left_out`.
    """
    method, fitted, pi = ranking.method, ranking.method.fitted, ranking.coefficients
    mu, to_hits, positions = ranking.top.mu, ranking.to_hits, ranking.distinct
    is_unfitted = method.model.standardised
    line = unfitted_logit_line(store, ranking.parts) if is_unfitted else None
    slope, offset = line or fitted.logit_line(ranking.parts, pi)
    if any(query.turns for query in ranking.queries):
        # The mean of several texts is shorter, which lowers all similarities to it, and the
        # confidence model was fitted on single texts.
        to_hits = ranking.to_hits / mean_lengths(ranking)[:, :, None]
        mu = mu + ((pi * fitted.weights)[:, :, None] * (to_hits - ranking.to_hits)).sum(axis=1)
    mu = np.where(positions >= 0, np.take_along_axis(mu, positions, axis=1), -np.inf)
    sigma2 = np.take_along_axis(ranking.top.sigma2, positions, axis=1)
    logits = (slope * mu + offset[:, None]).astype(np.float32)
    members, others = logits[:, :1], None
    if not is_unfitted:
        members = member_evidence(ranking, to_hits[:, :, 0].copy())
    if rest is not None:
        others = (slope * rest + offset[:, None]).astype(np.float32)
    temperature = method.model.temperature
    words = np.full((len(mu), len(WORDS)), np.nan, dtype=np.float32)
    against = np.empty(len(mu), dtype=np.float32)
    for row, passages in enumerate(ranking.passages):
        near, query = ranking.first(row, NEAREST).tolist(), ranking.queries[row]
        hits, lacks = [passages[at] for at in near], [0.0] * len(near[:JUDGED])
        if ranking.words is not None:
            of_hits = [ranking.words[row][at] for at in near]
            content = Content.of(query, ranking.idf[row])
            texts = [hit.with_source for hit in hits[:JUDGED]]
            first = [*zip(texts, of_hits[:JUDGED], strict=True)]
            words[row] = word_evidence(query, content, first)
            lacks = name_evidence(content, hits, of_hits, ranking.view.corpus_size)
        texts = [hit.text for hit in hits]
        against[row] = counterevidence(texts, logits[row] / temperature, lacks)
    variance = slope**2 * sigma2
    return features(logits, variance, members, temperature, words, others, against)


def left_out(
    ranking: Ranking,
    whole: View,
    apart: Collection[str] = (),
    compared: Compared | None = None,
) -> FloatArray:
    """Return mu_s of the nearest passages that are not in a ranking, shape (n, m).

    With the different texts of the ranking, they are `NEAREST`; rows are padded with -inf.

    `apart`: ids of passages that do not count, at most `NEAREST` with those of the ranking.
    `compared`: the questions with all passages, if that is known.
    """
    fitted, pi = ranking.method.fitted, ranking.coefficients
    compared = compared or compare(fitted, whole, ranking.parts)
    query, weights = fitted.combine(ranking.parts, pi), pi * fitted.weights / mean_lengths(ranking)
    top, passages, _, distinct = top_k(fitted, whole, query, compared, weights, 2 * NEAREST)
    others = np.full((len(pi), NEAREST), -np.inf, dtype=np.float32)
    for row, columns in enumerate(distinct.tolist()):
        found = {passage.text for passage in ranking.passages[row]}
        near = [(at, passages[row][at]) for at in columns if at >= 0]
        new = [at for at, one in near if one.text not in found and one.id not in apart]
        new = new[: max(0, NEAREST - len(found))]
        others[row, : len(new)] = top.mu[row, new]
    return others


def _left_out_of(store: Searched, k: int, ranking: Ranking) -> FloatArray:
    view = view_for(ranking.method, store, ranking.queries, ranking.parts, k)
    return left_out(ranking, view)


def mean_lengths(ranking: Ranking) -> FloatArray:
    """Return the length of each query's mean in each block, shape (n, K); 1 without turns."""
    lengths = np.stack([np.linalg.norm(part.mean, axis=1) for part in ranking.parts], axis=1)
    lengths[[not query.turns for query in ranking.queries]] = 1
    lengths[lengths == 0] = 1  # lexical encoders
    return lengths


_UNRELATED = 64  # passages to compare with each other
_USUAL_PAIRS, _USUAL_MEAN, _USUAL_DEVIATION = 2, 0.2, 0.1


def unfitted_logit_line(
    store: Searched, parts: Sequence[Gaussian]
) -> tuple[np.float32, FloatArray]:
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


def member_evidence(ranking: Ranking, similarities: FloatArray) -> FloatArray:
    """Compute the logit of each encoder for the first hit, shape (n, K), as evidence of an answer.

    That a passage has "what" and "of" is no evidence: of the matched words' weight, the share of
    English function words does not count. To an encoder, all texts in a script that it does not
    know are similar, so only lexical evidence counts for a question in such a script.

    `similarities`: each encoder's similarity to the first hit, shape (n, K); it is overwritten.
    """
    by_words = np.array([bool(part.terms) for part in ranking.parts])
    for row, of_hits in enumerate(ranking.words or ()):
        matched, without = of_hits[0], FUNCTION_WORDS
        content = [value for word, value in matched.items() if not says_little(word, without)]
        if matched:
            similarities[row, by_words] *= np.float32(sum(content) / sum(matched.values()))
    logits = ranking.method.fitted.member_logits(ranking.parts, similarities)
    foreign = np.array([is_foreign for _, is_foreign in ranking.unfamiliar])
    if foreign.any() and by_words.any():
        heard = logits[:, by_words].max(axis=1, keepdims=True)
        logits = np.where(foreign[:, None] & ~by_words, heard, logits)
    return logits


def assess(ranking: Ranking) -> list[Assessment]:
    """Estimate the probabilities of each query of a ranking from its features."""
    sure = ranking.probabilities.confidence.tolist()
    assessed = []
    for row, query in enumerate(ranking.queries):
        near = _candidates(ranking, row)
        told = readings.ambiguity(query.text, near, sure[row], query.turns)
        assessed.append(Assessment(ranking, row, ranking.probabilities.row(row), sure[row], *told))
    return assessed


def _candidates(ranking: Ranking, row: int) -> Candidates:
    """Return the first texts of one query of a ranking, in which its readings are found."""
    query, near = ranking.queries[row], ranking.first(row, NEAREST)
    passages = [ranking.passages[row][column] for column in near.tolist()]
    words: Sequence[Collection[str]]
    size = ranking.view.corpus_size
    if ranking.words is None:
        texts = [passage.with_source for passage in passages]
        words, idf_of = match(query.lines, texts, size)
    else:
        words, idf_of = [ranking.words[row][column] for column in near.tolist()], ranking.idf[row]
    described, vectors = [*map(attrgetter("about"), passages)], None
    if not all(map(attrgetter("subject"), described)):
        vectors = ranking.view.means(ranking.top.columns[row, near])
    return Candidates(
        [*map(attrgetter("id"), passages)],
        [*map(attrgetter("text"), passages)],
        described,
        # On the scale of confidence, since the raw similarities of an ensemble that was not fitted
        # would be nearly equal.
        ranking.features.relevance[row, : len(near), 1],
        words,
        idf_of,
        size,
        vectors,
        function_words(query.language),
    )


def decide(assessed: Assessment, asked: Query, k: int, size: int) -> Result:
    """Decide on a query, and assemble its result.

    `asked`: what the user asked, of which one view was assessed. `size`: number of passages that
    were searched.
    """
    assessed, meant = _worth_offering(assessed)
    ranking, row, probabilities = assessed.ranking, assessed.row, assessed.probabilities
    method, top, query = ranking.method, ranking.top, ranking.queries[row]
    # What lacks a name of the question, such as "France", is close to it by chance.
    lacks_name = ranking.features.in_corpus[row, 3 + WORDS.index("names")] == 0
    may_abstain = assessed.confidence < _MAY_ABSTAIN and not lacks_name
    closest = readings.closest_sections(assessed.competing) if may_abstain else []
    offered = meant if assessed.underspecified >= ASK else ()
    fitted, number, passages = method.fitted, ranking.text_number[row], ranking.passages[row]
    relevance = spread_to_hits(probabilities.relevance[0], number, top.mu[row])
    sure, other = assessed.confidence, (asked.spelled, *asked.switched)
    if offered:  # they may have taken the place of hits that confidence counts on
        sure = min(sure, float(relevance[hits_of(ranking, row, JUDGED, offered)].sum()))
    decision = decide_one(
        sure,
        assessed.underspecified,
        tuple(meant),
        closest=tuple(closest),
        in_corpus=float(probabilities.in_corpus[0]),
        unfamiliar=ranking.unfamiliar[row][0],
        language=method.language or query.language,
        searched_as=query.text if asked.is_part or query.text in other else "",
        asks=asked.asks,
    )
    kept = hits_of(ranking, row, k, offered)
    pi = fitted.encoder_coefficients(ranking.parts, ranking.coefficients)[row : row + 1]
    copies = defaultdict[int, list[Passage]](list)
    for position, of_text in enumerate(number.tolist()):
        copies[of_text].append(passages[position])
    lacking = list[str]()
    if (words := ranking.words) is not None:
        judged = [words[row][at] for at in ranking.first(row, JUDGED).tolist()]
        lacking = missing(query, judged, ranking.idf[row])
    return Result(
        asked.said or asked.text,
        replace(decision, basis=method.basis, hits=JUDGED, size=size),
        fitted.names,
        pi[0],
        fitted.shares(pi)[0],
        [own_copy(passages[column]) for column in kept.tolist()],
        top.scores[row, kept],
        top.mu[row, kept],
        top.sigma2[row, kept],
        ranking.disagreement[row, kept],
        relevance[kept],
        probabilities.confidence_at_k[0],
        exact=0 < size <= len(ranking.view),  # an engine may not know its size
        parts=parts_of(ranking, row, kept),
        copies=[[*map(own_copy, copies[of_text][1:])] for of_text in number[kept].tolist()],
        why=explain(method.model.in_corpus, ranking.features, row, lacking),
    )


def _worth_offering(
    assessed: Assessment, compared: Compared | None = None
) -> tuple[Assessment, list[Reading]]:
    """Choose the readings that are worth offering: those with an answer, if there are several.

    Without one of them, its passages compete with the others, which may have no answer then.
    Returns the assessment that they are of, too: of sections, if one product alone answers.

    `compared`: the question with all passages, if that is known.
    """
    ranking, row, near = assessed.ranking, assessed.row, assessed.competing
    meant = readings.readings(near) if assessed.underspecified >= _WORTH_ASKING else []
    if not assessed.asks(meant) or ranking.method.model.standardised:
        return assessed, meant
    query, parts = ranking.queries[row], [part[row : row + 1] for part in ranking.parts]
    known = compared or compare(ranking.method.fitted, ranking.view, parts)

    def is_answered(one: Reading) -> bool:
        """Search within it: all passages but those of the other readings compete with its own."""
        apart = {id_ for other in others if other is not one for id_ in other.ids}
        rest = partial(left_out, whole=ranking.view, apart=apart, compared=known)
        among = ranking.view.snapshot({"$id": [*one.ids]})
        [(_, found)] = rank(ranking.method, among, [query], parts, JUDGED, rest)
        return found is not None and float(found.probabilities.confidence[0]) > _ANSWERED

    worth, others = meant, list[Reading]()
    while len(worth) != len(others):
        others = worth
        worth = [one for one in others if is_answered(one)]
    if len(worth) < 2 and near.sections:
        unsaid, near = readings.among_sections(query.text, near, assessed.confidence, query.turns)
        return _worth_offering(replace(assessed, underspecified=unsaid, competing=near), known)
    return assessed, worth if len(worth) > 1 else []


def hits_of(ranking: Ranking, row: int, k: int, meant: Sequence[Reading]) -> NDArray[np.intp]:
    """Return the columns of one question's hits: k different texts, best first.

    Among them are the first passages of the readings that are offered, in place of the last others.
    """
    columns = ranking.first(row)
    wanted, passages = {reading.ids[0] for reading in meant}, ranking.passages[row]
    places = enumerate(columns.tolist() if wanted else ())
    offered = [place for place, at in places if passages[at].id in wanted]
    if len(offered) < 2:
        return columns[:k]
    others = [place for place in range(len(columns)) if place not in offered]
    kept: NDArray[np.intp] = columns[sorted([*offered[:k], *others[: max(k - len(offered), 0)]])]
    return kept


def spread_to_hits(
    of_texts: FloatArray, text_number: NDArray[np.intp], mu: FloatArray
) -> FloatArray:
    """Assign a value per different text to each of one question's hits, shape (m,).

    Copies of a text get the same value. Equally similar texts get that of the first of them, since
    their order is arbitrary. `text_number`: see `Ranking`.
    """
    values = of_texts[text_number]
    first = np.arange(len(values))
    close = np.abs(np.diff(mu)) <= _EQUAL
    # Compare with the first of a group, not with the previous hit: small differences add up.
    for position in np.flatnonzero(close).tolist():
        if abs(mu[position + 1] - mu[first[position]]) <= _EQUAL:
            first[position + 1] = first[position]
    spread: FloatArray = values[first]
    return spread


def parts_of(ranking: Ranking, row: int, kept: NDArray[np.intp]) -> list[dict[str, Any]]:
    """Collect what the blocks say of one question's hits; see `Result.parts`."""
    fitted, own = ranking.method.fitted, ranking.to_hits[row][:, kept]
    weights = (ranking.coefficients[row] * fitted.weights)[:, None]
    counted = np.maximum(weights * own, 0)
    shares = counted / np.maximum(counted.sum(axis=0), 1e-30)
    parts: list[dict[str, Any]] = [{"encoders": {}} for _ in kept]
    for block, name in enumerate(fitted.block_names):
        above = ranking.leading[block][row, :_RANKED] > own[block][:, None]
        columns = own[block].tolist(), (above.sum(axis=1) + 1).tolist(), shares[block].tolist()
        for part, similarity, place, share in zip(parts, *columns, strict=True):
            rank = place if place <= _RANKED else None
            part["encoders"][name] = {"similarity": similarity, "rank": rank, "share": share}
    if ranking.words is not None:
        without = function_words(ranking.queries[row].language)
        for part, column in zip(parts, kept.tolist(), strict=True):
            matched = sorted(ranking.words[row][column].items(), key=itemgetter(1), reverse=True)
            part["matched_terms"] = [w for w, _ in matched if w.casefold() not in without]
    return parts
