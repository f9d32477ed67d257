"""The explorer: a web page to explore one index, and the API that its script uses.

The page consists of three static files that contain nothing of the index. All data comes as JSON,
and the script inserts it as text, in elements without attributes (`uec_rag.server.views`).
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Annotated

from fastapi import APIRouter, FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.responses import Response

from uec_rag.documents.labels import find_labels, read_questions
from uec_rag.evaluation.inspection import describe_languages
from uec_rag.retrieval import Gate, Retriever
from uec_rag.retrieval.gate import GATE_FILE
from uec_rag.retrieval.label_file import LabelFile
from uec_rag.retrieval.labelled import LabelledSearch
from uec_rag.retrieval.request import LONGEST_QUERY
from uec_rag.server.access import Access, Guard, describe_error, problem, sanitise
from uec_rag.server.conversation import Chosen, Message, turns
from uec_rag.server.http import LARGEST_K, validation_error_response
from uec_rag.server.labels import add_labels, labels_view
from uec_rag.server.running import log_gate, log_to_stderr, serve
from uec_rag.server.static import add_pages
from uec_rag.server.views import (
    View,
    ask_view,
    file_view,
    guarantee_view,
    index_view,
    questions_to_ask,
    tune_view,
)

LARGEST_TABLE = 10 * 2**20
"""The largest size of a table of questions by default, in bytes."""

_PAGES = {"/": "index.html", "/page.js": "page.js", "/page.css": "page.css"}
_REMEMBERED = 200  # most recent questions of a session


class Question(BaseModel, strict=True):
    """A question, the turns before it, and the chosen reading to search among, if any."""

    question: str = Field(min_length=1, max_length=LONGEST_QUERY)
    k: int = Field(4, ge=1, le=LARGEST_K)
    history: list[Message] = []
    within: Chosen | None = None


class Guarantee(BaseModel):
    """The guarantee of a gate: the share of wrong answers, of all questions or of the answers."""

    max_wrong: float | None = Field(None, gt=0, lt=1)
    max_risk: float | None = Field(None, gt=0, lt=1)


class Session:
    """An open index, and what is asked and tuned on its page.

    Parameters
    ----------
    index : Retriever
        With a folder.
    gate_file : Path, optional
        File that a gate is saved to, and loaded from if it exists; "gate.json" in the folder of the
        index by default.
    """

    def __init__(self, index: Retriever, gate_file: Path | None = None) -> None:
        assert index.folder is not None
        self.index, self.folder = index, index.folder
        self.gate_path = gate_file or self.folder / GATE_FILE
        self.labels = LabelFile(self.folder)
        self.asked = deque[View](maxlen=_REMEMBERED)
        self.tuned: LabelledSearch | None = None
        self._known: dict[str, tuple[int, View]] = {}  # by name
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def gate(self) -> Gate | None:
        """Return the gate that decides."""
        return Gate.load(self.gate_path) if self.gate_path.exists() else self.index.gate

    def cache_view(self, name: str, view: Callable[[Retriever], View]) -> View:
        """Return a cached view of the index, recomputed if the index has changed."""
        with self._locks[name]:
            state = self.index.changes
            if name not in self._known or self._known[name][0] != state:
                self._known[name] = state, view(self.index)
            return self._known[name][1]

    def remember(self, view: View, before: list[str]) -> None:
        """Put a question first in the list of those that were asked."""
        names = ("question", "decision", "reason", "confidence")
        new = {"before": before, **{name: view[name] for name in names}}
        key = new["before"], new["question"]
        others = [one for one in self.asked if (one["before"], one["question"]) != key]
        self.asked.clear()
        self.asked.extend([new, *others])

    def tune(self, name: str, table: bytes, k: int) -> View:
        """Search the questions of a table, or questions made from the passages without a name."""
        if name:
            queries, relevant = _labelled(self.index, _plain_name(name), table)
            tuned = LabelledSearch.from_queries(self.index, queries, relevant, k=k)
        else:
            tuned = LabelledSearch.from_passages(self.index, k=k)
        self.tuned = tuned
        return tune_view(name, tuned)

    def save_gate(self, limit: Guarantee) -> View:
        """Save the gate of the questions that were searched last."""
        if (tuned := self.tuned) is None:
            raise HTTPException(409, "Search labelled questions first; then save.")
        if (limit.max_wrong is None) == (limit.max_risk is None):
            raise HTTPException(422, "max_wrong, max_risk: expected one of them.")
        gate = Gate.from_search(tuned, limit.max_risk, max_wrong=limit.max_wrong)
        if gate.guarantee is None or not gate.guarantee.answered:
            raise HTTPException(422, f"Not saved. {gate.report}")

        if not gate.fits(self.index):
            raise HTTPException(
                409, "The index has changed since these questions were searched; search again."
            )
        gate.save(self.gate_path)
        return guarantee_view(gate) | {"file": self.gate_path.name}

    def questions_alone(self) -> list[str]:
        """List the questions that were asked without turns before them, latest first."""
        return [view["question"] for view in [*self.asked] if not view["before"]]

    def headings(self) -> list[str]:
        """List headings of the passages, to ask."""
        view = self.cache_view("to ask", lambda index: {"headings": questions_to_ask(index)})
        headings: list[str] = view["headings"]
        return headings


def explorer(index: Retriever, access: Access, gate_file: Path | None = None) -> Guard:
    """Make the application, which closes the index at shutdown; `gate_file` as in `Session`."""
    session = Session(index, gate_file)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        index.close()

    async def error_response(_: Request, error: Exception) -> Response:
        return problem(*describe_error(error))

    expected = (ValueError, TypeError, KeyError, ImportError, OSError)
    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
        exception_handlers={
            RequestValidationError: validation_error_response,
            **dict.fromkeys(expected, error_response),
        },
    )
    add_pages(app, _PAGES)
    app.include_router(index_routes(session, access.limits.body))
    app.include_router(ask_routes(session))
    app.include_router(tune_routes(session))
    add_labels(app, index, session.labels, session.questions_alone, session.headings)
    return Guard(app, replace(access, open=(*access.open, *_PAGES)))


def index_routes(session: Session, largest_table: int) -> APIRouter:
    """Make the routes of the view of the whole index, and of its files."""
    routes = APIRouter(prefix="/api")

    @routes.get("/index")
    def described() -> View:
        gate = session.gate()
        fits = gate is not None and gate.fits(session.index)
        return session.cache_view("index", index_view) | {
            "name": session.folder.name,
            "gate": gate and {**guarantee_view(gate), "k": gate.k, "fits": fits},
            "largest_table": largest_table,
        }

    @routes.get("/writing")
    def written() -> View:
        return session.cache_view("writing", describe_languages)

    @routes.get("/file")
    def file(id: str, start: Annotated[int | None, Query(ge=0)] = None) -> View:
        return file_view(session.index, id, start)

    return routes


def ask_routes(session: Session) -> APIRouter:
    """Make the routes of the view of a question."""
    routes = APIRouter(prefix="/api")

    @routes.post("/ask")
    def ask(question: Question) -> View:
        index = session.index.snapshot()
        index.gate = session.gate()
        view = ask_view(
            index, question.question, question.k, turns(question.history), question.within
        )
        view["labels"] = labels_view(session.labels, question.question)
        if question.within is None:  # a chosen reading continues a question that is in the list
            session.remember(
                view, [message.content for message in question.history if message.role == "user"]
            )
        return view

    @routes.get("/asked")
    def asked() -> list[View]:
        return [*session.asked]

    return routes


def tune_routes(session: Session) -> APIRouter:
    """Make the routes of the view of thresholds, and of the gate that is saved."""
    routes = APIRouter(prefix="/api")

    @routes.post("/tune")
    async def tune(
        request: Request,
        name: Annotated[str, Query(max_length=200)] = "",
        k: Annotated[int, Query(ge=1, le=LARGEST_K)] = 4,
        labelled: bool = False,
    ) -> View:
        table = session.labels.path.read_bytes() if labelled else await request.body()
        return await asyncio.to_thread(session.tune, name, table, k)

    @routes.post("/gate")
    def save_gate(guarantee: Guarantee) -> View:
        return session.save_gate(guarantee)

    return routes


def run(index: Retriever, access: Access, port: int, gate_file: Path | None = None) -> None:
    """Serve the page until the process is told to stop.

    Raises OSError if the port is taken.
    """
    log_to_stderr()
    log_gate(index)
    serve(explorer(index, access, gate_file), port, "open %s")


def _plain_name(name: str) -> str:
    """Return a file's name without folders; HTTP error 422 if it is empty or hidden."""
    own = sanitise(PurePosixPath(name.replace("\\", "/")).name)
    if not own or own.startswith("."):
        raise HTTPException(422, "name: expected the name of a file that is not hidden.")
    return own


def _labelled(retriever: Retriever, name: str, table: bytes) -> tuple[list[str], list[set[str]]]:
    """Read the questions of an uploaded table, and the ids of the passages that answer each."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(table)
        asked = read_questions(path, labelled=True)
    labels = find_labels(asked, retriever.passages(), name)
    labels.check_complete(name)
    relevant = [*labels.relevant.values()]
    if not any(relevant):
        raise ValueError(
            f"{name}: no question has relevant_ids; expected some, as 'query,relevant_ids' and a "
            "row for each question."
        )
    return [*asked], relevant
