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
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from operator import attrgetter, itemgetter
from typing import Any, cast

import numpy as np
import regex
from numpy.typing import NDArray

from uec_rag.base.counts import idf
from uec_rag.base.gaussian import FloatArray, Gaussian, Terms
from uec_rag.base.similarity import cosines_of_pairs, largest, weighted_sum
from uec_rag.base.text import FUNCTION_WORDS, WORD, says_little
from uec_rag.confidence import readings
from uec_rag.confidence.decision import Decision, decide_one, needs_clarification
from uec_rag.confidence.languages import ENGLISH, Code, function_words
from uec_rag.confidence.model import (
    JUDGED,
    NEAREST,
    WORDS,
    ConfidenceModel,
    Features,
    Probabilities,
    features,
)
from uec_rag.confidence.readings import ASK, Candidates, Reading
from uec_rag.confidence.statements import log_likelihood_ratio
from uec_rag.confidence.wording import complete_question, refers_back
from uec_rag.encoders.lexical import (
    LATIN,
    compounds,
    has_words,
    key_of,
    keys_of,
    letters_in,
    near_words,
    spell_dates,
    split_words,
    words_by_key,
)
from uec_rag.ensemble.convolution import block_scales
from uec_rag.ensemble.fitted import Fitted
from uec_rag.retrieval.query import SHARE, Query, in_context
from uec_rag.retrieval.result import Result, cover, own_copy
from uec_rag.retrieval.why import explain
from uec_rag.stores.base import Filter, Passage, Store, Top
from uec_rag.stores.local import View

_BLOCK = 2**26  # similarities held at a time, over questions, passages and encoders
_FEWEST = 4  # candidates to fetch from a remote store for each hit
_MOST_LOOKED_AT = 1024  # hits to search for different texts
_RANKED = 100  # ranks beyond this are reported as unknown
_MAY_ABSTAIN = 0.95  # confidence below which an abstention names the closest sections
_ANSWERED = 0.5  # confidence from which a reading is worth offering, whatever the gate
_WORTH_ASKING = 0.05  # P(underspecified) below which no threshold asks back
_EQUAL = np.float32(1e-5)  # largest difference of similarities that rounding may cause
# The weight of a question in the spelling of the index, whose log odds are averaged with its own.
_SPELLED = 0.8
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
    to_columns : list of K arrays, shape (n, C)
        Similarities of each block to all columns: cosines, or BM25 scores from 0 to 1.
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
    to_columns: list[FloatArray]
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

    def asks(self, meant: Sequence[Reading]) -> bool:
        """Return whether the decision is to ask which of some readings is meant."""
        in_corpus = float(self.probabilities.in_corpus[0])
        return needs_clarification(self.underspecified, in_corpus, meant)


def run(
    method: Method,
    store: Store,
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
    # Of an engine, those that a filter selects are not counted.
    size, results = 0 if store.remote and among is not None else len(view), list[Result]()
    flat = [one for query in queries for one in query.views.values()]
    blocks = rank(method, view, flat, in_context(flat, rows, parts), k, whole)
    assessments = chain.from_iterable(
        [None] * len(asked) if ranking is None else assess(ranking) for asked, ranking in blocks
    )
    for query in queries:
        seen = dict(zip(query.views, assessments))  # noqa: B905 (as many as it has views)
        chosen = clearest(query, seen) if seen else None
        if chosen is not None:
            found = decide(chosen, query, k, size)
            halves = [one for view in (-2, -3) if (one := seen.get(view)) is not None]
            if halves:
                own = [decide(half, query, k, size) for half in halves]
                found = cover(found, own, query.parts, k)
            results.append(found)
            continue
        names, language = method.fitted.names, method.language or query.language
        equal = np.full(len(names), 1 / len(names), dtype=np.float32)
        code: Code = "nothing_found" if query.text.strip() else "no_question"
        nothing = Decision.empty(method.basis, language, code)
        shares = method.fitted.shares(equal[None])[0]
        results.append(Result(query.said or query.text, nothing, names, equal, shares))
    return results


# A word of letters alone, and not a part of a path, an option, a quotation or code.
_SPELLABLE = regex.compile(r"(?<![\w./@\\:`\"'’“«-])\p{L}{3,24}(?![\w/@\\`\"'’”»-]|\.\w)")


_MOST_SPELLED = 8  # words of a question that are looked up in other spellings
_SHORT = 3  # letters of a word that is taken for a function word alone: others are often codes


def spell(queries: Sequence[Query], store: Store) -> list[Query]:
    """Note how the words of questions are written in a store, where it has them in another way.

    For a word that no passage has, the nearest one is taken, but never for a name. Of a date, the
    day that passages have is spelled out.
    """
    if store.remote or not len(store):
        return [*queries]
    view = cast(View, store.snapshot())
    return [replace(query, spelled=_spelled(query, view)) for query in queries]


def _spelled(query: Query, view: View) -> str:
    text = query.text
    known = FUNCTION_WORDS | function_words(query.language)
    labels = words_by_key(
        [word for word in _SPELLABLE.findall(text) if not says_little(word, known)]
    )
    keys = [*labels]
    counts = view.counts_of(np.array(keys, dtype=np.uint64))
    unknown = {labels[key] for key, count in zip(keys, counts.tolist(), strict=True) if not count}
    if unknown:
        unknown -= names_in(text, {*unknown}, english=query.language == ENGLISH)
    nearest = {word: _nearest(word, view) for word in sorted(unknown)[:_MOST_SPELLED]}
    spelled = _SPELLABLE.sub(lambda word: nearest.get(word[0]) or word[0], text)
    spelled = spell_dates(spelled, lambda day: bool(view.counts_of(np.array([key_of(day)]))[0]))
    return "" if spelled == text else spelled


def _nearest(word: str, view: View) -> str:
    """Return the word of a view, or the function word, that is most likely meant; "" if none."""
    words, keys, often = near_words(word)
    counts = np.array([near in FUNCTION_WORDS for near in words], dtype=np.int64)
    if len(word) > _SHORT:
        counts += view.counts_of(keys)
    likely = np.where(counts > 0, often + np.log1p(counts), -np.inf)
    best = int(likely.argmax())
    return words[best] if counts[best] else ""


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
    for most in views.keys() - {-1, -2, -3, 0, None}:
        latest, others = views[most], 0.0 if chosen is None else chosen.clarity
        if latest and latest.confidence > _NEEDS_LATEST and latest.clarity > others:
            chosen = latest
    if alone is not None and chosen is not None:
        chosen = _combine_with_standalone(chosen, alone, question)
    return _as_spelled(chosen or alone, views.get(-1))


def _as_spelled(written: Assessment | None, spelled: Assessment | None) -> Assessment | None:
    """Choose between a question as it is written and as its words are in the index.

    It is as written unless the other is more likely answered than not: many a word that no passage
    has is none that was mistyped.
    """
    if written is None or spelled is None:
        return written or spelled
    mixed = spelled.probabilities.mix(written.probabilities.in_corpus, 1 - _SPELLED)
    if mixed.confidence[0] <= max(written.confidence, _NEEDS_LATEST):
        return written
    return replace(spelled, probabilities=mixed, confidence=float(mixed.confidence[0]))


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
    return replace(
        in_turn,
        probabilities=mixed,
        confidence=float(mixed.confidence[0]),
        underspecified=unresolved,
        competing=chosen.competing,
    )


def rank(
    method: Method,
    store: Store,
    queries: Sequence[Query],
    parts: Sequence[Gaussian],
    k: int,
    whole: Store | None = None,
) -> Iterator[tuple[Sequence[Query], Ranking | None]]:
    """Find the hits of queries and their features, from which `calibrate` learns, too.

    Yields blocks of queries with their ranking, which is None if there are no passages. A block has
    as many queries as fit in memory. In a remote store, it has one, since the candidates differ
    between queries.
    """
    fitted, step = method.fitted, 1
    profile = fitted.training_profile if method.check_familiar else None
    if not store.remote:
        step = max(1, _BLOCK // max(1, len(store) * (len(parts) + 1)))
    for start in range(0, len(queries), step):
        block = slice(start, start + step)
        asked = queries[block]
        some = parts if len(queries) <= step else [part[block] for part in parts]
        view = view_for(method, store, asked, some, k)
        if not len(view):
            yield asked, None
            continue
        to_columns = compare(fitted, view, some)
        best = np.stack([of_block.max(axis=1) for of_block in to_columns], axis=1)
        pi = fitted.weigh(some, to_columns, best)
        mu = weighted_sum(to_columns, pi * fitted.weights)
        found = top_k(fitted, view, fitted.combine(some, pi), mu, max(k, NEAREST))
        top, passages, _, _ = found
        unfamiliar = [("", False)] * len(asked)
        if profile is not None:
            # By one hit only, so that the result does not depend on k.
            unfamiliar = [
                profile.unfamiliar(query.text, hits[0].text, method.language or query.language)
                for query, hits in zip(asked, passages, strict=True)
            ]
        matched = contribute(view, some, to_columns, top.columns)
        apart = fitted.disagreement(matched[0], best, pi)
        ranking = Ranking(
            method, view, asked, some, pi, to_columns, apart, *found, *matched, unfamiliar
        )
        rest = None
        if whole is not None and len(view) < NEAREST:
            rest = view_for(method, whole, asked, some, k)
        ranking.features = features_of(ranking, store, rest)
        ranking.probabilities = method.model.probabilities(ranking.features)
        yield asked, ranking


def view_for(
    method: Method, store: Store, queries: Sequence[Query], parts: Sequence[Gaussian], k: int
) -> View:
    """Return the passages of a store; of a remote one, the candidates for the only query."""
    if not store.remote:
        return cast(View, store.snapshot())
    [query], combined = queries, method.fitted.combine_as(parts, "query")
    return cast(View, store.fetch(query.lines, combined, _FEWEST * max(k, NEAREST)))


def compare(fitted: Fitted, view: View, parts: Sequence[Gaussian]) -> list[FloatArray]:
    """Compare the Gaussians of the questions with the passages, block by block.

    Returns `Ranking.to_columns`.
    """
    # With this scale, products with the stored blocks are cosines.
    blocks: list[FloatArray | Terms] = []
    for part, scale in zip(parts, block_scales(fitted.weights), strict=True):
        blocks.append(part.terms[0].scale_by(1 / scale) if part.terms else part.mean / scale)
    return view.compare(blocks)


def top_k(
    fitted: Fitted, view: View, query: Gaussian, mu: FloatArray, different: int
) -> tuple[Top, list[list[Passage]], NDArray[np.intp], NDArray[np.intp]]:
    """Find the best columns until they hold `different` different texts.

    The search ends at `_MOST_LOOKED_AT` columns, if these are more. Returns `top`, `passages`,
    `text_number` and `distinct` of a `Ranking`.
    """
    size = len(view)
    count = min(size, different)
    while True:
        top = view.top_k(query, count, beta=fitted.options.beta, mu=mu)
        passages = view.gather(top.columns)
        text_number = np.empty((len(mu), count), dtype=np.intp)
        for numbers, of_query in zip(text_number, passages, strict=True):
            seen: dict[str, int] = {}
            numbers[:] = [seen.setdefault(passage.text, len(seen)) for passage in of_query]
        fewest = text_number.max(axis=1).min() + 1
        if fewest >= different or count == size or count >= max(different, _MOST_LOOKED_AT):
            break
        count = min(size, 2 * count)
    distinct = np.full_like(text_number, -1)
    for row, of_row in zip(distinct, text_number, strict=True):
        first = np.unique(of_row, return_index=True)[1]
        row[: len(first)] = first
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


def features_of(ranking: Ranking, store: Store, rest: View | None = None) -> Features:
    """Compute the features of the first different texts of n questions.

    Parameters
    ----------
    ranking : Ranking
    store : Store
        What was searched.
    rest : View, optional
        The passages that compete with the few ones of a filter.
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
        others = (slope * left_out(ranking, rest) + offset[:, None]).astype(np.float32)
    words = np.full((len(mu), len(WORDS)), np.nan, dtype=np.float32)
    if ranking.words is not None:
        words[:] = [word_evidence(ranking, row) for row in range(len(mu))]
    variance, temperature = slope**2 * sigma2, method.model.temperature
    form = np.array([form_evidence(ranking, row, logits[row]) for row in range(len(logits))])
    return features(logits, variance, members, temperature, words, others, form)


def form_evidence(ranking: Ranking, row: int, logits: FloatArray) -> float:
    """Compute what the form of one question's first hits adds to the log odds of an answer.

    Another of the first `JUDGED` texts, which states something, may stand in for the first one: it
    costs what it is less similar. `logits`: shape (m,), of the different texts.
    """
    added = -np.inf
    for position, column in enumerate(ranking.distinct[row, :JUDGED].tolist()):
        if column >= 0 and added < 0:
            behind = float(logits[position] - logits[0])
            added = max(added, behind + log_likelihood_ratio(ranking.passages[row][column].text))
    return added


def left_out(ranking: Ranking, whole: View) -> FloatArray:
    """Return mu_s of the nearest passages that are not in a ranking, shape (n, m).

    With the different texts of the ranking, they are `NEAREST`; rows are padded with -inf.
    """
    fitted, pi = ranking.method.fitted, ranking.coefficients
    lengths = mean_lengths(ranking)
    to_columns = compare(fitted, whole, ranking.parts)
    scaled = [of_all / each[:, None] for of_all, each in zip(to_columns, lengths.T, strict=True)]
    query, mu = fitted.combine(ranking.parts, pi), weighted_sum(scaled, pi * fitted.weights)
    top, passages, _, distinct = top_k(fitted, whole, query, mu, 2 * NEAREST)
    others = np.full((len(mu), NEAREST), -np.inf, dtype=np.float32)
    for row, columns in enumerate(distinct.tolist()):
        found = {passage.text for passage in ranking.passages[row]}
        new = [at for at in columns if at >= 0 and passages[row][at].text not in found]
        new = new[: max(0, NEAREST - len(found))]
        others[row, : len(new)] = top.mu[row, new]
    return others


def mean_lengths(ranking: Ranking) -> FloatArray:
    """Return the length of each query's mean in each block, shape (n, K); 1 without turns."""
    lengths = np.stack([np.linalg.norm(part.mean, axis=1) for part in ranking.parts], axis=1)
    lengths[[not query.turns for query in ranking.queries]] = 1
    lengths[lengths == 0] = 1  # lexical encoders
    return lengths


_UNRELATED = 64  # passages to compare with each other
_USUAL_PAIRS, _USUAL_MEAN, _USUAL_DEVIATION = 2, 0.2, 0.1


def unfitted_logit_line(store: Store, parts: Sequence[Gaussian]) -> tuple[np.float32, FloatArray]:
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
    competing, evidence = list[Candidates](), list[FloatArray]()
    for row, query in enumerate(ranking.queries):
        competing.append(_candidates(ranking, row))
        evidence.append(readings.features(query.text, competing[row], query.turns))
    sure = ranking.probabilities.confidence
    unsaid = readings.underspecified(np.stack(evidence), sure)
    numbers = zip(sure.tolist(), unsaid.tolist(), competing, strict=True)
    return [
        Assessment(ranking, row, ranking.probabilities.row(row), *each)
        for row, each in enumerate(numbers)
    ]


def _candidates(ranking: Ranking, row: int) -> Candidates:
    """Return the first texts of one query of a ranking, in which its readings are found."""
    query, near = ranking.queries[row], ranking.distinct[row, :NEAREST]
    near = near[near >= 0]
    passages = [ranking.passages[row][column] for column in near.tolist()]
    words: Sequence[Collection[str]]
    if ranking.words is None:
        texts = [passage.searched for passage in passages]
        words, idf_of = match(query.lines, texts, len(ranking.view))
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
        len(ranking.view),
        vectors,
        function_words(query.language),
    )


def decide(assessed: Assessment, asked: Query, k: int, size: int) -> Result:
    """Decide on a query, and assemble its result.

    `asked`: what the user asked, of which one view was assessed. `size`: number of passages that
    were searched.
    """
    ranking, row, probabilities = assessed.ranking, assessed.row, assessed.probabilities
    method, top, query = ranking.method, ranking.top, ranking.queries[row]
    is_unclear = assessed.underspecified >= _WORTH_ASKING
    meant = readings.readings(assessed.competing) if is_unclear else []
    if assessed.asks(meant) and not method.model.standardised:
        answered = [one for one in meant if _is_answered(ranking, row, one, meant)]
        meant = answered if len(answered) > 1 else []
    may_abstain = assessed.confidence < _MAY_ABSTAIN
    closest = readings.closest_sections(assessed.competing) if may_abstain else []
    offered = meant if assessed.underspecified >= ASK else ()
    fitted, number, passages = method.fitted, ranking.text_number[row], ranking.passages[row]
    relevance = spread_to_hits(probabilities.relevance[0], number, top.mu[row])
    sure = assessed.confidence
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
        searched_as=query.text if asked.is_part or query.text == asked.spelled else "",
        asks=asked.asks,
    )
    kept = hits_of(ranking, row, k, offered)
    pi = fitted.encoder_coefficients(ranking.parts, ranking.coefficients)[row : row + 1]
    firsts, copies = {*ranking.distinct[row].tolist()}, defaultdict[int, list[Passage]](list)
    for position, of_text in enumerate(number.tolist()):
        if position not in firsts:
            copies[of_text].append(passages[position])
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
        copies=[[*map(own_copy, copies[of_text])] for of_text in number[kept].tolist()],
        why=explain(method.model.in_corpus, ranking.features, row, missing(ranking, row)),
    )


def _is_answered(ranking: Ranking, row: int, meant: Reading, others: Sequence[Reading]) -> bool:
    """Return whether a question would be answered at 0.5, if one of its readings was chosen.

    As in a search within it, all passages but those of the other readings compete with its own.
    """
    view, asked = ranking.view, slice(row, row + 1)
    apart = [id_ for one in others if one is not meant for id_ in one.ids]
    among, whole = view.snapshot({"$id": [*meant.ids]}), view.snapshot({"$not": {"$id": apart}})
    parts = [part[asked] for part in ranking.parts]
    [(_, found)] = rank(ranking.method, among, ranking.queries[asked], parts, JUDGED, whole)
    return found is not None and float(found.probabilities.confidence[0]) > _ANSWERED


def hits_of(ranking: Ranking, row: int, k: int, meant: Sequence[Reading]) -> NDArray[np.intp]:
    """Return the columns of one question's hits: k different texts, best first.

    Among them are the first passages of the readings that are offered, in place of the last others.
    """
    columns = ranking.distinct[row]
    columns = columns[columns >= 0]
    wanted, passages = {reading.ids[0] for reading in meant}, ranking.passages[row]
    places = enumerate(columns.tolist() if wanted else ())
    offered = [place for place, at in places if passages[at].id in wanted]
    if len(offered) < 2:
        return cast(NDArray[np.intp], columns[:k])
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
        to_all = ranking.to_columns[block][row]
        best = to_all[largest(to_all, min(_RANKED, len(to_all)))]
        above = best > to_all[ranking.top.columns[row, kept]][:, None]
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


def missing(ranking: Ranking, row: int) -> list[str]:
    """List the words of a question that none of its first hits has, names if it has any."""
    query, words = ranking.queries[row], ranking.words
    if words is None:
        return []
    first = [at for at in ranking.distinct[row, :JUDGED].tolist() if at >= 0]
    known, without = {w for at in first for w in words[row][at]}, function_words(query.language)
    content = [word for word in ranking.idf[row] if word.casefold() not in without]
    named = names_in(query.text, content, english=query.language == ENGLISH)
    return [word for word in content if word not in known and (word in named or not named)]


# A digit, an underscore, an inner capital, an option.
_MARKED = regex.compile(r"\p{N}|_|\p{Ll}\p{Lu}|^-")
_DOTTED = regex.compile(r"(?<!\w)\w++(?:\.\w++)++")  # "setup.cfg"
_ENDS, _MARKS = tuple(".!?:"), "\"“”«»'`(["


def word_evidence(ranking: Ranking, row: int) -> tuple[float, float]:
    """Compute the `WORDS`: the parts of a question's words that its first hits have; 1 is all.

    - "coverage": the share of the idf of its content words that one hit has, at most.
    - "names": 1 if a hit has all its names, numbers and identifiers, or there are none; else 0. The
      only content word of a question counts as a name.

    They are NaN, not known, if the question is in another script than the first hit and not in
    Latin letters, or has no content word.
    """
    assert ranking.words is not None
    query, passages, words = ranking.queries[row], ranking.passages[row], ranking.words[row]
    question, without, script = query.text, function_words(query.language), letters_in(query.text)
    hits = [
        (passages[at].searched, words[at])
        for at in ranking.distinct[row, :JUDGED].tolist()
        if at >= 0
    ]
    if script != LATIN and script != letters_in(hits[0][0]):
        return np.nan, np.nan
    content = {
        word: rarity
        for word, rarity in ranking.idf[row].items()
        # The hits of a question need not have the words of its turns.
        if not says_little(word, without) and (not query.turns or word in question)
    }
    if not content:
        return np.nan, np.nan
    named = {*content}
    if len(content) > 1:
        named &= names_in(question, content, english=query.language == ENGLISH)
    whole, total, coverage, names = compounds(question), sum(content.values()), 0.0, False
    for text, matched in hits:
        known = {*matched}
        # "WiFi" also stands for "Wi" and "Fi", and these for it; a day for others of its date.
        implied = set[str]()
        for word, parts in whole:
            if word in known or known.issuperset(parts):
                known.update([word, *parts])
                implied.update(parts)
        having = [rarity for word, rarity in content.items() if word in known]
        coverage = max(coverage, sum(having) / total)
        names = names or (named <= known and has_words(text, named - implied))
    return coverage, float(names)


def names_in(question: str, words: Collection[str], *, english: bool = True) -> set[str]:
    """Choose the words of a question that are names, numbers and identifiers.

    Only in English are capitalised words names, but not in a text that is like a title: all its
    content words are capitalised, the first word among them.

    Examples
    --------
    >>> sorted(names_in("When did Apollo 11 use parse_args?", ["When", "Apollo", "11", "use"]))
    ['11', 'Apollo']
    >>> names_in("What if I'm ill?", ["What", "if", "I", "m", "ill"])
    set()
    """
    dotted = {part for name in _DOTTED.findall(question) for part in name.split(".")}
    chosen = {word for word in words if word in dotted or _MARKED.search(word)}
    if not english:
        return chosen
    content = [w for w in words if not says_little(w, FUNCTION_WORDS) and w[:1].isalpha()]
    capital = set[str]()
    for before, word in pairwise(question.split()):
        if before[-1] not in _ENDS:
            capital |= {part for part in WORD.findall(word.lstrip(_MARKS)) if part[0].isupper()}
    capital &= {*content}
    initials = [word[0] for word in content]
    is_title = question.split(None, 1)[0] in content and all(map(str.isupper, initials))
    return chosen if is_title else chosen | capital


def match(
    question: str, texts: Sequence[str], size: int
) -> tuple[list[set[str]], dict[str, float]]:
    """Find the words of a question in texts, which are taken for all that have any.

    Returns the words that each text has, and the idf of each word among `size` texts.

    Examples
    --------
    >>> words, idf = match("Which fees?", ["A fee is due.", "None."], 2)
    >>> words, {word: round(value, 2) for word, value in idf.items()}
    ([{'fees'}, set()], {'Which': 1.79, 'fees': 0.69})
    """
    labels = words_by_key(split_words(question))
    keys = [labels.keys() & set(keys_of(text).tolist()) for text in texts]
    words = [{labels[key] for key in of_text} for of_text in keys]
    counts = {word: sum(word in of_text for of_text in words) for word in labels.values()}
    rarity = idf(np.array([*counts.values()], dtype=np.int64), max(size, len(texts)))
    return words, dict(zip(counts, rarity.tolist(), strict=True))
