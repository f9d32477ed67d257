"""Whatever ends a fit of a saved index, and whoever reads meanwhile: one or the other, whole."""

import os
import random
import time
from contextlib import closing
from itertools import count

import pytest

from tests.helpers import assert_alike, bag_of_words, index_of
from tests.index.test_fit_in_place import ASKED, IDS, TEXTS
from tests.survival import in_a_child
from tests.survival.in_a_child import fork, kill, last_of
from tests.survival.scale import report, times
from uec_rag import UEC, Retriever

pytestmark = in_a_child.FORKED

MODEL = bag_of_words(16, "small")


def opened(path, **options):
    return Retriever.load(path, encoders={"small": MODEL}, **options)


@pytest.fixture
def path(tmp_path):
    """A folder with an index in three segments."""
    with closing(Retriever(UEC([MODEL, "bm25"]), fit=False)) as index:
        index.save(tmp_path / "index")
        for start in range(0, len(TEXTS), 80):
            index.add(TEXTS[start : start + 80], IDS[start : start + 80])
    return tmp_path / "index"


def fit(path, number):
    """Fit an index on one or another part of its passages, by its number."""
    with closing(opened(path, fit=False)) as index:
        index.fit_from([*index.passages()][number % 2 :: 2])


def fit_on(path, log, begin):
    """Fit an index over and over, and note what is done."""
    notes = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for number in count(begin):
        fit(path, number)
        os.write(notes, f"{number}\n".encode())


def fits_of(path):
    """What is found with each fit, by its fingerprint; a child has both at hand."""
    known = {}
    for number in (1, 2):
        fit(path, number)
        with closing(opened(path)) as index:
            filled = index_of(index.uec, TEXTS, IDS)
            known[index.uec.fingerprint] = number % 2, filled.search(ASKED, 9)
    assert len(known) == 2
    return known


def assert_whole(index, known):
    """What is stored is of the ensemble that is there; which fit it is."""
    view = index.snapshot()
    number, expected = known[view.uec.fingerprint]
    assert_alike(view.search(ASKED, 9), expected)
    return number


def test_a_fit_that_is_killed_leaves_the_one_before_or_its_own(path, tmp_path):
    rng, log, known, number = random.Random(5), tmp_path / "log", fits_of(path), 2
    begun = time.monotonic()
    fit(path, number)
    longest = 2 * (time.monotonic() - begun)
    kills = times(20, 400)
    for _ in range(kills):
        writer = fork(fit_on, path, log, number + 1)
        time.sleep(rng.random() * longest)
        assert os.WIFSIGNALED(kill(writer)), "the writer failed before it was killed"
        number = max(number, last_of(log, number))
        with closing(opened(path, fit=False)) as index:
            index.check()
            number += assert_whole(index, known) != number % 2
    report(f"{kills} kills of a fit, {number} done: one fit or the other, whole")


def test_who_reads_beside_fits_meets_one_or_the_other(path, tmp_path):
    log, known = tmp_path / "log", fits_of(path)
    reader, reads = opened(path, fit=False), 0
    writer = fork(fit_on, path, log, 3)
    try:
        while reads < times(20, 1000) or last_of(log, 0) < 6:
            ended = os.waitid(os.P_PID, writer, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            assert ended is None, "the writer failed"
            assert_whole(reader, known)
            with closing(opened(path, fit=False, read_only=True)) as index:
                index.check()
                assert_whole(index, known)
            reads += 1
    finally:
        kill(writer)
    report(f"{reads} reads beside {last_of(log, 0)} fits: each of one fit, whole")
