"""What comes from outside costs no more than in proportion to its length."""

import ast
import importlib
import re
import string
import time
from collections.abc import Mapping, Set
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import regex

import uec_rag
from uec_rag import UEC, Retriever
from uec_rag.confidence import replies, wording
from uec_rag.confidence.readings import Reading, document_of, subject_of

ROOT = Path(uec_rag.__file__).parent
METHODS = {"search", "match", "fullmatch", "sub", "split", "findall", "finditer"}

SHORT_ONLY = {
    "uec_rag.confidence.replies._BETWEEN_LABELS": replies._LONGEST_REPLY,
    "uec_rag.confidence.replies._IN_WORDS": replies._LONGEST_REPLY,
    "uec_rag.confidence.replies._REPLY": replies._LONGEST_REPLY,
    "uec_rag.confidence.replies._YES": replies._LONGEST_REPLY,
    "uec_rag.confidence.replies._REJECTION": 2 * replies._LONGEST_REPLY,
    "uec_rag.confidence.wording": wording.LONGEST_ASKED,
    "uec_rag.retrieval.spelling": wording.LONGEST_ASKED,
}
"""Expressions, by the beginning of their names, that only see texts up to a length; that they do is
tested by `test_a_question_costs_its_length` and `test_a_reply_costs_its_length`."""

PIECES = [" ", "\n", "a", "A", "1", ".", "-", "/", "'", '"', "`", "*", "[", "(", "<", "!", "é", "中"]
PIECES += ["\t\n", "a ", "a.", "~/", "](", "[a](", "<!--", "\n\n", ", "]


@cache
def modules():
    """The modules that use expressions, with their syntax trees."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
        if {"re", "regex"} & {alias.name for one in imports for alias in one.names}:
            name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
            found[importlib.import_module(name.removesuffix(".__init__"))] = tree
    return found


def compiled(value, depth=4):
    """The expressions in a value: it is one, or a collection or a class of them."""
    if isinstance(value, re.Pattern | regex.Pattern):
        yield value
    inner = []
    if isinstance(value, Mapping):
        inner = [*value, *value.values()]
    elif isinstance(value, list | tuple | Set):
        inner = [*value]
    elif isinstance(value, type) and value.__module__.startswith("uec_rag."):
        inner = [*vars(value).values()]
    for one in inner if depth else ():
        yield from compiled(one, depth - 1)


def calls(tree):
    """The calls of methods of expressions and of `re` and `regex`: the callee, its name, itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            yield ast.unparse(node.value), node.attr
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in METHODS and node.args:
                yield ast.unparse(node.func.value), node


def expressions():
    """Every expression of the package that does not depend on data: name, itself, its methods."""
    for module, tree in modules().items():
        used, seen = {}, set()
        for owner, call in calls(tree):
            if isinstance(call, str):
                used.setdefault(owner, set()).add(call)
            elif owner in ("re", "regex"):
                source = ast.unparse(call.args[0])
                names = {one.id for one in ast.walk(call.args[0]) if isinstance(one, ast.Name)}
                if names <= vars(module).keys():
                    options = {"labels": ["a", "a b"], "ignore_unused": True} if owner == "regex" else {}
                    pattern = vars(module)[owner].compile(eval(source, vars(module)), **options)
                    yield f"{module.__name__}.{source}", pattern, {call.func.attr}
        for name, value in vars(module).items():
            for pattern in compiled(value):
                if id(pattern) not in seen:
                    seen.add(id(pattern))
                    yield f"{module.__name__}.{name}", pattern, used.get(name) or {"sub"}


def hostile(pattern, size):
    """Texts made of what is in an expression, repeated and never complete."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode()
    words = [*dict.fromkeys(re.findall(r"(?<!\\)[A-Za-z]{2,}", source))][:6]
    signs = [*dict.fromkeys(one for one in source if one in string.punctuation)]
    own = [*words, *(f"{word} " for word in words), *signs]
    pieces = [*PIECES, *own, *(head + one for head in [*words, *signs] for one in " a\n")]
    pieces += [f"{one}a{two}" for one in signs[:12] for two in signs[:12]]
    for piece in dict.fromkeys(pieces):
        yield piece * (size // len(piece))
    for head in own:
        for piece in (" ", "a", "\n", "a ", "-"):
            yield head + piece * (size // len(piece))


def seconds(run):
    """The least time of a few runs; long ones are run once."""
    least = np.inf
    for _ in range(3):
        begun = time.perf_counter()
        run()
        least = min(least, time.perf_counter() - begun)
        if least > 1:
            break
    return least


def running(pattern, method, text):
    """A function that applies an expression."""
    text = text if isinstance(pattern.pattern, str) else text.encode()
    call = getattr(pattern, method)
    if method == "sub":
        return lambda: call(text[:0], text)
    return lambda: list(call(text)) if method == "finditer" else call(text)


def longest(name):
    """The length of the texts that an expression sees."""
    known = [most for of, most in SHORT_ONLY.items() if f"{name}.".startswith(f"{of}.")]
    return min([100_000, *known])


def costly(name, pattern, methods):
    """The text for which an expression takes too long, if there is one.

    Most texts are tried in lengths of 2 kB; only those that take long there are tried longer, since
    what would take .2 s at 100 kB takes at least .08 ms here, if it grows by the square.
    """
    most = longest(name)
    for method in sorted(methods):
        for place, text in enumerate(hostile(pattern, 2_000)):
            if seconds(running(pattern, method, text)) < 1e-4:
                continue
            times = []
            for size in (2_000, 10_000, most):
                long = [*hostile(pattern, min(size, most))][place]
                times.append(seconds(running(pattern, method, long)))
                if times[-1] > 0.2 and times[-1] > 25 * max(times[0], 1e-3):
                    return f"{method} of {text[:20]!r} in {size} characters: {times[-1]:.2f} s"
    return None


def test_the_time_of_no_expression_grows_faster_than_a_text():
    found = [*expressions()]
    assert len(found) > 100
    begun = time.perf_counter()
    slow = {name: said for name, *how in found if (said := costly(name, *how))}
    print(time.perf_counter() - begun)
    assert slow == {}
