"""Run examples/notebook.ipynb, and write what its cells print and show into it.

python docs/notebook.py
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parent.parent / "examples" / "notebook.ipynb"


def outputs(cells: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Run the cells of code; return the outputs of each, as a notebook has them."""
    names: dict[str, Any] = {}
    return [_outputs("".join(cell["source"]), names, count) for count, cell in enumerate(cells, 1)]


def _outputs(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    *before, last = ast.parse(source).body
    shown, printed = None, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(before, []), "cell", "exec"), names)
        if isinstance(last, ast.Expr):  # what a notebook shows below its cell
            shown = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        else:
            exec(compile(ast.Module([last], []), "cell", "exec"), names)
    made: list[dict[str, Any]] = []
    if text := printed.getvalue():
        lines = text.splitlines(keepends=True)
        made.append({"name": "stdout", "output_type": "stream", "text": lines})
    if shown is not None:
        made.append(
            {
                "data": {"text/plain": repr(shown).splitlines(keepends=True)},
                "execution_count": count,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return made


def main() -> None:
    """Write the outputs of all cells into the notebook."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for count, (cell, made) in enumerate(zip(cells, outputs(cells), strict=True), 1):
        cell |= {"outputs": made, "execution_count": count}
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    NOTEBOOK.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
