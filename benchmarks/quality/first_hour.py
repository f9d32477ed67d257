"""What a new user meets: a folder of documents, forty questions, the command line and the library.

    python -m benchmarks.quality.first_hour FOLDER benchmarks/quality/questions/debian.csv

FOLDER is made of Debian's packages (`apt-get download NAME`, `dpkg -x`), which are not in the
repository. For debian.csv: the pages of `debian-policy`'s policy.html without index, search and
genindex, `developers-reference.pdf`, and with --add-office the slides and the sheet that two
questions are about. For git.csv: of `git-doc` the pages named in `GIT` and those in howto.

A question is right where one of the five hits has the text that the file names (or one of several,
between "|"). The questions were written before anything was measured and are never tuned on.
Beside them: members alone, and the two ways of joining them that the frameworks have.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.quality.hybrid import Run, reciprocal_ranks, relative_scores, shipped
from benchmarks.quality.options import CACHE
from benchmarks.tables import print_table
from uec_rag import UEC, Retriever
from uec_rag.documents import passages_of, read_folder
from uec_rag.stores.base import Passage

K = 5
GIT = """
    gitfaq githooks gitignore git-stash git-bisect git-clean git-worktree giteveryday gittutorial
    gitworkflows git-cherry-pick git-reset git-revert git-tag git-blame git-submodule git-rebase
    git-commit git-branch git-reflog git-gc git-shortlog git-describe git-archive git-restore
    git-switch git-rerere git-notes gitattributes
"""
Answers = list[tuple[str, list[str]]]
"""Action and the texts of the hits, of each question."""


def add_office(folder: Path) -> None:
    """Slides of a team's plan and a sheet of build machines, as a user might have them."""
    from openpyxl import Workbook
    from pptx import Presentation

    slides = Presentation()
    for title, lines in {
        "Plan of the packaging team": "From the transition freeze to the release",
        "Freeze": "Transition freeze: 12 January\nSoft freeze: 12 February\nHard freeze: 15 March",
        "Who does what": "Ada: upload of the toolchain\nGrace: release notes\nLinus: kernel",
        "Before every upload": "Run lintian\nBuild in a clean chroot\nInstall, upgrade, remove",
    }.items():
        slide = slides.slides.add_slide(slides.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = title, lines
    slides.save(str(folder / "plan.pptx"))
    book = Workbook()
    sheet = book.active
    sheet.title = "Build machines"
    sheet.append(["Name", "Architecture", "Memory", "Location", "Contact"])
    sheet.append(["tartini", "amd64", "256 GB", "Vienna", "admin@example.org"])
    sheet.append(["corelli", "arm64", "128 GB", "Cambridge", "admin@example.org"])
    sheet.append(["vivaldi", "riscv64", "32 GB", "Bologna", "porters@example.org"])
    sheet.append(["albinoni", "s390x", "64 GB", "Karlsruhe", "porters@example.org"])
    book.save(folder / "machines.xlsx")


def by_command_line(folder: Path, questions: list[str]) -> Answers:
    """`uec-rag index` and `uec-rag ask --json`, as processes."""
    command = [sys.executable, "-c", "from uec_rag.cli import main; main()"]
    with tempfile.TemporaryDirectory() as place:
        index = f"{place}/idx"
        subprocess.run([*command, "index", str(folder), "--out", index], check=True)
        asked = subprocess.run(
            [*command, "ask", index, "-k", str(K), "--json"],
            input="\n".join(questions),
            text=True,
            stdout=subprocess.PIPE,
            check=True,
        )
    left, found, decoder = asked.stdout.strip(), [], json.JSONDecoder()
    while left:
        record, end = decoder.raw_decode(left)
        found.append((record["decision"], [hit["text"] for hit in record["passages"]]))
        left = left[end:].lstrip()
    return found


def by_library(passages: list[Passage], questions: list[str]) -> Answers:
    """`UECRetriever.from_documents(documents, UEC())`."""
    from langchain_core.documents import Document

    from uec_rag.langchain import UECRetriever

    documents = [Document(p.text, id=p.id, metadata=p.metadata) for p in passages]
    retriever = UECRetriever.from_documents(documents, shipped(CACHE), k=K)
    found = retriever.batch(questions)
    return [
        (hits[0].metadata["uec_decision"], [hit.page_content for hit in hits]) for hits in found
    ]


def by_others(passages: list[Passage], questions: list[str]) -> dict[str, Answers]:
    """Each member alone, and the two joined by ranks and by scores; none of them refuses."""
    text, runs = {p.id: p.text for p in passages}, []
    for encoder in shipped(CACHE).encoders:
        retriever = Retriever(UEC([encoder]))
        retriever.add(list(text.values()), ids=list(text))
        found = retriever.search(questions, k=100)
        both = zip(found.ids, found.scores, strict=True)
        runs.append([dict(zip(*row, strict=True)) for row in both])
    ways: dict[str, Run] = {
        "arctic-embed-s": runs[0],
        "bm25": runs[1],
        "ranks (LangChain)": reciprocal_ranks(runs),
        "scores (LlamaIndex)": relative_scores(runs),
    }
    return {
        name: [("answer", [text[id_] for id_ in list(hits)[:K]]) for hits in run]
        for name, run in ways.items()
    }


def figures(answers: Answers, wanted: list[list[str]]) -> list[str]:
    """Right among five, right first, right and answered, refused of those without an answer."""
    told = [(*answer, texts) for answer, texts in zip(answers, wanted, strict=True)]
    there = [
        (action, [has_any(hit, texts) for hit in hits]) for action, hits, texts in told if texts
    ]
    absent = [action for action, _, texts in told if not texts]
    counts = [
        sum(any(right) for _, right in there),
        sum(right[0] for _, right in there),
        sum(any(right) and action == "answer" for action, right in there),
    ]
    refused = sum(action != "answer" for action in absent)
    return [*(f"{count} of {len(there)}" for count in counts), f"{refused} of {len(absent)}"]


def has_any(text: str, wanted: list[str]) -> bool:
    """Whether a text has one of several, in whatever case and layout."""
    return any(_plain(some) in _plain(text) for some in wanted)


def _plain(text: str) -> str:
    """Without case, and without what lays a page out: breaks of lines, quotes and Markdown."""
    text = re.sub("[`*|]", "", text)
    quotes = {ord(mark): '"' for mark in "\u201c\u201d"} | {ord(m): "'" for m in "\u2018\u2019"}
    return " ".join(text.translate(quotes).casefold().split())


def main(
    folder: Annotated[Path, typer.Argument(help="With documents in it.")],
    questions: Annotated[Path, typer.Argument(help="question, kind and passage, as a table.")],
    office: Annotated[
        bool, typer.Option("--add-office", help="Write plan.pptx and machines.xlsx first.")
    ] = False,
) -> None:
    """Print the table, and where the command line and the library do not agree."""
    warnings.simplefilter("ignore")
    if office:
        add_office(folder)
    with questions.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    asked = [row["question"] for row in rows]
    wanted = [[some.strip() for some in row["passage"].split("|") if some.strip()] for row in rows]
    passages = passages_of(read_folder(folder))
    print(f"{len(passages):,} passages")
    for question, texts in zip(asked, wanted, strict=True):
        if texts and not any(has_any(passage.text, texts) for passage in passages):
            raise ValueError(f"{question}: no passage has any of {texts}; is the folder another?")
    ways = {
        "uec-rag index, ask": by_command_line(folder, asked),
        "UECRetriever, UEC()": by_library(passages, asked),
        **by_others(passages, asked),
    }
    columns = ["", "right in 5", "right first", "right answered", "refused"]
    table = [[name, *figures(answers, wanted)] for name, answers in ways.items()]
    print_table(questions.stem, columns, table, markdown=True)
    cli, library = list(ways.values())[:2]
    for row, texts, mine, other in zip(rows, wanted, cli, library, strict=True):
        right = any(has_any(text, texts) for text in other[1])
        if mine[0] != other[0]:
            print(f"differ: {row['question']} {mine[0]} by command line, {other[0]} by library")
        elif (other[0] == "answer") != (row["kind"] == "answer"):
            print(f"{other[0]}: {row['question']} ({row['kind']}; right in 5: {right})")


if __name__ == "__main__":
    typer.run(main)
