"""Whatever ends a change of a saved index, and whoever reads meanwhile: the old or the new, whole.

Its ensemble is in a folder that its database names, and is replaced with it, also where what writes
it is one of several calls of a transaction.
"""

import os
import random
import time
from contextlib import closing
from itertools import count

import numpy as np
import pytest

from tests.helpers import index_of, labelled, load_index, passages
from tests.survival import in_a_child
from tests.survival.in_a_child import fork, kill, last_of
from tests.survival.scale import report, times
from uec_rag import UEC
from uec_rag.index.save import check_index
from uec_rag.index.updates import update_files

pytestmark = in_a_child.FORKED

TEXTS = passages(20, seed=3)
IDS = [f"p{i}" for i in range(len(TEXTS))]
QUERIES, RELEVANT = labelled(TEXTS, 40)


@pytest.fixture(scope="module")
def fits(fitted, encoders, fit_pairs):
    """Two ensembles of the same encoders, whose vectors are never to be mixed."""
    return [fitted, UEC(encoders, seed=1).fit(fit_pairs)]


def texts_of(number):
    """What the passages of a state say: its number is their last word."""
    return [f"{text} {number}" for text in TEXTS]


def labels_of(number):
    """The labels of a state, whose number is told by how many they are."""
    some = 30 + number % 10
    return QUERIES[:some], RELEVANT[:some]


def save(path, number, fits):
    index_of(fits[number % 2], texts_of(number), IDS).save(path)


def save_and_add(path, number, fits):
    with closing(load_index(path, fits[0])) as index, index.changing():
        index.save(path)
        index.add(texts_of(number), IDS)


def save_and_calibrate(path, number, fits):
    with closing(load_index(path, fits[0])) as index, index.changing():
        index.save(path)
        index.add(texts_of(number), IDS)
        index.calibrate(*labels_of(number))


def save_and_update(path, number, fits):
    documents = path.with_name("documents")
    documents.mkdir(exist_ok=True)
    for at, text in enumerate(texts_of(number)):
        (documents / f"{at}.md").write_text(text)
    with closing(load_index(path, fits[0])) as index, index.changing():
        index.save(path)
        update_files(index, documents)


def first(path, fits):
    """Save the index of state 0, which an update takes for that of a folder."""
    metadatas = [{"source": f"{at}.md", "file_sha256": "ab"} for at in range(len(TEXTS))]
    index = index_of(fits[0], texts_of(0), IDS, metadatas)
    index.calibrate(*labels_of(0))
    index.save(path)
    index.close()


def number_of(held):
    """The number of the one state that passages are of."""
    [number] = {int(passage.text.split()[-1]) for passage in held}
    return number


def assert_whole(index, change, fits):
    """An index is in one state, of which this returns the number."""
    view = index.snapshot()
    held = [*view.passages()]
    number = number_of(held)
    assert len(held) == len(TEXTS)
    if change is save and number:
        own = fits[number % 2]
        assert view.uec.fingerprint == own.fingerprint
        assert_scores_of(view.search(["badero"], k=9), own)
    if change is save_and_calibrate:
        assert view.calibration.queries == len(labels_of(number)[0])
    return number


def assert_scores_of(found, fit):
    """A search has found passages of one state, with the similarities that an ensemble gives."""
    number = number_of(found.passages[0])
    expected = index_of(fit, texts_of(number), IDS).search(found.queries, k=9)
    assert found.ids == expected.ids
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("change", [save, save_and_add, save_and_update, save_and_calibrate])
def test_an_index_whose_change_is_killed_is_the_old_or_the_new_whole(change, fits, tmp_path):
    rng, path, log = random.Random(4), tmp_path / "index", tmp_path / "log"
    kills, number = times(40, 400), 2
    first(path, fits)
    change(path, 1, fits)  # which imports what the children need
    begun = time.monotonic()
    change(path, number, fits)
    longest = 2 * (time.monotonic() - begun)
    for _ in range(kills):
        writer = fork(change_on, change, path, log, number + 1, fits)
        time.sleep(rng.random() * longest)
        assert os.WIFSIGNALED(kill(writer)), "the writer failed before it was killed"
        done = max(number, last_of(log, number))
        with closing(load_index(path, fits[0])) as index:
            index.check()
            number = assert_whole(index, change, fits)
        assert number in (done, done + 1)
    report(f"{kills} kills of {change.__name__}, {number} done: the old or the new index, whole")


def change_on(change, path, log, begin, fits):
    """Change an index over and over, and note what is done."""
    notes = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for number in count(begin):
        change(path, number, fits)
        os.write(notes, f"{number}\n".encode())


def test_who_loads_and_searches_beside_saves_meets_the_old_or_the_new_whole(fits, tmp_path):
    path, log = tmp_path / "index", tmp_path / "log"
    first(path, fits)
    reader, reads = load_index(path, fits[0]), 0
    writer = fork(change_on, save, path, log, 1, fits)
    try:
        while reads < times(60, 1000) or last_of(log, 0) < 6:
            ended = os.waitid(os.P_PID, writer, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            assert ended is None, "the writer failed"
            with closing(load_index(path, fits[0])) as index:
                index.check()
                assert_whole(index, save, fits)
            check_index(path)
            reader.check()
            found = reader.search(["badero"], k=9)
            number = number_of(found.passages[0])
            assert_scores_of(found, fits[number % 2])
            reads += 1
    finally:
        kill(writer)
    report(f"{reads} loads and searches beside {last_of(log, 0)} saves: each of one index, whole")
