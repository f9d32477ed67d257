"""Whatever ends a save, and whoever reads meanwhile: there is one whole index, old or new."""

import os
import random
import signal
import time

import pytest

from tests.helpers import load_index, passages
from tests.stores.kinds import close
from tests.stores.qdrant_server import new_place
from tests.survival import in_a_child
from tests.survival.scale import report, times
from tests.survival.versions import Saver, after_a_while, fill, save, version_of, write
from uec_rag import Retriever
from uec_rag.cli import app
from uec_rag.cli import index as cli_index
from uec_rag.corpora import passages_of
from uec_rag.corpora.folder import read_files
from uec_rag.stores.urls import open_store

pytestmark = in_a_child.FORKED

_INTERRUPTS = 50  # of a child
_HANGS = 100  # seconds that nothing here takes


@pytest.mark.parametrize("how", [save, fill])
def test_kills_lose_and_mix_nothing(how, fitted, tmp_path):
    rng, path, kills, during = random.Random(0), tmp_path / "index", times(25, 1000), 0
    index = Retriever(fitted)
    write(index, 0)
    index.save(path)
    version = 0
    for _ in range(kills):
        before = len(os.listdir(path / "generations"))
        saver = Saver(path, fitted, version + 1, how)
        after_a_while(rng, 0.1)
        saved = saver.kill()
        during += len(os.listdir(path / "generations")) != before
        found = version_of(load_index(path, fitted))
        # What was said to be saved is saved, and at most the one after it.
        last = version if saved is None else saved
        assert found in (last, last + 1)
        version = found
    save(path, fitted, version + 1)
    assert len(os.listdir(path / "generations")) == 1
    assert set(os.listdir(tmp_path)) == {"index"}
    half = f"{during} of them left a half-written generation"
    report(f"{how.__name__}: {kills} kills, {half}; none lost or mixed")


def in_a_child_that(work, longest=None):
    """Have a child do something; where a time is given it is killed before. Whether it was done."""
    child = os.fork()
    if not child:
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            work()
            code = 0
        finally:
            os._exit(code)
    if longest is not None:
        after_a_while(random.Random(child), longest)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert longest is not None or status == 0
    assert status in (0, signal.SIGKILL), "it failed by itself"
    return status == 0


@pytest.mark.parametrize("kind", ["memory", "qdrant"])
def test_updates_that_are_killed_are_finished_by_the_next(kind, fitted, tmp_path, monkeypatch):
    rng, path, folder = random.Random(2), tmp_path / "index", tmp_path / "folder"
    kills, done, place = times(4, 1000), 0, new_place() if kind == "qdrant" else None
    folder.mkdir()

    loading = Retriever.load

    def opened():
        return loading(path, fitted, store=place and open_store(place))

    def update():
        app(["index", str(folder), "--out", str(path), "--update"], standalone_mode=False)

    def stored():
        index = opened()
        found = sorted((p.metadata["source"], p.text) for p in index.passages())
        close(index.store)
        return found

    monkeypatch.setattr(Retriever, "load", lambda *_, **__: opened())
    monkeypatch.setattr(cli_index, "say", lambda said: None)
    index = Retriever(fitted, place and open_store(place))
    sources = ("gone.md", "stays.md")  # an update of a folder without any of the files is refused
    index.add(["badero"] * 2, metadatas=[{"source": s, "file_sha256": "ab"} for s in sources])
    index.save(path)
    close(index.store)
    begun = time.monotonic()
    for kill in range(kills):
        for number in rng.sample(range(4), 2):
            file = folder / f"{number}.md"
            file.unlink(missing_ok=True)
            if count := rng.choice([0, 3, 30, 90]):
                some = passages(count, seed=rng.randrange(100))
                file.write_text("\n\n".join(f"## {i} of {kill}\n\n{t}" for i, t in enumerate(some)))
        (folder / "stays.md").write_text("Something that stays.")
        took = (time.monotonic() - begun) / (3 * kill + 1)
        done += in_a_child_that(update, longest=max(0.1, min(took, 3)))
        in_a_child_that(update)
        read = passages_of(read_files(folder).documents)
        assert stored() == sorted((p.metadata["source"], p.text) for p in read)
    report(f"{kind}: {kills} kills of updates, {done} of them too late; the next brought all, once")


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
        assert version_of(load_index(path, fitted)) == 7


@pytest.mark.interrupts
def test_interrupts_lose_and_mix_nothing(fitted, tmp_path):
    # In children: an interrupt inside filelock's own bookkeeping is for the life of its process.
    seeds = range(times(1, 80))

    def interrupted(seed):
        hits = _interrupted_saves(fitted, tmp_path / str(seed), random.Random(seed))
        (tmp_path / f"{seed}.hits").write_text(str(hits))

    assert in_a_child.run_all(interrupted, seeds, 10) == []
    hits = sum(int((tmp_path / f"{seed}.hits").read_text()) for seed in seeds)
    of_all = _INTERRUPTS * len(seeds)
    report(f"{of_all} interrupts, {hits} of them inside a save; none lost or mixed")


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
        found = version_of(load_index(path, fitted))
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
            seen.append(version_of(load_index(path, fitted)))
    finally:
        saver.kill()
    assert seen == sorted(seen)  # never back
    report(f"{reads} reads beside {seen[-1]} saves; none failed or mixed")


def test_of_two_who_save_at_once_each_saves_or_is_told(fitted, tmp_path):
    path = tmp_path / "index"
    saver, told, saved = Saver(path, fitted, 1), 0, 0
    saver.wait_for_first()
    os.kill(saver.pid, signal.SIGSTOP)  # perhaps in the middle of a save
    try:
        for version in range(1000, 1000 + times(10, 200)):
            try:
                save(path, fitted, version)
                saved += 1
                assert version_of(load_index(path, fitted)) == version
            except BlockingIOError:
                told += 1
                os.kill(saver.pid, signal.SIGCONT)
                after_a_while(random.Random(version), 0.02)
                os.kill(saver.pid, signal.SIGSTOP)
    finally:
        os.kill(saver.pid, signal.SIGCONT)
        os.kill(saver.pid, signal.SIGKILL)
        os.waitpid(saver.pid, 0)
    version_of(load_index(path, fitted))
    report(f"{saved} saves beside another process's, {told} told to wait")
