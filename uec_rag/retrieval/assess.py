"""The decision about what was found for one phrasing of a question, and its `Result`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence import readings
from uec_rag.confidence.decision import Criteria, Evidence, decide
from uec_rag.confidence.model import (
    JUDGED,
    PLAUSIBLE,
    UNLIKELY,
    WORDS,
    Probabilities,
    log_odds,
)
from uec_rag.confidence.readings import Reading
from uec_rag.evidence.table import Explanation
from uec_rag.questions.languages import function_words
from uec_rag.retrieval.hits import HANDED, Hit, Result, own_copy
from uec_rag.retrieval.query import Query
from uec_rag.retrieval.search import Ranking
from uec_rag.stores.passage import Passage

_RANKED = 100  # ranks beyond this are not known
_EQUAL = np.float32(1e-5)  # largest difference of similarities that rounding may cause


def assess(ranking: Ranking, query: Query, k: int, size: int, *, is_read: bool = False) -> Result:
    """Decide on a phrasing of a question, and make its result.

    `size`: number of passages that were searched. `is_read`: whether a model reads the hits.
    """
    (unsaid, node), sure = ranking.ambiguity, ranking.confidence
    meanings = readings.readings(node) if unsaid >= UNLIKELY else []
    method, phrasing, probabilities = ranking.block.method, ranking.phrasing, ranking.probabilities
    # What lacks a name of the question, such as "France", is close to it by chance.
    lacks_name = ranking.features.in_corpus[0, 3 + WORDS.index("names")] == 0
    may_abstain = sure < 1 - UNLIKELY and not lacks_name  # to look for them takes time
    closest = readings.closest_sections(node) if may_abstain else []
    is_exact = 0 < size <= ranking.block.size  # an engine may not know its size
    offered = meanings if unsaid >= method.clarify_from else ()
    family = family_in(ranking, is_read=is_read)
    relevance = spread_to_hits(probabilities, ranking.numbers, ranking.mu)
    if offered:  # they may have taken the place of hits that confidence counts on
        sure = min(sure, float(relevance[places_of(ranking, JUDGED, offered, family)].sum()))
    language = method.language or phrasing.language
    # Words are counted in all passages, of which a filter may hide some. A word in the place of
    # others of a family may be another name for one, where similarity tells which.
    is_told = ranking.words.family is not None and ranking.features.meant[0] == 1
    is_counted = is_exact and size == ranking.words.size and not is_told
    is_changed = query.is_part or query.is_other or phrasing.role in ("spelled", "carried")
    # What is near by its question alone may be the answer, and is handed over.
    has_questions = bool(ranking.words.tables_beside)
    floor = PLAUSIBLE if has_questions and ranking.words.near_by_questions else 0.0
    in_corpus = max(float(probabilities.in_corpus[0]), floor)
    evidence = Evidence(
        readings=tuple(meanings),
        confidence=sure,
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
        lacking=ranking.words.absentees if is_counted else (),
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
        probabilities.confidence_at_k[0],
        exact=is_exact,
        alike=alike,
        explanation=explain(ranking, in_corpus),
    )


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
    model = ranking.block.method.model.in_corpus
    return Explanation(
        model.contributions(ranking.features.in_corpus[0].tolist()),
        ranking.evidence,
        model.slope,
        float(log_odds(np.array(in_corpus))),
        ranking.words.missing,
    )
