"""Whatever ends a save, and whoever reads meanwhile: there is one whole index, old or new."""

import os
import random
import signal
import sys

import pytest

from tests.survival import in_a_child
from tests.survival.scale import report, times
from tests.survival.versions import Saver, after_a_while, load, version_of, write
from uec_rag import Retriever

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="processes are forked and killed"),
    pytest.mark.slow,
]

_INTERRUPTS = 50  # of a child
_HANGS = 100  # seconds that nothing here takes


def test_kills_lose_and_mix_nothing(fitted, tmp_path):
    rng, path, kills, during = random.Random(0), tmp_path / "index", times(25, 1000), 0
    index = Retriever(fitted)
    write(index, 0)
    index.save(path)
    version = 0
    for _ in range(kills):
        before = len(os.listdir(path / "generations"))
        saver = Saver(path, fitted, version + 1)
        after_a_while(rng, 0.1)
        saved = saver.kill()
        during += len(os.listdir(path / "generations")) != before
        found = version_of(load(path, fitted))
        # What was said to be saved is saved, and at most the one after it.
        last = version if saved is None else saved
        assert found in (last, last + 1)
        version = found
    write(index, version + 1)
    index.save(path)
    assert len(os.listdir(path / "generations")) == 1
    assert set(os.listdir(tmp_path)) == {"index"}
    report(f"{kills} kills, {during} of them left a half-written generation; none lost or mixed")


def test_a_first_save_that_is_killed_can_be_done_again(fitted, tmp_path):
    rng = random.Random(1)
    for attempt in range(times(5, 100)):
        path = tmp_path / str(attempt)
        saver = Saver(path, fitted, 1)
        after_a_while(rng, 0.05)
        saver.kill()
        index = Retriever(fitted)
        write(index, 7)
        index.save(path)
        assert version_of(load(path, fitted)) == 7


@pytest.mark.interrupts
def test_interrupts_lose_and_mix_nothing(fitted, tmp_path):
    # In children: an interrupt inside filelock's own bookkeeping is for the life of its process.
    batches, hits = range(times(1, 80)), []

    def interrupted(seed):
        path = tmp_path / str(seed)
        hits_of = _interrupted_saves(fitted, path, random.Random(seed))
        (tmp_path / f"{seed}.hits").write_text(str(hits_of))

    for batch in in_a_child.in_batches(batches, 10):
        assert in_a_child.run(interrupted, batch) == []
        hits += [int((tmp_path / f"{seed}.hits").read_text()) for seed in batch]
    of_all = _INTERRUPTS * len(batches)
    report(f"{of_all} interrupts, {sum(hits)} of them inside a save; none lost or mixed")


def _interrupted_saves(fitted, path, rng):
    """How many of the interrupts came inside a save."""
    index, version, hit = Retriever(fitted), 0, 0
    write(index, 0)
    index.save(path)
    signal.signal(signal.SIGALRM, _interrupt)
    for _ in range(_INTERRUPTS):
        write(index, version + 1)
        done = False
        try:
            signal.setitimer(signal.ITIMER_REAL, 1e-4 + rng.random() * 0.03)
            index.save(path)
            done = True
            signal.setitimer(signal.ITIMER_REAL, 0)
        except (KeyboardInterrupt, TypeError):  # NumPy makes the latter of one in its writing
            hit += not done
        except OSError as error:  # and shutil.rmtree this, closing a file twice
            if not isinstance(error.__context__, KeyboardInterrupt):
                raise
            hit += 1
        signal.alarm(_HANGS)
        found = version_of(load(path, fitted))
        assert found == version + 1 if done else found in (version, version + 1)
        version = found
    index.save(path)
    signal.alarm(0)
    assert len(os.listdir(path / "generations")) == 1
    return hit


def _interrupt(number, frame):
    raise KeyboardInterrupt


def test_readers_beside_a_saver_see_one_version_each(fitted, tmp_path):
    path, reads, seen = tmp_path / "index", times(60, 5000), []
    saver = Saver(path, fitted, 1)
    saver.wait_for_first()
    try:
        for _ in range(reads):
            seen.append(version_of(load(path, fitted)))
    finally:
        saver.kill()
    assert seen == sorted(seen)  # never back
    report(f"{reads} reads beside {seen[-1]} saves; none failed or mixed")


def test_of_two_who_save_at_once_each_saves_or_is_told(fitted, tmp_path):
    path = tmp_path / "index"
    saver, told, saved = Saver(path, fitted, 1), 0, 0
    saver.wait_for_first()
    index = Retriever(fitted)
    os.kill(saver.pid, signal.SIGSTOP)  # perhaps in the middle of a save
    try:
        for version in range(1000, 1000 + times(10, 200)):
            write(index, version)
            try:
                index.save(path)
                saved += 1
                assert version_of(load(path, fitted)) == version
            except BlockingIOError:
                told += 1
                os.kill(saver.pid, signal.SIGCONT)
                after_a_while(random.Random(version), 0.02)
                os.kill(saver.pid, signal.SIGSTOP)
    finally:
        os.kill(saver.pid, signal.SIGCONT)
        os.kill(saver.pid, signal.SIGKILL)
        os.waitpid(saver.pid, 0)
    version_of(load(path, fitted))
    report(f"{saved} saves beside another process's, {told} told to wait")
