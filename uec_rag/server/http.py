"""The HTTP API of an index: search, ask and, if permitted, write."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from tempfile import TemporaryDirectory
from threading import RLock
from typing import Annotated, Any, Literal

import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from pydantic import AliasChoices, BaseModel, Field, TypeAdapter
from starlette.exceptions import HTTPException as StarletteHTTPException
from tqdm import tqdm  # type: ignore[import-untyped]

from uec_rag.base.spans import span
from uec_rag.base.version import __version__
from uec_rag.confidence.decision import outcome
from uec_rag.confidence.replies import UnknownReading
from uec_rag.corpora.passages import bookkeeping_keys
from uec_rag.retrieval import Retriever, SearchResult
from uec_rag.retrieval.files import add_passages
from uec_rag.retrieval.live import LiveIndex, Place
from uec_rag.retrieval.retriever import check_history
from uec_rag.server.access import Access, Guard, explained, invalid, log, problem, sanitised
from uec_rag.server.batching import BATCHES, TOGETHER, Batcher, WaitingQuery
from uec_rag.server.conversation import Chosen, History, ReadingFound, turns
from uec_rag.server.running import (
    SETTINGS,
    SHARED,
    Metrics,
    address_of,
    listen,
    log_to_stderr,
    serve,
)
from uec_rag.server.static import add_pages
from uec_rag.stores.base import checked_text
from uec_rag.stores.filters import check_size, parse

# Limits of one request: hits, characters of a query and of a passage, passages to add or delete.
LARGEST_K, LONGEST_QUERY, LONGEST_PASSAGE, MOST_PASSAGES = 100, 8_000, 1_000_000, 1_000
_WRITERS = 8  # write requests that may be in progress or waiting
_GIVEN = "UEC_SERVE"  # environment variable with these arguments for worker processes
_ARGUMENTS = TypeAdapter(tuple[Place, Access, bool])
_WATCH = 1.0  # seconds between two checks for a newly saved version
_PAGES = {"/": "docs.html", "/docs": "docs.html", "/docs.js": "docs.js", "/page.css": "page.css"}


_EXAMPLE = {"examples": [{"question": "How do I reset my password?", "k": 3}]}


class Question(BaseModel, extra="forbid", strict=True, json_schema_extra=_EXAMPLE):
    """A question and the options of its search."""

    question: str = Field(
        min_length=1,
        max_length=LONGEST_QUERY,
        validation_alias=AliasChoices("question", "query"),  # its former name
    )
    k: int = Field(4, ge=1, le=LARGEST_K, description="How many passages.")
    filter: dict[str, Any] | None = Field(
        None,
        description="Conditions on the metadata: values, or operators such as $in and $gte.",
        examples=[{"lang": "en", "year": {"$gte": 2020}}],
    )
    history: History | None = None
    within: Chosen | None = None


class Document(BaseModel):
    """A passage that was found."""

    id: str
    text: str
    metadata: dict[str, Any]
    score: float = Field(description="The similarity, reduced if it is uncertain.")
    sigma2: float = Field(description="Variance of the similarity.")
    relevance: float = Field(description="Probability that the passage answers the query.")


Sure = Annotated[float, Field(description="Probability that the documents answer the query.")]
Held = Annotated[float, Field(description="Probability that the corpus has an answer.")]


class SearchResponse(BaseModel):
    """The hits of a search, best first."""

    confidence: Sure
    in_corpus: Held
    documents: list[Document]


class Answer(BaseModel):
    """The decision about the hits."""

    decision: Literal["answer", "clarify", "abstain"] = Field(
        description="Answer from the documents, ask what the question means, or say that the "
        "documents do not answer it.",
        examples=["abstain"],
    )
    reason: str = Field(examples=["The documents do not seem to answer this."])
    question_back: str = Field(
        description="The question to ask the user, if the decision is to clarify; else empty."
    )
    readings: list[ReadingFound] = Field(
        description="The possible meanings of the question, if the decision is to clarify; else "
        "empty."
    )
    candidates: list[str] = Field(
        description="Ids of the documents that the question may be about."
    )
    confidence: Sure
    threshold: float | None = Field(
        description="The confidence above which to answer; null: never."
    )
    in_corpus: Held
    underspecified: float = Field(
        description="Probability that the query does not say which reading is meant."
    )
    documents: list[Document]


class NewDocument(BaseModel, extra="forbid", strict=True):
    """A passage to add; it replaces a passage with the same id."""

    text: str = Field(min_length=1, max_length=LONGEST_PASSAGE)
    id: str | None = Field(None, min_length=1, max_length=1000, description="Generated by default.")
    metadata: dict[str, Any] = Field(default_factory=dict, examples=[{"source": "faq.md"}])


class NewDocuments(BaseModel, extra="forbid"):
    """Passages to add."""

    documents: list[NewDocument] = Field(min_length=1, max_length=MOST_PASSAGES)


class Problem(BaseModel):
    """A description of an error and its remedy."""

    detail: str


def documents_of(result: SearchResult) -> list[Document]:
    """Convert the hits of the first query of a result."""
    return [
        Document(
            id=passage.id,
            text=passage.text,
            metadata={
                key: value
                for key, value in passage.metadata.items()
                if key not in bookkeeping_keys(passage)
            },
            score=float(result.scores[0, rank]),
            sigma2=float(result.sigma2[0, rank]),
            relevance=float(result.relevance[0, rank]),
        )
        for rank, passage in enumerate(result.passages[0])
    ]


def create_app(
    live: LiveIndex, access: Access, *, write: bool = False, together: int = TOGETHER
) -> Guard:
    """Make the application, which closes the index at shutdown.

    `write`: whether to provide POST and DELETE /documents. `together`: largest number of queries in
    a batch.
    """
    metrics = Metrics()
    batcher = Batcher(live, metrics, access.limits, together)

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        runs = [batcher.run() for _ in range(BATCHES)]
        tasks = [asyncio.create_task(each) for each in (*runs, _watch(live))]
        yield  # uvicorn continues only after it has answered all accepted requests
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        live.close()

    app = FastAPI(
        title="uec-rag",
        version=__version__,
        summary="Search that knows when it does not know.",
        docs_url=None,  # FastAPI's page loads scripts from a CDN; `_PAGES` has our own
        redoc_url=None,
        lifespan=running,
        generate_unique_id_function=lambda route: route.name,  # operation ids: `ask`, `search`
        dependencies=[Depends(HTTPBearer(auto_error=False))] if access.token else [],
        responses={status: {"model": Problem} for status in (401, 403, 413, 422, 429, 503)},
        exception_handlers={RequestValidationError: refused, StarletteHTTPException: declined},
    )

    def checked(question: Question) -> Sequence[str]:
        """Return the turns before a question; TypeError or ValueError if it cannot be searched."""
        if not question.question.strip():
            raise ValueError("question: is empty or only white space; ask something.")
        checked_text(question.question, "question")
        [before] = check_history([turns(question.history)])
        if question.filter is not None:
            most = access.limits
            check_size(parse(question.filter), most.conditions, most.values, most.characters)
            with live.use() as opened:
                opened.retriever.check_filter(question.filter)
        return before

    async def found(question: Question, *, decides: bool) -> SearchResult:
        with _explained():
            before = await asyncio.to_thread(checked, question)
        with _explained(mine=False), span("request", k=question.k) as note:
            result = await batcher.search(
                WaitingQuery(
                    question.question, question.k, question.filter, before, question.within, decides
                )
            )
            note(result[0].traced, **outcome(result.decisions))
        return result

    @app.post("/search")
    async def search(question: Question) -> SearchResponse:
        """Find the passages with the highest scores."""
        result = await found(question, decides=False)
        sure, held = float(result.confidence[0]), float(result.in_corpus[0])
        return SearchResponse(confidence=sure, in_corpus=held, documents=documents_of(result))

    @app.post("/ask")
    async def ask(question: Question) -> Answer:
        """Find passages, and decide whether they answer the question."""
        result = await found(question, decides=True)
        decision = result.decisions[0]
        with live.use() as opened:
            metrics.decided(decision, opened.gate)
        return Answer(**decision.metadata(), documents=documents_of(result))

    @app.get("/healthz")
    async def healthy() -> dict[str, str]:
        """Report that the process is alive."""
        return {"status": "ok"}

    @app.get("/readyz")
    async def ready() -> dict[str, int | str]:
        """Report whether the store answers; warn if the newest saved version cannot be opened."""
        with live.use() as opened, _explained(mine=False):
            count = await asyncio.to_thread(len, opened.retriever)
        return {"status": "ready", "passages": count, "warning": sanitised(live.problem)}

    @app.get("/metrics")
    async def counted() -> Response:
        """Return metrics for Prometheus: latencies, decisions and confidence."""
        text = await asyncio.to_thread(metrics.text)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    if write:
        _add_writing(app, live)
    add_pages(app, _PAGES)
    return Guard(app, replace(access, open=(*access.open, *_PAGES)), metrics.requested)


def _add_writing(app: FastAPI, live: LiveIndex) -> None:
    """Add the routes that change the index."""
    lock, waiting = asyncio.Lock(), 0

    async def written(change: Callable[[Retriever], dict[str, Any]]) -> dict[str, Any]:
        nonlocal waiting
        with _explained():
            if waiting >= _WRITERS:
                raise asyncio.QueueFull
            waiting += 1
            try:
                async with lock:
                    return await asyncio.to_thread(live.write, change)
            finally:
                waiting -= 1

    @app.post("/documents", status_code=201)
    async def add(new: NewDocuments) -> dict[str, list[str]]:
        """Add all of the passages or none, replacing those with the same ids. Returns their ids."""
        texts = [document.text for document in new.documents]
        metadatas = [document.metadata for document in new.documents]
        ids = [document.id for document in new.documents if document.id is not None]
        if ids and len(ids) < len(texts):
            raise HTTPException(422, "id: expected one for every document, or for none.")
        return await written(
            lambda index: {"ids": add_passages(index, texts, ids or None, metadatas)}
        )

    @app.delete("/documents")
    async def delete(
        id: Annotated[list[str], Query(min_length=1, max_length=MOST_PASSAGES)],
    ) -> dict[str, int | list[str]]:
        """Delete passages, /documents?id=ONE&id=ANOTHER. Returns their number and unknown ids."""

        def change(index: Retriever) -> dict[str, Any]:
            there = {passage.id for passage in index.get(id)}
            unknown = [one for one in id if one not in there]
            return {"deleted": index.delete([*there]) if there else 0, "unknown": unknown}

        done = await written(change)
        if not done["deleted"]:
            raise HTTPException(404, "id: none of these is in the index; nothing was deleted.")
        return done


@contextmanager
def _explained(*, mine: bool = True) -> Iterator[None]:
    """Convert errors to HTTP errors. `mine`: whether a ValueError was caused by the request."""
    try:
        yield
    except asyncio.QueueFull:
        again = {"Retry-After": "1"}
        raise HTTPException(429, "Too many requests are waiting; try again.", again) from None
    except (OSError, TypeError, ValueError, RecursionError) as error:  # too deep a filter
        if not (mine or isinstance(error, OSError | UnknownReading)):
            raise
        status, detail = explained(error)
        raise HTTPException(status, _ARGUMENT.sub(_field, detail)) from None


_FIELDS = {"texts": "text", "ids": "id", "metadatas": "metadata"}
_ARGUMENT = re.compile(rf"^({'|'.join(_FIELDS)})(?:\[(\d+)\])?(?!\w)")


def _field(argument: re.Match[str]) -> str:
    """Return the field of a request that an argument of `Retriever.add` comes from."""
    return ".".join(filter(None, ["documents", argument[2], _FIELDS[argument[1]]]))


async def _watch(live: LiveIndex) -> None:
    """Reload the index when another process has saved it."""
    while True:
        await asyncio.sleep(_WATCH)
        await asyncio.to_thread(live.refresh)


async def declined(request: Request, error: Exception) -> Response:
    """Explain errors 404 and 405 of the router; other HTTP errors keep their detail."""
    assert isinstance(error, StarletteHTTPException)
    detail = error.detail
    if detail == "Not Found" and request.url.path == "/documents":
        detail = "This index is only read; 'uec-rag serve INDEX --write' lets requests change it."
    elif detail == "Not Found":
        detail = "There is no such path; GET /openapi.json describes all."
    elif error.status_code == 405 and error.headers:
        detail = f"Method: expected {error.headers['Allow']}, got {request.method}."
    return JSONResponse({"detail": detail}, error.status_code, error.headers)


async def refused(request: Request, error: Exception) -> Response:
    """Explain why a request failed validation."""
    assert isinstance(error, RequestValidationError)
    first, kind = error.errors()[0], request.headers.get("content-type", "")
    if first["loc"] == ("body",) and "json" not in kind:
        return problem(422, "Content-Type: expected application/json, with an object as the body.")
    if first["type"] == "json_invalid":
        return problem(422, "body: expected JSON; it cannot be read.")
    return problem(422, invalid(error.errors(), depth=1))


def run(place: Place, access: Access, port: int, *, write: bool = False, workers: int = 1) -> None:
    """Serve until the process is told to stop; accepted requests are answered first.

    `port`: 0 for any free port. `workers`: number of processes, each of which opens the index.

    Raises the errors of `LiveIndex`, and OSError if the port is taken, before any request is
    accepted.
    """
    log_to_stderr()
    live = LiveIndex(place)  # with several workers, opened here only to check that it can be
    if workers == 1:
        serve(create_app(live, access, write=write), port)
        return
    live.close()
    with listen(access.host, port) as listening, TemporaryDirectory() as counts:
        os.environ[_GIVEN] = _ARGUMENTS.dump_json((place, access, write)).decode()
        os.environ.setdefault(SHARED, counts)
        log.info("serving on %s", address_of(listening))
        uvicorn.run(
            f"{__name__}:worker", fd=listening.fileno(), workers=workers, factory=True, **SETTINGS
        )


def worker() -> Guard:
    """Make the application of a worker process, with the arguments of `run`."""
    log_to_stderr()
    # tqdm's default lock is a system semaphore, which leaks if a signal ends the process.
    tqdm.set_lock(RLock())
    place, access, write = _ARGUMENTS.validate_json(os.environ[_GIVEN])
    return create_app(LiveIndex(place), access, write=write)
