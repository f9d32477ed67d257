"""The HTTP API of an index, and its page, which is a client of that API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter, Depends, FastAPI, HTTPException
from fastapi.responses import FileResponse
from fastapi.security import HTTPBearer
from fastapi.staticfiles import StaticFiles

from uec_rag.base import __version__
from uec_rag.evaluation.labels import (
    gate_report,
    gate_state,
    questions_to_ask,
    questions_to_label,
    search_table,
    too_few_labels,
)
from uec_rag.retrieval import Gate, Retriever
from uec_rag.retrieval.gate import GATE_FILE
from uec_rag.retrieval.labelled import LabelFile, LabelledSearch
from uec_rag.retrieval.tool import answer_record
from uec_rag.server.access import protections
from uec_rag.server.messages import (
    HANDLERS,
    Asked,
    Guarantee,
    Label,
    Question,
    Table,
    check_conditions,
    turns,
)

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
) -> FastAPI:
    """Make the application that serves an index, which it closes at shutdown.

    Parameters
    ----------
    index : Retriever
    write : bool
        Whether requests may change the labels and the gate of the index.
    token : str, optional
        The secret that each request must send as "Authorization: Bearer TOKEN". With it, requests
        may also label questions.
    names : sequence of str
        Host names of the server besides those of this machine.
    origins : sequence of str
        Origins of other sites whose pages may send requests.

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
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,  # operation ids: `ask`, `label`
        dependencies=[Depends(HTTPBearer(auto_error=False))] if token else [],
        exception_handlers=HANDLERS,
        middleware=protections(token, names, origins, open_paths),
    )
    service, label = Service(index), write or token is not None
    app.include_router(read_routes(service, {"write": write, "label": label}))
    app.include_router(label_routes(service, allowed=label))
    app.include_router(write_routes(service, allowed=write))
    for path, name in _FILES.items():
        file = _PAGES / name
        app.add_api_route(path, lambda file=file: FileResponse(file), include_in_schema=False)
    app.mount("/static", StaticFiles(directory=_PAGES))
    return app


class Service:
    """An index that is served, with one change or measurement at a time."""

    def __init__(self, index: Retriever) -> None:
        self.index, self._one = index, asyncio.Lock()
        # Those of the last state of the index.
        self._headings = lru_cache(1)(lambda changes: questions_to_ask(index)[:_TRIED])

    async def alone(self, work: Callable[[], _T]) -> _T:
        """Run in a thread what takes long or changes the index, one such request at a time."""
        async with self._one:
            return await asyncio.to_thread(work)

    def headings(self) -> list[str]:
        """Return questions that the headings of the index ask."""
        return self._headings(self.index.changes)

    @property
    def labels(self) -> LabelFile:
        """The labels of the index; ValueError if it has no folder."""
        if self.index.folder is None:
            raise ValueError("labels: the index has no folder; save it first.")
        return LabelFile(self.index.folder)

    def searched(self, given: Table) -> LabelledSearch:
        """Search the questions of a table."""
        name, table = given.name, given.table
        if table is None:
            file = self.labels.path
            name, table = file.name, file.read_text("utf-8-sig") if file.exists() else ""
        return search_table(self.index, name, table, given.k)


def read_routes(service: Service, allowed: dict[str, bool]) -> APIRouter:
    """Make the routes that answer questions and describe the server."""
    routes, index = APIRouter(), service.index

    @routes.post("/ask")
    async def ask(question: Question) -> Json:
        """Find passages, and decide whether they answer the question."""
        await asyncio.to_thread(check_conditions, question.filter)
        [result] = await index.asearch(
            [question.question],
            question.k,
            filter=question.filter,
            history=[turns(question.history)],
            within=question.within,
        )
        return answer_record(result)

    @routes.get("/index")
    def described() -> Json:
        """Describe the index: its size, encoders, calibration and gate, and questions to ask it."""
        fitted, gate = index.uec.fitted, index.gate
        return {
            "name": "" if index.folder is None else index.folder.name,
            "passages": len(index),
            "exact": not index.store.remote,
            "encoders": dict(zip(fitted.block_names, fitted.weights.tolist(), strict=True)),
            "report": index.report,
            "gate": gate and gate_state(gate) | {"fits": gate.fits(index)},
            "examples": service.headings()[:_EXAMPLES],
            **allowed,
        }

    @routes.get("/healthz")
    async def healthy() -> dict[str, str]:
        """Report that the process is alive."""
        return {"status": "ok"}

    return routes


def label_routes(service: Service, *, allowed: bool) -> APIRouter:
    """Make the routes of labels."""
    refused = "Labels need a token, 'uec-rag serve INDEX --token TOKEN', or --write."
    routes = APIRouter(dependencies=[_only_if(allowed, refused)])

    @routes.get("/labels")
    def labels() -> dict[str, list[str]]:
        """Return all labels: by question, ids of passages that answer it, none if nothing does."""
        return {question: sorted(ids) for question, ids in service.labels.read().items()}

    @routes.post("/labels", status_code=201)
    async def label(new: Label) -> dict[str, int]:
        """Label a question for the next gate, in place of what it had."""
        await service.alone(lambda: service.index.label(new.question, new.relevant_ids))
        return {"relevant_ids": len(new.relevant_ids)}

    @routes.delete("/labels", status_code=204)
    async def unlabel(question: str) -> None:
        """Remove the label of a question."""
        await service.alone(lambda: service.labels.write(question, None))

    @routes.post("/questions")
    async def teaching(asked: Asked) -> list[dict[str, Any]]:
        """List the questions without a label that a label would teach most."""

        def chosen() -> list[dict[str, Any]]:
            questions = [*asked.questions, *service.headings()]
            labels = service.labels.read()
            return [
                {"question": one.query, "confidence": one.decision.confidence}
                for one in questions_to_label(service.index, questions, labels, asked.most)
            ]

        return await service.alone(chosen)

    return routes


def write_routes(service: Service, *, allowed: bool) -> APIRouter:
    """Make the routes that change the gate, or search for many questions."""
    refused = "This index is only read; 'uec-rag serve INDEX --write' lets requests change it."
    routes = APIRouter(dependencies=[_only_if(allowed, refused)])

    @routes.post("/report")
    async def report(given: Table) -> Json:
        """Search labelled questions: what each threshold would answer, and what a gate could."""
        return await service.alone(lambda: gate_report(service.searched(given)))

    @routes.post("/gate", status_code=201)
    async def save_gate(given: Guarantee) -> Json:
        """Save the gate with a guarantee for these questions; it decides from then on."""
        if (given.max_wrong is None) == (given.max_risk is None):
            raise HTTPException(422, "max_wrong, max_risk: expected one of them.")
        return await service.alone(lambda: gate_state(_save_gate(service, given)))

    return routes


def _save_gate(service: Service, given: Guarantee) -> Gate:
    """Make and save a gate; ValueError if it would answer nothing."""
    searched = service.searched(given)
    made = Gate.from_search(searched, given.max_risk, max_wrong=given.max_wrong)
    assert made.guarantee is not None
    if not made.guarantee.answered:
        raise ValueError(too_few_labels(made.guarantee))
    made.save(service.labels.path.with_name(GATE_FILE))
    return made


def _only_if(allowed: bool, refusal: str) -> Any:  # noqa: ANN401
    """Make a dependency that refuses requests unless they are allowed."""

    def check() -> None:
        if not allowed:
            raise HTTPException(403, refusal)

    return Depends(check)
