"""What a reader opens to follow the questions of the README, and how things are named."""

import ast
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import uec_rag
from uec_rag.langchain import UECRetriever

ROOT = str(Path(uec_rag.__file__).parent)
FILES, FUNCTIONS, DEPTH = 44, 365, 18
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
UNNAMED = 0.004  # the share of names that are no nouns
NO_NOUNS = (
    "one ones own other others each every both either none some several many most few fewest more "
    "less least rest all any another same such this that these those it its them they their theirs "
    "who whose what which where when found said told asked seen known given kept made left taken "
    "called named wanted meant read written shown sent got gone done held chosen counted matched "
    "added applied tried used needed allowed joined opened passed refused lacking beside near far "
    "new old first second third last next only"
)
SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


def passed_through(call):
    """The files, the named functions, and the depth of our frames that a call passes through."""
    files, functions, depth, deepest = set(), set(), 0, 0

    def profile(frame, event, _):
        nonlocal depth, deepest
        code = frame.f_code
        if not code.co_filename.startswith(ROOT):
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


def walks():
    """What each of the README's questions passes through, once another was asked."""
    retriever = UECRetriever.from_texts(TEXTS)
    retriever.invoke("Is this the first question?")
    return [passed_through(partial(retriever.invoke, question)) for question in QUESTIONS]


def test_a_question_is_followed_in_few_files_functions_and_frames():
    """In a process of its own: what other tests have asked is remembered in places."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.test_house"], capture_output=True, text=True, check=True
    )
    files, functions, depths = zip(*json.loads(run.stdout), strict=True)
    assert len(files) == len(QUESTIONS)
    assert 20 < min(files) <= max(files) <= FILES
    assert max(functions) <= FUNCTIONS
    assert max(depths) <= DEPTH


def names_in(node, scope=()):
    """The names bound under a node, each with the scope that it is bound in."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.arg(name) | ast.Name(name, ast.Store()) | ast.Attribute(_, name, ast.Store()):
                yield scope, name
        yield from names_in(child, (*scope, child.lineno) if isinstance(child, SCOPES) else scope)


def test_values_are_named_by_nouns():
    names = []
    for path in Path(ROOT).rglob("*.py"):
        names += [name for _, name in {*names_in(ast.parse(path.read_text(encoding="utf-8")))}]
    names = [name.strip("_") for name in names if name not in ("self", "cls", "_", "__all__")]
    assert sum(name in {*NO_NOUNS.split()} for name in names) <= UNNAMED * len(names)


if __name__ == "__main__":
    print(json.dumps(walks()))
