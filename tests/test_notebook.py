"""The notebook in examples/ runs from its first cell to its last, and shows what it says."""

import ast
import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parent.parent / "examples" / "notebook.ipynb"


@pytest.mark.slow
def test_every_cell_runs_and_shows_something(capsys):
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    names, shown = {}, []
    for source in sources:
        *before, last = ast.parse(source).body
        if isinstance(last, ast.Expr):  # what a notebook shows below its cell
            exec(compile(ast.Module(before, []), source, "exec"), names)
            shown.append(eval(compile(ast.Expression(last.value), source, "eval"), names))
        else:
            exec(source, names)
    index, decisions, metadata, *_ = shown
    assert "passages" in repr(index)
    assert decisions[1][0] == "abstain"
    assert metadata["uec_sigma2"] > 0
    assert capsys.readouterr().out.splitlines()[-1] == "abstain"
    assert all(not cell["outputs"] for cell in cells if cell["cell_type"] == "code")
