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

from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.responses import Response

from uec_rag.corpora.tables import find_labels, read_questions
from uec_rag.evaluation.inspection import describe_languages
from uec_rag.retrieval import Gate, Retriever
from uec_rag.retrieval.calibrate import corpus_fingerprint
from uec_rag.retrieval.gate import GATE_FILE, LabelledSearch
from uec_rag.retrieval.live import LiveIndex, Opened, Place
from uec_rag.server.access import Access, Guard, explained, problem, sanitised
from uec_rag.server.conversation import Chosen, Message, turns
from uec_rag.server.http import LARGEST_K, LONGEST_QUERY, refused
from uec_rag.server.labels import LabelFile, add_labels
from uec_rag.server.running import log_to_stderr, serve
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

    wrong: float | None = Field(None, gt=0, lt=1)
    risk: float | None = Field(None, gt=0, lt=1)


def explorer(live: LiveIndex, access: Access, gate_file: Path | None = None) -> Guard:
    """Make the application, which closes the index at shutdown.

    `gate_file`: file that a gate is saved to, and loaded from if it exists; "gate.json" in the
    folder of the index by default.
    """
    folder = Path(live.place.index).absolute()
    gate_path = gate_file or folder / GATE_FILE
    asked = deque[View](maxlen=_REMEMBERED)
    tuned: list[LabelledSearch] = []  # at most one
    known: dict[str, tuple[tuple[int, int], View]] = {}  # views of the whole index by name
    locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
    labels = LabelFile(folder)

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        yield
        live.close()

    async def failed(_: Request, error: Exception) -> Response:
        return problem(*explained(error))

    expected = (ValueError, TypeError, KeyError, ImportError, OSError)
    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=running,
        exception_handlers={RequestValidationError: refused, **dict.fromkeys(expected, failed)},
    )
    add_pages(app, _PAGES)

    def gate_of(opened: Opened) -> Gate | None:
        return Gate.load(gate_path) if gate_path.exists() else opened.gate

    def of_index(name: str, view: Callable[[Retriever], View]) -> View:
        """Return a cached view of the index, recomputed if the index has changed."""
        with live.use() as opened, locks[name]:
            state = id(opened.retriever), opened.retriever.changes
            if name not in known or known[name][0] != state:
                known[name] = state, view(opened.retriever)
            return known[name][1]

    @app.get("/api/index")
    def described() -> View:
        live.refresh()
        with live.use() as opened:
            gate = gate_of(opened)
            fits = gate is not None and gate.fits(opened.retriever)
        return of_index("index", index_view) | {
            "name": folder.name,
            "gate": gate and {**guarantee_view(gate), "k": gate.k, "fits": fits},
            "largest_table": access.limits.body,
            "problem": sanitised(live.problem),
        }

    @app.get("/api/writing")
    def written() -> View:
        return of_index("writing", describe_languages)

    @app.post("/api/ask")
    def ask(given: Question) -> View:
        live.refresh()
        with live.use() as opened:
            index, before = opened.retriever.with_gate(gate_of(opened)), turns(given.history)
            view = ask_view(index, given.question, given.k, before, given.within)
        view["labels"] = labels.view(given.question)
        if given.within is None:  # a chosen reading continues a question that is in the list
            names = ("question", "decision", "reason", "confidence")
            said = [one.content for one in given.history if one.role == "user"]
            new = {"before": said, **{name: view[name] for name in names}}
            key = new["before"], new["question"]
            others = [one for one in asked if (one["before"], one["question"]) != key]
            asked.clear()
            asked.extend([new, *others])
        return view

    def questions_alone() -> list[str]:
        return [one["question"] for one in [*asked] if not one["before"]]

    def headings() -> list[str]:
        found: list[str] = of_index("to ask", lambda index: {"all": questions_to_ask(index)})["all"]
        return found

    add_labels(app, live, labels, questions_alone, headings)

    @app.get("/api/asked")
    def session() -> list[View]:
        return [*asked]

    @app.get("/api/file")
    def file(id: str, start: Annotated[int | None, Query(ge=0)] = None) -> View:
        with live.use() as opened:
            return file_view(opened.retriever, id, start)

    @app.post("/api/tune")
    async def tune(
        request: Request,
        name: Annotated[str, Query(max_length=200)] = "",
        k: Annotated[int, Query(ge=1, le=LARGEST_K)] = 4,
        labelled: bool = False,
    ) -> View:
        table = labels.path.read_bytes() if labelled else await request.body()

        def search() -> View:
            with live.use() as opened:
                if not name:
                    found = LabelledSearch.from_passages(opened.retriever, k=k)
                else:
                    own = _plain_name(name)
                    queries, relevant = _labelled(opened.retriever, own, table)
                    found = LabelledSearch.of(opened.retriever, queries, relevant, k=k)
            tuned[:] = [found]
            return tune_view(name, found)

        return await asyncio.to_thread(search)

    @app.post("/api/gate")
    def save_gate(given: Guarantee) -> View:
        if not tuned:
            raise HTTPException(409, "Search labelled questions first; then save.")
        if (given.wrong is None) == (given.risk is None):
            raise HTTPException(422, "wrong, risk: expected one of them.")
        gate = tuned[0].gate(given.risk, wrong=given.wrong)
        if gate.threshold >= 1:
            raise HTTPException(422, f"Not saved. {gate.report}")

        def save(retriever: Retriever) -> None:
            now = retriever.method().basis, corpus_fingerprint(retriever.store)
            if now != (tuned[0].result.basis, tuned[0].corpus):
                raise HTTPException(
                    409, "The index has changed since these questions were searched; search again."
                )
            gate.save(gate_path)

        live.write(save)  # checks the newest saved version, while no other process can save one
        return guarantee_view(gate) | {"file": gate_path.name}

    return Guard(app, replace(access, open=(*access.open, *_PAGES)))


def run(place: Place, access: Access, port: int, gate_file: Path | None = None) -> None:
    """Serve the page until the process is told to stop.

    Raises the errors of `LiveIndex`, before the port is opened, and OSError if the port is taken.
    """
    log_to_stderr()
    serve(explorer(LiveIndex(place), access, gate_file), port, "open %s")


def _plain_name(name: str) -> str:
    """Return a file's name without folders; HTTP error 422 if it is empty or hidden."""
    own = sanitised(PurePosixPath(name.replace("\\", "/")).name)
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
