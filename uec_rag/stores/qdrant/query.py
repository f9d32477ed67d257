"""Queries of a Qdrant collection."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qdrant_client import models

from uec_rag.base.gaussian import PROBIT, FloatArray
from uec_rag.stores.base import Passage
from uec_rag.stores.engine.points import Near, Notes, Point, Wanted, Words, point_id
from uec_rag.stores.filters import (
    AnyFact,
    Bound,
    Compare,
    Condition,
    Every,
    HasId,
    HasPart,
    Not,
    Some,
    Where,
    by_facts,
    fact,
    facts_of,
    field,
    numbers_of,
)

_SPARE = 64  # hits that are scored again, at least, where words were saturated by a usual length
_AS_USUAL = 1.1  # how far the mean length may be from the usual one for that

MEAN, SPREAD = "mean", "spread"
_EXACT = "metadata_json"
PASSAGE = ["id", "text", "metadata", _EXACT]
"""What of a point's payload makes a passage."""


def words_name(block: int) -> str:
    """Name of a sparse block's vector, and of its terms in the payload."""
    return f"words{block}"


def sparse(keys: NDArray[np.uint64], weights: FloatArray) -> models.SparseVector:
    """Terms as Qdrant takes them: numbers of 32 bits, each once.

    Terms whose lower halves are alike are one in it, which decides on candidates only.
    """
    indices, place = np.unique(keys.astype(np.uint32), return_inverse=True)
    values = np.bincount(place, weights=weights, minlength=len(indices))
    return models.SparseVector(indices=indices.tolist(), values=values.tolist())


def candidates_of(
    where: models.Filter | None,
    mean: FloatArray,
    words: Sequence[Wanted],
    count: int,
    by_words: int,
    *,
    exact: bool = False,
) -> list[dict[str, Any]]:
    """What a query or a prefetch asks the nearest `count` by mu_s by, then those by words.

    Where `exact`, all are looked at.
    """
    nearest = {
        "query": mean.tolist(),
        "using": MEAN,
        "filter": where,
        "limit": count,
        "params": models.SearchParams(exact=True) if exact else None,
    }
    alike = [
        {
            "query": sparse(wanted.keys, wanted.shares),
            "using": words_name(block),
            "filter": where,
            "limit": by_words,
        }
        for block, wanted in enumerate(words)
        if by_words and len(wanted.keys)
    ]
    return [nearest, *alike]


def multiplied(
    candidates: list[dict[str, Any]], vector: FloatArray, payload: list[str]
) -> models.QueryRequest:
    """Inner products of a vector with the means of candidates, as `candidates_of` gives them."""
    sources = [models.Prefetch(**one) for one in candidates]
    return models.QueryRequest(
        prefetch=sources,
        query=vector.tolist(),
        using=MEAN,
        limit=sum(one["limit"] for one in candidates),
        with_payload=payload or False,
    )


def scored_again(notes: Notes, k: int, count: int, words: Sequence[Wanted]) -> int:
    """How many of those that the engine finds best are worth scoring here, of twice `count`."""
    for noted, wanted in zip(notes.words, words, strict=False):
        if noted.saturation is not None:
            k = max(k, min(count, max(4 * k, _SPARE)))
            off = max(wanted.mean_length, 1.0) / noted.usual_length
            if not 1 / _AS_USUAL < off < _AS_USUAL:
                return 2 * count
    return k


def best_of(
    candidates: list[dict[str, Any]],
    spread: FloatArray,
    k: int,
    beta: float,
    answer: dict[str, Any],
) -> models.QueryRequest:
    """The k best by s_hat of candidates, scored in the engine.

    `candidates` are those of `candidates_of`; `answer` says what comes back of a point.
    """
    sources = [models.Prefetch(**one) for one in candidates]
    count = sum(one["limit"] for one in candidates)
    asked = [(candidates[0]["query"], MEAN), (spread.tolist(), SPREAD)]
    asked += [(one["query"], one["using"]) for one in candidates[1:]]
    scored = [
        models.Prefetch(prefetch=sources, query=query, using=using, limit=count)
        for query, using in asked
    ]
    by_words = [f"$score[{place}]" for place in range(2, len(asked))]
    mu = models.SumExpression(sum=["$score[0]", *by_words]) if by_words else "$score[0]"
    shrinking = models.SumExpression(
        sum=[1.0, models.MultExpression(mult=[float(PROBIT) * beta, "$score[1]"])]
    )
    score = models.DivParams(left=mu, right=models.SqrtExpression(sqrt=shrinking))
    return models.QueryRequest(
        prefetch=scored,
        query=models.FormulaQuery(
            formula=models.DivExpression(div=score),
            defaults=dict.fromkeys(by_words, 0.0),  # of those that share no word
        ),
        limit=k,
        **answer,
    )


FACTS = "facts"
_BOUNDS = {"$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}


def passage_of(payload: dict[str, Any] | None) -> Passage:
    """The passage that a point holds."""
    assert payload is not None
    exact = payload.get(_EXACT)
    metadata = payload["metadata"] if exact is None else json.loads(exact)
    return Passage(payload["id"], payload["text"], metadata)


def having(key: str, number: int) -> models.Filter:
    """What has a whole number among those of a key of the payload."""
    return _all(models.FieldCondition(key=key, match=models.MatchValue(value=number)))


def qdrant_filter(condition: Condition | AnyFact) -> models.Filter:
    """Translate a condition.

    ValueError if Qdrant cannot run it: a callable, an order of what are no numbers, a part of a
    text under a key with a quotation mark or a backslash.
    """
    asked = by_facts(condition, "Qdrant") if isinstance(condition, Compare | Where) else condition
    match asked:
        case Every(conditions):
            return models.Filter(must=[qdrant_filter(one) for one in conditions])
        case Some(conditions):
            if not conditions:
                return models.Filter(must=[models.HasIdCondition(has_id=[])])
            return models.Filter(should=[qdrant_filter(one) for one in conditions])
        case Not(one):
            return models.Filter(must_not=[qdrant_filter(one)])
        case HasId(ids):
            return models.Filter(must=[models.HasIdCondition(has_id=[*map(point_id, ids)])])
        case AnyFact(facts):
            return _all(_fact(*facts))
        case HasPart(item, key, part):
            if {*'"\\'} & {*key}:
                raise ValueError(
                    "filter: Qdrant cannot search parts of a text under a key with a quotation "
                    f"mark or a backslash, got {key!r}; rename it."
                )
            text = models.FieldCondition(
                key=f'metadata."{key}"', match=models.MatchSubstring(substring=part)
            )
            whole = models.Filter(must=[text], must_not=[_fact(fact("list", key))])
            return models.Filter(should=[_fact(item), whole])
        case Bound(key, operator, limit):
            if isinstance(limit, str):
                raise ValueError(
                    f"filter: Qdrant orders numbers only, got {operator} {limit!r:.60} for "
                    f"{key!r:.60}; keep a number (a timestamp, say) beside it."
                )
            bound = models.Range(**{_BOUNDS[operator]: limit})
            return _all(models.FieldCondition(key=f"numbers.{field(key)}", range=bound))


def _fact(*facts: str) -> models.FieldCondition | models.HasIdCondition:
    if not facts:
        return models.HasIdCondition(has_id=[])
    return models.FieldCondition(key=FACTS, match=models.MatchAny(any=list(facts)))


def _all(condition: models.FieldCondition | models.HasIdCondition) -> models.Filter:
    return models.Filter(must=[condition])


def struct_of(point: Point, notes: Notes) -> models.PointStruct:
    """What is written for a point: its terms both as a vector and as they were."""
    vector: dict[str, Any] = {MEAN: point.mean.tolist(), SPREAD: point.spread.tolist()}
    passage = point.passage
    payload: dict[str, Any] = {
        **vars(passage),
        FACTS: facts_of(passage.metadata),
        "numbers": numbers_of(passage.metadata),
    }
    # Qdrant's engine gives one in ten numbers with a fraction back with another last digit.
    if re.search(r"\d[.e]", exact := json.dumps(passage.metadata)):
        payload[_EXACT] = exact
    for block, (noted, words) in enumerate(zip(notes.words, point.words, strict=True)):
        if len(words.keys):
            vector[words_name(block)] = sparse(words.keys, noted.saturated(words))
        payload[words_name(block)] = {
            # Qdrant's whole numbers have a sign.
            "terms": words.keys.view(np.int64).tolist(),
            "counts": words.counts.tolist(),
            "length": round(float(words.counts.sum())),
        }
    return models.PointStruct(id=point_id(passage.id), vector=vector, payload=payload)


def point_of(point: models.Record | models.ScoredPoint, blocks: int) -> Point:
    """The point that was written, of so many sparse blocks."""
    vectors: Any = point.vector
    mean, spread = (np.array(vectors[name], dtype=np.float32) for name in (MEAN, SPREAD))
    words = _words_of(point.payload, [*map(words_name, range(blocks))])
    return Point(passage_of(point.payload), mean, spread, words)


def near_of(answers: Sequence[Sequence[models.ScoredPoint]], names: Sequence[str]) -> Near:
    """What comes back of a query's candidates for each vector, their words with the first."""
    scores = [{point.id: point.score for point in points} for points in answers]
    # Others may write between two answers.
    there = [id_ for id_ in scores[0] if all(id_ in of_one for of_one in scores)]
    products = np.array([[of_one[id_] for id_ in there] for of_one in scores], dtype=np.float32)
    payloads = {point.id: point.payload for point in answers[0] if point.payload}
    return Near(products, [_words_of(payloads[id_], names) for id_ in there if payloads])


def _words_of(payload: Mapping[str, Any] | None, names: Sequence[str]) -> tuple[Words, ...]:
    held = [(payload or {})[name] for name in names]
    return tuple(
        Words(
            np.array(of_one["terms"], dtype=np.int64).view(np.uint64),
            np.array(of_one["counts"], dtype=np.float32),
        )
        for of_one in held
    )
