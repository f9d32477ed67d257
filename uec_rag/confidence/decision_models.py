"""Decision models: what takes a state and typed questions, and returns probabilities.

They are recognised by their shape: a function of a state and questions, such as `SystemOne`, which
asks a server, and a class of LangChain whose input has these two.
"""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, get_type_hints

from uec_rag.base.checks import check_text
from uec_rag.base.properties import cached_property

Questions: TypeAlias = Mapping[str, Mapping[str, Any]]
DecisionModel: TypeAlias = Callable[[Mapping[str, Any], Questions], object]
"""A function, or coroutine function, of `state` and `questions`, as JSON values.

Both are those of `POST /v1/systemone`, and what it returns is read by
`uec_rag.confidence.opinion.read_answers`.
"""

_TRIES = 2
_PAUSE = 0.5  # seconds before a second try, unless the server names some


def decision_model(advisor: object) -> DecisionModel | None:
    """Return the function that asks a decision model; None for another kind of advisor.

    Parameters
    ----------
    advisor : object
        A callable whose first two parameters are named `state` and `questions`, or an object with
        `invoke` and `InputType`, as LangChain's `BaseDecisionModel`, `TypeSafeClassifier` and
        `OpenAIDecisions`. These are called synchronously: the connections of their asynchronous
        methods belong to one event loop.

    Examples
    --------
    >>> decision_model(lambda state, questions: {"answers": {}}) is None
    False
    >>> decision_model(lambda question, texts: True) is None
    True
    """
    if (request := _request_of(advisor)) is not None:
        return _asking(advisor, request)
    try:
        names = [*inspect.signature(advisor).parameters][:2] if callable(advisor) else []
    except ValueError:  # of a built-in function
        names = []
    return advisor if names == ["state", "questions"] else None  # type: ignore[return-value]


def _request_of(advisor: object) -> type | None:
    """Return the type of a class's input if it has questions about a state; None otherwise."""
    try:
        request = getattr(advisor, "InputType", None)
    except TypeError:  # a runnable without a known type
        return None
    names = getattr(request, "__annotations__", {})
    return request if "questions" in names and not {"state", "input"}.isdisjoint(names) else None


def _asking(model: Any, request: type) -> DecisionModel:  # noqa: ANN401
    """Return the function that invokes a class of LangChain with questions of its own types."""

    def ask(state: Mapping[str, Any], questions: Questions) -> object:
        from pydantic import TypeAdapter

        types = get_type_hints(request, include_extras=True)
        place = "state" if "state" in types else "input"
        known = questions
        if place == "input":
            known = {name: _for_openai(question) for name, question in questions.items()}
        typed = TypeAdapter(types["questions"]).validate_python(known)
        return model.invoke({place: state, "questions": typed})

    return ask


def _for_openai(question: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a question to the form of OpenAI's Decisions API, in which a yes has no criteria."""
    asked, criteria = str(question["instructions"]), question["criteria"]
    if question["type"] == "choice":
        return {"type": "choice", "instructions": asked, "choices": criteria}
    asked += f" Yes: {criteria['true']} No: {criteria['false']}"
    return {"type": "predicate", "instructions": asked}


@dataclass(frozen=True)
class SystemOne:
    """A decision model on a server: Ollama, LiteLLM, OpenRouter, vLLM, TypeSafe, one of your own.

    Parameters
    ----------
    url : str
        The server's address, to which ``/v1/systemone`` is added, or the whole address, which ends
        with ``/systemone`` or, for the form of OpenAI, ``/decisions``.
    model : str
        The model's name at the server.
    api_key : str, optional
        Sent as a bearer token; not shown, saved or pickled.
    timeout : float
        Seconds for a request, with a second try after a status of 429 or from 500 on, or if there
        is no answer.

    Raises
    ------
    TypeError, ValueError
        If the URL is not one of http or https, or a text is empty.

    Examples
    --------
    >>> from uec_rag import Gate
    >>> gate = Gate(advisor=SystemOne("http://localhost:11434", "nimble"))
    """

    url: str
    model: str
    api_key: str | None = field(default=None, repr=False, compare=False)
    timeout: float = 30.0

    def __post_init__(self) -> None:
        check_text(self.model, "model")
        check_text(self.url, "url")
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(
                f"url: expected one that begins with http:// or https://, got {self.url!r:.100}."
            )

    def __getstate__(self) -> dict[str, Any]:
        if self.api_key is not None:
            raise TypeError(
                "api_key: a SystemOne with a key is not pickled, so that the key lands in no file. "
                "Pickle the gate without its advisor, and pass SystemOne(...) again where it is "
                "loaded: dataclasses.replace(gate, advisor=SystemOne(...))."
            )
        return {"url": self.url, "model": self.model, "timeout": self.timeout}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __call__(self, state: Mapping[str, Any], questions: Questions) -> object:
        """Ask the server.

        Raises
        ------
        TimeoutError, ConnectionError
            If it does not answer in time, or not with a status of 200. The message has neither the
            key nor the reply.
        """
        import httpx

        body: dict[str, Any] = {"model": self.model, "state": state, "questions": questions}
        if self.address.endswith("/decisions"):
            body = {
                "model": self.model,
                "input": json.dumps(state, ensure_ascii=False),
                "questions": [_as_item(*item) for item in questions.items()],
            }
        headers = {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}
        end = time.monotonic() + self.timeout
        for tries_left in reversed(range(_TRIES)):
            left = max(end - time.monotonic(), 1e-3)
            options: dict[str, Any] = {"headers": headers, "timeout": left / (tries_left + 1)}
            try:
                reply = self._client.post(self.address, json=body, **options)
            except httpx.TimeoutException:
                continue
            except httpx.HTTPError as error:
                raise ConnectionError(type(error).__name__) from None
            if reply.status_code == 200:
                return json.loads(reply.content)
            if not tries_left or not (reply.status_code == 429 or reply.status_code >= 500):
                raise ConnectionError(f"the status {reply.status_code}")
            time.sleep(min(_pause(reply.headers), max(end - time.monotonic(), 0)))
        raise TimeoutError(f"no answer within {self.timeout:g} seconds")

    @property
    def address(self) -> str:
        """The address of its requests."""
        url = self.url.rstrip("/")
        if url.endswith(("/systemone", "/decisions")):
            return url
        return url.removesuffix("/v1") + "/v1/systemone"

    @cached_property
    def _client(self) -> Any:  # noqa: ANN401
        import httpx

        return httpx.Client()


def _as_item(name: str, question: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a question to an item of the list that `POST /v1/decisions` takes."""
    item = {"name": name} | _for_openai(question)
    if "choices" in item:
        offered = item["choices"].items()
        item["choices"] = [{"value": value, "description": told} for value, told in offered]
    return item


def _pause(headers: Mapping[str, str]) -> float:
    """Return the seconds before a second try."""
    try:
        return max(float(headers.get("retry-after", _PAUSE)), 0.0)
    except ValueError:  # a date
        return _PAUSE
