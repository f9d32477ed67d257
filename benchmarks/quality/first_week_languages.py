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

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.quality.first_week import KINDS, ask
from benchmarks.quality.shared import read_tables, shipped
from benchmarks.tables import print_table, run_script
from uec_rag.documents import passages_of, read_folder

PRESETS = ("multilingual", "english")


def main(folder: Annotated[Path, typer.Argument(help="With a folder for each language.")]) -> None:
    """Print the share right by language and kind of question, with both presets."""
    rows, table = read_tables("languages"), []
    for name in dict.fromkeys(row["documents"] for row in rows):
        if not (folder / name).is_dir():
            continue
        passages = passages_of(read_folder(folder / name))
        some = [row for row in rows if row["documents"] == name]
        asked = [ask(shipped(each), passages, some) for each in PRESETS]
        for kind in KINDS:
            right = [[one.right for one in of if one.kind == kind] for of in asked]
            if right[0]:
                table.append([name, kind, *(f"{sum(r) / len(r):.2f}" for r in right)])
    print_table("Share right", ["language", "questions", *PRESETS], table)


if __name__ == "__main__":
    run_script(main)
