"""The connection to Qdrant, with retries, and the mark of the last write."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from packaging.version import Version
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from uec_rag.base.retries import is_transient, retry
from uec_rag.stores.qdrant.points import point_id

_OLDEST = "1.16"  # the first version with metadata of collections
_WITHIN = 10.0  # seconds after which requests are not retried
_REFUSED, _NOT_THERE, _CONFLICT = (401, 403), 404, 409

_T = TypeVar("_T")


def check_url(url: str) -> str:
    """Check a server's address, and remove a trailing slash.

    ValueError if it has parts that Qdrant's client would ignore, such as a password.
    """
    if {*"@?#"} & {*url}:
        raise ValueError(
            "url: expected http://HOST:PORT, without user, password, ? or #, which Qdrant's client "
            "would not send; pass the key as api_key=."
        )
    return url.rstrip("/")


class QdrantLocation:
    """A client and the location of its collection: a server, a folder or memory.

    Parameters and errors are those of `QdrantStore`. `indexed`: whether payloads have indexes.
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
        options = {"location": location, "path": path, "url": url, "client": client}
        names = [name for name, value in options.items() if value is not None]
        if len(names) != 1:
            raise ValueError(
                "location, path, url: expected exactly one, for instance location=':memory:'; got "
                f"{names or 'none'}."
            )
        if location not in (None, ":memory:"):
            got = check_url(str(location))
            raise ValueError(
                f"location: expected ':memory:', got {got!r}; pass a server's address as url=, a "
                "folder as path=."
            )
        self.path, self.url = path, None if url is None else check_url(url)
        self._key = api_key
        self._named = self.url or ("a given client" if client else path or location)
        try:
            self.client = client or QdrantClient(
                location=location, path=path, url=self.url, api_key=api_key, timeout=timeout
            )
        except ValueError as error:
            raise ValueError(f"url: expected http://HOST:PORT, got {url!r} ({error}).") from error
        options = getattr(self.client, "init_options", None) or {}
        # Local mode has no payload indexes, and needs none.
        self.indexed = options.get("location") != ":memory:" and options.get("path") is None
        if url is not None:
            version = self.call_with_retries(self.client.info).version
            if Version(version.split("-")[0]) < Version(_OLDEST):
                self.client.close()
                raise RuntimeError(
                    f"url: the Qdrant at {self.url!r} has version {version}, expected "
                    f"{_OLDEST} or newer; update the server."
                )

    def call_with_retries(self, method: Callable[..., _T], *arguments: Any, **named: Any) -> _T:
        """Call Qdrant; retry a few times if it is briefly unreachable.

        ConnectionError if it stays unreachable. PermissionError if the key lacks a permission.
        RuntimeError if the collection was removed, or the server is not Qdrant. ValueError if it
        rejects the request.
        """

        def call() -> _T:
            try:
                return method(*arguments, **named)
            except (ResponseHandlingException, UnexpectedResponse) as error:
                status = getattr(error, "status_code", None) or 0
                if status == _CONFLICT:  # see `create`
                    raise
                translation = self._translation(error, status)
            raise translation  # outside `except`, so that a request with its key is not the context

        return retry(call, within=_WITHIN)

    def _translation(self, error: Exception, status: int) -> Exception:
        """Return the error to raise in place of the client's."""
        if status in _REFUSED:
            return PermissionError(
                f"store: Qdrant at {self._named!r} does not let this key do that ({status}); pass "
                "one with permission as api_key= (uec-rag: in QDRANT_API_KEY)."
            )
        if status == _NOT_THERE:
            return RuntimeError(
                f"store: the server at {self._named!r} is not Qdrant, or the collection was "
                "removed (404). Check the address, or open the store again; the passages must be "
                "added again."
            )
        message = str(error).replace(self._key, "***") if self._key else str(error)
        if 400 <= status < 500 and not is_transient(error):
            return ValueError(
                f"store: Qdrant at {self._named!r} rejects the request ({message}). No partial "
                "result was returned; check its limits and the settings of the collection."
            )
        return ConnectionError(
            f"store: Qdrant at {self._named!r} does not answer ({message}). No partial result was "
            "returned; a write may be incomplete. Call again when the server is available."
        )

    def create(self, collection: str, **settings: Any) -> None:
        """Create a collection, unless another process already has."""
        try:
            self.call_with_retries(self.client.create_collection, collection, **settings)
        except UnexpectedResponse as error:
            if error.status_code != _CONFLICT:
                raise


_WRITTEN = "written"


class WriteMark:
    """The mark of the last write, by which processes notice each other's writes.

    It is a point in a collection named after that of the passages, with the suffix "_kept".
    """

    def __init__(self, location: QdrantLocation, collection: str) -> None:
        self._location, self._client = location, location.client
        self._ask = location.call_with_retries
        self._collection = f"{collection}_kept"

    def make(self) -> None:
        """Create the collection, unless it exists.

        ValueError if the existing one has vectors, and so was not created here.
        """
        if self._ask(self._client.collection_exists, self._collection):
            information = self._ask(self._client.get_collection, self._collection)
            if information.config.params.vectors:
                raise ValueError(
                    f"collection: a mark of the last write is stored in {self._collection!r}, "
                    "which exists and has other contents; choose another name."
                )
        else:
            none: dict[str, models.VectorParams] = {}
            self._location.create(self._collection, vectors_config=none)
        self.renew()

    def renew(self) -> None:
        """Record that a write begins or has ended."""
        payload = {"name": _WRITTEN, "version": uuid.uuid4().hex}
        point = models.PointStruct(id=point_id(_WRITTEN), vector={}, payload=payload)
        self._ask(self._client.upsert, self._collection, [point], wait=True)

    def read(self) -> str:
        """Return the mark; "" if there is none."""
        records = self._ask(
            self._client.retrieve,
            self._collection,
            [point_id(_WRITTEN)],
            with_payload=["version"],
            with_vectors=False,
        )
        return "".join(point.payload["version"] for point in records if point.payload)
