"""The metadata that a search adds to a hit, under keys that are reserved for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import replace
from typing import Any

from uec_rag.confidence.decision import DECISION_KEYS, Decision, decide_on_left
from uec_rag.stores.base import DEEPEST, Passage, copy_value, normalise

KEY = "uec_"
"""The prefix of the keys that a search adds to the metadata of a hit, reserved for them."""

PARTS = f"{KEY}parts"
"""The key for score and relevance of each of the hits that a longer passage was merged of."""


def own_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata without the keys that a search adds."""
    return {key: value for key, value in metadata.items() if not key.startswith(KEY)}


def as_json(value: Any, depth: int = 0) -> Any:  # noqa: ANN401
    """Convert a value of another package's metadata to what JSON knows, and nothing is refused.

    Numbers are converted as `normalise` does, arrays and sets become lists, models dicts, infinity
    None, and anything else its text, whole numbers of more than 64 bits among it.

    Examples
    --------
    >>> import numpy as np
    >>> as_json({"score": np.float32(0.5), "pages": np.arange(2), "tags": {"a"}})
    {'score': 0.5, 'pages': [0, 1], 'tags': ['a']}
    """
    if value is None or type(value) in (str, bool):
        return value
    if type(value) is int:
        return value if -(2**63) <= value < 2**64 else str(value)  # else msgpack refuses it
    if type(value) is float:
        return value if math.isfinite(value) else None
    if depth > DEEPEST:
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): as_json(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | Set):
        return [as_json(item, depth + 1) for item in value]
    with suppress(TypeError, ValueError):
        return normalise({"": value}, "metadata")[""]
    for method in ("tolist", "model_dump"):  # of arrays, of models
        if convert := getattr(value, method, None):
            return as_json(convert(), depth + 1)
    return as_json(int(value)) if isinstance(value, int) else str(value)


def without_findings(passage: Passage) -> Passage:
    """Return a passage without the metadata that a search adds."""
    own = own_metadata(passage.metadata)
    return passage if len(own) == len(passage.metadata) else replace(passage, metadata=own)


def own_copy(passage: Passage) -> Passage:
    """Return a passage of its own, with a copy of its metadata but those that a search adds."""
    metadata = copy_value(own_metadata(passage.metadata))
    return Passage(passage.id, passage.text, metadata)


class HitMetadata(dict[str, Any]):
    """The metadata of a hit, a dict whose comparison with others ignores what a search added.

    LangChain compares documents by all of their metadata, and its `MultiQueryRetriever` keeps the
    first of equal ones. A document found by two queries has different `uec_` values in each, but is
    the same document.

    Examples
    --------
    >>> one, other = ({"page": 1, "uec_score": score} for score in (0.8, 0.6))
    >>> HitMetadata(one) == HitMetadata(other), HitMetadata(one) == {"page": 1}
    (True, False)
    """

    def __eq__(self, other: object) -> bool:
        if isinstance(other, HitMetadata):
            return own_metadata(self) == own_metadata(other)
        return dict(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None


def tell(metadata: dict[str, Any], decision: Decision) -> None:
    """Replace the decision in the metadata of a hit."""
    for name in DECISION_KEYS:
        metadata.pop(f"{KEY}{name}", None)
    metadata.update((f"{KEY}{name}", value) for name, value in decision.findings().items())


def hits_in(metadatas: Iterable[Mapping[str, Any]]) -> dict[tuple[float, float], str]:
    """Return the different hits of a search among some metadata: their readings, "" if none.

    A hit is told by its score and relevance, so that the parts of one that was split count once.
    One that was merged of several has those of all (`PARTS`).
    """
    found = dict[tuple[float, float], str]()
    for metadata in metadatas:
        own = [metadata.get(f"{KEY}score"), metadata.get(f"{KEY}relevance")]
        for score, relevance in metadata.get(PARTS, [own]):
            if isinstance(score, float | int) and isinstance(relevance, float | int):
                found[float(score), float(relevance)] = str(metadata.get(f"{KEY}reading", ""))
    return found


def surest_decision(metadatas: Iterable[Mapping[str, Any]]) -> Decision | None:
    """Read the decision of the highest confidence from the metadata of hits; None if there is none.

    It is about these hits: of those that a step after the search has dropped, none counts. Hits of
    several queries may have several decisions. Metadata other than `HitMetadata` may be from other
    retrievers; they are only read if there are no `HitMetadata`, which lose their type in a file or
    on the way to another process.
    """
    hits = list(metadatas)
    ours = [metadata for metadata in hits if isinstance(metadata, HitMetadata)] or hits
    left = hits_in(ours)
    relevance, titles = [each for _, each in left], {*left.values()}
    decisions = {one.reason: one for one in map(_decision_in, ours) if one is not None}.values()
    made = (decide_on_left(one, relevance, titles) if left else one for one in decisions)
    return max(made, key=lambda decision: decision.confidence, default=None)


def _decision_in(metadata: Mapping[str, Any]) -> Decision | None:
    """Read and check the decision on a hit; None if there is none, or it is damaged."""
    keys = [name for name in DECISION_KEYS if f"{KEY}{name}" in metadata]
    try:
        return Decision.restore({name: metadata[f"{KEY}{name}"] for name in keys})
    except ValueError:
        return None
