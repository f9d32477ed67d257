"""Decisions on the same questions to a manual in several languages: see `first_week`.

    python -m benchmarks.quality.first_week_languages FOLDER

FOLDER has a folder for each language, `en`, `de`, `es` and `zh`, with the pages of Debian's
installation guide in it: /usr/share/doc/installation-guide-amd64/LANGUAGE of the package
installation-guide-amd64 of Debian 12, without index.html and the licence (apf*.html). For Arabic,
`ar` and `en_handbook` have pages of debian-handbook, 17 of which most is translated: those that
questions/languages.csv names, with basic-configuration, security and short-remedial-course. A
folder that is not there is passed over.

The questions (questions/languages.csv) are thirty of each kind, the same in every language. They
were written, with the page that answers, before any was asked, and no number is fitted on them.
Figures are the shares right with `UEC("multilingual")` and `UEC("english")`.
"""

from __future__ import annotations

import csv
import warnings
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.quality.first_week import RIGHT, Asked, ask
from benchmarks.quality.hybrid import shipped
from benchmarks.quality.options import CACHE, Markdown
from benchmarks.tables import print_table
from uec_rag.documents import passages_of, read_folder

QUESTIONS = Path(__file__).parent / "questions/languages.csv"
PRESETS = ("multilingual", "english")


def main(
    folder: Annotated[Path, typer.Argument(help="With a folder for each language.")],
    wrong: Annotated[bool, typer.Option(help="Also print each wrong decision.")] = False,
    markdown: Markdown = False,
) -> None:
    """Print the share right by language and kind of question, with both presets."""
    warnings.simplefilter("ignore")
    with QUESTIONS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    table = []
    for name in dict.fromkeys(row["documents"] for row in rows):
        if not (folder / name).is_dir():
            continue
        passages = passages_of(read_folder(folder / name))
        some = [row for row in rows if row["documents"] == name]
        asked = {each: ask(shipped(CACHE, each), passages, some) for each in PRESETS}
        for kind in RIGHT:
            table.append([name, kind, *(share_right(asked[each], kind) for each in PRESETS)])
        if wrong:
            for each in PRESETS:
                print_wrong(f"{name}, {each}", asked[each])
    print_table("Share right", ["language", "questions", *PRESETS], table, markdown=markdown)


def share_right(asked: list[Asked], kind: str) -> str:
    """Return the share of the questions of a kind that were decided as they should be."""
    right = [one.right for one in asked if one.kind == kind]
    return f"{sum(right) / len(right):.2f}"


def print_wrong(of: str, asked: list[Asked]) -> None:
    """Print each question that was not decided as it should be, with what was decided."""
    for one in asked:
        if not one.right:
            sure, vague = one.decision.confidence, one.decision.underspecified
            print(f"{of}, {one.kind}: {one.question} {one.outcome} {sure:.2f} {vague:.2f}")


if __name__ == "__main__":
    typer.run(main)
