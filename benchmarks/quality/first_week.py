"""Decisions on a first week's questions: ambiguous, ordinary, short, without an answer.

    python -m benchmarks.quality.first_week FOLDER

FOLDER has folders `git` and `debian`, each made as `first_hour` says, without its slides and sheet,
and the Markdown files of repositories on GitHub: `cargo` (rust-lang/cargo, doc/book/src without
commands), `handbook` (basecamp/handbook), `fastapi` (fastapi/fastapi, docs/en/docs without its
release notes and lists of people), `uv` (astral-sh/uv, docs without reference/cli.md) and
`material` (squidfunk/mkdocs-material, docs without blog, changelog and insiders), `redis`
(redis/redis-doc, commands and docs), `jekyll` (jekyll/jekyll, docs/_docs), `tts` (18F/handbook,
pages), and `celery` (celery/celery, docs in reStructuredText without history). Python's
documentation is gathered from the Python that runs, as in `uec-rag demo`. A folder that is not
there is passed over. `benchmarks.quality.manuals` makes all of them, as they were frozen.

The questions (questions/first_week.csv) were written, with what they expect, before any was asked,
and no number is fitted on them. Right are "clarify" for an ambiguous question, "answer" for an
ordinary or a short one if one of the four hits has the text that the file names (or one of several,
between "|"), in its name or its passage, and "abstain" for one without an answer. `UEC()` as it
comes.
"""

from __future__ import annotations

import csv
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.quality.first_hour import has_any
from benchmarks.quality.hybrid import shipped
from benchmarks.quality.options import CACHE
from benchmarks.tables import print_table
from uec_rag import UEC, Retriever
from uec_rag.confidence.decision import Decision, decide_again
from uec_rag.documents import passages_of, read_folder
from uec_rag.documents.document import Document
from uec_rag.documents.passages import CHUNK_SIZE as DEFAULT_SIZE
from uec_rag.documents.python_docs import CHUNK_SIZE, gather_corpus
from uec_rag.stores.base import Passage

QUESTIONS = Path(__file__).parent / "questions/first_week.csv"
RIGHT = {"ambiguous": "clarify", "ordinary": "answer", "short": "answer", "absent": "abstain"}
FOLDERS = ("git", "debian", "cargo", "handbook", "fastapi", "uv", "material", "redis", "jekyll")
FOLDERS += ("celery", "tts")


@dataclass(frozen=True)
class Asked:
    """A question that was asked: its kind, what was decided, and whether its passage was found."""

    question: str
    kind: str
    decision: Decision
    found: bool

    @property
    def outcome(self) -> str:
        """The decision, or that an answer lacks its passage."""
        wrong = RIGHT[self.kind] == self.decision.action == "answer" and not self.found
        return "answer without it" if wrong else self.decision.action

    @property
    def right(self) -> bool:
        """Whether that is what is right for this kind of question."""
        return self.outcome == RIGHT[self.kind]


def questions_of(*tables: Path) -> list[dict[str, str]]:
    """The rows of tables of questions."""
    texts = [path.read_text(encoding="utf-8") for path in tables]
    return [row for text in texts for row in csv.DictReader(text.splitlines())]


def ask(
    uec: UEC, passages: Sequence[Passage], rows: Sequence[dict[str, str]], threshold: float = 0.5
) -> list[Asked]:
    """Index passages, and ask questions of them."""
    retriever = Retriever(uec, fit=False)
    retriever.add(
        [p.text for p in passages], [p.id for p in passages], [p.metadata for p in passages]
    )
    asked = []
    for row, result in zip(rows, retriever.search([r["question"] for r in rows]), strict=True):
        question, decision = row["question"], decide_again(result.decision, threshold)
        expected = [text.strip() for text in row["passage"].split("|") if text.strip()]
        if expected and not any(has_any(named(passage), expected) for passage in passages):
            raise ValueError(f"{question}: no passage has any of {expected}.")
        found = any(has_any(named(passage), expected) for passage in result.passages)
        asked.append(Asked(question, row["kind"], decision, found))
    return asked


def main(
    folder: Annotated[Path, typer.Argument(help="With folders git, debian and so on.")],
    threshold: Annotated[float, typer.Option(help="Confidence above which to answer.")] = 0.5,
    markdown: Annotated[bool, typer.Option(help="Print as Markdown.")] = False,
) -> None:
    """Print the decisions by kind of question, and each wrong one."""
    warnings.simplefilter("ignore")
    rows, corpora = questions_of(QUESTIONS), corpora_of(folder)
    counts: Counter[tuple[str, str, str]] = Counter()
    wrong = []
    for name, passages in corpora.items():
        some = [row for row in rows if row["documents"] == name]
        for one in ask(shipped(CACHE), passages, some, threshold):
            for of in (name, "all"):
                counts[of, one.kind, one.outcome] += 1
                counts[of, one.kind, "right"] += one.right
                counts[of, one.kind, ""] += 1
            if not one.right:
                decision = one.decision
                wrong.append(
                    f"{name}, {one.kind}: {one.question} {decision.action}, "
                    f"confidence {decision.confidence:.2f}, {decision.underspecified:.2f} "
                    f"underspecified{', found' if one.found else ''}"
                )
    outcomes = ("answer", "clarify", "abstain", "answer without it")
    table = []
    for of, kind in product((*corpora, "all"), RIGHT):
        n, right = counts[of, kind, ""], counts[of, kind, "right"]
        if not n:
            continue
        cells = [str(counts[of, kind, outcome]) for outcome in outcomes]
        table.append([of, kind, str(n), *cells, f"{right / n:.0%}"])
    print_table(
        "Decisions",
        ["documents", "questions", "", *outcomes, "right"],
        table,
        markdown=markdown,
    )
    print("\n".join(wrong))


def documents_of(folder: Path) -> dict[str, list[Document]]:
    """The documents of each set that is there."""
    documents = {"python": gather_corpus(3000)}
    for name in FOLDERS:
        if (folder / name).is_dir():
            documents[name] = read_folder(folder / name)
    return documents


def passages_in(name: str, documents: Sequence[Document]) -> list[Passage]:
    """The passages of a set."""
    return passages_of(documents, size=CHUNK_SIZE if name == "python" else DEFAULT_SIZE)


def corpora_of(folder: Path) -> dict[str, list[Passage]]:
    """The passages of each set that is there."""
    return {name: passages_in(name, of_set) for name, of_set in documents_of(folder).items()}


def named(passage: Passage) -> str:
    """A passage with the name of its file."""
    return f"{passage.metadata.get('source', '')}\n{passage.text}"


if __name__ == "__main__":
    typer.run(main)
