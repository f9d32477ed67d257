"""The explorer: a web page to explore one index, and the API that its script uses.

The page consists of three static files that contain nothing of the index. All data comes as JSON,
and the script inserts it as text, in elements without attributes (`uec_rag.server.views`).
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.responses import Response

from uec_rag.corpora.folder import LARGEST
from uec_rag.corpora.readers import READERS
from uec_rag.corpora.tables import ids_named, read_questions
from uec_rag.evaluation.inspection import describe_languages
from uec_rag.retrieval import Gate, Retriever
from uec_rag.retrieval.calibrate import corpus_fingerprint
from uec_rag.retrieval.files import add_files, delete_file, file_of
from uec_rag.retrieval.gate import GATE_FILE, LabelledSearch, shared_answers
from uec_rag.retrieval.live import LiveIndex, Opened, Place
from uec_rag.server.access import Access, Guard, explained, log, problem, sanitised
from uec_rag.server.conversation import Chosen, Message, turns
from uec_rag.server.http import LARGEST_K, LONGEST_QUERY, refused
from uec_rag.server.running import log_to_stderr, serve
from uec_rag.server.static import add_pages
from uec_rag.server.views import (
    Progress,
    View,
    ask_view,
    file_view,
    index_view,
    tune_view,
)

LARGEST_TABLE = 10 * 2**20
"""The largest size of a table of questions, in bytes; documents may have up to `LARGEST`."""

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


class TaskRunner:
    """A runner of long tasks, one at a time in a thread, with the last result of each kind."""

    def __init__(self) -> None:
        self.results: dict[str, View] = {}
        self._lock = threading.Lock()
        self._state: View = {"kind": "", "state": "idle"}
        self._begun = 0.0

    def start(self, kind: str, function: Callable[[Progress], View]) -> View:
        """Start a task; HTTP error 409 if another one is running."""
        with self._lock:
            if self._state["state"] == "running":
                raise HTTPException(
                    409, "Another task is still running; wait until it has finished."
                )
            self._state = {"kind": kind, "state": "running", "what": "Starting", "done": 0}
        threading.Thread(target=self._run, args=(kind, function), daemon=True).start()
        return self.view()

    def is_running(self, kind: str) -> bool:
        """Return whether a task of this kind is running."""
        return (self._state["kind"], self._state["state"]) == (kind, "running")

    def _run(self, kind: str, function: Callable[[Progress], View]) -> None:
        try:
            self.results[kind] = function(self._progress)
            self._state = {"kind": kind, "state": "done"}
        except Exception as error:
            log.error("%s: %s", kind, type(error).__name__, exc_info=error)
            self._state = {"kind": kind, "state": "failed", "detail": explained(error)[1]}

    def _progress(self, what: str, done: int, total: int) -> None:
        if self._state.get("what") != what:
            self._begun = time.monotonic()
        self._state = {**self._state, "what": what, "done": done, "total": total}

    def view(self) -> View:
        """Return the state of the task, its progress and an estimate of the seconds left."""
        state = self._state
        if not state.get("done"):
            return state
        gone = time.monotonic() - self._begun
        return state | {"left": gone / state["done"] * (state["total"] - state["done"])}


def explorer(live: LiveIndex, access: Access, gate_file: Path | None = None) -> Guard:
    """Make the application, which closes the index at shutdown.

    `gate_file`: file that a gate is saved to, and loaded from if it exists; "gate.json" in the
    folder of the index by default.
    """
    folder = Path(live.place.index).absolute()
    gate_path = gate_file or folder / GATE_FILE
    work, asked = TaskRunner(), deque[View](maxlen=_REMEMBERED)
    tuned: list[LabelledSearch] = []  # at most one
    staged = Path(tempfile.mkdtemp(prefix="uec-rag-"))
    known: dict[str, tuple[tuple[int, int], View]] = {}  # views of the whole index by name
    locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        yield
        shutil.rmtree(staged, ignore_errors=True)
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
            "gate": gate and {**gate.threshold.metadata(), "k": gate.k, "fits": fits},
            "formats": [*READERS],
            "largest_file": LARGEST,
            "largest_table": LARGEST_TABLE,
            "problem": sanitised(live.problem),
        }

    @app.get("/api/writing")
    def written() -> View:
        return of_index("writing", describe_languages)

    @app.post("/api/ask")
    def ask(given: Question) -> View:
        live.refresh()
        with live.use() as opened:
            gate, before, among = gate_of(opened), turns(given.history), given.within
            view = ask_view(opened.retriever, given.question, given.k, gate, before, among)
        if among is None:  # choosing a reading continues a question that is already in the list
            names = ("question", "decision", "reason", "confidence")
            said = [one.content for one in given.history if one.role == "user"]
            new = {"before": said, **{name: view[name] for name in names}}
            key = new["before"], new["question"]
            others = [one for one in asked if (one["before"], one["question"]) != key]
            asked.clear()
            asked.extend([new, *others])
        return view

    @app.get("/api/asked")
    def session() -> list[View]:
        return [*asked]

    @app.get("/api/file")
    def file(id: str, start: Annotated[int | None, Query(ge=0)] = None) -> View:
        with live.use() as opened:
            return file_view(opened.retriever, id, start)

    @app.delete("/api/file")
    def delete(id: str) -> dict[str, int]:
        def change(retriever: Retriever) -> int:
            name = next((file_of(passage) for passage in retriever.get([id])), None)
            if name is None:
                raise KeyError("id: is of no file that is in the index (any more).")
            return delete_file(retriever, name)

        return {"deleted": live.write(change)}

    @app.post("/api/tune", status_code=202)
    async def tune(
        request: Request,
        name: Annotated[str, Query(max_length=200)] = "",
        k: Annotated[int, Query(ge=1, le=LARGEST_K)] = 4,
        one_per_answer: bool = False,
    ) -> View:
        table = b"".join([chunk async for chunk in _received(request, name, LARGEST_TABLE)])
        labelled = None
        if name:
            with live.use() as opened:
                own = _plain_name(name)
                labelled = await asyncio.to_thread(_labelled, opened.retriever, own, table)

        def search(progress: Progress) -> View:
            searched = partial(progress, "Searching")
            progress("Searching" if labelled else "Making questions from the passages", 0, 1)
            with live.use() as opened:
                if labelled is None:
                    found = LabelledSearch.made(opened.retriever, k=k, progress=searched)
                else:
                    groups = shared_answers(labelled[1]) if one_per_answer else None
                    found = LabelledSearch.of(
                        opened.retriever, *labelled, k=k, groups=groups, progress=searched
                    )
            tuned[:] = [found]
            return tune_view(name, found)

        return work.start("tune", search)

    @app.post("/api/gate")
    def save_gate(given: Guarantee) -> View:
        if not tuned:
            raise HTTPException(409, "Search labelled questions first; then save.")
        if (given.wrong is None) == (given.risk is None):
            raise HTTPException(422, "wrong, risk: expected one of them.")
        gate = tuned[0].gate(given.risk, wrong=given.wrong)
        if not gate.threshold.is_controlled:
            raise HTTPException(422, f"Not saved. {gate.threshold.report}")

        def save(retriever: Retriever) -> None:
            now = retriever.basis(), corpus_fingerprint(retriever.store)
            if now != (tuned[0].result.basis, tuned[0].corpus):
                raise HTTPException(
                    409, "The index has changed since these questions were searched; search again."
                )
            gate.save(gate_path)

        live.write(save)  # checks the newest saved version, while no other process can save one
        return gate.threshold.metadata() | {"file": gate_path.name}

    @app.put("/api/files")
    async def stage(request: Request, name: Annotated[str, Query(max_length=200)]) -> list[View]:
        own = _plain_name(name)
        if PurePosixPath(own).suffix.lower() not in READERS:
            kinds = ", ".join(READERS)
            raise HTTPException(422, f"{own}: expected a file that ends in {kinds}.")
        part = staged / f".{threading.get_ident()}-{time.monotonic_ns()}"
        try:
            with part.open("wb") as file:
                async for chunk in _received(request, own, LARGEST):
                    await asyncio.to_thread(file.write, chunk)
            if work.is_running("index"):  # which removes staged files of these names at its end
                raise HTTPException(409, f"{own}: files are being added; send it after that.")
            part.rename(staged / own)
        finally:
            part.unlink(missing_ok=True)
        return files()

    @app.get("/api/files")
    def files() -> list[View]:
        found = sorted(path for path in staged.iterdir() if not path.name.startswith("."))
        return [{"name": path.name, "bytes": path.stat().st_size} for path in found]

    @app.delete("/api/files")
    def unstage() -> list[View]:
        for path in staged.iterdir():
            path.unlink(missing_ok=True)
        return []

    @app.post("/api/index", status_code=202)
    def add() -> View:
        names = [one["name"] for one in files()]
        if not names:
            raise HTTPException(422, "There are no files to add; choose some first.")

        def done(progress: Progress) -> View:
            added: View = add_files(live, staged, names, progress)
            for name in names:
                (staged / name).unlink(missing_ok=True)
            return added

        return work.start("index", done)

    @app.get("/api/work")
    def progress() -> View:
        return work.view()

    @app.get("/api/results/{kind}")
    def result(kind: str) -> Any:  # noqa: ANN401
        return work.results.get(kind)

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


async def _received(request: Request, name: str, most: int) -> AsyncIterator[bytes]:
    """Yield the file that a request brings; HTTP error 413 if it has more than `most` bytes."""
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > most:
            raise HTTPException(
                413,
                f"{sanitised(name)}: more than {most // 2**20} MB, the most that a file may have "
                "here; split it. Nothing was changed.",
            )
        yield chunk


def _labelled(retriever: Retriever, name: str, table: bytes) -> tuple[list[str], list[set[str]]]:
    """Read the questions of an uploaded table, and the ids of the passages that answer each."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(table)
        asked = read_questions(path, labelled=True)
    relevant = ids_named(asked.values(), retriever.passages(), name)
    if not any(relevant):
        raise ValueError(
            f"{name}: no question has relevant_ids; expected some, as 'query,relevant_ids' and a "
            "row for each question."
        )
    return [*asked], relevant
