"""The points that an engine stores, the queries sent to it, and its answers.

An engine finds candidates by the sum that a store in memory orders by; those that come back are
scored by the very same code, with the frequencies of the whole corpus, so that the numbers are
equal.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray, Gaussian, Saturation, Terms
from uec_rag.base.postings import Frequencies, shares
from uec_rag.stores.base import Passage


class Words(NamedTuple):
    """The terms of a passage in one sparse block."""

    keys: NDArray[np.uint64]  # shape (t,)
    counts: FloatArray  # shape (t,): As `Terms.weights`


class Point(NamedTuple):
    """A passage as an engine stores it."""

    passage: Passage
    mean: FloatArray  # shape (d,)
    spread: FloatArray  # shape (d + F,): Squares of the mean, and the scales
    words: tuple[Words, ...] = ()  # One for each sparse block


class QueryTerms(NamedTuple):
    """The terms of a query in one sparse block."""

    # shape (t,): In the order that they are worth looking up in: the rarest first
    keys: NDArray[np.uint64]
    # shape (t,): What a passage gets for a term, times the term's saturated count if there
    # is saturation
    shares: FloatArray
    held: NDArray[np.int64]  # shape (t,): How many passages hold each
    mean_length: float  # Of the passages, for the saturation


def points_of(passages: list[Passage], gaussians: Gaussian) -> list[Point]:
    """Make points of passages with their Gaussians."""
    spread = np.concatenate([gaussians.mean**2, gaussians.scales], axis=1)
    words = []
    for row in range(len(passages)):
        of_one = []
        for block in gaussians.terms:
            mine = slice(block.starts[row], block.starts[row + 1])
            of_one.append(Words(block.keys[mine], block.weights[mine]))
        words.append(tuple(of_one))
    return [*map(Point, passages, gaussians.mean, spread, words)]


@dataclass(frozen=True)
class BlockSchema:
    """The scale and the saturation of a sparse block, the same for all passages."""

    saturation: Saturation | None
    scale: float  # Of every passage, see `Terms.scale`
    # Mean length of the passages that came first: what an engine saturates counts by that does
    # so when it stores them. It decides on candidates only
    usual_length: float

    @classmethod
    def of(cls, terms: Terms) -> Self:
        """Describe the terms of a first batch of passages."""
        usual = float(terms.lengths.mean()) if len(terms) else 1.0
        return cls(terms.saturation, float(terms.scale[0]), max(1.0, usual))

    def saturated(self, words: Words, mean_length: float | None = None) -> FloatArray:
        """Turn a passage's counts into the summands of its similarity.

        `mean_length`: by default the usual one.
        """
        if self.saturation is None:
            return words.counts
        weights: FloatArray = words.counts / (words.counts + self.damping(words, mean_length))
        return weights

    def damping(self, words: Words, mean_length: float | None = None) -> float:
        """Return the BM25 damping of a passage's counts."""
        assert self.saturation is not None
        k1, b = self.saturation.k1, self.saturation.b
        usual = self.usual_length if mean_length is None else mean_length
        return k1 * (1 - b + b * float(words.counts.sum()) / max(usual, 1e-30))

    def wanted(self, queries: Terms, frequencies: Frequencies) -> list[QueryTerms]:
        """Return the terms of each of n queries in the block."""
        found = []
        for row in range(len(queries)):
            mine = slice(queries.starts[row], queries.starts[row + 1])
            keys = queries.keys[mine]
            rare = None if self.saturation is None else frequencies.rarity(keys)
            scale = float(queries.scale[row]) * self.scale
            share = shares(queries.weights[mine], rare, scale).astype(np.float32)
            held = frequencies.held(keys)
            order = np.argsort(held, kind="stable")
            found.append(
                QueryTerms(keys[order], share[order], held[order], frequencies.mean_length)
            )
        return found

    def terms(self, words: Sequence[Words]) -> Terms:
        """Rebuild the terms of some passages."""
        sizes = [len(of_one.keys) for of_one in words]
        return Terms(
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.concatenate([np.zeros(0, np.uint64), *(of_one.keys for of_one in words)]),
            np.concatenate([np.zeros(0, np.float32), *(of_one.counts for of_one in words)]),
            np.full(len(words), self.scale, dtype=np.float32),
            self.saturation,
        )

    def metadata(self) -> dict[str, Any]:
        """Return the state in JSON's types."""
        saturation = self.saturation
        return {
            "saturation": None if saturation is None else [saturation.k1, saturation.b],
            "scale": self.scale,
            "usual_length": self.usual_length,
        }

    @classmethod
    def restore(cls, given: dict[str, Any]) -> Self:
        """Rebuild from `metadata`."""
        saturation = given["saturation"]
        return cls(
            None if saturation is None else Saturation(*saturation),
            given["scale"],
            given["usual_length"],
        )


@dataclass(frozen=True, eq=False)
class CollectionSchema:
    """The widths, profile, ensemble and blocks of all Gaussians of a collection."""

    widths: tuple[int, ...]  # Of the encoders' blocks of the means
    profile: FloatArray | None  # shape (F, d): Of a factored variance
    fingerprint: str | None  # Of the ensemble, if it is known
    words: tuple[BlockSchema, ...] = ()  # Of the sparse blocks

    @classmethod
    def of(cls, gaussians: Gaussian, fingerprint: str | None) -> Self:
        """Describe Gaussians."""
        words = tuple(map(BlockSchema.of, gaussians.terms))
        return cls(tuple(gaussians.widths), gaussians.profile, fingerprint, words)

    @property
    def dimension(self) -> int:
        """The dimension of the means."""
        return sum(self.widths)

    @property
    def scales(self) -> int:
        """The number of scales of a Gaussian."""
        return self.dimension if self.profile is None else len(self.profile)

    def admit(self, other: CollectionSchema) -> bool:
        """Tell if Gaussians of another schema may be stored beside these."""
        one, two = self.fingerprint, other.fingerprint
        mine, others = (
            (
                a.dimension,
                None if a.profile is None else a.profile.tolist(),
                [(words.saturation, words.scale) for words in a.words],
            )
            for a in (self, other)
        )
        return mine == others and (one is None or two is None or one == two)

    def gaussians(self, points: Sequence[Point]) -> Gaussian:
        """Rebuild the Gaussians of points, with their terms."""
        mean = np.array([p.mean for p in points], dtype=np.float32).reshape(-1, self.dimension)
        scales = np.array([p.spread[self.dimension :] for p in points], dtype=np.float32)
        terms = [
            noted.terms([point.words[block] for point in points])
            for block, noted in enumerate(self.words)
        ]
        return self.described(mean, scales.reshape(len(mean), self.scales)).with_terms(terms)

    def described(self, mean: FloatArray, scales: FloatArray) -> Gaussian:
        """Make Gaussians of their numbers, shapes (n, d) and (n, F)."""
        if self.profile is None:
            return Gaussian(mean, scales, widths=self.widths)
        return Gaussian.factored(mean, scales, self.profile, widths=self.widths)

    def metadata(self) -> dict[str, Any]:
        """Return the state in JSON's types."""
        profile = None
        if self.profile is not None:
            bits = base64.b64encode(self.profile.astype("<f4").tobytes()).decode()
            profile = {"shape": list(self.profile.shape), "float32": bits}
        return {
            "version": 1,
            "widths": list(self.widths),
            "profile": profile,
            "fingerprint": self.fingerprint,
            "words": [words.metadata() for words in self.words],
        }

    @classmethod
    def restore(cls, given: object, collection: str) -> Self:
        """Rebuild from `metadata`; ValueError if it is something else."""
        match given:
            case {
                "version": 1,
                "widths": [*widths],
                "profile": profile,
                "fingerprint": name,
                "words": [*words],
            }:
                factors = None
                if isinstance(profile, dict):
                    bits = base64.b64decode(profile["float32"])
                    factors = np.frombuffer(bits, dtype="<f4").reshape(profile["shape"])
                return cls(tuple(widths), factors, name, tuple(map(BlockSchema.restore, words)))
        raise ValueError(
            f"collection: {collection!r} exists and was not made by this version of uec_rag; "
            "choose another name."
        )


_SPACE = uuid.UUID("8d1d1b0a-3f5a-4c1e-9d55-2f0d6a1c7e42")


def point_id(id_: str) -> str:
    """Compute the UUID of a passage's id, the same in every process.

    Examples
    --------
    >>> point_id("a") == str(uuid.uuid5(_SPACE, "a")) != point_id("b")
    True
    """
    name = id_.encode(errors="surrogatepass")  # may be asked for, and is nowhere
    digest = hashlib.sha1(_SPACE.bytes + name, usedforsecurity=False).digest()  # as uuid5 does
    return str(uuid.UUID(bytes=digest[:16], version=5))
