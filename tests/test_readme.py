"""What the README shows runs as printed, and prints what it says."""

import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
NUMBER = re.compile(r"\b\d+\.\d+\b")
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_file_that_is_named_is_there():
    named = re.findall(r"\]\(([\w/.]+)\)", README.read_text(encoding="utf-8"))
    assert named
    assert [path for path in named if not (README.parent / path).exists()] == []


@pytest.mark.slow
def test_the_code_runs_and_prints_what_follows_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(README.read_text(encoding="utf-8"))
    assert [kind for kind, _ in blocks] == ["python", "text"] * (len(blocks) // 2)
    names: dict[str, object] = {}
    for (_, code), (_, expected) in zip(blocks[::2], blocks[1::2], strict=True):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(README), "exec"), names)
        # Processors round differently: a printed probability may differ in its last digit.
        assert NUMBER.sub("#", printed.getvalue()) == NUMBER.sub("#", expected)
        numbers = [[float(n) for n in NUMBER.findall(t)] for t in (printed.getvalue(), expected)]
        assert numbers[0] == pytest.approx(numbers[1], abs=0.11)
