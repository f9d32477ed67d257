"""The notebook in examples/ runs from its first cell to its last, and shows what it says."""

import json
import re

import pytest

from docs.notebook import NOTEBOOK, outputs

CELLS = [
    cell
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    if cell["cell_type"] == "code"
]


def text_of(made):
    """What a cell shows, but for numbers and lists of readings, which differ with processors."""
    parts = (one.get("text") or one["data"]["text/plain"] for one in made)
    shown = "".join(line for lines in parts for line in lines)
    return re.sub(r"\d+(\.\d+)?", "#", re.sub(r"Do you mean .*\?", "Do you mean ...?", shown))


def test_its_outputs_answer_ask_back_and_abstain():
    decisions = "".join(CELLS[1]["outputs"][0]["text"])
    assert re.findall(r"^\w+", decisions, re.MULTILINE) == ["answer", "clarify", "abstain"]
    assert all(cell["outputs"] for cell in CELLS)


@pytest.mark.slow
def test_every_cell_runs_and_shows_what_is_saved():
    for cell, made in zip(CELLS, outputs(CELLS), strict=True):
        assert text_of(made) == text_of(cell["outputs"])
