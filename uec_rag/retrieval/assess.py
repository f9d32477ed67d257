"""The decision about what was found for one phrasing of a question, and its `Result`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence import readings
from uec_rag.confidence.decision import Evidence, decide_one
from uec_rag.confidence.model import (
    JUDGED,
    UNLIKELY,
    WORDS,
    Probabilities,
)
from uec_rag.confidence.readings import Reading
from uec_rag.questions.languages import function_words
from uec_rag.retrieval.hits import (
    HANDED,
    RANKED,
    Hit,
    Result,
    Shares,
    is_read_by_model,
    own_copy,
)
from uec_rag.retrieval.query import Query
from uec_rag.retrieval.search import Found
from uec_rag.stores.passage import Passage

_EQUAL = np.float32(1e-5)  # largest difference of similarities that rounding may cause


def decide(found: Found, query: Query, k: int, size: int) -> Result:
    """Decide on a phrasing of a question, and make its result.

    `size`: number of passages that were searched.
    """
    (unsaid, node), sure = found.ambiguity, found.confidence
    meant = readings.readings(node) if unsaid >= UNLIKELY else []
    method, asked, probabilities = found.method, found.asked, found.probabilities
    # What lacks a name of the question, such as "France", is close to it by chance.
    lacks_name = found.features.in_corpus[0, 3 + WORDS.index("names")] == 0
    may_abstain = sure < 1 - UNLIKELY and not lacks_name  # to look for them takes time
    closest = readings.closest_sections(node) if may_abstain else []
    is_exact = 0 < size <= found.looked_at  # an engine may not know its size
    offered = meant if unsaid >= method.clarify_from else ()
    relevance = spread_to_hits(probabilities, found.numbers, found.mu)
    if offered:  # they may have taken the place of hits that confidence counts on
        sure = min(sure, float(relevance[places_of(found, JUDGED, offered)].sum()))
    language = method.language or asked.language
    # Words are counted in all passages, of which a filter may hide some. A word in the place of
    # others of a family may be another name for one, where similarity tells which.
    is_told = found.words.family is not None and found.features.meant[0] == 1
    is_counted = is_exact and size == found.words.size and not is_told
    is_changed = query.is_part or query.is_other or asked.role in ("spelled", "carried")
    decision = decide_one(
        sure,
        unsaid,
        tuple(meant),
        clarify_from=method.clarify_from,
        closest=tuple(closest),
        lacking=found.words.unmentioned if is_counted else (),
        in_corpus=float(probabilities.in_corpus[0]),
        unfamiliar=found.unfamiliar,
        language=language,
        searched_as=asked.text if is_changed else "",
        asks=query.asks,
        caveat=method.caveat_in(language),
    )
    alike = 0 if offered or not is_read_by_model() else min(len(family_in(found)), HANDED)
    kept = places_of(found, max(k, alike), offered)
    if not offered and family_in(found):  # what is first is as near as the first was
        relevance[kept] = relevance[found.distinct[: len(kept)]]
    return Result(
        query.said or query.text,
        replace(decision, basis=method.basis, hits=JUDGED, size=size),
        method.fitted.weights_by_name(found.of_encoders),
        found.of_encoders,
        hits_at(found, kept, relevance),
        probabilities.confidence_at_k[0],
        exact=is_exact,
        alike=alike,
        evidence=evidence_of(found),
    )


def places_of(found: Found, k: int, meant: Sequence[Reading]) -> NDArray[np.intp]:
    """Return the positions of one question's hits: k different texts, best first.

    Among them are the first passages of the readings that are offered, in place of the last others.
    A family that is not told apart is first.
    """
    columns, wanted = found.distinct[: len(found.words.hits)], {one.ids[0] for one in meant}
    places = enumerate(columns.tolist() if wanted else ())
    offered = [place for place, at in places if found.passages[at].id in wanted]
    if len(offered) < 2:
        alike = family_in(found)
        others = [place for place in range(len(columns)) if place not in alike]
        return columns[[*alike, *others][:k]]
    others = [place for place in range(len(columns)) if place not in offered]
    kept: NDArray[np.intp] = columns[sorted([*offered[:k], *others[: max(k - len(offered), 0)]])]
    return kept


def family_in(found: Found) -> tuple[int, ...]:
    """Return the places of hits alike that a question does not tell apart, which come first.

    It is () if it does. Where nobody reads them, they stay as near as they are, unless compared.
    """
    family = found.words.family
    if family is None or found.features.meant[0] == 1:
        return ()
    return family.members if family.operates or is_read_by_model() else ()


def spread_to_hits(
    probabilities: Probabilities, numbers: NDArray[np.intp], mu: FloatArray
) -> FloatArray:
    """Assign the relevance of each different text to each of one question's hits, shape (m,).

    Copies of a text get the same value. Equally similar texts get that of the first of them, since
    their order is arbitrary. `numbers`: see `Found`.
    """
    values = probabilities.relevance[0][numbers]
    first = np.arange(len(values))
    close = np.abs(np.diff(mu)) <= _EQUAL
    # Compare with the first of a group, not with the previous hit: small differences add up.
    for position in np.flatnonzero(close).tolist():
        if abs(mu[position + 1] - mu[first[position]]) <= _EQUAL:
            first[position + 1] = first[position]
    spread: FloatArray = values[first]
    return spread


def hits_at(found: Found, kept: NDArray[np.intp], relevance: FloatArray) -> tuple[Hit, ...]:
    """Make records of the hits at some positions; `relevance` is that of every hit."""
    copies = defaultdict[int, list[Passage]](list)
    for at, passage in found.passages.items():
        copies[int(found.numbers[at])].append(passage)
    numbers = (found.scores, found.mu, found.model_variance, found.disagreement, relevance)
    columns = zip(kept.tolist(), *(each[kept].tolist() for each in numbers), strict=True)
    words, without = found.words, function_words(found.asked.language)
    matched = dict(zip(found.distinct.tolist(), words.matched, strict=False))
    shares, hits = shares_of(found, kept), list[Hit]()
    for column, (at, score, mu, variance, apart, relevant) in enumerate(columns):
        terms = None
        if words.are_counted:
            most = sorted(matched.get(at, {}).items(), key=itemgetter(1), reverse=True)
            terms = [word for word, _ in most if word.casefold() not in without]
        others = tuple(map(own_copy, copies[found.numbers[at]][1:]))
        told = score, mu, variance, apart, relevant
        hits.append(Hit(own_copy(found.passages[at]), *told, terms, others, (shares, column)))
    return tuple(hits)


def shares_of(found: Found, kept: NDArray[np.intp]) -> Shares:
    """Return what the encoders say of some of one question's hits."""
    fitted, own = found.method.fitted, found.to_hits[:, kept]
    counted = np.maximum((found.coefficients * fitted.weights)[:, None] * own, 0)
    ranks = [
        (of_block[:RANKED, None] > similar).sum(axis=0) + 1
        for of_block, similar in zip(found.leading, own, strict=True)
    ]
    shares = counted / np.maximum(counted.sum(axis=0), 1e-30)
    return Shares(fitted.block_names, own, np.array(ranks), shares)


def evidence_of(found: Found) -> Evidence:
    """Return the parts of the log odds that the documents answer a question."""
    model, features = found.method.model.in_corpus, found.features
    own = features.in_corpus[0].tolist()
    against = model.slope * float(features.against[0])
    meant = float(features.meant[0])
    return Evidence(tuple(own), tuple(model.added(own)), against, meant, found.words.missing)
