"""Packages of others that decide whether to answer, on the documents that no rule has seen.

    python -m benchmarks.quality.rivals MANUALS UNSEEN ENV

The method, the questions and both folders are those of `unseen`. ENV is a virtual environment that
is made, if it is not there, of the pinned packages of PyPI below; they run in it, in a process of
their own (`rivals_worker`), offline. Each gets our passages, headings first, as documents:

- rerankgate 0.2.0: words alone, as it is installed without extras (its vectors take a model of a
  hub); its verdict in the preset "balanced", and thresholds on its gate's score.
- cairn-pipeline 0.1.0: its bundled "bm25" and "hybrid-hashing" (its default), whose model is a stub
  that quotes; thresholds on its confidence. Its own calibration takes answers, which are not there.

A threshold is learned on the old manuals, as those of `unseen`. At home: these questions and
thresholds are ours, as is the cutting into passages; rerankgate is at home in short texts whose
words the questions share, cairn-pipeline with a language model behind it. recall-rag 0.14.0 is left
out: it takes PostgreSQL with pgvector.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.quality import manuals
from benchmarks.quality.baselines import finds
from benchmarks.quality.shared import Manuals, Unseen
from benchmarks.quality.unseen import (
    OUTCOMES,
    Asked,
    above,
    answered,
    asked_of,
    decided,
    learned,
    new_questions,
    numbers,
    old_questions,
)
from benchmarks.tables import print_table, run_script

PACKAGES = "cairn-pipeline==0.1.0", "rerankgate==0.2.0"
_WORKER = Path(__file__).with_name("rivals_worker.py")
_AS_SHIPPED = "rerankgate"


def python_of(env: Path) -> Path:
    """The Python of an environment, which is made if it is not there."""
    python = env / "bin" / "python"
    if not python.exists():
        venv.create(env, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return python


def ask_rivals(python: Path, manuals: Sequence[Asked]) -> list[np.ndarray]:
    """Add the rivals' scores to those of manuals, and return where the one as shipped answers."""
    with tempfile.TemporaryDirectory() as folder:
        tasks = [
            {
                "folder": f"{folder}/{number}",
                "passages": {passage.id: passage.searched for passage in asked.index.passages()},
                "questions": [row["question"] for row in asked.rows],
            }
            for number, asked in enumerate(manuals)
        ]
        command, pipe = [python, "-P", _WORKER], subprocess.PIPE
        told = subprocess.run(command, input=json.dumps(tasks), stdout=pipe, text=True, check=True)
    verdicts = []
    for asked, line in zip(manuals, told.stdout.splitlines(), strict=True):
        systems = json.loads(line)
        for name, rows in systems.items():
            scores = np.array([score for score, _, _ in rows])
            asked.scores[name] = scores, finds([ids for _, ids, _ in rows], asked.relevant)
        verdicts.append(np.array([answers for _, _, answers in systems[_AS_SHIPPED]]))
    return verdicts


def table_of(old: Sequence[Asked], new: Sequence[Asked], shipped: Sequence[np.ndarray]) -> None:
    """Print what becomes of the questions by each system."""
    told = {"UEC()": [p for one in new for p in decided(one.rows, one.decisions, one.found)]}
    verdicts = zip(new, shipped, strict=True)
    told[f"{_AS_SHIPPED}, as shipped"] = [
        pair
        for one, answers in verdicts
        for pair in answered(one.rows, answers, one.scores[_AS_SHIPPED][1])
    ]
    for name, least in learned(old).items():
        score = name.split(" threshold")[0]
        told[f"{name} ({least:.4f})"] = [p for one in new for p in above(one, score, least)]
    table = [[name, *numbers(pairs)] for name, pairs in told.items()]
    print_table("Of a hundred questions", ["", *OUTCOMES], table)


def main(
    folder: Manuals,
    unseen: Unseen,
    env: Annotated[Path, typer.Argument(metavar="ENV", help="Environment of the rivals.")],
) -> None:
    """Print what becomes of the questions by each rival."""
    manuals.verify(unseen, "unseen")
    python = python_of(env)
    old, new = asked_of(*old_questions(folder)), asked_of(*new_questions(unseen))
    shipped = ask_rivals(python, [*old, *new])
    table_of(old, new, shipped[len(old) :])


if __name__ == "__main__":
    run_script(main)
