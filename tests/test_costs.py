"""What comes from outside costs no more than in proportion to its length."""

import ast
import gc
import importlib
import json
import re
import string
import sys
import time
import tracemalloc
import warnings
from collections.abc import Mapping, Set
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import regex

import uec_rag
from tests.helpers import bag_of_words, data_of
from uec_rag import UEC, Retriever
from uec_rag.base.errors import UECWarning, UnknownReading
from uec_rag.base.model_replies import objects_in
from uec_rag.base.text import LONGEST_ASKED, About, own_text, questions_in
from uec_rag.questions import replies
from uec_rag.questions.query import LONGEST_QUERY
from uec_rag.questions.replies import Reading

ROOT = Path(uec_rag.__file__).parent
METHODS = {"search", "match", "fullmatch", "sub", "split", "findall", "finditer"}

SHORT_ONLY = {
    "uec_rag.questions.replies": LONGEST_ASKED,
    "uec_rag.questions.languages": LONGEST_ASKED,
    "uec_rag.questions.grammar": LONGEST_ASKED,
    "uec_rag.questions.frames": LONGEST_ASKED,
    "uec_rag.questions.user_messages": LONGEST_ASKED,
    "uec_rag.base.text._LINK": 500,
    "uec_rag.documents.number_formats._TOKEN": 255,
}
"""Expressions, by the beginning of their names, that only see texts up to a length; that they do is
tested by `test_a_question_costs_its_length`, `test_a_reply_costs_its_length` and, of workbooks, by
`test_no_format_makes_more_of_a_number_than_its_digits`."""

READERS = ("encodings", "html", "markdown", "pdf", "readers", "rst")
PIECES = [*" \naA1.-/'\"`*[(<!é中"]
PIECES += ["\t\n", "a ", "a.", "1.", "1.3.", "1-", "~/", "](", "[a](", "<!--", "\n\n", ", "]


@cache
def modules():
    """The modules that use expressions, with their syntax trees."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
        # Readers run in a process with a limit of time; some of their expressions fail this test.
        if path.stem not in READERS and {"re", "regex"} & {
            alias.name for one in imports for alias in one.names
        }:
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


def called(module, call):
    """The expression that a call of a function of `re` or `regex` gives, unless it is of data."""
    owner, pattern = ast.unparse(call.func.value), call.args[0]
    names = {one.id for one in ast.walk(pattern) if isinstance(one, ast.Name)}
    if owner in ("re", "regex") and call.func.attr in METHODS and names <= vars(module).keys():
        labels = {"labels": ["a", "a b"], "ignore_unused": True} if owner == "regex" else {}
        source = ast.unparse(pattern)
        compile_it = vars(module)[owner].compile
        yield source, compile_it(eval(source, vars(module)), **labels), {call.func.attr}


def expressions():
    """Every expression of the package that does not depend on data: name, itself, its methods."""
    for module, tree in modules().items():
        used, found = {}, []
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                used.setdefault(ast.unparse(node.value), set()).add(node.attr)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                found += called(module, node)
        constants = {}
        for name, value in vars(module).items():
            for pattern in compiled(value):
                constants.setdefault(id(pattern), (name, pattern, used.get(name) or {"sub"}))
        found += constants.values()
        yield from ((f"{module.__name__}.{name}", *how) for name, *how in found)


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


def seconds(run, times=3):
    """The least time of a few runs; long ones are run once."""
    least = np.inf
    for _ in range(times):
        begun = time.thread_time()
        run()
        least = min(least, time.thread_time() - begun)
        if not 1e-4 < least < 1:
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

    Texts of 2 and 8 kB tell which to try longer: what takes .2 s at 100 kB takes .08 ms at 2 kB if
    it grows by the square, and sixteen times that at 8 kB. Too long is more than .2 s and 2.5 times
    what is in proportion.
    """
    most = longest(name)
    for method in sorted(methods):
        for short, long, whole in zip(
            *(hostile(pattern, n) for n in (2_000, 8_000, most)), strict=True
        ):
            first = seconds(running(pattern, method, short[:most]), 2)
            if first < 8e-5 or seconds(running(pattern, method, long[:most]), 1) < 10 * first:
                continue
            if (taken := seconds(running(pattern, method, whole))) > max(0.2, first * most / 800):
                return f"{method} of {whole[:20]!r}, {most} characters: {taken:.2f} s"
    return None


@pytest.mark.slow
def test_the_time_of_no_expression_grows_faster_than_a_text():
    found = [*expressions()]
    assert len(found) > 80
    slow = {name: said for name, *how in found if (said := costly(name, *how))}
    assert slow == {}


def letters(texts):
    return np.array([[text[:1000].count(letter) + 0.1 for letter in "abcdefgh"] for text in texts])


letters.tokenizer = None


@pytest.fixture(scope="module")
def retriever():
    retriever = Retriever(UEC([letters, "bm25"], coefficients="uniform"))
    texts = [f"The yard {number} behind the mill." for number in range(20)]
    metadatas = [{"source": f"{number % 7}.md", "title": "The yard"} for number in range(20)]
    retriever.add([*texts, f"# {'[' * 40_000}\n\nzebra"], metadatas=[*metadatas, {}])
    return retriever


SAID = data_of("said_over_and_over.json")


@pytest.mark.parametrize("said", SAID)
def test_a_question_costs_its_length(retriever, said):
    text = said * (100_000 // len(said))
    assert seconds(lambda: retriever.search([text[:LONGEST_QUERY]]), 1) < 2
    assert seconds(lambda: retriever.search(["the yard?"], history=[[text] * 64]), 1) < 4


@pytest.mark.parametrize("sign", [*'"`*( ', "```", "a.pdf "])
def test_a_question_costs_its_length_whatever_signs_it_has(retriever, sign):
    signs = (sign * 7600)[:7600]
    questions = [f"{signs} Who is it?", f"Who is {signs} in the yard?"]
    assert seconds(lambda: retriever.search(questions), 1) < 0.5


def of_length(text, size):
    return text * (size // len(text))


PROSE = "The office keeps a list of visitors at the gate. "
SHAPES = [
    "1,1,1,",
    "a-a-a-",
    "A.B.C.",
    "A B ",
    "Mr. Ok. ",
    "May 2020 ",
    "2 euros ",
    "09:30 ",
    "C# ",
]
ABSENT = ["Who is Ms. Okafor at the office?", "Has X-300 C# in ward 9 at the office on 5 May?"]


def searching(text, question):
    """A function that searches a long text."""
    index = Retriever(UEC(["bm25"]), fit=False)
    index.add([f"Visitors are met in the office by Mr. Smith. {of_length(text, 300_000)}"])
    index.add([f"The yard {number} behind the mill." for number in range(20)])
    return lambda: index.search([question])


@pytest.mark.parametrize("question", ABSENT)
@pytest.mark.parametrize("shape", SHAPES)
def test_to_look_for_an_absent_name_costs_the_length_of_the_hits(shape, question):
    usual = max(seconds(searching(PROSE, question), 1), 0.1)
    assert seconds(searching(shape, question), 1) < 10 * usual


@pytest.mark.parametrize("line", ["- a\n", "a\n", "1. a\n", "1. x?\n", "a and ", "not a, "])
def test_a_history_of_short_lines_costs_what_prose_does(retriever, line):
    usual, turns = of_length(PROSE, 4000), of_length(line, 4000)
    costs = [
        seconds(lambda turn=turn: retriever.search(["and why?"], history=[[turn] * 40]), 1)
        for turn in (usual, turns)
    ]
    assert costs[1] < 8 * max(costs[0], 0.05)


@pytest.mark.parametrize("parting", [" ", "x"], ids=["words", "a word"])
def test_what_is_remembered_of_long_texts_is_bounded_by_its_size(parting):
    rows = np.random.default_rng(0).integers(0, 5000, (31, 2000)).tolist()
    texts = [f"Gate {parting.join(f'W{word} gate' for word in row)}" for row in rows]
    if parting == "x":
        texts = [text.replace(" ", "x") * 10 for text in texts]
    index = Retriever(UEC(["bm25"]), fit=False)
    index.add(texts, metadatas=[{"page": page} for page in range(31)])
    for page in range(31):
        if page == 1:  # what all searches share is loaded
            tracemalloc.start()
        index.search(["Who is Ms. Okafor at gate W7?"], filter={"page": page})
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 5_000_000


@pytest.mark.parametrize("said", [*SAID, "1, ", "- a\n", "1. x?\n", "yes ", "“", ", "])
@pytest.mark.parametrize("size", [300, 4_000, 100_000])
def test_a_reply_costs_its_length(said, size):
    text, found = said * (size // len(said)), [Reading(name, (name,), 0.5) for name in "ab"]

    def understood():
        replies.extract_clarifying_question(text)
        replies.find_positions(text, ["a", "b"])
        replies.extract_labels(f"Do you mean {text}?")
        with suppress(UnknownReading):
            replies.find_readings(text, found)

    assert seconds(understood, 1) < 0.5


@pytest.mark.parametrize("said", ["{", "{a} ", '{"a": {', '{"a": 1,} ', 'é{"x":', '{"\\"'])
def test_the_reply_of_a_model_costs_its_length(said):
    text = said * (200_000 // len(said))
    assert seconds(lambda: objects_in(text, len(text)), 1) < 3


@pytest.mark.parametrize("line", ["title: x\n", "title: x\n\n", "title\n"])
def test_a_passage_of_lines_like_metadata_costs_its_length(line):
    text = line * (1_000_000 // len(line))
    assert seconds(lambda: own_text({"title": "x"}, text), 1) < 1


def test_of_a_history_the_latest_turns_are_looked_at(retriever):
    first, blank = ["Which zebra?"], [" "] * 63
    asked = retriever.search(["and why?"], history=[first + blank])
    cut = retriever.search(["and why?"], history=[[*first, *blank, " "]])
    alone = retriever.search(["and why?"])
    assert asked.confidence != alone.confidence
    assert cut.confidence == alone.confidence
    with pytest.raises(TypeError, match=r"history\[0\]\[0\]: expected a string, got int"):
        retriever.search(["and why?"], history=[[1] * 500_000])


@pytest.mark.parametrize("turns", [[" "] * 60_000, ["Do you mean a or b?", "yes"] * 30_000])
def test_a_history_costs_its_length(retriever, turns):
    assert seconds(lambda: retriever.search(["and why?"], history=[turns]), 1) < 1


@pytest.mark.parametrize("key", ["~/" * 20_000, "$" + "~/" * 20_000])
def test_a_message_does_not_repeat_a_long_key(retriever, key):
    for filter in ({f"${key}": 1}, {"year": {f"${key}": 1}}, {key: {f"${key}": 1}}):
        with pytest.raises(ValueError, match="filter") as error:
            retriever.search(["the yard?"], filter=filter)
        assert len(str(error.value)) < 400


def test_a_heading_costs_its_length():
    heading = "# " + "[" * 40_000
    assert seconds(lambda: About.from_passage({}, heading), 1) < 0.1
    assert seconds(lambda: About.from_passage({"Header 1": heading}), 1) < 0.1


def steps(run):
    """The number of calls, of Python and of C, that a run makes."""
    count = 0

    def note(_, event, __):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


KEYS = [f"key {number}" for number in range(100)]
FILTERS = {
    "equal": dict.fromkeys(KEYS, 1),
    "not equal": {key: {"$ne": "a"} for key in KEYS},
    "any": {"$or": [*({key: True} for key in KEYS), {"part": 3}]},
    "in dicts": {key: {"of": {"$lt": 3}} for key in KEYS},
    "none": {"$not": {"$or": [{key: {"$contains": "a"}} for key in KEYS]}},
    "there": {"$not": {"$and": [{f"k{number}": 5} for number in range(100)]}},
}


def of_size(count):
    """An index of passages that have seven parts, and a hundred keys among them."""
    index = Retriever(UEC(["bm25"]), fit=False)
    metadatas = [{"part": at % 7, f"k{at % 100}": at % 3} for at in range(count)]
    index.add([f"The yard {at} behind the mill." for at in range(count)], metadatas=metadatas)
    return index


@pytest.mark.parametrize("filter", FILTERS.values(), ids=FILTERS)
def test_a_filter_by_many_keys_reads_no_passages_again(filter):
    counts = []
    for index in (of_size(200), of_size(4000)):
        for _ in range(2):
            count = steps(lambda index=index: index.search(["the yard?"], filter=filter))
        counts.append(count)
    assert counts[1] < 2 * counts[0]
    index.add(["The yard at last."], metadatas=[{"part": 3, "last": 1}])
    [found] = index.search(["the yard?"], filter={"last": 1})
    assert [passage.text for passage in found.passages] == ["The yard at last."]


BESIDE = {
    "lines": "who pays for this?\n" * 10 + "is it paid for?\n" * 300_000,
    "different lines": "\n".join(f"who pays bill {number}?" for number in range(200_000)),
    "a line": "word " * 1_000_000,
    "a list": [f"who pays bill {number}?" for number in range(200_000)],
    "names": ", ".join(f"bill {number}" for number in range(400_000)),
}


@pytest.mark.parametrize("beside", BESIDE.values(), ids=BESIDE)
def test_megabytes_of_questions_cost_no_more_than_the_most_that_are_kept(beside):
    """What is embedded, counted, stored and read with each hit, in characters."""
    seen = []

    def model(texts):
        seen.extend(texts)
        return bag_of_words(8, "few")(texts)

    index = Retriever(UEC([model, "bm25"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UECWarning)
        index.add(["The tenant pays.", "Bins are grey."], ["a", "b"], [{"questions": beside}, {}])
    [passage] = index.get(["a"])
    assert sum(map(len, seen)) < 3_000
    assert len(json.dumps(passage.metadata)) + len(passage.counted) + len(passage.sketch) < 9_000
    # Of a store of one's own, where nothing is left out, as much is looked at.
    assert len("".join(questions_in({"questions": beside}))) < 3_000


def test_long_questions_above_short_sections_make_no_large_index():
    page = {"questions": [f"{'how much is it ' * 8}{number}?" for number in range(150)]}
    index = Retriever(UEC(["bm25"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UECWarning)
        index.add([f"Section {number}." for number in range(20)], metadatas=[page] * 20)
    assert max(len(passage.counted) for passage in index.passages()) < 2_000
