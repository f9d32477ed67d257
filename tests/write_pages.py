"""The Python of README and docs as modules, for type checkers: `make lint`.

python -m tests.write_pages build/pages

Each page is one module, whose lines have the numbers that they have on the page.
"""

import sys
from pathlib import Path

from tests.markdown import PAGES, ROOT, examples

BEFORE = {"docs/your-store.md": "from langchain_postgres import PGVector; postgres: PGVector"}
"""What a page takes from its reader, declared in the first line, which is a heading."""


def module(name: str, page: str) -> str:
    """The code of a page, below empty lines for what is no code."""
    code = BEFORE.get(name, "")
    for example in examples(page):
        code += "\n" * (example.line - code.count("\n")) + example.code
    return code


def write(folder: Path) -> None:
    """Write the module of each page that has code."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.py"):
        stale.unlink()
    for path in PAGES:
        page, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
        if examples(page):
            stem = name.removesuffix(".md").replace("/", "_").replace("-", "_").lower()
            (folder / f"{stem}.py").write_text(module(name, page), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
