"""What one question passes through, and how long its search takes beside its encoding.

python -m benchmarks.query_path

`UEC()` over passages of Python's documentation, warm: the files and named functions of the package
that `UECRetriever.invoke` enters, its depth and its calls; and the time of a search whose questions
are encoded already, as a share of the time to encode them, one at a time and forty at once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import FrameType

import uec_rag
from benchmarks.tables import print_table
from uec_rag import UEC, Retriever
from uec_rag.documents import passages_of
from uec_rag.documents.python_docs import gather_corpus
from uec_rag.langchain import UECRetriever, UECVectorStore

_HOME = str(Path(uec_rag.__file__).parent)
_TIMES = 20


def path_of(call: Callable[[], object]) -> list[str]:
    """Files, functions, depth and calls of the package in a call."""
    files, functions, depths = set[str](), set[tuple[str, str]](), [0]

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if code.co_filename.startswith(_HOME) and event in ("call", "return"):
            depths.append(depths[-1] + (1 if event == "call" else -1))
            files.add(code.co_filename)
            if not code.co_name.startswith("<"):  # generated, and inlined by later Pythons
                functions.add((code.co_filename, code.co_qualname))

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return [str(n) for n in (len(files), len(functions), max(depths), len(depths) // 2)]


def seconds(call: Callable[[list[str]], object], questions: list[str], count: int) -> float:
    """Median of the time that a call takes for some questions."""
    taken = []
    for start in range(0, _TIMES * count, count):
        begun = time.perf_counter()
        call(questions[start : start + count])
        taken.append(time.perf_counter() - begun)
    return median(taken)


def main() -> None:
    """Print the two tables."""
    index, passages = Retriever(UEC()), passages_of(gather_corpus(2000))
    index.add([p.text for p in passages], [p.id for p in passages], [p.metadata for p in passages])
    asked = [f"How do I use {p.metadata['source']}, {n}?" for n, p in enumerate(passages[:840])]
    retriever = UECRetriever(vectorstore=UECVectorStore(index))
    retriever.invoke(asked[-1])
    header = ["files", "functions", "depth", "calls"]
    print_table("UECRetriever.invoke", header, [path_of(lambda: retriever.invoke(asked[-2]))])
    rows = []
    for count in (1, 40):
        encoding = seconds(index.uec.embed, asked, count)
        whole = seconds(index.search, asked, count)
        rows.append([str(count), f"{1000 * encoding:.1f}", f"{(whole - encoding) / encoding:.2f}"])
    print_table(f"{len(index):,} passages", ["questions", "ms to encode", "search / encode"], rows)


if __name__ == "__main__":
    main()
