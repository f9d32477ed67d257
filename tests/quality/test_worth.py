"""Each row of evidence has a line in the table that says what it is worth."""

import re
from pathlib import Path

import pytest

from benchmarks.quality import contexts
from uec_rag.evidence import EVIDENCE

TABLE = Path("docs/measurements/decisions.md").read_text(encoding="utf-8")
HEAD = "## What each piece of evidence is worth\n"


@pytest.mark.parametrize("row", EVIDENCE, ids=lambda row: row.name)
def test_each_row_has_a_measured_line(row):
    _, _, section = TABLE.partition(HEAD)
    lines = section.split("\n## ", 1)[0].splitlines()
    [line] = [line for line in lines if line.startswith(f"| {row.name} |")]
    assert re.search(r"\| [+-]?\d+ \| [+-]?\d+ \|", line)


@pytest.mark.parametrize("row", EVIDENCE, ids=lambda row: row.name)
def test_each_row_names_its_script_and_what_made_its_context(row):
    assert (Path("benchmarks/quality") / f"{row.learned}.py").exists()
    assert row.context == "collections" or f'"{row.context}"' in Path(contexts.__file__).read_text(
        encoding="utf-8"
    )
