"""Progress is shown on a terminal, on whatever takes longer than two seconds, and nowhere else."""

import io
import sys
import time

import numpy as np
import pytest

from tests.helpers import pairs, passages
from uec_rag import UEC, Retriever
from uec_rag.base import progress

pytestmark = pytest.mark.filterwarnings("ignore:.*not fitted")
TEXTS = [f"{text} {number}" for number, text in enumerate(passages(300) * 2)][:300]


def slow(texts):
    """An encoder that takes its time, for each few hundred texts."""
    time.sleep(0.15)
    return np.array([[text.count(letter) + 0.1 for letter in "abcdefg"] for text in texts])


class Terminal(io.StringIO):
    def isatty(self):
        return True


WAITS = {
    "add": (lambda: Retriever(UEC([slow])).add(TEXTS), "Encoding texts"),
    "add an iterator": (lambda: Retriever(UEC([slow])).add(iter(TEXTS)), "Encoding texts"),
    "fit": (lambda: UEC([slow, "bm25"]).fit(pairs(64)), "Fitting"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("wait", "what"), WAITS.values(), ids=WAITS)
def test_a_long_wait_is_shown_on_a_terminal_and_nowhere_else(monkeypatch, wait, what):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    for stderr, shows in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stderr)
        wait()
        assert (what in stderr.getvalue()) == shows


@pytest.mark.parametrize(
    ("stderr", "show", "shows"),
    [(Terminal(), None, False), (io.StringIO(), True, True), (Terminal(), False, False)],
    ids=["a short wait", "asked for", "unwanted"],
)
def test_a_short_wait_is_shown_only_if_that_is_asked_for(monkeypatch, stderr, show, shows):
    monkeypatch.setattr(progress, "_PATIENCE", 600.0)
    monkeypatch.setattr(sys, "stderr", stderr)
    Retriever(UEC([slow])).add(TEXTS, show_progress=show)
    assert ("Encoding texts" in stderr.getvalue()) == shows


@pytest.mark.parametrize("show", [None, True])
def test_a_program_without_stderr_needs_no_progress(monkeypatch, show):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", None)
    assert len(Retriever(UEC([slow])).add(TEXTS, show_progress=show)) == len(TEXTS)
