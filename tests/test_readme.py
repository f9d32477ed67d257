"""What the README and the pages of docs/ show runs as printed, and prints what they say."""

import contextlib
import io
import re

import pytest

from tests.markdown import PAGES, ROOT, assert_prints, examples

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


def test_the_changelog_begins_with_this_version_and_its_day_and_the_image_installs_it():
    [line] = (ROOT / "uec_rag/base/version.py").read_text().strip().splitlines()[-1:]
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
                is_on_rays = "--engine ray" in line  # which reads rows
                assert is_on_rays or {NEEDS.get(command)} <= {*installed, None}, line


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if examples(text)])
def test_the_code_runs_and_prints_what_follows_it(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
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
