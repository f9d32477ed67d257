"""What readers of documents make of a folder: passages, headings, seconds, and words run together.

    python -m benchmarks.quality.readers FOLDER

Ours, and MarkItDown where it is installed (`pip install "markitdown[pdf,docx,pptx,xlsx]"`), whose
Markdown is cut at its headings as ours is. "Run together" are words of more than 25 letters in the
passages of PDF files, next to none of which there are in English.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.tables import print_table
from uec_rag.corpora import passages_of
from uec_rag.corpora.document import Document, Section, has_words
from uec_rag.corpora.readers import READERS

Reader = Callable[[Path], list[Section]]


def markitdown() -> Reader | None:
    """MarkItDown's, or None where it is not installed."""
    try:
        from markitdown import MarkItDown
    except ImportError:
        return None
    converter = MarkItDown(enable_plugins=False)

    def read(path: Path) -> list[Section]:
        return READERS[".md"](converter.convert(path).text_content.encode())

    return read


def main(folder: Annotated[Path, typer.Argument(help="With documents in it.")]) -> None:
    """Print the table."""
    found: dict[str, Reader | None] = {
        "ours": lambda path: READERS[path.suffix.lower()](path.read_bytes()),
        "MarkItDown": markitdown(),
    }
    rows = []
    for path in sorted(p for p in folder.iterdir() if p.suffix.lower() in READERS):
        for name, reader in found.items():
            if reader is None:
                continue
            start = time.process_time()
            sections = tuple(part for part in reader(path) if has_words(part.text))
            seconds = time.process_time() - start
            passages = passages_of([Document(path.name, sections)])
            words = [w for p in passages for w in re.findall(r"[^\W\d_]{26,}", p.text)]
            numbers = (len(passages), len({part.heading for part in sections} - {""}))
            cells = [*map(str, numbers), f"{seconds:.2f}", str(len(words))]
            rows.append([path.name, name, *cells])
    columns = ["file", "reader", "passages", "headings", "seconds of CPU", "run together"]
    print_table("Readers", columns, rows, markdown=True)


if __name__ == "__main__":
    typer.run(main)
