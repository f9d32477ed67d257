"""Labels given on the explorer's page, in the table of `LabelFile`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fastapi import FastAPI
from pydantic import BaseModel, Field

from uec_rag.evaluation.inspection import passage_at
from uec_rag.retrieval import Retriever
from uec_rag.retrieval.label_file import LabelFile
from uec_rag.retrieval.request import LONGEST_QUERY
from uec_rag.server.views import View

_OFFERED = 6  # questions to label next


class Label(BaseModel, strict=True):
    """A label: a passage answers a question or not; without an id, nothing answers it or not."""

    question: str = Field(min_length=1, max_length=LONGEST_QUERY)
    id: str | None = None
    holds: bool


def labels_view(labels: LabelFile, question: str) -> View:
    """Return the labels of a question; none if the file cannot be read, as giving one says."""
    try:
        ids = labels.read().get(question)
    except (OSError, ValueError):
        ids = None
    return {"ids": sorted(ids or ()), "nothing": ids == set()}


def add_labels(
    app: FastAPI,
    index: Retriever,
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
        questions = dict.fromkeys([*asked(), *headings()])
        others = [question for question in questions if question not in known]
        return {
            "file": labels.path.name,
            "questions": len(known),
            "unanswerable": sum(not ids for ids in known.values()),
            "next": others[:_OFFERED],
        }

    @app.post("/api/label")
    def give(label: Label) -> View:
        if label.id is not None:
            passage_at(index, label.id)
        labels.mark(label.question, label.id, holds=label.holds)
        return labels_view(labels, label.question)
