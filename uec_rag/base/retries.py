"""Retries of calls to a remote model or store that is briefly unreachable or too busy."""

import logging
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from uec_rag.base.checks import one_line

if TYPE_CHECKING:
    from tenacity import RetryCallState

_log = logging.getLogger(__name__)

_TRIES = 5
_FIRST_WAIT = 0.5  # largest wait before the second try, in seconds; doubled with each further try
_LONGEST_WAIT = 30.0

_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
# Names of exceptions of httpx, requests, aiohttp, openai and others, none of which is required.
_NAMES = frozenset(
    {
        "APIConnectionError",
        "ClientConnectionError",
        "ConnectionError",
        "RateLimitError",
        "ResponseHandlingException",
        "ServiceUnavailable",
        "Timeout",
        "TransportError",
    }
)

_Out = TypeVar("_Out")


def is_transient(error: BaseException) -> bool:
    """Return whether an error may be transient: a lost connection, or "too many requests".

    Examples
    --------
    >>> is_transient(TimeoutError()), is_transient(ValueError())
    (True, False)
    """
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    status = _status(error)
    if status is not None:
        return status in _STATUSES
    return any(base.__name__ in _NAMES for base in type(error).__mro__)


def retry(function: Callable[..., _Out], *arguments: object, within: float = math.inf) -> _Out:
    """Call a function, and retry transient errors a few times with increasing delays.

    `*arguments`: those of the function. `within`: seconds after which errors are not retried.
    Raises the last error of the function if it is not transient, or the last try has failed.
    """
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, stop_after_delay

    retrying = Retrying(
        retry=retry_if_exception(is_transient),
        stop=stop_after_attempt(_TRIES) | stop_after_delay(within),
        wait=_wait,
        before_sleep=_announce,
        reraise=True,
    )
    return retrying(function, *arguments)


def _announce(state: "RetryCallState") -> None:
    """Log the first failure; the last error is raised, with all details."""
    error = state.outcome and state.outcome.exception()
    if state.attempt_number == 1:
        _log.warning("%s; trying again ...", re.split(r"\. | \(", one_line(str(error)))[0])


def _wait(state: "RetryCallState") -> float:
    """Return the seconds before the next try, which grow."""
    from tenacity import wait_random_exponential

    return wait_random_exponential(_FIRST_WAIT, _LONGEST_WAIT)(state)


def _status(error: BaseException) -> int | None:
    """Return the HTTP status of an error, under the attribute names that clients use."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            value = getattr(holder, name, None)
            if isinstance(value, int):
                return value
    return None
