"""What each rule of wording changes: the decisions on a first week's questions without it.

    python -m benchmarks.quality.rules FOLDER --markdown

FOLDER as in `first_week`. A rule that changes no decision is kept only if another benchmark shows
what it is for.
"""

from __future__ import annotations

import csv
import warnings
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import numpy as np
import typer

from benchmarks.quality.first_hour import has_any
from benchmarks.quality.first_week import QUESTIONS, RIGHT, corpora_of, named
from benchmarks.quality.hybrid import shipped
from benchmarks.quality.options import CACHE, Markdown
from benchmarks.tables import print_table
from uec_rag import Retriever
from uec_rag.confidence import decision, readings
from uec_rag.retrieval import retriever, search

_underspecified = readings.underspecified


def _without_doubt(found: Any, confidence: Any) -> Any:
    return _underspecified(found, np.zeros_like(confidence))


WITHOUT: dict[str, dict[tuple[object, str], Any]] = {
    "a concept is asked for": {(readings, "concept_asked"): lambda question: ""},
    "a title or file is named": {(readings, "_names_title"): lambda candidates: False},
    "a title that several subjects have": {(readings, "_shared_titles"): lambda *given: 0.0},
    "an option that several subjects have": {(readings, "_shared_options"): lambda candidates: 0.0},
    "no referent": {(readings, "lacks_referent"): lambda question: False},
    "function words weigh a quarter": {(readings, "_FUNCTION"): 1.0},
    "confidence above .85 says what is meant": {(readings, "underspecified"): _without_doubt},
    "titles with the question's words are likelier": {(readings, "_TITLED"): 0.0},
    "no question about a reading above .9": {(readings, "_CERTAIN"): 1.0},
    "to ask in vain costs half": {(decision, "_COST"): 0.0},
    "function words are no evidence": {(search, "content_share"): lambda matched: np.float32(1)},
    "names that no passage has": {(search, "_MISSING_NAME"): np.float32(0)},
    "small talk, single words": {(search, "_SMALL_TALK"): np.float32(0)},
    "foreign script": {(search, "_FOREIGN_SCRIPT"): np.float32(0)},
    "spelling": {(retriever, "correct_spelling"): lambda questions, *given: questions},
}
"""The names that a rule consists of, with what they are without it."""


def outcomes(
    indexes: dict[str, Retriever], rows: list[dict[str, str]]
) -> dict[tuple[str, str], tuple[str, str]]:
    """The kind of each question, and its decision; "wrong" if answered without the passage."""
    found = {}
    for name, index in indexes.items():
        some = [row for row in rows if row["documents"] == name]
        for row, result in zip(some, index.search([r["question"] for r in some]), strict=True):
            expected = [text.strip() for text in row["passage"].split("|") if text.strip()]
            action = str(result.decision.action)
            if RIGHT[row["kind"]] == action == "answer" and not any(
                has_any(named(passage), expected) for passage in result.passages
            ):
                action = "wrong"
            found[name, row["question"]] = row["kind"], action
    return found


def main(
    folder: Annotated[Path, typer.Argument(help="With folders git, debian and so on.")],
    markdown: Markdown = False,
) -> None:
    """Print the share right of each kind, and its change without each rule."""
    warnings.simplefilter("ignore")
    with QUESTIONS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    indexes = {}
    for name, passages in corpora_of(folder).items():
        indexes[name] = Retriever(shipped(CACHE))
        texts, metadatas = [p.text for p in passages], [p.metadata for p in passages]
        indexes[name].add(texts, [p.id for p in passages], metadatas)

    def shares(found: dict[tuple[str, str], tuple[str, str]]) -> list[float]:
        kinds = [
            [action == RIGHT[kind] for kind, action in found.values() if kind == of] for of in RIGHT
        ]
        return [float(np.mean(right)) for right in kinds]

    whole = outcomes(indexes, rows)
    before = shares(whole)
    table = [["with all", *(f"{share:.3f}" for share in before), ""]]
    for rule, names in WITHOUT.items():
        patches = [patch.object(module, name, new) for (module, name), new in names.items()]
        for each in patches:
            each.start()
        found = outcomes(indexes, rows)
        patch.stopall()
        changes = [now - then for now, then in zip(shares(found), before, strict=True)]
        differ = sum(found[key] != whole[key] for key in whole)
        table.append([rule, *(f"{change:+.3f}" for change in changes), str(differ)])
    print_table(
        "Without each rule", ["rule", *RIGHT, "decisions changed"], table, markdown=markdown
    )


if __name__ == "__main__":
    typer.run(main)
