"""What the README and the pages of docs/ show runs as printed, and prints what they say."""

import contextlib
import io
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import pytest
from langchain_core.embeddings import Embeddings

from docs import command_line
from tests.helpers import data_of, empty_chroma, rows_of
from tests.markdown import PAGES, ROOT, assert_prints, examples
from uec_rag.langchain import UECEmbeddings, UECRetriever

LINK = re.compile(r"\]\((?!https?://)([^)#]*)(?:#([^)]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)

TEXTS = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}


def anchor(heading: str) -> str:
    """The name that a page gives to a heading of its own."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("name", TEXTS)
def test_every_place_that_a_page_names_is_there(name):
    for path, heading in LINK.findall(TEXTS[name]):
        target = (ROOT / name).parent / path if path else ROOT / name
        assert target.exists(), path
        if heading:
            headings = HEADING.findall(target.read_text(encoding="utf-8"))
            assert heading in map(anchor, headings), f"{path}#{heading}"


@pytest.mark.parametrize("name", TEXTS)
def test_every_row_of_a_table_is_below_its_header(name):
    prose = re.sub(r"^```.*?^```$", "", TEXTS[name], flags=re.MULTILINE | re.DOTALL)
    for block in re.split(r"\n(?!\|)", prose):
        rows = block.splitlines()[1:]
        assert not rows or re.fullmatch(r"[|: -]+", (rows + rows)[1]), block[:200]


PATH = re.compile(r"(?<![\w./-])(?:\.github|benchmarks|docs|examples|tests|uec_rag)/[\w./-]*\w")


@pytest.mark.parametrize("name", ["Makefile", "CONTRIBUTING.md"])
def test_every_path_that_those_who_change_the_package_are_told_is_there(name):
    paths = {*PATH.findall((ROOT / name).read_text(encoding="utf-8"))}
    assert len(paths) > 5
    assert {path for path in paths if not (ROOT / path).exists()} == set()


CODE = re.compile(r"(?<!`)`([A-Za-z_][\w.]*)(?:\([^`\n]*\))?`(?!`)")
OTHERS = {*data_of("names_of_others.json")}  # of LangChain, LlamaIndex, MAPIE and Qdrant


@cache
def sources() -> dict[Path, str]:
    """The code of the repository, except for its tests."""
    folders = (ROOT / folder for folder in ("uec_rag", "benchmarks", "examples"))
    files = (file for folder in folders for file in folder.rglob("*.py"))
    return {file: file.read_text(encoding="utf-8") for file in files}


@cache
def words() -> set[str]:
    """All words of the code."""
    return {word for source in sources().values() for word in re.findall(r"[A-Za-z]\w*", source)}


def classes(name: str) -> list[type]:
    """The classes of the package that have a name."""
    package, line = ROOT / "uec_rag", re.compile(rf"^class {name}\b", re.MULTILINE)
    files = [file for file in sources() if file.is_relative_to(package)]
    modules = (".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files)
    defined = zip(files, modules, strict=True)
    return [
        getattr(import_module(one), name) for file, one in defined if line.search(sources()[file])
    ]


def exists(name: str) -> bool:
    """Whether a name is one of the package, or at least a word of the code."""
    owner, _, attribute = name.partition(".")
    if owner == "uec_rag":
        try:
            return resolve_name(name) is not None
        except (ImportError, AttributeError):
            return False
    if attribute and (owners := classes(owner)):
        return any(attribute in {*dir(one), *one.__annotations__} for one in owners)
    names = {part for part in name.split(".") if re.search(r"[a-z]_?[A-Z]|[a-z]_[a-z]", part)}
    known = words() | OTHERS
    # such as those of metadata and of metrics
    return all({one, re.sub("^uec_(rag_)?", "", one)} & known for one in names)


@pytest.mark.parametrize("name", sorted({*TEXTS} - {"CHANGELOG.md", "tests/survival/README.md"}))
def test_every_name_of_code_on_a_page_is_there(name):
    assert [code for code in CODE.findall(TEXTS[name]) if not exists(code)] == []


def test_the_way_of_a_query_is_that_of_the_code():
    way = r"^```text\n(UECRetriever\.invoke .*?)^```$"
    [table] = re.findall(way, TEXTS["CONTRIBUTING.md"], re.MULTILINE | re.DOTALL)
    for line in table.splitlines():
        names, _, rest = line.strip().partition("  ")
        files = re.findall(r"\w+/(?:\w+\.py)?|\w+\.py", rest) or ["uec_rag/"]
        read = [text for file, text in sources().items() if any(map(str(file).count, files))]
        for name in names.split(", "):
            defined = re.compile(rf"\b(?:def|class) {name.rpartition('.')[2]}\b")
            assert any(map(defined.search, read)), name


def test_the_reference_has_every_key_of_a_hit_and_every_variable_of_ours():
    reference = TEXTS["docs/reference.md"]
    code = "".join(
        text for file, text in sources().items() if file.is_relative_to(ROOT / "uec_rag")
    )
    variables = {*re.findall(r"\bUEC_[A-Z]+\b", code)}
    assert variables > {"UEC_CACHE"}
    assert {name for name in variables if f"`{name}`" not in reference} == set()
    texts = ["The loan of a laptop lasts two weeks.", "The loan of a camera lasts three days."]
    retriever = UECRetriever.from_texts(texts, details=True)
    keys = {
        key
        for q in ("How long does the loan last?", "Wie?")
        for key in retriever.invoke(q)[0].metadata
    }
    assert len(keys) > 15
    assert {key for key in keys if f"`{key}`" not in reference} == set()


def test_the_page_on_the_command_line_is_that_of_the_commands():
    assert TEXTS["docs/command-line.md"] == command_line.page()


def test_the_changelog_begins_with_this_version_and_its_day_and_the_image_installs_it():
    [line] = (ROOT / "uec_rag/base/__init__.py").read_text().strip().splitlines()[-1:]
    version, day = re.fullmatch(r'__version__ = "(\S+)"  # (\d{4}-\d\d-\d\d)', line).groups()
    heads = re.findall(r"^## (.+)$", TEXTS["CHANGELOG.md"], re.MULTILINE)
    assert f"{version}, {day}" in heads[:2]  # before it what is not released yet
    assert f"]=={version}" in (ROOT / "examples/Dockerfile").read_text()


NEEDS = {"index": "documents"} | dict.fromkeys(("explore", "serve", "mcp", "evaluate"), "serve")


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if "```sh" in text])
def test_what_a_command_needs_is_installed_in_a_command_above_it(name):
    installed = set()
    for block in re.findall(r"^```sh\n(.*?)^```$", TEXTS[name], re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            for extras in re.findall(r'pip install "uec-rag\[(.+?)\]', line):
                installed |= {*extras.split(",")}
            for command in re.findall(r"^uec-rag (\w+)", line):
                assert {NEEDS.get(command)} <= {*installed, None}, line


class LocalEmbeddings(Embeddings):
    """In the place of an embedding of OpenAI: a local model, by the same methods."""

    def __init__(self, *, model: str) -> None:
        self.model, self._local = model, UECEmbeddings()

    def embed_documents(self, texts):
        return self._local.embed_documents(texts)

    def embed_query(self, text):
        return self._local.embed_query(text)


def claims():
    """The sentences of the README, and rows of its tables, without links, up to its contents."""
    text = TEXTS["README.md"].partition("## Documentation")[0]
    text = re.sub(r"^```.*?^```$|^\*\*Know[^\n]*|!\[.*?\]\(.*?\)", "", text, flags=re.M | re.S)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    blocks = [" ".join(one.split()) for one in re.split(r"\n\s*\n|\n(?=[-|])", text)]
    told = [one for one in blocks if one and not one.startswith(("#", "|"))]
    return [sentence for one in told for sentence in re.split(r"(?<=[.:]) (?=[A-Z`*])", one)]


NO_CLAIMS = {"Output:", "On the command line:", "Tell your model to refuse."}
NO_CLAIMS |= {"Have the model answer from them.", "Ask the user which one."}


def test_every_claim_of_the_readme_has_a_test_or_a_record():
    rows = {row["claim"]: row["evidence"] for row in rows_of("claims_of_readme.csv")}
    told = [*(claim for claim in claims() if claim not in NO_CLAIMS)]
    assert len(told) > 20
    assert [one for one in told if not any(claim in one for claim in rows)] == []
    assert [claim for claim in rows if claim not in TEXTS["README.md"]] == []
    for evidence in rows.values():
        path, _, what = re.split("(: |::|$)", evidence, maxsplit=1)
        assert what in (ROOT / path).read_text(encoding="utf-8"), evidence


def table_below(name, words):
    """The rows of the first table of a page behind some words, by their first cell."""
    [lines] = re.findall(r"^\|.*?(?=\n\n|\Z)", TEXTS[name].partition(words)[2], re.M | re.S)[:1]
    rows = [[*map(str.strip, line.strip("|").split("|"))] for line in lines.splitlines()]
    return {re.sub(r"[\[`]|\].*", "", cells[0]): cells[1:] for cells in rows if cells}


def test_the_table_of_the_readme_is_that_of_the_measurements():
    told = table_below("README.md", "What becomes of 100 questions")
    page = "docs/measurements/decisions.md"
    known = table_below(page, "## Documents that no rule has seen")
    names = ["UEC()", "with an LLM's verdicts in 46 borderline cases"]
    names += ["rank fusion of BM25 and a cosine", "cosine of the same embedding"]
    names += ["cross-encoder on ten hits"]
    for name, row in zip(names, [*told.values()][2:], strict=True):
        answered, asked, refused, open_, in_error, in_vain, unasked, wrong = map(int, known[name])
        assert [*map(int, row)] == [
            answered,
            asked,
            refused,
            open_,
            in_error + in_vain,
            wrong,
            unasked,
        ]


def test_the_means_of_the_readme_are_those_of_the_measurements():
    rows = [*table_below("docs/measurements/benchmarks.md", "nDCG@10 with").values()][2:12]
    cells = [[float(cell.strip("*")) for cell in row] for row in rows]
    alone, words, fused, scores, ours = (
        f"{sum(each) / 10:.3f}" for each in zip(*cells, strict=True)
    )
    told = f"English {ours}, embedding alone {alone}, BM25 {words}, rank fusion {fused}, relative"
    assert told in " ".join(TEXTS["README.md"].split())
    assert f"relative scores {scores}" in TEXTS["README.md"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if examples(text)])
def test_the_code_runs_and_prints_what_follows_it(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("langchain_openai.OpenAIEmbeddings", LocalEmbeddings)
    empty_chroma()  # pages name a collection in memory, which others may have filled
    names: dict[str, object] = {}
    for example in examples(TEXTS[name]):
        # Lines before it are left empty, so that a failure names the line of the page.
        code = compile("\n" * example.line + example.code, str(ROOT / name), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        assert_prints(printed.getvalue(), example.prints)


def test_an_example_prints_the_text_block_right_after_it():
    page = "# A\n```python\nprint(1)\n```\nprints\n```text\n1\n```\n```python\nx = 2\n```\n"
    first, second = examples(page + "```sh\nls\n```\n```text\nno\n```\n")
    assert (first.code, first.line, first.prints) == ("print(1)\n", 2, "1\n")
    assert second.prints == ""


def test_a_number_may_differ_in_its_last_digit_and_nothing_else_may():
    assert_prints("answer 0.8\n", "answer 0.9\n")
    with pytest.raises(AssertionError):
        assert_prints("answer 0.8\n", "answer 0.5\n")
    with pytest.raises(AssertionError):
        assert_prints("answer 0.8\n", "abstain 0.8\n")
