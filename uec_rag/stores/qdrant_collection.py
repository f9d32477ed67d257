"""A Qdrant collection of passages: made, noted down whose it is, written and read in parts."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.retries import retried
from uec_rag.stores.point_ids import point_id
from uec_rag.stores.qdrant_filters import FACTS, known

MEAN, SPREAD = "mean", "spread"
PASSAGE = ["id", "text", "metadata"]
"""What of a point's payload makes a passage."""

_ABOUT = "uec_rag"
_WRITTEN = 128  # points sent at a time
_READ = 512  # points asked for at a time

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class About:
    """What a collection notes about its Gaussians.

    Attributes
    ----------
    widths : tuple of int
        Of the encoders' blocks of the means.
    profile : array, shape (F, d), or None
        Of a factored variance.
    fingerprint : str or None
        Of the ensemble, where it is known.
    """

    widths: tuple[int, ...]
    profile: FloatArray | None
    fingerprint: str | None

    @classmethod
    def of(cls, gaussians: Gaussian, fingerprint: str | None) -> Self:
        """What is noted about Gaussians."""
        return cls(tuple(gaussians.widths), gaussians.profile, fingerprint)

    @property
    def dimension(self) -> int:
        """Of the means."""
        return sum(self.widths)

    def admits(self, other: About) -> bool:
        """Whether Gaussians of another description may stand beside these."""
        one, two = self.fingerprint, other.fingerprint
        profiles = [None if a.profile is None else a.profile.tolist() for a in (self, other)]
        same = self.dimension == other.dimension and profiles[0] == profiles[1]
        return same and (one is None or two is None or one == two)

    def gaussians(self, points: Iterable[models.Record | models.ScoredPoint]) -> Gaussian:
        """The Gaussians of points that came with their vectors."""
        given: list[Any] = [point.vector for point in points]
        dimension = self.dimension
        mean = np.array([v[MEAN] for v in given], dtype=np.float32).reshape(-1, dimension)
        count = dimension if self.profile is None else len(self.profile)
        scales = np.array([v[SPREAD][dimension:] for v in given], dtype=np.float32)
        scales = scales.reshape(len(mean), count)
        if self.profile is None:
            return Gaussian(mean, scales, widths=self.widths)
        return Gaussian.factored(mean, scales, self.profile, widths=self.widths)

    def metadata(self) -> dict[str, Any]:
        """JSON-able state, kept with the collection."""
        profile = None
        if self.profile is not None:
            bits = base64.b64encode(self.profile.astype("<f4").tobytes()).decode()
            profile = {"shape": list(self.profile.shape), "float32": bits}
        return {
            "version": 1,
            "widths": list(self.widths),
            "profile": profile,
            "fingerprint": self.fingerprint,
        }

    @classmethod
    def restore(cls, given: object, collection: str) -> Self:
        """Rebuild from `metadata`; ValueError if it is something else."""
        match given:
            case {"version": 1, "widths": [*widths], "profile": profile, "fingerprint": name}:
                factors = None
                if isinstance(profile, dict):
                    bits = base64.b64decode(profile["float32"])
                    factors = np.frombuffer(bits, dtype="<f4").reshape(profile["shape"])
                return cls(tuple(widths), factors, name)
        raise ValueError(
            f"collection: {collection!r} is there and was not made by this version of uec_rag; "
            "choose another name."
        )


class Collection:
    """The points of a collection.

    Parameters
    ----------
    client : QdrantClient
    name : str
    place : str
        Of the server or folder, for messages.
    settings : mapping
        For when it is made.
    indexed : bool
        Whether to have Qdrant index what filters look at; local mode has no such index.
    """

    def __init__(
        self,
        client: QdrantClient,
        name: str,
        place: str,
        settings: Mapping[str, Any],
        *,
        indexed: bool,
    ) -> None:
        self.client, self.name = client, name
        self._place, self._settings, self._indexed = place, dict(settings), indexed
        self._about: About | None = None
        self._warned: set[str] = set()

    def version(self) -> tuple[int, ...]:
        """Of the server, as far as features depend on it."""
        number = self.ask(self.client.info).version.split("-")[0]
        return tuple(int(part) for part in number.split(".")[:2])

    def ask(self, method: Callable[..., _T], *arguments: Any, **named: Any) -> _T:
        """Call Qdrant, again a few times where it is out of reach for a moment.

        Raises
        ------
        ConnectionError
            If it stays out of reach.
        """
        try:
            return retried(lambda: method(*arguments, **named))
        except (ResponseHandlingException, UnexpectedResponse) as error:
            status = getattr(error, "status_code", None)
            if status is not None and 400 <= status < 500:
                raise
            raise ConnectionError(
                f"store: Qdrant at {self._place!r} does not answer ({error}). What this call has "
                "not written or found is not hidden: call it again when Qdrant is there."
            ) from error

    def about(self) -> About | None:
        """What the collection notes; None where there is none."""
        if self._about is None and self.ask(self.client.collection_exists, self.name):
            config = self.ask(self.client.get_collection, self.name).config
            self._about = About.restore((config.metadata or {}).get(_ABOUT), self.name)
        return self._about

    def prepare(self, gaussians: Gaussian, fingerprint: str | None) -> None:
        """See to it that there is a collection that the Gaussians fit.

        Raises
        ------
        ValueError
            If there is one with passages whose Gaussians are of another kind.
        """
        wanted, about = About.of(gaussians, fingerprint), self.about()
        if about is not None:
            if about.admits(wanted):
                return
            if self.count(None):
                raise ValueError(
                    f"gaussians: expected dimension {about.dimension} and the posterior of the "
                    f"collection {self.name!r}, got dimension {wanted.dimension} or another "
                    "posterior. Build the index again, in another collection."
                )
            self.ask(self.client.delete_collection, self.name)
            self._about = None
        width, scales = wanted.dimension, gaussians.scales.shape[1]
        dot = models.Distance.DOT
        none = models.HnswConfigDiff(m=0)  # of what only scores candidates
        self.ask(
            self.client.create_collection,
            self.name,
            vectors_config={
                MEAN: models.VectorParams(size=width, distance=dot),
                SPREAD: models.VectorParams(
                    size=width + scales, distance=dot, hnsw_config=none, on_disk=True
                ),
            },
            metadata={_ABOUT: wanted.metadata()},
            **self._settings,
        )
        if self._indexed:
            keyword = models.PayloadSchemaType.KEYWORD
            self.ask(self.client.create_payload_index, self.name, FACTS, keyword)

    def put(self, points: Sequence[models.PointStruct]) -> None:
        """Write points, some at a time, and wait until each part is there."""
        for start in range(0, len(points), _WRITTEN):
            self.ask(self.client.upsert, self.name, points[start : start + _WRITTEN], wait=True)

    def remove(self, ids: Sequence[str]) -> None:
        """Remove the points of passages."""
        for start in range(0, len(ids), _READ):
            chosen = models.PointIdsList(points=[*map(point_id, ids[start : start + _READ])])
            self.ask(self.client.delete, self.name, chosen, wait=True)

    def count(self, where: models.Filter | None) -> int:
        """How many points a filter lets through."""
        if self.about() is None:
            return 0
        return self.ask(self.client.count, self.name, where, exact=True).count

    def warn_of_unknown(self, keys: set[str]) -> None:
        """Warn of metadata keys that no passage has, once of each."""
        for key in sorted(keys - self._warned):
            if self.count(None) and not self.count(known(key)):
                self._warned.add(key)
                warnings.warn(
                    f"filter: no passage has the metadata key {key!r}.", UserWarning, stacklevel=4
                )

    def gaussians(self, points: Sequence[models.Record]) -> Gaussian:
        """The Gaussians of points that came with their vectors."""
        about = self.about()
        if about is None:
            return Gaussian(np.zeros((0, 0)), np.zeros((0, 0)))
        return about.gaussians(points)

    def points(
        self, ids: Sequence[str], payload: list[str], *, vectors: bool
    ) -> dict[str, models.Record]:
        """Points by passage id; those that are there."""
        wanted, out = [*dict.fromkeys(ids)], dict[str, models.Record]()
        if self.about() is None:
            return out
        for start in range(0, len(wanted), _READ):
            found = self.ask(
                self.client.retrieve,
                self.name,
                [*map(point_id, wanted[start : start + _READ])],
                with_payload=payload,
                with_vectors=vectors,
            )
            out.update({(point.payload or {})["id"]: point for point in found})
        return out

    def scrolled(
        self, where: models.Filter | None, *, vectors: bool, limit: int | None = None
    ) -> Iterator[models.Record]:
        """Points in the order of their UUIDs, which is one of chance, the same for everyone."""
        if self.about() is None:
            return
        offset, left = None, limit
        while left is None or left > 0:
            points, offset = self.ask(
                self.client.scroll,
                self.name,
                scroll_filter=where,
                limit=_READ if left is None else min(left, _READ),
                offset=offset,
                with_payload=PASSAGE,
                with_vectors=vectors,
            )
            yield from points
            left = None if left is None else left - len(points)
            if offset is None:
                return

    def answers(self, asked: Sequence[models.QueryRequest]) -> list[list[models.ScoredPoint]]:
        """Points that each of some queries finds, best first."""
        found = self.ask(self.client.query_batch_points, self.name, list(asked))
        return [answer.points for answer in found]
