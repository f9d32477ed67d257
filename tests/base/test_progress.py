"""Progress is shown on a terminal if work takes longer than a second, and told by commands."""

import contextvars
import io
import os
import pty
import sys
import time

import numpy as np
import pytest

from tests.helpers import pairs, passages
from uec_rag import UEC, Retriever
from uec_rag.base import progress
from uec_rag.encoders import load_encoder
from uec_rag.encoders.base import IdentityHead, encode_texts
from uec_rag.encoders.black_box import BlackBoxEncoder

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


class Watching(IdentityHead):
    """An encoder of one text after the other, each of which waits until stderr says what it should.

    `said`: what is on stderr before each text is done, none of which takes longer than a minute.
    """

    name, revision, spec, dimension = "watching", "", None, 7

    def __init__(self, said):
        self.said = said

    def encode(self, texts, role):
        until = time.monotonic() + 60
        for text, said in zip(texts, self.said, strict=True):
            while said not in sys.stderr.getvalue():
                assert time.monotonic() < until, (text, said, sys.stderr.getvalue())
                time.sleep(0.001)
            progress.advance()
        return BlackBoxEncoder(slow).encode(texts, role)


@pytest.fixture
def impatient(monkeypatch):
    """Waits in which nothing is shown are short."""
    monkeypatch.setattr(progress, "_PATIENCE", 0.001)
    monkeypatch.setattr(progress, "_REDRAWN", 0.001)
    monkeypatch.setattr(progress, "_BETWEEN_LINES", 0.001)


@pytest.mark.parametrize("count", [2, 3, 100])
@pytest.mark.usefixtures("impatient")
def test_a_bar_moves_with_each_text(monkeypatch, count):
    monkeypatch.setattr(sys, "stderr", Terminal())
    encoder = Watching([f"| {done}/{count} [" for done in range(count)])
    assert len(encode_texts(encoder, TEXTS[:count], "passage")) == count


@pytest.mark.usefixtures("impatient")
def test_a_command_tells_in_lines_how_far_it_is_and_what_is_left(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    encoder = Watching(["texts: 0 of 3\n", "texts: 1 of 3, 0:", "texts: 2 of 3, 0:"])
    context = contextvars.copy_context()
    context.run(progress.IN_LINES.set, True)
    assert len(context.run(encode_texts, encoder, TEXTS[:3], "passage")) == 3
    assert all(line.startswith("Encoding texts: ") for line in sys.stderr.getvalue().splitlines())
    assert sys.stderr.getvalue().endswith(" left\n")


def test_lines_tell_minutes_and_seconds(monkeypatch):
    assert progress.line("Reading files", 1_000, 2_240, 60.0) == (
        "Reading files: 1,000 of 2,240, 1:14 left"
    )
    assert progress.line("Searching", 0, 5, 60.0) == "Searching: 0 of 5"


@pytest.mark.parametrize("texts", [2, 5])
def test_a_shipped_model_counts_each_text(texts):
    done = progress.Progress("Encoding texts")
    with progress.counted(done, 9):
        load_encoder("arctic-embed-s").encode(TEXTS[:texts], "passage")
        assert done.count == texts
    assert done.count == 9  # as the caller knows


@pytest.mark.usefixtures("impatient")
def test_a_terminal_without_a_size_gets_a_bar(monkeypatch):
    ours, its = pty.openpty()  # which has no rows and columns until somebody sets them
    with os.fdopen(ours, "rb", 0) as screen, os.fdopen(its, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        with progress.progress_bar("Reading files", 4) as bar:
            bar.update(3)
            shown = b""
            while b"3/4 [" not in shown:
                shown += screen.read(4096)
    assert b" 75%|" in shown


def test_the_log_tells_how_far_work_is_and_what_is_left(monkeypatch, caplog):
    monkeypatch.setattr(progress, "_LOGGED", 0.0)
    with caplog.at_level("INFO", "uec_rag"), progress.progress_bar("Working", 4) as bar:
        for _ in range(4):
            bar.update()
    lines = [record.getMessage() for record in caplog.records]
    assert lines[1] == "uec_rag: Working: 2 of 4, 0:00 left."
    assert len(lines) == 4
    monkeypatch.setattr(progress, "_LOGGED", 60.0)
    caplog.clear()
    with caplog.at_level("INFO", "uec_rag"), progress.progress_bar("Working", 4) as bar:
        bar.update()
    assert not caplog.records


def test_the_first_search_says_at_once_that_it_fits(caplog):
    index = Retriever(UEC([slow, "bm25"]))
    index.add([f"{text}. It is so, since {text} is {n}." for n, text in enumerate(TEXTS[:100])])
    with caplog.at_level("INFO", "uec_rag"):
        index.search(["badero"])
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].startswith("uec_rag: the first search fits the ensemble, once")
    assert lines[1] == "uec_rag: fitting: questions are made of 100 passages."
