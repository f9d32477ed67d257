"""Where a Qdrant collection is, and another try where that is out of reach a moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from uec_rag.base.retries import retried

_FORMULAS_SINCE = (1, 14)
_REFUSED, _NOT_THERE, _CONFLICT = (401, 403), 404, 409

_T = TypeVar("_T")


class Place:
    """A client, and what of Qdrant is behind it.

    Parameters
    ----------
    location, path, url, api_key, timeout, client
        As `QdrantStore` takes them.

    Raises
    ------
    ValueError
        If not exactly one place is given, or none that it can be.
    ConnectionError
        If a server does not answer.
    PermissionError
        If it asks for another key.
    RuntimeError
        If it is none of Qdrant's.
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
            raise ValueError(
                f"location: expected ':memory:', got {location!r}; a server's address goes to "
                "url=, a folder to path=."
            )
        self.path, self.url = path, url
        try:
            self.client = client or QdrantClient(
                location=location, path=path, url=url, api_key=api_key, timeout=timeout
            )
        except ValueError as error:
            raise ValueError(f"url: expected http://HOST:PORT, got {url!r} ({error}).") from error
        options = getattr(self.client, "init_options", None) or {}
        # Local mode has no indexes of the payload, and needs none.
        self.indexed = options.get("location") != ":memory:" and options.get("path") is None
        self.formulas = url is None or self._version() >= _FORMULAS_SINCE

    def _version(self) -> tuple[int, ...]:
        number = self.ask(self.client.info).version.split("-")[0]
        return tuple(int(part) for part in number.split(".")[:2])

    def ask(self, method: Callable[..., _T], *arguments: Any, **named: Any) -> _T:
        """Call Qdrant, again a few times where it is out of reach for a moment.

        Raises
        ------
        ConnectionError
            If it stays out of reach.
        PermissionError
            If its key does not open that.
        RuntimeError
            If a collection has gone, or it is no Qdrant that answers.
        """
        try:
            return retried(lambda: method(*arguments, **named))
        except (ResponseHandlingException, UnexpectedResponse) as error:
            status = getattr(error, "status_code", None)
            if status in _REFUSED:
                raise PermissionError(
                    f"store: Qdrant at {self.url!r} does not let this key do that ({status}); give "
                    "one that may as api_key=, or in QDRANT_API_KEY where an index is loaded."
                ) from error
            if status == _NOT_THERE:
                raise RuntimeError(
                    f"store: what answers at {self.url!r} is no Qdrant, or somebody has removed "
                    "the collection there (404). Look at the address, or open the store again; "
                    "what has gone has to be added again."
                ) from error
            if status is not None and 400 <= status < 500:
                raise
            raise ConnectionError(
                f"store: Qdrant at {self.url!r} does not answer ({error}). Nothing was returned in "
                "part; what was being written may be there in part: call again when it is there."
            ) from error

    def create(self, collection: str, **settings: Any) -> None:
        """Make a collection, unless somebody else was quicker."""
        try:
            self.ask(self.client.create_collection, collection, **settings)
        except UnexpectedResponse as error:
            if error.status_code != _CONFLICT:
                raise
