"""Where a Qdrant collection is, and another try where that is out of reach a moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from uec_rag.base.retries import retried

_FORMULAS_SINCE = (1, 14)

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
        If not exactly one place is given.
    ConnectionError
        If a server does not answer.
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
        self.path, self.url = path, url
        self.client = client or QdrantClient(
            location=location, path=path, url=url, api_key=api_key, timeout=timeout
        )
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
        """
        try:
            return retried(lambda: method(*arguments, **named))
        except (ResponseHandlingException, UnexpectedResponse) as error:
            status = getattr(error, "status_code", None)
            if status is not None and 400 <= status < 500:
                raise
            raise ConnectionError(
                f"store: Qdrant at {self.url!r} does not answer ({error}). What this "
                "call has not written or found is not hidden: call it again when Qdrant is there."
            ) from error
