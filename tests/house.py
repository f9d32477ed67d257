"""The ratchet of the house: what there is to read, which nothing but less of it changes.

    python -m tests.house

Counted are the lines of code (no blanks, comments or docstrings), the files and the words of the
docs, and what a reader passes through who follows a question of the README or an addition: the most
files, functions and frames in each other. It fails if one is above what was reached, and tells to
write down what is below. What comes in pays by something simpler.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Callable, Iterable
from functools import partial
from itertools import starmap
from pathlib import Path

import uec_rag
from uec_rag.langchain import UECRetriever

HOME = Path(uec_rag.__file__).parent
REACHED = {
    "lines of uec_rag": 29_662,
    "files of uec_rag": 181,
    "lines of tests": 30_824,
    "lines of benchmarks": 9_602,
    "words of docs": 13_726,
    "files of a question": 48,
    "functions of a question": 393,
    "depth of a question": 21,
    "files of an addition": 31,
    "functions of an addition": 172,
}
TEXTS = [
    "Refunds are paid within 14 days of the return reaching our warehouse.",
    "The loan of a laptop lasts two weeks.",
    "The loan of a camera lasts three days.",
    "The loan of a projector lasts one day.",
]
QUESTIONS = [
    "When do I get a refund?",
    "How long does the loan last?",
    "Who wrote Hamlet?",
    "How long does the loan of a tablet last?",
]
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    tokenize.ENDMARKER,
}


def lines_of(text: str) -> int:
    """The number of lines of code in a file of Python."""
    documentation = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(code - documentation)


def passed_through(call: Callable[[], object]) -> tuple[int, int, int]:
    """The files, the named functions, and the depth of our frames that a call passes through."""
    files, functions, depth, deepest = set[str](), set[tuple[str, str]](), 0, 0

    def profile(frame, event, _):
        nonlocal depth, deepest
        code = frame.f_code
        if not code.co_filename.startswith(str(HOME)):
            return
        if event == "call":
            files.add(code.co_filename)
            if not code.co_name.startswith("<"):
                functions.add((code.co_filename, code.co_qualname))
            depth += 1
            deepest = max(deepest, depth)
        elif event == "return":
            depth -= 1

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(files), len(functions), deepest


def counts() -> dict[str, int]:
    """What there is to read, by the names of `REACHED`."""
    top = HOME.parent
    texts = {
        name: [path.read_text(encoding="utf-8") for path in sorted((top / name).rglob("*.py"))]
        for name in ("uec_rag", "tests", "benchmarks")
    }
    # Tables that scripts print, and the command line's own help, are no guides.
    guides = [
        path
        for path in (top / "docs").rglob("*.md")
        if "measurements" not in path.parts and path.name != "command-line.md"
    ]
    words = [path.read_text(encoding="utf-8").split() for path in (top / "README.md", *guides)]
    retriever = UECRetriever.from_texts(TEXTS)
    retriever.invoke("Is this the first question?")
    walks = [passed_through(partial(retriever.invoke, question)) for question in QUESTIONS]
    addition = ["The loan of a microscope lasts a month."]
    added = passed_through(partial(retriever.vectorstore.add_texts, addition))
    return {
        **{f"lines of {name}": sum(map(lines_of, texts[name])) for name in texts},
        "files of uec_rag": len(texts["uec_rag"]),
        "words of docs": sum(map(len, words)),
        **dict(
            zip(
                (f"{name} of a question" for name in ("files", "functions", "depth")),
                map(max, zip(*walks, strict=True)),
                strict=True,
            )
        ),
        "files of an addition": added[0],
        "functions of an addition": added[1],
    }


def compare(name: str, count: int) -> str:
    """What to tell of a count beside the one that was reached; "" if they are the same."""
    if count > REACHED[name]:
        return f"{name}: {count:,}, more than the {REACHED[name]:,} reached; simplify something."
    return f"{name}: {count:,}; write that into tests/house.py." if count < REACHED[name] else ""


def report(now: Iterable[tuple[str, int]]) -> int:
    """Print what is not as it was reached; return whether something is above."""
    told = [*filter(None, starmap(compare, now))]
    print("\n".join(told) or "The house is as large as it was.")
    return any("more than" in line for line in told)


if __name__ == "__main__":
    sys.exit(report(counts().items()))
