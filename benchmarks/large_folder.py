"""A hundred megabytes of Markdown, from a folder to a saved index: processor time and memory.

    python -m benchmarks.large_folder write FOLDER [--megabytes 100]
    python -m benchmarks.large_folder compare FOLDER [--rounds 1] [--checkout OTHER]

`write` makes files of 10 kB: Python's documentation, again and again with other names and numbers.
`compare` indexes them with `UEC("static")`, with the same vectors as a function of one's own, in
another checkout if there is one, and with `UEC()` a hundredth of them. All take turns, each in a
process of its own; seconds are of the processor, its own processes included.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from benchmarks.tables import print_table
from benchmarks.timing import machine
from uec_rag.documents.python_docs import gather_corpus

_FILE = 10_000  # characters of a file
_SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
_NAME, _NUMBER = re.compile(r"\b[A-Z][a-z]{3,}\b"), re.compile(r"\b\d{2,4}\b")
_SHARE = 100  # of the files, one so many for `UEC()`
_PRESET = "from uec_rag.cli import main; main()"
_FUNCTION = """
import sys
from pathlib import Path
import wordllama
from uec_rag import UEC, Retriever
from uec_rag.documents import passages_of, read_folder
model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
def static(texts):
    return model.embed(texts)
passages = passages_of(read_folder(sys.argv[1]))
index = Retriever(UEC([static, "bm25"]))
index.add([p.text for p in passages], [p.id for p in passages], [p.metadata for p in passages])
index.save(sys.argv[2])
"""

app = typer.Typer(add_completion=False)
Target = Annotated[Path, typer.Argument(help="Folder of the files.")]


def _renamed(text: str, copy: int) -> str:
    """A text whose names and numbers are those of a copy."""

    def name(match: re.Match[str]) -> str:
        number = hash_of(match[0]) + 7919 * copy
        parts = [_SYLLABLES[number // 70**place % 70] for place in range(3)]
        return "".join(parts).capitalize()

    renamed = _NAME.sub(name, text) if copy else text
    return _NUMBER.sub(lambda match: str(int(match[0]) + copy), renamed)


def hash_of(word: str) -> int:
    """A number that is the same in each process."""
    return sum(ord(letter) * 31**place for place, letter in enumerate(word))


@app.command()
def write(folder: Target, megabytes: int = 100) -> None:
    """Write the files."""
    written = "".join(
        f"## {section.path[-1] if section.path else document.source}\n\n{section.text}\n\n"
        for document in gather_corpus(3_000)
        for section in document.sections
    )
    pieces = [written[start : start + _FILE] for start in range(0, len(written), _FILE)]
    for number, piece in enumerate(islice(cycle(pieces), megabytes * 1_000_000 // _FILE)):
        path = folder / f"{number // 100:03}" / f"chapter-{number:05}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = _renamed(piece, number // len(pieces))
        path.write_text(f"# Chapter {number}\n\n{text}", encoding="utf-8")


def used(code: str, *arguments: str, checkout: Path) -> tuple[float, float]:
    """Run Python code in a process; return its seconds of processor, and its peak in gigabytes."""
    environment = {**os.environ, "PYTHONPATH": str(checkout.absolute())}
    command, null = [sys.executable, "-W", "ignore", "-c", code, *arguments], subprocess.DEVNULL
    before = os.times()
    with subprocess.Popen(command, env=environment, cwd=checkout, stdout=null) as process:
        _, status, usage = os.wait4(process.pid, 0)
    after = os.times()
    if status:
        raise typer.Exit(1)
    return sum(after[2:4]) - sum(before[2:4]), usage.ru_maxrss / 1e6


@app.command()
def compare(
    folder: Target,
    rounds: Annotated[int, typer.Option(help="How often each runs.")] = 1,
    checkout: Annotated[Path, typer.Option(help="Where the function is run.")] = Path(),
) -> None:
    """Print the table."""
    described, folder = machine(), folder.absolute()
    with TemporaryDirectory() as name:
        some, out = Path(name, "some"), Path(name, "index")
        files = sorted(folder.rglob("*.md"))
        for file in files[::_SHARE]:
            some.mkdir(exist_ok=True)
            shutil.copy(file, some)
        systems = {
            'UEC("static")': (_PRESET, "index", str(folder), "--model", "static", "--out"),
            "the vectors as a function": (_FUNCTION, str(folder)),
            "a hundredth of them, UEC()": (_PRESET, "index", str(some), "--out"),
        }
        taken: dict[str, list[tuple[float, float]]] = {system: [] for system in systems}
        for _ in range(rounds):
            for system, (code, *arguments) in systems.items():
                here = checkout if code is _FUNCTION else Path()
                taken[system].append(used(code, *arguments, str(out), checkout=here))
                shutil.rmtree(out)
    seconds = {system: median(each[0] for each in of) for system, of in taken.items()}
    first = next(iter(seconds.values()))
    rows = [
        [system, f"{s:.0f}", f"{max(peak for _, peak in taken[system]):.2f}", f"{first / s:.2f}"]
        for system, s in seconds.items()
    ]
    size = sum(file.stat().st_size for file in files) / 1e6
    title = f"{described}: {len(files):,} files, {size:.0f} MB"
    print_table(title, ["indexed by", "processor s", "peak GB", 'UEC("static") to it'], rows)


if __name__ == "__main__":
    app()
