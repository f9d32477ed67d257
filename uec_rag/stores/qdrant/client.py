"""The connection to Qdrant, with retries, and the state that it keeps for all processes."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from uec_rag.base.retries import is_passing, retried
from uec_rag.stores.base import KEPT, Stamp
from uec_rag.stores.engine import point_id

_OLDEST = (1, 16)  # the first to note what is ours with a collection
_WITHIN = 10.0  # seconds after which it is not asked again
_REFUSED, _NOT_THERE, _CONFLICT = (401, 403), 404, 409

_T = TypeVar("_T")


def checked_url(url: str) -> str:
    """Check a server's address, and remove a slash at its end.

    ValueError if something is in it that Qdrant's client would leave out, such as a password.
    """
    if {*"@?#"} & {*url}:
        raise ValueError(
            "url: expected http://HOST:PORT, without user, password, ? or #, which Qdrant's client "
            "would not send; the key goes to api_key=."
        )
    return url.rstrip("/")


class Place:
    """A client and the place of its collection: a server, a folder or memory.

    It takes and raises what `QdrantStore` does. Payloads are `indexed` in a server.
    """

    def __init__(
        self,
        location: str | None,
        path: str | None,
        url: str | None,
        api_key: str | None,
        timeout: int | None,
        client: QdrantClient | None,
    ) -> None:
        places = {"location": location, "path": path, "url": url, "client": client}
        given = [name for name, place in places.items() if place is not None]
        if len(given) != 1:
            raise ValueError(
                "location, path, url: expected exactly one, location=':memory:' for a try; got "
                f"{given or 'none'}."
            )
        if location not in (None, ":memory:"):
            got = checked_url(str(location))
            raise ValueError(
                f"location: expected ':memory:', got {got!r}; a server's address goes to url=, a "
                "folder to path=."
            )
        self.path, self.url = path, None if url is None else checked_url(url)
        self._key = api_key
        self._named = self.url or ("a client of your own" if client else path or location)
        try:
            self.client = client or QdrantClient(
                location=location, path=path, url=self.url, api_key=api_key, timeout=timeout
            )
        except ValueError as error:
            raise ValueError(f"url: expected http://HOST:PORT, got {url!r} ({error}).") from error
        options = getattr(self.client, "init_options", None) or {}
        # Local mode has no indexes of the payload, and needs none.
        self.indexed = options.get("location") != ":memory:" and options.get("path") is None
        if url is not None:
            version = self.ask(self.client.info).version
            major, minor = version.split("-")[0].split(".")[:2]
            if (int(major), int(minor)) < _OLDEST:
                self.client.close()
                raise RuntimeError(
                    f"url: the Qdrant at {self.url!r} is of version {version}, expected "
                    f"{'.'.join(map(str, _OLDEST))} or newer; update the server."
                )

    def ask(self, method: Callable[..., _T], *arguments: Any, **named: Any) -> _T:
        """Call Qdrant; retry a few times if it is briefly unreachable.

        ConnectionError if it stays out of reach. PermissionError if its key does not open that.
        RuntimeError if a collection has gone, or it is no Qdrant that answers. ValueError if it
        refuses what it is asked.
        """

        def translated() -> _T:
            try:
                return method(*arguments, **named)
            except (ResponseHandlingException, UnexpectedResponse) as error:
                status = getattr(error, "status_code", None) or 0
                if status == _CONFLICT:  # see `create`
                    raise
                translation = self._translation(error, status)
            raise translation  # here, so that a request with its key is not its context

        return retried(translated, within=_WITHIN)

    def _translation(self, error: Exception, status: int) -> Exception:
        """Return the error to raise in place of the client's."""
        if status in _REFUSED:
            return PermissionError(
                f"store: Qdrant at {self._named!r} does not let this key do that ({status}); give "
                "one that may as api_key= (uec-rag: in QDRANT_API_KEY)."
            )
        if status == _NOT_THERE:
            return RuntimeError(
                f"store: what answers at {self._named!r} is not Qdrant, or the collection there "
                "was removed (404). Check the address, or open the store again; the passages "
                "must be added again."
            )
        said = str(error).replace(self._key, "***") if self._key else str(error)
        if 400 <= status < 500 and not is_passing(error):
            return ValueError(
                f"store: Qdrant at {self._named!r} refuses what it is asked ({said}). Nothing was "
                "returned in part; look at its limits, and at what its collection was made with."
            )
        return ConnectionError(
            f"store: Qdrant at {self._named!r} does not answer ({said}). Nothing was returned in "
            "part; what was being written may be there in part: call again when it is there."
        )

    def create(self, collection: str, **settings: Any) -> None:
        """Make a collection, unless another process was quicker."""
        try:
            self.ask(self.client.create_collection, collection, **settings)
        except UnexpectedResponse as error:
            if error.status_code != _CONFLICT:
                raise


_WRITTEN = "written"


class Kept:
    """The state shared by processes: bytes by name, and the mark of the last write.

    Their collection is called as that of the passages, with "_kept" behind it.
    """

    def __init__(self, place: Place, collection: str) -> None:
        self._place, self._ask, self._client = place, place.ask, place.client
        self._collection = f"{collection}_kept"

    def make(self) -> None:
        """Make its collection, or empty the one that is there.

        ValueError if that has vectors: it is someone else's.
        """
        if self._ask(self._client.collection_exists, self._collection):
            found = self._ask(self._client.get_collection, self._collection)
            if found.config.params.vectors:
                raise ValueError(
                    f"collection: what is learned of a corpus is stored in {self._collection!r}, "
                    "which exists and holds something else; choose another name."
                )
            old = models.PointIdsList(points=[*map(point_id, KEPT)])
            self._ask(self._client.delete, self._collection, old, wait=True)
        else:
            none: dict[str, models.VectorParams] = {}
            self._place.create(self._collection, vectors_config=none)
        self.mark()

    def mark(self) -> None:
        """Note that something was written, or is about to be."""
        self.put_state(_WRITTEN, b"")

    def stamp(self) -> Stamp:
        """Return the state of what is stored."""
        found = self._payloads([_WRITTEN, *KEPT], ["name", "version"])
        versions = {payload["name"]: payload["version"] for payload in found}
        return Stamp(versions.pop(_WRITTEN, ""), versions)

    def put_state(self, name: str, data: bytes) -> str:
        """Store bytes under a name, in one request."""
        version = uuid.uuid4().hex
        payload = {"name": name, "version": version, "data": base64.b64encode(data).decode()}
        point = models.PointStruct(id=point_id(name), vector={}, payload=payload)
        self._ask(self._client.upsert, self._collection, [point], wait=True)
        return version

    def get_state(self, name: str) -> tuple[str, bytes] | None:
        """Return the version and the bytes stored under a name; None if there are none."""
        for payload in self._payloads([name], ["version", "data"]):
            return payload["version"], base64.b64decode(payload["data"])
        return None

    def _payloads(self, names: Sequence[str], keys: list[str]) -> list[dict[str, Any]]:
        ids = [*map(point_id, names)]
        found = self._ask(
            self._client.retrieve, self._collection, ids, with_payload=keys, with_vectors=False
        )
        return [point.payload for point in found if point.payload]
