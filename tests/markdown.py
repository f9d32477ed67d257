"""Code blocks of a Markdown page, and what they are said to print."""

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
_PATTERNS = ("*.md", "docs/**/*.md", "benchmarks/**/*.md", "tests/survival/*.md")
PAGES = sorted(page for pattern in _PATTERNS for page in ROOT.glob(pattern))

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"\b\d+(?:\.\d+\b|%)")


@dataclass(frozen=True)
class Example:
    """A `python` block: how many lines of the page precede it, and the output that follows."""

    code: str
    line: int
    prints: str


def examples(page: str) -> list[Example]:
    """The `python` blocks of a page; a `text` block right after one is what it prints."""
    blocks = [*_BLOCK.finditer(page), None]
    return [
        Example(
            code=block[2],
            line=page.count("\n", 0, block.start(2)),
            prints=after[2] if after is not None and after[1] == "text" else "",
        )
        for block, after in pairwise(blocks)
        if block[1] == "python"
    ]


def assert_prints(printed: str, expected: str) -> None:
    """Compare; processors round differently: a percentage may differ by 3, a share by .11."""
    assert _NUMBER.sub("#", printed) == _NUMBER.sub("#", expected)
    for got, told in zip(_NUMBER.findall(printed), _NUMBER.findall(expected), strict=True):
        assert _value(got) == pytest.approx(_value(told), abs=0.03 if told[-1] == "%" else 0.11)


def _value(number: str) -> float:
    return float(number[:-1]) / 100 if number.endswith("%") else float(number)
