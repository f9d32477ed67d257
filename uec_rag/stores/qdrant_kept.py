"""What processes over one Qdrant collection have in common: a second collection of payloads."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from qdrant_client import models

from uec_rag.stores.keeping import KEPT, Stamp
from uec_rag.stores.point_ids import point_id
from uec_rag.stores.qdrant_place import Place

_WRITTEN, _NOTES = "written", "notes"
_PART = 2**22  # bytes in a point: a request is 32 MB at most
_TRIES = 5


class Kept:
    """Bytes by name, and the mark of the last write.

    Parameters
    ----------
    place : Place
    collection : str
        Whose name is followed by "_kept".
    """

    def __init__(self, place: Place, collection: str) -> None:
        self._place, self._ask, self._client = place, place.ask, place.client
        self._collection = f"{collection}_kept"

    def make(self, notes: Mapping[str, Any]) -> None:
        """Make its collection, or empty the one that is there.

        Parameters
        ----------
        notes : mapping
            Of the passages' collection: a server before 1.16 keeps none with that itself.

        Raises
        ------
        ValueError
            If that has vectors: it is someone else's.
        """
        if self._ask(self._client.collection_exists, self._collection):
            found = self._ask(self._client.get_collection, self._collection)
            if found.config.params.vectors:
                raise ValueError(
                    f"collection: what is learned of a corpus is kept in {self._collection!r}, "
                    "which is there and holds something else; choose another name."
                )
            for name in KEPT:
                self._remove(name, self._head(name))
        else:
            none: dict[str, models.VectorParams] = {}
            self._place.create(self._collection, vectors_config=none)
        self._put({_NOTES: {"notes": notes}})
        self.mark()

    def notes(self) -> object:
        """The notes of the passages' collection; None where there are none."""
        if not self._ask(self._client.collection_exists, self._collection):
            return None
        found = self._payloads([point_id(_NOTES)])
        return next((payload["notes"] for payload in found.values() if payload), None)

    def mark(self) -> None:
        """Note that something was written, or is about to be."""
        self._put({_WRITTEN: {"name": _WRITTEN, "version": uuid.uuid4().hex}})

    def stamp(self) -> Stamp:
        """The state of what is stored."""
        found = self._payloads([*map(point_id, (_WRITTEN, *KEPT))]).values()
        versions = {payload["name"]: payload["version"] for payload in found if payload}
        return Stamp(versions.pop(_WRITTEN, ""), versions)

    def keep(self, name: str, data: bytes) -> str:
        """Keep bytes under a name: they are there whole when its version is."""
        before, version = self._head(name), uuid.uuid4().hex
        parts = [data[start : start + _PART] for start in range(0, len(data), _PART)]
        for place, part in enumerate(parts):
            text = base64.b64encode(part).decode()
            self._put({f"{name}/{version}/{place}": {"data": text}})
        self._put({name: {"name": name, "version": version, "parts": len(parts)}})
        self._remove(name, before, head=False)
        return version

    def _remove(self, name: str, version: tuple[str, int] | None, *, head: bool = True) -> None:
        """Remove what is kept under a name, or the parts of a version that was before."""
        parts = [] if version is None else self._parts(name, *version)
        gone = [*parts, point_id(name)] if head else parts
        if gone:
            old = models.PointIdsList(points=[*gone])
            self._ask(self._client.delete, self._collection, old, wait=True)

    def kept(self, name: str) -> tuple[str, bytes] | None:
        """The version of what is kept under a name, and the bytes."""
        for _ in range(_TRIES):  # another process may replace it in between
            head = self._head(name)
            if head is None:
                return None
            wanted = self._parts(name, *head)
            found = {
                found_id: payload["data"]
                for id_ in wanted
                for found_id, payload in self._payloads([id_]).items()
            }
            if len(found) == len(wanted):
                return head[0], b"".join(base64.b64decode(found[id_]) for id_ in wanted)
        raise ConnectionError(
            f"store: what Qdrant keeps as {name!r} changes faster than it is read."
        )

    def _head(self, name: str) -> tuple[str, int] | None:
        for payload in self._payloads([point_id(name)]).values():
            return payload["version"], payload["parts"]
        return None

    def _payloads(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The payloads of those of some points that are there, by their ids."""
        found = self._ask(
            self._client.retrieve, self._collection, [*ids], with_payload=True, with_vectors=False
        )
        return {str(point.id): point.payload or {} for point in found}

    @staticmethod
    def _parts(name: str, version: str, parts: int) -> list[str]:
        return [point_id(f"{name}/{version}/{place}") for place in range(parts)]

    def _put(self, payloads: dict[str, dict[str, object]]) -> None:
        points = [
            models.PointStruct(id=point_id(key), vector={}, payload=payload)
            for key, payload in payloads.items()
        ]
        self._ask(self._client.upsert, self._collection, points, wait=True)
