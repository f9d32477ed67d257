"""The points of a collection, and the schema that their Gaussians share."""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.counts import Frequencies, shares
from uec_rag.base.gaussian import FloatArray, Gaussian, Saturation, Terms
from uec_rag.stores.base import Passage

_NOTHING = np.zeros(0, dtype=np.float32)


class Words(NamedTuple):
    """The terms of a passage in one sparse block."""

    keys: NDArray[np.uint64]  # shape (t,)
    counts: FloatArray  # shape (t,): as `Terms.weights`


class Point(NamedTuple):
    """A passage as the collection stores it."""

    passage: Passage
    mean: FloatArray = _NOTHING  # shape (d,)
    scales: FloatArray = _NOTHING  # shape (F,)
    words: tuple[Words, ...] = ()  # one for each sparse block


def points_of(passages: list[Passage], gaussians: Gaussian) -> list[Point]:
    """Convert passages and their Gaussians to points."""
    words = []
    for row in range(len(passages)):
        of_one = []
        for block in gaussians.terms:
            mine = slice(block.starts[row], block.starts[row + 1])
            of_one.append(Words(block.keys[mine], block.weights[mine]))
        words.append(tuple(of_one))
    return [*map(Point, passages, gaussians.mean, gaussians.scales, words)]


@dataclass(frozen=True)
class BlockSchema:
    """The scale and the saturation of a sparse block, the same for all passages."""

    saturation: Saturation
    scale: float  # `Terms.scale` of every passage
    # Mean length of the first batch of passages, by which counts are saturated when they are
    # stored; it affects the choice of candidates only
    usual_length: float

    @classmethod
    def from_terms(cls, terms: Terms) -> Self:
        """Describe the terms of a first batch of passages."""
        usual = float(terms.lengths.mean()) if len(terms) else 1.0
        return cls(terms.saturation, float(terms.scale[0]), max(1.0, usual))

    def saturate(self, words: Words) -> FloatArray:
        """Compute the saturated counts of a passage."""
        k1, b = self.saturation.k1, self.saturation.b
        share = float(words.counts.sum()) / max(self.usual_length, 1e-30)
        damping = k1 * (1 - b + b * share)
        weights: FloatArray = words.counts / (words.counts + damping)
        return weights

    def query_weights(self, query: Terms, frequencies: Frequencies) -> FloatArray:
        """Compute what each term of one query adds to the similarity, per saturated count."""
        scale = float(query.scale[0]) * self.scale
        return shares(query.weights, frequencies.idf(query.keys), scale).astype(np.float32)

    def terms(self, words: Sequence[Words]) -> Terms:
        """Rebuild the `Terms` of passages."""
        sizes = [len(each.keys) for each in words]
        return Terms(
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.concatenate([np.zeros(0, np.uint64), *(each.keys for each in words)]),
            np.concatenate([np.zeros(0, np.float32), *(each.counts for each in words)]),
            np.full(len(words), self.scale, dtype=np.float32),
            self.saturation,
        )

    def metadata(self) -> dict[str, Any]:
        """Return the state in JSON's types."""
        return vars(self) | {"saturation": [*astuple(self.saturation)]}

    @classmethod
    def restore(cls, fields: dict[str, Any]) -> Self:
        """Rebuild from `metadata`."""
        return cls(Saturation(*fields["saturation"]), fields["scale"], fields["usual_length"])


@dataclass(frozen=True, eq=False)
class CollectionSchema:
    """The properties that all Gaussians of a collection share."""

    widths: tuple[int, ...]  # widths of the encoders' blocks of the means
    profile: FloatArray | None  # shape (F, d): profile of a factored variance
    fingerprint: str | None  # fingerprint of the ensemble, if known
    words: tuple[BlockSchema, ...] = ()  # the sparse blocks
    id: str = ""  # identifies the collection, since its creation

    @classmethod
    def from_gaussians(cls, gaussians: Gaussian, fingerprint: str | None) -> Self:
        """Describe a batch of Gaussians."""
        words = tuple(map(BlockSchema.from_terms, gaussians.terms))
        return cls(tuple(gaussians.widths), gaussians.profile, fingerprint, words)

    @property
    def dimension(self) -> int:
        """The dimension of the means."""
        return sum(self.widths)

    @property
    def scales(self) -> int:
        """The number of scales of a Gaussian."""
        return self.dimension if self.profile is None else len(self.profile)

    def is_compatible_with(self, other: CollectionSchema) -> bool:
        """Return whether Gaussians of another schema may be stored in the same collection."""
        own, two = self.fingerprint, other.fingerprint
        mine, others = (
            (
                a.dimension,
                None if a.profile is None else a.profile.tolist(),
                [(words.saturation, words.scale) for words in a.words],
            )
            for a in (self, other)
        )
        return mine == others and (own is None or two is None or own == two)

    def gaussians(self, points: Sequence[Point]) -> Gaussian:
        """Rebuild the Gaussians of points, with their terms."""
        mean = np.array([p.mean for p in points], dtype=np.float32).reshape(-1, self.dimension)
        scales = np.array([p.scales for p in points], dtype=np.float32)
        terms = [
            words.terms([point.words[block] for point in points])
            for block, words in enumerate(self.words)
        ]
        scales = scales.reshape(len(mean), self.scales)
        return Gaussian.from_factors(mean, scales, self.profile, widths=self.widths, terms=terms)

    def metadata(self) -> dict[str, Any]:
        """Return the state in JSON's types."""
        profile = None
        if self.profile is not None:
            bits = base64.b64encode(self.profile.astype("<f4").tobytes()).decode()
            profile = {"shape": list(self.profile.shape), "float32": bits}
        return {
            "format": 1,
            "widths": list(self.widths),
            "profile": profile,
            "fingerprint": self.fingerprint,
            "words": [words.metadata() for words in self.words],
            "id": self.id,
        }

    @classmethod
    def restore(cls, state: object, collection: str) -> Self:
        """Rebuild from `metadata`; ValueError if it is invalid."""
        match state:
            case {
                "format": 1,
                "widths": [*widths],
                "profile": profile,
                "fingerprint": name,
                "words": [*words],
                **more,
            }:
                factors = None
                if isinstance(profile, dict):
                    bits = base64.b64decode(profile["float32"])
                    factors = np.frombuffer(bits, dtype="<f4").reshape(profile["shape"])
                blocks = tuple(map(BlockSchema.restore, words))
                return cls(tuple(widths), factors, name, blocks, str(more.get("id", "")))
        raise ValueError(
            f"collection: {collection!r} exists and was not created by this version of uec_rag; "
            "choose another name, and index the documents again."
        )


_SPACE = uuid.UUID("8d1d1b0a-3f5a-4c1e-9d55-2f0d6a1c7e42")


def point_id(id_: str) -> str:
    """Compute the UUID of a passage's id, the same in every process.

    Examples
    --------
    >>> point_id("a") == str(uuid.uuid5(_SPACE, "a")) != point_id("b")
    True
    """
    name = id_.encode(errors="surrogatepass")  # a lone surrogate is allowed in a lookup
    digest = hashlib.sha1(_SPACE.bytes + name, usedforsecurity=False).digest()  # as uuid5 does
    return str(uuid.UUID(bytes=digest[:16], version=5))
