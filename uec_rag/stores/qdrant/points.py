"""The points of a Qdrant collection, and its filters."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from qdrant_client import models

from uec_rag.base.gaussian import FloatArray, Gaussian, Saturation, Terms
from uec_rag.stores import filters
from uec_rag.stores.base import Passage
from uec_rag.stores.schema import Schema

MEAN, SCALES = "mean", "scales"
FACTS = "facts"
PASSAGE = ["id", "text", "metadata"]
"""The keys of a point's payload that make up a passage."""
WITH_WORDS = models.PayloadSelectorExclude(exclude=[FACTS, "values"])
"""The same with its words."""

_Point = models.Record | models.ScoredPoint
_SPACE = uuid.UUID("8d1d1b0a-3f5a-4c1e-9d55-2f0d6a1c7e42")
_FORMAT = 2


def point_id(id_: str) -> str:
    """Compute the UUID of a passage's id, the same in every process."""
    name = id_.encode(errors="surrogatepass")  # a lone surrogate is allowed in a lookup
    return str(uuid.uuid5(_SPACE, name.hex()))


def words_name(block: int) -> str:
    """Return the name of a sparse block's vector, and of its terms in the payload."""
    return f"words{block}"


@dataclass(frozen=True, eq=False)
class Collection:
    """The description of a collection's points, kept in its metadata.

    Attributes
    ----------
    schema : Schema
    fingerprint : str or None
        The fingerprint of the ensemble, if known.
    lengths : tuple of float
        For each sparse block, the mean length of the first batch of passages, by which counts are
        saturated when they are stored; it affects the choice of candidates only.
    """

    schema: Schema
    fingerprint: str | None
    lengths: tuple[float, ...]

    @classmethod
    def from_gaussians(cls, gaussians: Gaussian, fingerprint: str | None) -> Self:
        """Describe a first batch of Gaussians."""
        lengths = tuple(max(1.0, float(terms.lengths.mean())) for terms in gaussians.terms)
        return cls(Schema.from_gaussians(gaussians), fingerprint, lengths)

    def is_like(self, other: Collection) -> bool:
        """Return whether two collections may have the same points."""
        is_same = self.schema.metadata() == other.schema.metadata()
        return is_same and self.fingerprint == other.fingerprint

    def metadata(self) -> dict[str, Any]:
        """Return the state in JSON's types."""
        more = {"format": _FORMAT, "fingerprint": self.fingerprint, "lengths": [*self.lengths]}
        return self.schema.metadata() | more

    @classmethod
    def restore(cls, state: object, name: str) -> Self:
        """Rebuild from `metadata`; ValueError, which names the collection, if it is not that."""
        match state:
            case {"format": 2, "fingerprint": fingerprint, "lengths": [*lengths]}:
                return cls(Schema.restore(state), fingerprint, tuple(lengths))
        raise ValueError(
            f"collection: {name!r} exists and was not created by this version of uec_rag; choose "
            "another name, and index the documents again."
        )

    def points(
        self, passages: Sequence[Passage], gaussians: Gaussian
    ) -> Iterator[models.PointStruct]:
        """Yield the points of passages, with their terms as sparse vectors and as counts."""
        means, scales = gaussians.mean.tolist(), gaussians.scales.tolist()
        for row, passage in enumerate(passages):
            vector: dict[str, Any] = {MEAN: means[row], SCALES: scales[row]}
            metadata = json.dumps(passage.metadata)  # Qdrant would change some floats
            payload: dict[str, Any] = {"id": passage.id, "text": passage.text, "metadata": metadata}
            payload |= filterable(passage.metadata)
            for block, (terms, usual) in enumerate(zip(gaussians.terms, self.lengths, strict=True)):
                name, some = words_name(block), slice(*terms.starts[row : row + 2])
                keys, counts = terms.keys[some], terms.weights[some]
                if len(keys):
                    vector[name] = sparse(keys, _saturate(counts, terms.saturation, usual))
                payload[name] = {
                    "terms": keys.view(np.int64).tolist(),  # Qdrant has no unsigned integers
                    "counts": counts.tolist(),
                    "length": round(float(counts.sum())),
                }
            yield models.PointStruct(id=point_id(passage.id), vector=vector, payload=payload)

    def gaussians(self, points: Sequence[_Point]) -> Gaussian:
        """Rebuild the Gaussians of points that were read with vectors."""
        schema, vectors = self.schema, [_dict(point.vector) for point in points]
        mean = np.array([vector[MEAN] for vector in vectors], dtype=np.float32)
        scales = np.array([vector[SCALES] for vector in vectors], dtype=np.float32)
        terms = [
            _terms([_dict(point.payload)[words_name(block)] for point in points], *words)
            for block, words in enumerate(schema.words)
        ]
        return Gaussian.from_factors(
            mean.reshape(-1, schema.dimension),
            scales.reshape(-1, schema.factors),
            schema.profile,
            widths=schema.widths,
            terms=terms,
        )


def passage_of(point: _Point) -> Passage:
    """Rebuild the passage of a point."""
    payload = _dict(point.payload)
    return Passage(payload["id"], payload["text"], json.loads(payload["metadata"]))


def _dict(part: object) -> dict[str, Any]:
    assert isinstance(part, dict)
    return part


def _terms(words: Sequence[Mapping[str, Any]], scale: float, saturation: Saturation) -> Terms:
    """Rebuild the terms of passages from their payloads."""
    sizes = [len(each["terms"]) for each in words]
    keys = np.array([*chain.from_iterable(each["terms"] for each in words)], dtype=np.int64)
    counts = np.array([*chain.from_iterable(each["counts"] for each in words)], dtype=np.float32)
    starts = np.cumsum([0, *sizes], dtype=np.int64)
    scales = np.full(len(words), scale, dtype=np.float32)
    return Terms(starts, keys.view(np.uint64), counts, scales, saturation)


def _saturate(counts: FloatArray, saturation: Saturation, usual: float) -> FloatArray:
    share = float(counts.sum()) / usual
    damping = saturation.k1 * (1 - saturation.b + saturation.b * share)
    weights: FloatArray = counts / (counts + damping)
    return weights


def sparse(keys: NDArray[np.uint64], weights: NDArray[Any]) -> models.SparseVector:
    """Convert terms to Qdrant's sparse vector, whose indices have 32 bits.

    Terms whose lower 32 bits are equal are added up, which affects the choice of candidates only.
    """
    indices, positions = np.unique(keys.astype(np.uint32), return_inverse=True)
    values = np.bincount(positions, weights=weights, minlength=len(indices))
    return models.SparseVector(indices=indices.tolist(), values=values.tolist())


# Qdrant defines equality otherwise than a local index for lists, for integers and floats, and for
# missing values. A fact ("year is 2021", "one of tags is tax") as one keyword means the same, and
# one index serves all keys. Scalars are stored again under a name that is valid in every path.


def _digest(kind: Literal["is", "there", "has", "value"], key: str, value: object = None) -> str:
    """Return the keyword of a fact: a key's value is this, is not None, or has this item.

    Examples
    --------
    >>> _digest("is", "year", 2021) == _digest("is", "year", 2021.0)
    True
    """
    text = json.dumps([kind, key, _canonical(value)], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _canonical(value: object) -> object:
    """Return the same for values that are equal in Python."""
    if isinstance(value, int | float):
        return float(value) + 0.0  # -0.0 becomes 0.0
    if isinstance(value, list | tuple):
        return [*map(_canonical, value)]
    if isinstance(value, Mapping):
        return {key: _canonical(item) for key, item in value.items()}
    return value if value is None or isinstance(value, str) else repr(value)


def filterable(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what filters look at: the facts of metadata, and the scalars."""
    facts, values = set[str](), dict[str, str | float]()
    for key, value in metadata.items():
        facts.add(_digest("is", key, value))
        if value is not None:
            facts.add(_digest("there", key))
        if isinstance(value, list):
            facts |= {_digest("has", key, item) for item in value}
        elif isinstance(value, str | int | float):
            values[_digest("value", key)] = value if isinstance(value, str) else float(value)
    return {FACTS: [*facts], "values": values}


def has_key(key: str) -> models.Filter:
    """Return a filter of the passages that have a metadata key, be it None."""
    return _any_fact([_digest("is", key), _digest("there", key)])


def translate(condition: filters.Condition) -> models.Filter:
    """Translate a condition to a filter of Qdrant; ValueError if Qdrant cannot run it."""
    match condition:
        case filters.And(conditions):
            return models.Filter(must=[*map(translate, conditions)])
        case filters.Or(conditions):
            found: list[Any] = [*map(translate, conditions)]
            return models.Filter(should=found) if found else _NOTHING
        case filters.Not(negated):
            return models.Filter(must_not=[translate(negated)])
        case filters.HasId(ids):
            return models.Filter(must=[models.HasIdCondition(has_id=[*map(point_id, ids)])])
        case filters.Compare(within=()):
            return _comparison(condition)
        case filters.Compare(within=(key, *_)):
            what = f"look into the dict of {key!r:.60}; store the value under a key of its own"
        case filters.Predicate():
            what = "run a Python callable; use operators (uec_rag.stores.filters)"
    raise ValueError(f"filter: Qdrant cannot {what}, or use a local index.")


def _comparison(condition: filters.Compare) -> models.Filter:
    key, operator, value = condition.key, condition.operator, condition.value
    there = _any_fact([_digest("there", key)])
    match operator:
        case "$eq":
            return _any_fact([_digest("is", key, value)])
        case "$in":
            return _any_fact([_digest("is", key, option) for option in value])
        case "$ne":
            return models.Filter(must_not=[_any_fact([_digest("is", key, value)])])
        case "$nin":
            return models.Filter(must_not=[_comparison(filters.Compare(key, "$in", value))])
        case "$exists":
            return there if value else models.Filter(must_not=[there])
        case "$contains":
            has: list[Any] = [_any_fact([_digest("has", key, value)])]
            if isinstance(value, str):
                has.append(_scalar(key, match=models.MatchSubstring(substring=value)))
            return models.Filter(should=has)
    if isinstance(value, str):
        raise ValueError(
            f"filter: Qdrant orders numbers only, got {operator} {value!r:.60} for {key!r:.60}; "
            "store a number, such as a timestamp, under another key."
        )
    limits = models.Range(**{operator[1:]: float(value)})
    return models.Filter(must=[_scalar(key, range=limits)])


_NOTHING = models.Filter(must=[models.HasIdCondition(has_id=[])])


def _any_fact(facts: Sequence[str]) -> models.Filter:
    if not facts:
        return _NOTHING
    match = models.MatchAny(any=[*facts])
    return models.Filter(must=[models.FieldCondition(key=FACTS, match=match)])


def _scalar(key: str, **condition: Any) -> models.FieldCondition:
    return models.FieldCondition(key=f"values.{_digest('value', key)}", **condition)
