"""Labels given on the explorer's page: questions, with the passages that answer them, in a table.

The table is that of `uec-rag gate`, `questions.csv` in the folder of the index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from fastapi import FastAPI
from pydantic import BaseModel, Field

from uec_rag.base.checks import check_text
from uec_rag.base.saved.files import lock_file
from uec_rag.corpora.tables import read_questions, write_questions
from uec_rag.evaluation.inspection import passage_at
from uec_rag.retrieval.live import LiveIndex
from uec_rag.server.http import LONGEST_QUERY
from uec_rag.server.views import View

LABELS_FILE = "questions.csv"

_OFFERED = 6  # questions to label next
_PATIENCE = 10.0  # seconds that a label waits for those of other pages


class Label(BaseModel, strict=True):
    """A label: a passage answers a question or not; without an id, nothing answers it or not."""

    question: str = Field(min_length=1, max_length=LONGEST_QUERY)
    id: str | None = None
    holds: bool


class LabelFile:
    """The labelled questions of an index, in a file that is read at each use."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LABELS_FILE

    def read(self) -> dict[str, set[str]]:
        """Return the ids of the passages that answer each question; none if nothing does."""
        return read_questions(self.path, labelled=True) if self.path.exists() else {}

    def give(self, label: Label) -> None:
        """Add or remove a label, and write the file; a question without labels leaves it.

        Raises BlockingIOError if pages of other processes keep giving labels.
        """
        check_text(label.question, "question")
        lock = self.path.with_name(f".{self.path.name}.lock")
        busy = f"{self.path.name}: another process is writing labels; nothing was changed."
        with lock_file(lock, busy, _PATIENCE):
            known = self.read()
            ids = known.pop(label.question, set())
            if label.id is None:
                ids = set() if label.holds else ids
            else:
                ids = ids | {label.id} if label.holds else ids - {label.id}
            if ids or (label.id is None and label.holds):
                known[label.question] = ids
            write_questions(self.path, known)

    def view(self, question: str) -> View:
        """Return the labels of a question; none if the file cannot be read, as giving one says."""
        try:
            ids = self.read().get(question)
        except (OSError, ValueError):
            ids = None
        return {"ids": sorted(ids or ()), "nothing": ids == set()}


def add_labels(
    app: FastAPI,
    live: LiveIndex,
    labels: LabelFile,
    asked: Callable[[], Iterable[str]],
    headings: Callable[[], Iterable[str]],
) -> None:
    """Add the routes that read and give labels.

    `asked`: the questions of this session. `headings`: questions made from headings.
    """

    @app.get("/api/labels")
    def counts() -> View:
        known = labels.read()
        others = [one for one in dict.fromkeys([*asked(), *headings()]) if one not in known]
        return {
            "file": labels.path.name,
            "questions": len(known),
            "unanswerable": sum(not ids for ids in known.values()),
            "next": others[:_OFFERED],
        }

    @app.post("/api/label")
    def give(label: Label) -> View:
        if label.id is not None:
            with live.use() as opened:
                passage_at(opened.retriever, label.id)
        labels.give(label)
        return labels.view(label.question)
