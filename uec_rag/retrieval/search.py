"""A search: each question by the phrasing that counts, and the decision on its hits.

A question is asked in its phrasings, of all passages or among chosen readings; `assess` decides on
what was found. A vector is searched for without that.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from typing import Any, Literal, TypedDict, cast

import numpy as np
import regex
from numpy.typing import NDArray

from uec_rag.base.checks import visible_json
from uec_rag.base.errors import UnknownReading
from uec_rag.base.gaussian import FloatArray, Gaussian, as_matrix
from uec_rag.base.logistic import EVEN, NEARLY
from uec_rag.base.loops import check_cancelled
from uec_rag.clarify.readings import closest_sections, readings
from uec_rag.confidence.decision import (
    MOST_CLOSEST,
    Criteria,
    Decision,
    Evidence,
    chance_of_chosen,
    decide,
)
from uec_rag.confidence.model import (
    JUDGED,
    PLAUSIBLE,
    SURE,
    UNLIKELY,
    WORDS,
    Probabilities,
    log_odds,
)
from uec_rag.ensemble.convolution import in_context
from uec_rag.ensemble.uec import UEC
from uec_rag.evidence.absence import absentees
from uec_rag.evidence.table import OPEN, Explanation, weights
from uec_rag.questions.answers import TurnLike
from uec_rag.questions.grammar import stands_alone
from uec_rag.questions.languages import ENGLISH, Code, function_words, language_of, sentence
from uec_rag.questions.phrasing import HALVES, Phrasing, phrasings
from uec_rag.questions.query import Query
from uec_rag.questions.replies import Reading, Within, find_readings
from uec_rag.retrieval.diversity import Diversity, diversify
from uec_rag.retrieval.rankings import Method, Ranking, Rivals, find, find_vector
from uec_rag.retrieval.results import HANDED, Hit, Result, SearchResult, own_copy, without_findings
from uec_rag.retrieval.spelling import spell
from uec_rag.stores.base import Everyone, Filter, Searched
from uec_rag.stores.candidates import CandidateStore
from uec_rag.stores.filters import all_of
from uec_rag.stores.local import View
from uec_rag.stores.passage import Passage

LOG = logging.getLogger("uec_rag.decisions")
"""Gets a line of JSON for each question at the level INFO, which is off unless you set it."""

RUN = ContextVar[Mapping[str, str]]("run", default={})  # noqa: B039
"""The ids of the framework's run whose decisions are made, as fields of the log."""

_RANKED = 100  # ranks beyond this are not known
_EQUAL = np.float32(1e-5)  # largest difference of similarities that rounding may cause


class Options(TypedDict, total=False):
    """The options of a search besides its queries and k; see `Retriever.search`."""

    filter: Filter | None
    history: Sequence[Sequence[TurnLike]] | None
    within: Within | None
    diversity: Diversity | None
    tenant: Filter | Everyone


@dataclass(frozen=True, eq=False)
class Request:
    """A search as it is asked for, checked and parsed once.

    Attributes
    ----------
    queries : sequence of n Query
    k : int
        Number of hits of each.
    filter, tenant, within, diversity
        As in `Retriever.search`.
    spells : bool
        Whether words are spelled as the passages have them that the caller may see.
    is_read : bool
        Whether a model reads the hits.
    """

    queries: Sequence[Query]
    k: int
    filter: Filter | None = None
    tenant: Filter | None = None
    within: Within | None = None
    diversity: Diversity | None = None
    spells: bool = True
    is_read: bool = False

    @property
    def scope(self) -> Filter | None:
        """All filters: that of the tenant, and the search's."""
        return self.filter if self.tenant is None else all_of(self.tenant, self.filter)

    @property
    def depth(self) -> int:
        """The number of hits among which k are chosen."""
        return self.k if self.diversity is None else max(self.k, self.diversity.fetch_k)


@dataclass(frozen=True, eq=False)
class Batch:
    """The questions of one call, encoded: what the searches for them have in common.

    Attributes
    ----------
    method : Method
    store : Searched
        The passages of the tenant, if there is one.
    request : Request
    phrased : sequence of n sequences of Phrasing
        The phrasings of each question.
    rows : mapping of str to int
        The row of each text, of phrasings and of their turns, in `parts`.
    parts : sequence of K Gaussian
        Each encoder's Gaussians of the texts.
    view : Searched
        The passages that the filter selects.
    """

    method: Method
    store: Searched
    request: Request
    phrased: Sequence[Sequence[Phrasing]]
    rows: Mapping[str, int]
    parts: Sequence[Gaussian]
    view: Searched

    def rivals(self, among: Filter | None, contenders: Filter | None) -> Rivals | None:
        """Return what competes with the passages of a filter, if they are few.

        `contenders`: of chosen readings, selects all that may.
        """
        condition = self.request.filter
        if self.request.tenant is not None:
            return Rivals(None if among is None else self.store.snapshot(contenders), "relative")
        if among is None:
            return None
        if among is condition:
            return Rivals(None, "absolute")
        view = self.store.snapshot(all_of(condition, contenders))
        return Rivals(view, "" if condition is None else "absolute")


def search_queries(uec: UEC, store: Searched, method: Method, request: Request) -> SearchResult:
    """Search for questions, each among the readings that were chosen, if there are any."""
    if request.tenant is not None:
        store = store.of_tenant(request.tenant)
    view, queries = store.snapshot(request.filter), request.queries
    if request.spells:
        # Candidates have too few words, but all passages of their store may be listed.
        vocabulary = view.vocabulary if isinstance(view, CandidateStore) else cast(View, view)
        queries = queries if vocabulary is None else spell(queries, vocabulary, method.rarity)
    phrased = [*map(phrasings, queries)]
    flat = [*chain.from_iterable(phrased)]
    texts = [text for phrasing in flat for text in phrasing.searched]
    if isinstance(view, CandidateStore):
        texts += view.texts_to_embed([phrasing.lines for phrasing in flat])
    rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    batch = Batch(method, store, request, phrased, rows, uec.encode([*rows], "query"), view)
    if any(query.replies for query in queries):
        results = list[Result]()
        for query, of_query in zip(queries, phrased, strict=True):
            results.append(_ask_chosen(replace(batch, phrased=[of_query]), query))
    else:
        results = ask(batch, queries, request.filter)
    for row, query in enumerate(queries):
        if (page := _PAGE.search(query.text)) and results[row].decision.action == "abstain":
            alone = replace(batch, phrased=[phrased[row]])
            results[row] = _with_page(alone, query, results[row], page[1] or page[2])
    by_ids = not (request.within is None or isinstance(request.within, str))
    if by_ids and not any(result.passages for result in results):
        raise UnknownReading(
            "within: none of the passages with these ids is in the index, or matches the "
            "filter; the index may have changed since it asked back: ask again without within."
        )
    result = SearchResult(results)
    if (diversity := request.diversity) is None:
        return result
    return diversify(_vectors_of(uec, store), result, request.k, diversity.lambda_mult)


def _vectors_of(uec: UEC, store: Searched) -> Callable[[Sequence[str]], Gaussian]:
    """Return the function that returns the Gaussians of ids."""
    return lambda ids: uec.fitted.passages(store.vectors(ids))


_PAGE = regex.compile(
    r"\b(?:page|seite|p[áa]gina|p[áa]g\.|страниц\w*)\s*+(?:no\.?|number|nr\.?)?\s*+(\d{1,5})\b|第\s*(\d{1,5})\s*页",
    regex.IGNORECASE,
)


def _with_page(batch: Batch, query: Query, result: Result, number: str) -> Result:
    """Return a result with the passages of the page first that a question names, if there are any.

    Words on it are seldom in the question, so that it is uncertain at best.
    """
    named = {"$or": [{"page": int(number)}, {"page_label": number}]}
    [of_page] = ask(batch, [query], all_of(batch.request.filter, named))
    hits = [
        hit
        for hit in of_page.hits  # of LangChain's readers, the first page is page 0 with a label
        if str(hit.passage.metadata.get("page_label", number)) == number
    ]
    if not hits:
        return result
    ids = {hit.passage.id for hit in hits}
    hits += [hit for hit in result.hits if hit.passage.id not in ids]
    plausible = max(result.decision.in_corpus, PLAUSIBLE)
    shown = replace(result, hits=tuple(hits[: max(len(result.hits), 1)]))
    return shown.with_evidence(in_corpus=plausible)


def ask(
    batch: Batch, queries: Sequence[Query], among: Filter | None, contenders: Filter | None = None
) -> list[Result]:
    """Search for the n questions of a batch in their conversations.

    Parameters
    ----------
    batch : Batch
    queries : sequence of n Query
    among : Filter or None
        Selects the passages.
    contenders : Filter, optional
        See `Batch.rivals`.
    """
    method, condition, k = batch.method, batch.request.filter, batch.request.depth
    view = batch.view if among is condition else batch.store.snapshot(among)
    # Of an engine, those that a filter selects are not counted.
    size = 0 if view.is_elsewhere and among is not None else len(view)
    flat = [*chain.from_iterable(batch.phrased)]
    parts = in_context(flat, batch.rows, batch.parts)
    groups = [*map(len, batch.phrased)]
    finds = find(method, view, flat, parts, k, batch.rivals(among, contenders), groups)
    make = partial(assess, k=k, size=size, is_read=batch.request.is_read)
    results = list[Result]()
    for query, of_query in zip(queries, batch.phrased, strict=True):
        check_cancelled()  # many questions take long
        candidates = [*filter(None, islice(finds, len(of_query)))]
        if all(ranking.phrasing.role in HALVES for ranking in candidates):
            # No candidate, or halves alone, as a source may find.
            results.append(_nothing(method, query, is_incomplete=view.is_incomplete))
            continue
        best = choose(query, candidates)
        result = make(best, query)
        if best.phrasing.role == "spelled" and _is_vain(result.decision, best):
            originals = (r for r in candidates if r.phrasing.role == "written")
            result = make(next(originals, best), query)
        if halves := _halves_of(best, candidates):
            parts_of = [make(half, query) for half in halves]
            may_be_whole = any(half.phrasing.role == "possible_half" for half in halves)
            reserved = len(halves) if may_be_whole else JUDGED
            texts = [half.phrasing.text for half in halves]
            result = cover(result, parts_of, texts, k, reserved)
        results.append(result)
    is_filtered = among is not None and among is condition
    return [_note_few(result, k, view) for result in results] if is_filtered else results


def _halves_of(best: Ranking, candidates: Sequence[Ranking]) -> list[Ranking]:
    """Return the questions that a question is; none if it is, or may be, one."""
    halves = [ranking for ranking in candidates if ranking.phrasing.role in HALVES]
    may_be_whole = any(half.phrasing.role == "possible_half" for half in halves)
    return [] if may_be_whole and not _are_two(best, halves) else halves


def _is_vain(decision: Decision, spelled: Ranking) -> bool:
    """Return whether other words are searched for in vain: what they find is no answer.

    Where they are surely meant, what is found may be handed over.
    """
    is_sure = spelled.phrasing.prior > NEARLY and decision.code == "uncertain"
    return decision.action == "abstain" and not is_sure


def _nothing(method: Method, query: Query, *, is_incomplete: bool) -> Result:
    names, language = method.fitted.names, method.language or query.language
    equal = np.full(len(names), 1 / len(names), dtype=np.float32)
    code: Code | Literal[""] = "" if is_incomplete else "nothing_found"
    evidence = Evidence(
        in_corpus=float(is_incomplete),  # a store that may have others has not said there are none
        basis=method.basis,
        code=code if query.text.strip() else "no_question",
        language=language,
        caveat=method.caveat_in(language),
    )
    weights = method.fitted.weights_by_name(equal)
    return Result(query.said or query.text, decide(evidence), weights, equal)


def _are_two(whole: Ranking, halves: Sequence[Ranking]) -> bool:
    """Return whether a question is two: no first hit of it has most of the words of each half."""
    shares = [whole.words.share_of(half.words) for half in halves]
    return max(map(min, zip(*shares, strict=True)), default=0.0) < EVEN


def choose(query: Query, candidates: Sequence[Ranking]) -> Ranking:
    """Choose the phrasing in which a question is understood best: by its clarity and its prior.

    One whose first hit lacks what a follow-up goes on to is taken if the first hits of all do.
    Without its turns, or as the question before about what it goes on to, the question is taken if
    it is answered confidently and clear, unless what else there is is the rest of its message,
    which is seldom on the subject. What the turns find is no answer to a question that is whole, if
    it has less than half of that question.
    """
    floor, scored = 0.0 if query.is_part else SURE, list[tuple[float, float, Ranking]]()
    has_alone = any(ranking.phrasing.role == "alone" for ranking in candidates)
    may_stray = has_alone and not query.is_part and stands_alone(query.text)
    for ranking in candidates:
        if (phrasing := ranking.phrasing).role in HALVES:
            continue
        # What is near for sure is compared by how near, whatever else it may mean.
        unsaid = ranking.ambiguity[0] * (1.0 if phrasing.turns else ranking.unsure)
        is_clear = ranking.ambiguity[0] < ranking.block.method.clarify_from
        tells = not ranking.words.lacks_goal
        is_whole = phrasing.role == "alone" or (phrasing.role == "carried" and tells)
        if is_whole and ranking.confidence > floor and is_clear:
            return ranking
        if may_stray and phrasing.turns and ranking.words.share_in_hits < EVEN:
            continue
        # P(it says what it means, and the first texts answer it), as if independent.
        # What no passage has is told as the question about it.
        rank = 1.0 if tells else 0.5 * (phrasing.role == "carried")
        scored.append((rank, ranking.confidence * (1 - unsaid) * phrasing.prior, ranking))
    return max(scored, key=itemgetter(0, 1))[-1]


def cover(
    whole: Result, parts: Sequence[Result], texts: Sequence[str], k: int, reserved: int
) -> Result:
    """Answer a question by hits of all of its parts, with the confidence of the weakest one.

    The hits are those of the question as one, of which some give way to the first of its parts: a
    question that only looks like two must not lose them.

    Parameters
    ----------
    whole : Result
        That of the question as one.
    parts : sequence of Result
    texts : sequence of str
        The parts; the reason names the weakest one if it is not answered.
    k : int
        Number of hits.
    reserved : int
        How many of the first `JUDGED` hits are those of the parts.
    """
    weakest = min(range(len(parts)), key=lambda at: parts[at].decision.confidence)
    verdict, depth = parts[weakest].decision, min(k, JUDGED)
    hits = _covering(whole.hits, _in_turn(parts, depth)[: reserved if depth > 1 else 0], k)
    hits = [replace(hit, relevance=min(hit.relevance, verdict.confidence)) for hit in hits]
    return replace(parts[weakest], hits=tuple(hits)).with_evidence(
        underspecified=min(whole.decision.underspecified, verdict.underspecified),
        readings=whole.decision.readings,
        searched_as=texts[weakest] if verdict.action != "answer" else whole.decision.searched_as,
    )


def _covering(hits: Sequence[Hit], best: Sequence[Hit], k: int) -> list[Hit]:
    """Return k different hits, the best of the parts in place of a question's last judged hits."""
    depth = min(k, JUDGED)
    head = {hit.passage.text: hit for hit in hits[:depth]}
    of_parts = {hit.passage.text: hit for hit in reversed(best)}
    extra = [hit for text, hit in reversed(of_parts.items()) if text not in head]
    spare = [hit for text, hit in head.items() if text not in of_parts]
    out = spare[len(spare) - max(len(head) + len(extra) - depth, 0) :]
    stay = (hit for hit in head.values() if hit not in out)
    by_text = dict[str, Hit]()
    for hit in chain(stay, extra, out, hits[depth:]):
        by_text.setdefault(hit.passage.text, hit)
    return [*by_text.values()][:k]


def _in_turn(parts: Sequence[Result], k: int) -> list[Hit]:
    """Order the hits of parts in turn, first those with which all are most likely answered."""
    counts = [max(k // len(parts), 1)] * len(parts)
    if len(parts) == 2:
        head, tail = parts
        odds = {n: head.confidence_at(n) * tail.confidence_at(k - n) for n in range(1, k)}
        best = max(odds, key=lambda n: (odds[n], -abs(2 * n - k)), default=1)
        counts = [best, k - best]
    ranked = [
        (rank >= count, rank, number, hit)
        for number, (part, count) in enumerate(zip(parts, counts, strict=True))
        for rank, hit in enumerate(part.hits)
    ]
    return [hit for *_, hit in sorted(ranked, key=lambda row: row[:3])]


def _ask_chosen(batch: Batch, query: Query) -> Result:
    """Search for the only question of a batch among the chosen readings.

    All passages that the caller may see, but those of the readings that were not chosen, compete
    with the hits, so that a question that the corpus does not answer does not look answered. If a
    reply names none of the readings that the index has now, the question is asked back again; a
    label passed as `within` raises UnknownReading. The second such reply is not asked back: its
    hits are those of all readings, and uncertain.
    """
    among, excluded, choices = batch.request.filter, list[str](), list[Reading]()
    is_chosen = False
    for reply in query.replies:
        [result] = ask(batch, [query], among)
        decision, offered = result.decision, result.decision.readings
        try:
            choices = _choose(reply, offered)
        except UnknownReading:
            if isinstance(batch.request.within, str):
                raise
            if not query.is_unsettled:
                return result
            choices = [*offered]
        is_chosen = decision.action == "clarify" and len(choices) == 1 and not query.is_unsettled
        ids = reply
        if isinstance(reply, str):
            ids = tuple(id_ for reading in choices or offered for id_ in reading.ids)
        condition: dict[str, Any] = {"$id": [*ids]}
        if not choices and isinstance(reply, str):
            condition = {"$not": condition}
        among = all_of(condition, among)
        excluded += [id_ for reading in offered if reading not in choices for id_ in reading.ids]
    [result] = ask(batch, [query], among, {"$not": {"$id": excluded}} if excluded else None)
    if not query.replies:
        return result
    # A reading is part of the corpus that a gate was made for, not another corpus.
    changes: dict[str, Any] = {"size": 0}
    if is_chosen and result.decision.confidence < EVEN:
        sure = max(result.decision.confidence, chance_of_chosen(decision.in_corpus))
        changes |= {"confidence": sure, "in_corpus": max(result.decision.in_corpus, sure)}
    if query.is_unsettled:
        changes["caveat"] = sentence("unsettled", result.decision.language)
    if query.is_unsettled or len(choices) > 1:  # asking back would repeat the same question
        changes |= {"underspecified": 0.0, "readings": ()}
    return result.with_evidence(**changes)


def _choose(reply: str | Sequence[str], offered: Sequence[Reading]) -> list[Reading]:
    """Return the readings that a reply names, or those with one of the chosen ids.

    UnknownReading if a reply names none, and does not decline all.
    """
    if isinstance(reply, str):
        return find_readings(reply, offered)
    return [reading for reading in offered if not {*reply}.isdisjoint(reading.ids)]


def _note_few(result: Result, k: int, store: Searched) -> Result:
    """Note in the reason that a filter left fewer passages than are asked for and judged."""
    count, decision = len(result.passages), result.decision
    if not 0 < count < min(k, JUDGED):
        return result
    key = "few_candidates" if store.is_elsewhere else "few_match"
    note = sentence(key, decision.language, count=str(count))
    return result.with_evidence(unfamiliar="; ".join(filter(None, (decision.unfamiliar, note))))


def ask_vector(
    uec: UEC, store: Searched, embedding: Sequence[float], request: Request, language: str
) -> SearchResult:
    """Search for the mean of a query whose text is not known; see `Retriever.search_vector`."""
    diversity, fitted = request.diversity, uec.fitted
    mean = as_matrix([embedding], "embedding")
    if mean.shape[1] != uec.dimension:
        raise ValueError(
            f"embedding: expected {uec.dimension} numbers, the ensemble's dimension, "
            f"got {mean.shape[1]}."
        )
    length = float(np.linalg.norm(mean))
    if not length:
        raise ValueError("embedding: expected a vector with a direction, got zeros.")
    if len(fitted.weights) == 1:
        mean = mean / np.float32(length)
    count = len(fitted.names)
    hits = find_vector(uec, store, mean, request.depth, request.filter)
    mu, pi = hits.mu[0], np.full(count, 1 / count, dtype=np.float32)
    chance = np.clip(mu, 0, 1)
    best = float(chance.max(initial=0.0))
    reason = sentence("vector", language)
    decision = Decision("answer", reason, confidence=best, in_corpus=best, language=language)
    arrays = (hits.scores[0], mu, hits.sigma2[0], np.zeros_like(mu), chance)
    rows = zip(hits.passages[0], *(array.tolist() for array in arrays), strict=True)
    records = tuple(Hit(without_findings(passage), *numbers) for passage, *numbers in rows)
    weights, at_k = fitted.weights_by_name(pi), np.maximum.accumulate(chance)
    result = Result("", decision, weights, pi, records, at_k, hits.exact, judged=False)
    if diversity is None:
        return SearchResult([result])
    vectors = _vectors_of(uec, store)
    return diversify(vectors, SearchResult([result]), request.k, diversity.lambda_mult)


def assess(ranking: Ranking, query: Query, k: int, size: int, *, is_read: bool = False) -> Result:
    """Decide on a phrasing of a question, and make its result.

    `size`: number of passages that were searched. `is_read`: whether a model reads the hits.
    """
    (unsaid, node, _), sure = ranking.ambiguity, ranking.confidence
    meanings = readings(node) if unsaid >= UNLIKELY else []
    method, phrasing, probabilities = ranking.block.method, ranking.phrasing, ranking.probabilities
    # What lacks a name of the question, such as "France", is close to it by chance.
    lacks_name = ranking.features.in_corpus[0, 3 + WORDS.index("names")] == 0
    may_abstain = sure < 1 - UNLIKELY and not lacks_name  # to look for them takes time
    closest = closest_sections(node, MOST_CLOSEST) if may_abstain else []
    is_exact = 0 < size <= ranking.block.size  # an engine may not know its size
    # What is near by its question alone may be the answer, and is handed over.
    floor = PLAUSIBLE if ranking.words.tables_beside and _is_near_by_questions(ranking) else 0.0
    is_by_questions = probabilities.in_corpus[0] < floor
    offered = meanings if unsaid >= method.clarify_from and not is_by_questions else ()
    family = family_in(ranking, is_read=is_read)
    relevance = spread_to_hits(probabilities, ranking.numbers, ranking.mu)
    if offered:  # they may have taken the place of hits that confidence counts on
        sure = min(sure, float(relevance[places_of(ranking, JUDGED, offered, family)].sum()))
    language = method.language or _language_of_reply(ranking, query)
    # Words are counted in all passages, of which a filter may hide some. A word in the place of
    # others of a family may be another name for one, where similarity tells which.
    is_told = ranking.words.family is not None and ranking.features.meant[0] == 1
    is_counted = is_exact and size == ranking.words.size and not is_told
    is_changed = query.is_part or query.is_other or phrasing.role in ("spelled", "carried")
    in_corpus = max(float(probabilities.in_corpus[0]), floor)
    at_k = probabilities.confidence_at_k[0]
    if floor:
        at_k = np.append(at_k[: JUDGED - 1], np.maximum(at_k[JUDGED - 1 :], np.float32(floor)))
    evidence = Evidence(
        readings=tuple(meanings),
        confidence=max(sure, floor),
        in_corpus=in_corpus,
        underspecified=unsaid,
        unfamiliar=ranking.block.unfamiliar[ranking.row][0],
        basis=method.basis,
        hits=JUDGED,
        size=size,
        code="" if query.asks else "no_question",
        searched_as=phrasing.text if is_changed else "",
        language=language,
        closest=tuple(closest),
        lacking=absentees(ranking.words, ranking.comparison.unheard, is_counted=is_counted),
        caveat=method.caveat_in(language),
    )
    alike = min(len(family), HANDED) if is_read and not offered else 0
    places = places_of(ranking, max(k, alike), offered, family)
    if not offered and family:  # what is first is as near as the first was
        relevance[places] = relevance[ranking.distinct[: len(places)]]
    coefficients = ranking.block.of_encoders[ranking.row]
    return Result(
        query.said or query.text,
        decide(evidence, Criteria(clarify_from=method.clarify_from)),
        method.fitted.weights_by_name(coefficients),
        coefficients,
        hits_at(ranking, places, relevance),
        at_k,
        exact=is_exact,
        alike=alike,
        explanation=explain(ranking, in_corpus),
    )


def _language_of_reply(ranking: Ranking, query: Query) -> str:
    """Return the language of a question; if it does not tell, that of the hits with its words.

    Of "Hallenbad Montag", nouns alone, two and more than half have to be in a hit, or one if the
    question is not written as in English: "hotel parking" may be that, whatever the hits are in.
    """
    words = ranking.words
    if ranking.phrasing.language != ENGLISH or language_of("\n".join([*query.history, query.text])):
        return ranking.phrasing.language
    texts = [hit.text for hit in words.hits[:JUDGED]]
    nouns = [word for word in words.content if word.isalpha()]
    shared = max((sum(word in bag for word in nouns) for bag, _ in words.bags), default=0)
    is_of_hits = shared > (max(1, len(nouns) / 2) if "".join(nouns).isascii() else 0)
    return (is_of_hits and language_of("\n".join(texts))) or ENGLISH


def _is_near_by_questions(ranking: Ranking) -> bool:
    """Return whether a first hit is near a question by the words or the vectors of those beside."""
    likeness = ranking.comparison.likeness
    is_alike = likeness is not None and likeness.alike >= weights()["alike_near"]
    return is_alike or ranking.words.near_by_questions


def places_of(
    ranking: Ranking, k: int, offered: Sequence[Reading], family: Sequence[int]
) -> NDArray[np.intp]:
    """Return the positions of one question's hits: k different texts, best first.

    Among them are the first passages of the readings that are offered, in place of the last others.
    A family that is not told apart, see `family_in`, is first.
    """
    columns = ranking.distinct[: len(ranking.words.hits)]
    ids = {reading.ids[0] for reading in offered}
    rows = range(len(columns))
    front = [row for row in rows if ids and ranking.passages[int(columns[row])].id in ids]
    if len(front) < 2:
        return columns[[*family, *(row for row in rows if row not in family)][:k]]
    back = [row for row in rows if row not in front][: max(k - len(front), 0)]
    places: NDArray[np.intp] = columns[sorted([*front[:k], *back])]
    return places


def family_in(ranking: Ranking, *, is_read: bool) -> tuple[int, ...]:
    """Return the places of hits alike that a question does not tell apart, which come first.

    It is () if it does. Where nobody reads them, they stay as near as they are, unless compared.
    """
    family = ranking.words.family
    if family is None or ranking.features.meant[0] == 1:
        return ()
    return family.members if family.operates or is_read else ()


def spread_to_hits(
    probabilities: Probabilities, numbers: NDArray[np.intp], mu: FloatArray
) -> FloatArray:
    """Assign the relevance of each different text to each of one question's hits, shape (m,).

    Copies of a text get the same value. Equally similar texts get that of the first of them, since
    their order is arbitrary. `numbers`: see `Ranking`.
    """
    values = probabilities.relevance[0][numbers]
    origin = np.arange(len(values))
    close = np.abs(np.diff(mu)) <= _EQUAL
    # Compare with the first of a group, not with the previous hit: small differences add up.
    for position in np.flatnonzero(close).tolist():
        if abs(mu[position + 1] - mu[origin[position]]) <= _EQUAL:
            origin[position + 1] = origin[position]
    spread: FloatArray = values[origin]
    return spread


def hits_at(ranking: Ranking, places: NDArray[np.intp], relevance: FloatArray) -> tuple[Hit, ...]:
    """Make records of the hits at some positions; `relevance` is that of every hit."""
    copies = defaultdict[int, list[Passage]](list)
    for at, passage in ranking.passages.items():
        copies[int(ranking.numbers[at])].append(passage)
    block, row = ranking.block, ranking.row
    rows = (array[row] for array in (block.top.scores, block.top.mu, block.top.sigma2))
    arrays = (*rows, block.disagreement[row], relevance)
    numbers = (array[places].tolist() for array in arrays)
    columns = zip(places.tolist(), *numbers, numbers_of_encoders(ranking, places), strict=True)
    words, without = ranking.words, function_words(ranking.phrasing.language)
    amounts_at, hits = dict(zip(ranking.distinct.tolist(), words.tables, strict=False)), list[Hit]()
    for at, score, mu, variance, disagreement, relevant, encoders in columns:
        terms = None
        if words.are_counted:
            amounts = sorted(amounts_at.get(at, {}).items(), key=itemgetter(1), reverse=True)
            terms = [word for word, _ in amounts if word.casefold() not in without]
        duplicates = tuple(map(own_copy, copies[ranking.numbers[at]][1:]))
        of_hit = score, mu, variance, disagreement, relevant
        hits.append(Hit(own_copy(ranking.passages[at]), *of_hit, terms, duplicates, encoders))
    return tuple(hits)


def numbers_of_encoders(
    ranking: Ranking, places: NDArray[np.intp]
) -> list[dict[str, dict[str, float | None]]]:
    """Return what each encoder says of some of one question's hits, see `Hit.encoders`."""
    block, row = ranking.block, ranking.row
    fitted, similarities = block.method.fitted, block.similarities[row][:, places]
    amounts = np.maximum((block.coefficients[row] * fitted.weights)[:, None] * similarities, 0)
    ranks = [
        (leading[row][:_RANKED, None] > similar).sum(axis=0) + 1
        for leading, similar in zip(block.leading, similarities, strict=True)
    ]
    shares = amounts / np.maximum(amounts.sum(axis=0), 1e-30)
    arrays = similarities, np.array(ranks), shares
    return [
        {
            name: {"similarity": similar, "rank": rank if rank <= _RANKED else None, "share": share}
            for name, similar, rank, share in zip(fitted.block_names, *numbers, strict=True)
        }
        for numbers in zip(*(array.T.tolist() for array in arrays), strict=True)
    ]


def explain(ranking: Ranking, in_corpus: float) -> Explanation:
    """Return the parts of the log odds of P(the documents answer a question)."""
    model, (unsaid, _, values) = ranking.block.method.model.in_corpus, ranking.ambiguity
    is_settled = any(value for row, value in zip(OPEN, values, strict=True) if row.sign < 0)
    return Explanation(
        model.contributions(ranking.features.in_corpus[0].tolist()),
        [*ranking.evidence, *(values if is_settled or unsaid > EVEN else ())],
        model.slope,
        float(log_odds(np.array(in_corpus))),
        ranking.words.missing,
    )


def log_decisions(result: SearchResult, facts: dict[str, Any]) -> None:
    """Log each question with its final decision and what led to it, as JSON, if that is asked.

    Those of a search that was not what it usually is are left out of the log.

    `facts`: of the search's `span`, to which actions and codes are added in any case, and how many
    questions were borderline.
    """
    decisions = result.decisions
    facts["decisions"] = [item.action for item in decisions]
    facts["reasons"] = [item.code for item in decisions]
    facts["borderline"] = sum(bool(item.advice) or item.code == "uncertain" for item in decisions)
    for row in [row for row in result if not row.decision.caveat and _is_logging()]:
        line: dict[str, Any] = {"question": row.query, "searched_as": row.decision.searched_as}
        line |= row.decision.metadata() | {"why": [*row.why]}
        line["lacking"] = [*row.decision.lacking]
        line["closest"] = [section.title for section in row.decision.closest]
        line["ids"] = row.ids
        _log(line)


def log_advice(question: str, before: Decision, after: Decision, seconds: float) -> None:
    """Log what an advisor's opinion of a question changes, or would change, if that is asked.

    `question`: with the turns before it, one per line.
    """
    if _is_logging():
        line: dict[str, Any] = {"question": question, "before": before.action}
        line["after"] = after.action
        line |= {"confidence_before": before.confidence, "confidence": after.confidence}
        _log(line | after.advice_metadata() | {"seconds": round(seconds, 3)})


def _is_logging() -> bool:
    # Else an application that logs at INFO would log questions.
    return LOG.level != logging.NOTSET and LOG.isEnabledFor(logging.INFO)


def _log(line: Mapping[str, Any]) -> None:
    """Log fields behind the time and the run, by which users' feedback is joined with them."""
    line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **RUN.get(), **line}
    LOG.info("%s", visible_json(json.dumps(line, ensure_ascii=False)))
