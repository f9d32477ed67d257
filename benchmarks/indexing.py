"""`uec-rag index` of a megabyte of Markdown, beside its encoder alone on the same passages.

    python -m benchmarks.indexing [--rounds 3] [--size 1000000]

The two take turns, each in a process of its own. Printed are seconds of the processor, and their
ratio in the same round; it fails if the median ratio is above 1.2. A token is one of the encoder's.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from statistics import median
from subprocess import run
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from benchmarks.tables import print_table, run_script
from benchmarks.timing import machine
from uec_rag import Retriever
from uec_rag.documents.python_docs import gather_corpus
from uec_rag.encoders import load_encoder

_MOST = 1.2  # times the encoder's own price
_FILE = 100_000  # characters of a file
_ENCODER = "arctic-embed-s"
_ALONE = f"""
import json, sys
from uec_rag.encoders import load_encoder
load_encoder({_ENCODER!r}).encode(json.load(open(sys.argv[1])), "passage")
"""


def write_markdown(folder: Path, size: int) -> None:
    """Write documentation of Python's standard library as Markdown files."""
    written = "".join(
        f"# {document.source}\n\n{section.text}\n\n"
        for document in gather_corpus(3_000)
        for section in document.sections
    )
    for number, start in enumerate(range(0, min(size, len(written)), _FILE)):
        file = folder / f"part-{number:02}.md"
        file.write_text(written[start : min(size, start + _FILE)], encoding="utf-8")


def processor_seconds(command: list[str]) -> float:
    """Run Python in a process; return the seconds of processor it and its own processes took."""
    before = os.times()
    run([sys.executable, *command], check=True, capture_output=True)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def main(
    rounds: Annotated[int, typer.Option(help="How often each of the two runs.")] = 3,
    size: Annotated[int, typer.Option(help="Characters of Markdown.")] = 1_000_000,
) -> None:
    """Print the table."""
    with TemporaryDirectory() as name:
        folder, texts = Path(name, "documents"), Path(name, "texts.json")
        folder.mkdir()
        write_markdown(folder, size)
        command = ["-m", "uec_rag", "index", str(folder), "--out", f"{name}/index"]
        processor_seconds(command)  # which also fetches the model and optimises its graph
        searched = [passage.searched for passage in Retriever.load(f"{name}/index").passages()]
        texts.write_text(json.dumps(searched), encoding="utf-8")
        encoder: Any = load_encoder(_ENCODER)
        tokens = sum(len(encoder.tokenizer.encode(text).ids) for text in searched)
        taken = [
            (processor_seconds(command), processor_seconds(["-c", _ALONE, str(texts)]))
            for _ in range(rounds)
        ]
    ratio = median(whole / alone for whole, alone in taken)
    rows = [
        [system, f"{median(of):.1f}", f"{median(of) / tokens * 1000:.3f}"]
        for system, *of in zip(("uec-rag index", "the encoder alone"), *taken, strict=True)
    ]
    title = f"{machine()}: {size:,} characters, {len(searched):,} passages, {tokens:,} tokens"
    print_table(title, ["system", "processor s", "ms a token"], rows)
    print(f"\nMedian ratio: {ratio:.2f}, at most {_MOST}")
    if ratio > _MOST:
        raise typer.Exit(1)


if __name__ == "__main__":
    run_script(main)
