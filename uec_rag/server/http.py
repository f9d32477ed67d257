"""The HTTP API of an index: search, ask and, if permitted, write."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException as StarletteHTTPException

from uec_rag.base.checks import six_digits
from uec_rag.base.environment import cores
from uec_rag.base.spans import span
from uec_rag.base.version import __version__
from uec_rag.confidence.decision import outcome
from uec_rag.confidence.replies import UnknownReading
from uec_rag.confidence.sentences import Code
from uec_rag.documents.passages import bookkeeping_keys
from uec_rag.retrieval import Retriever, SearchResult
from uec_rag.retrieval.files import add_passages
from uec_rag.retrieval.request import LONGEST_QUERY, check_history
from uec_rag.server.access import (
    Access,
    Guard,
    describe_error,
    describe_invalid_request,
    problem,
)
from uec_rag.server.conversation import Chosen, History, ReadingFound, turns
from uec_rag.server.running import Metrics, log_gate, log_to_stderr, serve
from uec_rag.server.static import add_pages
from uec_rag.stores.base import check_stored_text
from uec_rag.stores.filters import check_size, parse

# Limits of one request: hits, characters of a passage, passages to add or delete.
LARGEST_K, LONGEST_PASSAGE, MOST_PASSAGES = 100, 1_000_000, 1_000
_WRITERS = 8  # write requests that may be in progress or waiting


class Route(NamedTuple):
    """A path, and the name of the method of `Service` that answers its requests."""

    method: str
    path: str
    handler: str
    status: int | None = None


ROUTES = (
    Route("POST", "/search", "search"),
    Route("POST", "/ask", "ask"),
    Route("GET", "/healthz", "healthy"),
    Route("GET", "/readyz", "ready"),
    Route("GET", "/metrics", "counted"),
)
WRITE_ROUTES = (
    Route("POST", "/passages", "add", 201),
    Route("DELETE", "/passages", "delete"),
)
LABEL_ROUTE = Route("POST", "/labels", "label", 201)
_PAGES = {"/": "docs.html", "/docs": "docs.html", "/docs.js": "docs.js", "/page.css": "page.css"}

_EXAMPLE = {"examples": [{"question": "How do I reset my password?", "k": 3}]}


class Question(BaseModel, extra="forbid", strict=True, json_schema_extra=_EXAMPLE):
    """A question and the options of its search."""

    question: str = Field(min_length=1, max_length=LONGEST_QUERY)
    k: int = Field(4, ge=1, le=LARGEST_K, description="How many passages.")
    filter: dict[str, Any] | None = Field(
        None,
        description="Conditions on the metadata: values, or operators such as $in and $gte.",
        examples=[{"lang": "en", "year": {"$gte": 2020}}],
    )
    history: History | None = None
    within: Chosen | None = None


class Hit(BaseModel):
    """A passage that was found."""

    id: str
    text: str
    metadata: dict[str, Any]
    score: float = Field(description="The similarity, reduced if it is uncertain.")
    sigma2: float = Field(description="Variance of the similarity.")
    relevance: float = Field(description="Probability that the passage answers the query.")


Sure = Annotated[float, Field(description="Probability that the passages answer the query.")]
Held = Annotated[float, Field(description="Probability that the corpus has an answer.")]


class SearchResponse(BaseModel):
    """The hits of a search, best first."""

    confidence: Sure
    in_corpus: Held
    passages: list[Hit]


class Answer(BaseModel):
    """The decision about the hits."""

    decision: Literal["answer", "clarify", "abstain"] = Field(
        description="Answer from the passages, ask what the question means, or say that the "
        "documents do not answer it.",
        examples=["abstain"],
    )
    reason: str = Field(examples=["The documents do not seem to answer this."])
    reason_code: Code | Literal[""] = Field(examples=["no_answer"])
    clarifying_question: str = Field(
        description="The question to ask the user, if the decision is to clarify; else empty."
    )
    readings: list[ReadingFound] = Field(
        description="The possible meanings of the question, if the decision is to clarify; else "
        "empty."
    )
    candidates: list[str] = Field(description="Ids of the passages that the question may be about.")
    confidence: Sure
    threshold: float | None = Field(
        description="The confidence above which to answer; null: never."
    )
    in_corpus: Held
    underspecified: float = Field(
        description="Probability that the query does not say which reading is meant."
    )
    passages: list[Hit]


class NewPassage(BaseModel, extra="forbid", strict=True):
    """A passage to add; it replaces a passage with the same id."""

    text: str = Field(min_length=1, max_length=LONGEST_PASSAGE)
    id: str | None = Field(None, min_length=1, max_length=1000, description="Generated by default.")
    metadata: dict[str, Any] = Field(default_factory=dict, examples=[{"source": "faq.md"}])


class NewPassages(BaseModel, extra="forbid"):
    """Passages to add."""

    passages: list[NewPassage] = Field(min_length=1, max_length=MOST_PASSAGES)


class NewLabel(BaseModel, extra="forbid", strict=True):
    """A question, and the passages that answer it; none if nothing does."""

    question: str = Field(min_length=1, max_length=LONGEST_QUERY)
    relevant_ids: list[str] = Field(max_length=MOST_PASSAGES, examples=[["faq.md#returns"], []])


class Problem(BaseModel):
    """A description of an error and its remedy."""

    detail: str


def passages_of(result: SearchResult) -> list[Hit]:
    """Convert the hits of the first query of a result."""
    return [
        Hit(
            id=passage.id,
            text=passage.text,
            metadata={
                key: value
                for key, value in passage.metadata.items()
                if key not in bookkeeping_keys(passage)
            },
            score=six_digits(float(result.scores[0, rank])),
            sigma2=six_digits(float(result.sigma2[0, rank])),
            relevance=six_digits(float(result.relevance[0, rank])),
        )
        for rank, passage in enumerate(result.passages[0])
    ]


class Service:
    """The index of a server, with its metrics and handlers of requests."""

    def __init__(self, index: Retriever, access: Access) -> None:
        self.index, self.limits, self.metrics = index, access.limits, Metrics()
        self._searches, self._waiting = asyncio.Semaphore(cores()), 0
        self._lock, self._writers = asyncio.Lock(), 0

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """Close the index at shutdown."""
        yield  # uvicorn continues only after it has answered all accepted requests
        self.index.close()

    def _check(self, question: Question) -> Sequence[str]:
        """Return the turns before a question; TypeError or ValueError if it cannot be searched."""
        if not question.question.strip():
            raise ValueError("question: is empty or only white space; ask something.")
        check_stored_text(question.question, "question")
        [before] = check_history([turns(question.history)])
        if question.filter is not None:
            most, condition = self.limits, parse(question.filter)
            check_size(condition, most.conditions, most.values, most.characters)
            check = getattr(self.index.store, "check_filter", None)  # Qdrant's are fewer
            if check is not None:
                check(condition)
        return before

    async def _result(self, question: Question) -> SearchResult:
        with _to_http_error():
            before = await asyncio.to_thread(self._check, question)
        with _to_http_error(mine=False), span("request", k=question.k) as note:
            result = await self._search(question, before)
            note(result[0].trace_attributes, **outcome(result.decisions))
        return result

    async def _search(self, question: Question, before: Sequence[str]) -> SearchResult:
        """Search as soon as a processor is free; QueueFull if too many questions are waiting."""
        if self._waiting >= self.limits.queue:
            raise asyncio.QueueFull
        self._waiting += 1
        seconds = self.metrics.stages
        try:
            with seconds.labels("wait").time():
                await self._searches.acquire()
        finally:
            self._waiting -= 1
        try:
            with seconds.labels("search").time():
                return await self.index.asearch(
                    [question.question],
                    question.k,
                    filter=question.filter,
                    history=[before],
                    within=question.within,
                )
        finally:
            self._searches.release()

    async def search(self, question: Question) -> SearchResponse:
        """Find the passages with the highest scores."""
        result = await self._result(question)
        sure, in_corpus = six_digits([float(result.confidence[0]), float(result.in_corpus[0])])
        return SearchResponse(confidence=sure, in_corpus=in_corpus, passages=passages_of(result))

    async def ask(self, question: Question) -> Answer:
        """Find passages, and decide whether they answer the question."""
        result = await self._result(question)
        decision = result.decisions[0]
        self.metrics.count_decision(decision, self.index.gate)
        return Answer(**six_digits(decision.metadata()), passages=passages_of(result))

    async def healthy(self) -> dict[str, str]:
        """Report that the process is alive."""
        return {"status": "ok"}

    async def ready(self) -> dict[str, int | str]:
        """Report whether the store answers."""
        with _to_http_error(mine=False):
            count = await asyncio.to_thread(len, self.index)
        return {"status": "ready", "passages": count}

    async def counted(self) -> Response:
        """Return metrics for Prometheus: latencies, decisions and confidence."""
        text = await asyncio.to_thread(self.metrics.text)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _write(self, change: Callable[[Retriever], dict[str, Any]]) -> dict[str, Any]:
        with _to_http_error():
            if self._writers >= _WRITERS:
                raise asyncio.QueueFull
            self._writers += 1
            try:
                async with self._lock:
                    return await asyncio.to_thread(change, self.index)
            finally:
                self._writers -= 1

    async def add(self, new: NewPassages) -> dict[str, list[str]]:
        """Add all of the passages or none, replacing those with the same ids. Returns their ids."""
        texts = [passage.text for passage in new.passages]
        metadatas = [passage.metadata for passage in new.passages]
        ids = [passage.id for passage in new.passages if passage.id is not None]
        if ids and len(ids) < len(texts):
            raise HTTPException(422, "id: expected one for every passage, or for none.")
        return await self._write(
            lambda index: {"ids": add_passages(index, texts, ids or None, metadatas)}
        )

    async def delete(
        self, id: Annotated[list[str], Query(min_length=1, max_length=MOST_PASSAGES)]
    ) -> dict[str, int | list[str]]:
        """Delete passages, /passages?id=ONE&id=ANOTHER. Returns their number and unknown ids."""

        def change(index: Retriever) -> dict[str, Any]:
            with index.changing():
                there = {passage.id for passage in index.get(id)}
                unknown = [name for name in id if name not in there]
                return {"deleted": index.delete([*there]) if there else 0, "unknown": unknown}

        done = await self._write(change)
        if not done["deleted"]:
            raise HTTPException(404, "id: none of these is in the index; nothing was deleted.")
        return done

    async def label(self, new: NewLabel) -> dict[str, int]:
        """Label a question for the next gate, in place of what it had. Returns their number."""
        with _to_http_error():
            await asyncio.to_thread(self.index.label, new.question, new.relevant_ids)
        return {"relevant_ids": len(new.relevant_ids)}


def create_app(index: Retriever, access: Access, *, write: bool = False) -> Guard:
    """Make the application, which closes the index at shutdown.

    `write`: whether to provide POST and DELETE /passages. POST /labels needs it or a token.
    """
    service = Service(index, access)
    app = FastAPI(
        title="uec-rag",
        version=__version__,
        summary="Search documents and decide whether to answer, clarify or abstain.",
        docs_url=None,  # FastAPI's page loads scripts from a CDN; `_PAGES` has our own
        redoc_url=None,
        lifespan=service.lifespan,
        generate_unique_id_function=lambda route: route.name,  # operation ids: `ask`, `search`
        dependencies=[Depends(HTTPBearer(auto_error=False))] if access.token else [],
        responses={status: {"model": Problem} for status in (401, 403, 413, 422, 429, 503)},
        exception_handlers={
            RequestValidationError: validation_error_response,
            StarletteHTTPException: http_error_response,
        },
    )
    routes = [*ROUTES, *(WRITE_ROUTES if write else ())]
    routes += [LABEL_ROUTE] if write or access.token else []
    for method, path, handler, status in routes:
        answer = getattr(service, handler)
        app.add_api_route(path, answer, methods=[method], status_code=status)
    add_pages(app, _PAGES)
    return Guard(app, replace(access, open=(*access.open, *_PAGES)), service.metrics.count_request)


@contextmanager
def _to_http_error(*, mine: bool = True) -> Iterator[None]:
    """Convert errors to HTTP errors. `mine`: whether a ValueError was caused by the request."""
    try:
        yield
    except asyncio.QueueFull:
        again = {"Retry-After": "1"}
        raise HTTPException(429, "Too many requests are waiting; try again.", again) from None
    except (OSError, TypeError, ValueError, RecursionError) as error:  # too deep a filter
        if not (mine or isinstance(error, OSError | UnknownReading)):
            raise
        status, detail = describe_error(error)
        raise HTTPException(status, _ARGUMENT.sub(_field, detail)) from None


_FIELDS = {"texts": "text", "ids": "id", "metadatas": "metadata"}
_ARGUMENT = re.compile(rf"^({'|'.join(_FIELDS)})(?:\[(\d+)\])?(?!\w)")


def _field(argument: re.Match[str]) -> str:
    """Return the field of a request that an argument of `Retriever.add` comes from."""
    return ".".join(filter(None, ["passages", argument[2], _FIELDS[argument[1]]]))


async def http_error_response(request: Request, error: Exception) -> Response:
    """Explain errors 404 and 405 of the router; other HTTP errors keep their detail."""
    assert isinstance(error, StarletteHTTPException)
    detail = error.detail
    if detail == "Not Found" and request.url.path == "/passages":
        detail = "This index is only read; 'uec-rag serve INDEX --write' lets requests change it."
    elif detail == "Not Found" and request.url.path == "/labels":
        detail = "Labels need a token, 'uec-rag serve INDEX --token TOKEN', or --write."
    elif detail == "Not Found":
        detail = "There is no such path; GET /openapi.json describes all."
    elif error.status_code == 405 and error.headers:
        detail = f"Method: expected {error.headers['Allow']}, got {request.method}."
    return JSONResponse({"detail": detail}, error.status_code, error.headers)


async def validation_error_response(request: Request, error: Exception) -> Response:
    """Explain why a request failed validation."""
    assert isinstance(error, RequestValidationError)
    first, kind = error.errors()[0], request.headers.get("content-type", "")
    if first["loc"] == ("body",) and "json" not in kind:
        return problem(422, "Content-Type: expected application/json, with an object as the body.")
    if first["type"] == "json_invalid":
        return problem(422, "body: expected JSON; it cannot be read.")
    return problem(422, describe_invalid_request(error.errors(), depth=1))


def run(index: Retriever, access: Access, port: int, *, write: bool = False) -> None:
    """Serve until the process is told to stop; accepted requests are answered first.

    `port`: 0 for any free port.

    Raises OSError if the port is taken, before any request is accepted.
    """
    log_to_stderr()
    log_gate(index)
    serve(create_app(index, access, write=write), port)
