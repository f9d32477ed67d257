"""The HTTP API of an index with its metrics, and its page, which is a client of that API."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, PlainTextResponse, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from fastapi.staticfiles import StaticFiles
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from uec_rag.adapters.tool import answer_record
from uec_rag.base import __version__
from uec_rag.base.checks import parse_json, visible
from uec_rag.base.loops import beside
from uec_rag.base.progress import WATCHERS, Step
from uec_rag.evaluation.labelling import (
    gate_report,
    gate_state,
    questions_to_ask,
    questions_to_label,
    save_gate,
    search_labels,
)
from uec_rag.index import Retriever
from uec_rag.server import errors, schemas
from uec_rag.server.protections import protections
from uec_rag.stores.base import EVERYONE

_PAGES = Path(__file__).parent / "pages"
_FILES = {"/": "index.html", "/docs": "docs.html"}
_STATIC = ("page.css", "page.js", "docs.js")
_EXAMPLES, _TRIED = 6, 64  # headings to begin with, and to look at for those that teach most
_T = TypeVar("_T")
Json = dict[str, Any]


def create_app(
    index: Retriever,
    write: bool = False,
    token: str | None = None,
    *,
    names: Sequence[str] = (),
    origins: Sequence[str] = (),
    tenants: bool = False,
) -> FastAPI:
    """Make the application that serves an index, which it closes at shutdown.

    Parameters
    ----------
    index : Retriever
    write : bool
        Whether requests may change the labels and the gate of the index.
    token : str, optional
        The secret that each request must send as "Authorization: Bearer TOKEN".
    names : sequence of str
        Host names of the server besides those of this machine.
    origins : sequence of str
        Origins of other sites whose pages may send requests.
    tenants : bool
        Whether each question needs the `tenant` whose passages it is asked of, as always if the
        index requires one. Headings and the number of all passages are not shown then.

    Returns
    -------
    FastAPI
        For uvicorn; `uec_rag.server.running.SETTINGS` are the settings that limit connections.

    Examples
    --------
    >>> from starlette.testclient import TestClient
    >>> from uec_rag import UEC
    >>> index = Retriever(UEC(["bm25"]))
    >>> ids = index.add(["Cats purr when they are content.", "Dogs bark at strangers."])
    >>> with TestClient(create_app(index), base_url="http://localhost") as client:
    ...     client.post("/ask", json={"question": "Why do cats purr?"}).json()["decision"]
    'answer'
    """
    tenants = tenants or index.tenant_required

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield  # uvicorn continues only after it has answered all accepted requests
        index.close()

    open_paths = {"/healthz", *_FILES, *(f"/static/{name}" for name in _STATIC)}
    app = FastAPI(
        title="uec-rag",
        version=__version__,
        summary="Search documents and decide whether to answer, clarify or abstain.",
        docs_url=None,  # FastAPI's page loads scripts from a CDN; ours works offline
        redoc_url=None,
        redirect_slashes=False,  # which would lose the prefix and the scheme of a proxy
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,  # operation ids: `ask`, `label`
        dependencies=[Depends(HTTPBearer(auto_error=False))] if token else [],
        exception_handlers=errors.HANDLERS,
        middleware=protections(token, names, origins, open_paths, probes=["/healthz"]),
    )
    app.include_router(read_routes(index, write=write, tenants=tenants))
    app.include_router(write_routes(index, can_write=write, tenants=tenants))
    for path, name in _FILES.items():
        file = _PAGES / name
        app.add_api_route(path, lambda file=file: FileResponse(file), include_in_schema=False)
    app.mount("/static", StaticFiles(directory=_PAGES))
    return app


class _Request(Request):
    """A request whose JSON has no key twice: another reader might take the other one."""

    async def json(self) -> Any:  # noqa: ANN401
        """Read the body; HTTPException if an object has a key twice."""
        body = await self.body()
        try:
            return parse_json(body)
        except json.JSONDecodeError:
            raise
        except ValueError as error:
            raise HTTPException(422, f"body: {error}.") from error


class _Route(APIRoute):
    """A route that drops no parameter of a query string without a word."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what handles a request."""
        handle = super().get_route_handler()
        fields = {field.alias for field in self.dependant.query_params}

        async def checked(request: Request) -> Response:
            names = [name for name, _ in request.query_params.multi_items()]
            for name in names:
                if name not in fields or names.count(name) > 1:
                    fault = "is not expected" if name not in fields else "is expected once"
                    text = f"query string: {visible(name)[:60]} {fault}; a question is a JSON body."
                    raise HTTPException(422, text)
            return await handle(_Request(request.scope, request.receive))

        return checked


def _check_named(tenant: object, *, tenants: bool) -> None:
    if tenants and tenant is None:
        raise HTTPException(422, "tenant: expected conditions for the passages of one tenant.")


def read_routes(index: Retriever, *, write: bool, tenants: bool) -> APIRouter:
    """Make the routes that answer questions and describe the server."""
    routes = APIRouter(route_class=_Route)

    @routes.post("/ask")
    async def ask(question: schemas.Question, request: Request) -> Json:
        """Find passages, and decide whether they answer the question."""
        _check_named(question.tenant, tenants=tenants)
        arguments = question.filter, question.history, question.within, question.tenant
        options = await beside(schemas.options, *arguments)
        search = index.asearch([question.question], question.k, **options)
        [result] = await _while_connected(request, search)
        return answer_record(result)

    @routes.get("/index")
    def described(tenant: str | None = None) -> Json:
        """Describe the index: its size, encoders, calibration and gate, and questions to ask it.

        `tenant`: as a JSON object. With tenants, its passages are counted, and questions made of
        its headings; without one, neither is told.
        """
        fitted, gate, view = index.uec.fitted, index.gate, index
        if tenant is not None:
            condition: Any = schemas.Asked.model_validate({"tenant": parse_json(tenant)}).tenant
            schemas.options({}, [], "", condition)  # which checks its size
            view = index.of_tenant(condition)
        is_told = tenant is not None or not tenants
        return {
            "name": "" if index.folder is None else index.folder.name,
            "passages": len(view) if is_told else None,
            "exact": not index.store.is_elsewhere,
            "encoders": dict(zip(fitted.block_names, fitted.weights.tolist(), strict=True)),
            "report": index.report,
            "gate": gate and gate_state(gate) | {"fits": gate.fits(view) if is_told else None},
            "examples": questions_to_ask(view)[:_EXAMPLES] if is_told else [],
            "write": write,
        }

    @routes.get("/metrics", response_class=PlainTextResponse)
    def metrics() -> Response:
        """Count this process's decisions, advice and seconds, in the text format of Prometheus."""
        return Response(read_metrics(), media_type=CONTENT_TYPE_LATEST)

    @routes.head("/healthz", include_in_schema=False)
    @routes.get("/healthz")
    async def healthy() -> dict[str, str]:
        """Report that the process is alive."""
        return {"status": "ok"}

    return routes


async def _while_connected(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """Await what a client has asked for; it is cancelled if the client goes away."""
    task = asyncio.create_task(work)

    async def end_without_client() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        task.cancel()

    watch = asyncio.create_task(end_without_client())
    try:
        await asyncio.wait([task])
        if task.cancelled():
            raise HTTPException(499, "The client has closed the connection.")
        return task.result()
    finally:
        task.cancel()
        watch.cancel()


async def _alone(lock: asyncio.Lock, work: Callable[[], _T]) -> _T:
    """Run in a thread what takes long or changes the index, one such request at a time."""
    async with lock:
        return await beside(work)


def write_routes(index: Retriever, *, can_write: bool, tenants: bool) -> APIRouter:
    """Make the routes that label questions and change the gate."""
    alone = partial(_alone, asyncio.Lock())

    def check() -> None:
        if not can_write:
            hint = "This index is only read; 'uec-rag serve INDEX --write' lets requests change it."
            raise HTTPException(403, hint)

    routes = APIRouter(dependencies=[Depends(check)], route_class=_Route)

    @routes.get("/labels")
    def labels() -> dict[str, list[str]]:
        """Return all labels: by question, ids of passages that answer it, none if nothing does."""
        return {question: sorted(ids) for question, ids in index.labels.items()}

    @routes.post("/labels", status_code=201)
    async def label(body: schemas.Label) -> dict[str, int]:
        """Label a question for the next gate, in place of what it had."""
        await alone(lambda: index.label(body.question, body.relevant_ids))
        return {"relevant_ids": len(body.relevant_ids)}

    @routes.delete("/labels", status_code=204)
    async def unlabel(question: str) -> None:
        """Remove the label of a question."""
        await alone(lambda: index.label(question, None))

    @routes.post("/questions")
    async def teaching(body: schemas.Asked) -> list[dict[str, Any]]:
        """List the questions without a label that a label would teach most."""
        _check_named(body.tenant, tenants=tenants)

        def chosen() -> list[dict[str, Any]]:
            tenant = schemas.options({}, [], "", body.tenant).get("tenant", EVERYONE)
            headings = questions_to_ask(index, tenant)
            questions = [*body.questions, *headings[:_TRIED]]
            return [
                {"question": result.query, "confidence": result.decision.confidence}
                for result in questions_to_label(index, questions, body.most, tenant)
            ]

        return await alone(chosen)

    @routes.post("/report")
    async def report(body: schemas.HitCount) -> Json:
        """Search the labelled questions: what each threshold would answer, what a gate could."""
        return await alone(lambda: gate_report(search_labels(index, k=body.k)))

    @routes.post("/gate", status_code=201)
    async def new_gate(body: schemas.GuaranteeWanted) -> Json:
        """Save the gate with a guarantee for these questions; it decides from then on."""
        if (body.max_wrong is None) == (body.max_risk is None):
            raise HTTPException(422, "max_wrong, max_risk: expected one of them.")

        def saved() -> Json:
            searched = search_labels(index, k=body.k)
            return gate_state(save_gate(index, searched, body.max_wrong, body.max_risk))

        return await alone(saved)

    return routes


# What Prometheus counts of this process.

_DECISIONS = Counter("uec_rag_decisions", "Questions decided.", ["decision", "reason"])
_BORDERLINE = Counter("uec_rag_borderline", "Questions that an advisor was asked, or uncertain.")
_TOKENS = Counter("uec_rag_advice_tokens", "Tokens that advisors read and wrote, where known.")
_FAILURES = Counter("uec_rag_advice_failures", "Calls of advisors that gave no advice.")
_ERRORS = Counter("uec_rag_errors", "Searches, fits and calls that raised.", ["step", "error"])
_SECONDS = Histogram("uec_rag_seconds", "Seconds of searches, fits and advice.", ["step"])


def _count(step: Step, seconds: float, facts: Mapping[str, Any]) -> None:
    _SECONDS.labels(step).observe(seconds)
    for decision, reason in zip(facts.get("decisions", ()), facts.get("reasons", ()), strict=True):
        _DECISIONS.labels(decision, reason).inc()
    _BORDERLINE.inc(facts.get("borderline", 0))
    _TOKENS.inc(facts.get("tokens", 0))
    _FAILURES.inc(facts.get("failed", 0))
    if "error" in facts:
        _ERRORS.labels(step, facts["error"]).inc()


WATCHERS.append(_count)


def read_metrics() -> bytes:
    """Return the metrics of this process, or of all that share PROMETHEUS_MULTIPROC_DIR."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return generate_latest()
    MultiProcessCollector(registry := CollectorRegistry())  # type: ignore[no-untyped-call]
    return generate_latest(registry)
