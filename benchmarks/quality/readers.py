"""How much of what a documentation's site shows is in the passages of its files.

    python -m benchmarks.quality.readers REPOSITORIES --repositories

REPOSITORIES holds a folder of documentation for each key of `KINDS`, as copied from there, and the
table says which share of the words of the pages that a site makes of it
(`benchmarks.quality.rendered`) are in passages, for each kind and where most are missing.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.quality.rendered import markdown_page, rst_page
from benchmarks.tables import print_table
from uec_rag.documents import passages_of
from uec_rag.documents.document import body_of
from uec_rag.documents.folder import list_files

KINDS = {
    "rst": {"celery": "celery/celery: docs"},
    "markdown": {"cargo": "rust-lang/cargo: doc/book/src", "handbook": "basecamp/handbook"},
    "mkdocs": {"fastapi": "fastapi/fastapi: docs/en", "uv": "astral-sh/uv: docs"},
    "jekyll": {"jekyll": "jekyll/jekyll: docs/_docs"},
    "hugo": {"redis": "redis/redis-doc: docs"},
}
"""Kind -> folder -> the repository on GitHub, and what of it was copied."""

_MOST_FILES = 60  # of a repository, evenly spread over their paths


def main(
    folder: Annotated[Path, typer.Argument(metavar="REPOSITORIES", help="Copied folders.")],
    _: Annotated[bool, typer.Option("--repositories", help="The only table there is.")] = True,
) -> None:
    """Print the table of the words of pages that are in passages."""
    rows = []
    for kind, repositories in KINDS.items():
        shares, words, kept = dict[str, float](), 0, 0
        for name in repositories:
            pages = [*_pages(kind, folder / name)]
            shown = sum(page.total() for page, _ in pages)
            found = sum((page & passages).total() for page, passages in pages)
            shares[name] = found / shown
            words, kept = words + shown, kept + found
        least = min(shares, key=shares.__getitem__)
        cells = (f"{kept / words:.4f}", f"{shares[least]:.4f} ({least})")
        rows.append([kind, str(len(shares)), f"{words:,}", *cells])
    columns = ["kind", "repositories", "words", "in passages", "least"]
    print_table("Words of pages", columns, rows)


def _pages(kind: str, folder: Path) -> Iterator[tuple[Counter[str], Counter[str]]]:
    """Words of the page made of each file, and those of its passages, with each heading once."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in (".rst", ".md"))
    paths = paths[:: max(1, len(paths) // _MOST_FILES)][:_MOST_FILES]
    names = {path.relative_to(folder).as_posix(): path for path in paths}
    with warnings.catch_warnings(action="ignore"):  # some hold no text but their title
        documents = {one.source: one for one in list_files(folder).read(names).documents}
    for name, path in names.items():
        source = path.read_text(encoding="utf-8")
        page = rst_page(source) if path.suffix == ".rst" else markdown_page(kind, source)
        texts = []
        if name in documents:
            texts = [documents[name].title, *{*documents[name].headings.values()}]
            texts += [body_of(passage) for passage in passages_of([documents[name]])]
        yield _words(page), _words("\n".join(texts))


def _words(text: str) -> Counter[str]:
    """Words without the underscores that mark emphasis in Markdown."""
    return Counter(re.findall(r"\w+", text.replace("_", " ").lower()))


if __name__ == "__main__":
    typer.run(main)
