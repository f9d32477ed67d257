"""Whatever ends a change, and whoever reads meanwhile: what was acknowledged is there, whole."""

import errno
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import beside, load_index, passages, random_gaussian
from tests.survival import in_a_child
from tests.survival.in_a_child import fork, kill, last_of
from tests.survival.scale import report, times
from uec_rag import Gaussian, Retriever
from uec_rag.cli import app, make_index
from uec_rag.documents import passages_of
from uec_rag.documents.folder import list_files
from uec_rag.stores import LocalStore, Passage
from uec_rag.stores.encodings import GIVEN
from uec_rag.stores.local.store import copy_view

pytestmark = in_a_child.FORKED

WIDTH = 8
LARGE = 600  # passages, which are a file of their own


def vector(id_, version):
    """The mean that a passage of a version has: a mixture of two shows."""
    seed = [version, *id_.encode()]
    return np.random.default_rng(seed).standard_normal(WIDTH).astype(np.float32)


def add(store, ids, version):
    mean = np.array([vector(id_, version) for id_ in ids])
    texts = [Passage(id_, f"{id_} of {version}", {"version": version}) for id_ in ids]
    store.add(texts, Gaussian(mean, np.zeros_like(mean)))


def steps_of(number, writer=""):
    """The steps of an operation, by its number alone: what to do, and with which ids."""
    chance, ids = random.Random(f"{writer}{number}"), [f"{writer}{i}" for i in range(40)]
    how = chance.choice(["add", "add", "add", "delete", "both", "large", "gone", "copy"])
    some = chance.sample(ids, chance.randint(1, 9))
    large = [f"{writer}large {i}" for i in range(LARGE)]
    return {
        "add": [("add", some)],
        "delete": [("delete", some)],
        "both": [("add", some[::2]), ("delete", some[1::2])],
        "large": [("add", large)],
        "gone": [("delete", large[: LARGE * 3 // 4])],
        "copy": [("copy", [])],
    }[how]


def operate(store, number, writer=""):
    """Carry out an operation; those of several steps in one transaction."""
    steps = steps_of(number, writer)
    if steps[0][0] == "copy":
        with closing(LocalStore(store.folder.with_name(f"copy{writer}"))) as copy:
            copy_view(store.snapshot(), copy, store.settings)
        return
    with store.changing():
        for how, ids in steps:
            add(store, ids, number) if how == "add" else store.delete(ids)


def expect(held, number, writer=""):
    """What a dict has after an operation."""
    held = dict(held)
    for how, ids in steps_of(number, writer):
        for id_ in ids:
            held.pop(id_, None)
            if how == "add":
                held[id_] = number
    return held


def held_by(store):
    """The version of each passage, of which text, metadata and vector must be."""
    view = store.snapshot()
    found = {p.id: p.metadata["version"] for p in view.passages()}
    assert [p.text for p in view.passages()] == [f"{i} of {v}" for i, v in found.items()]
    means = GIVEN.passages(view.vectors([*found])).mean if found else []
    for mean, (id_, version) in zip(means, found.items(), strict=True):
        np.testing.assert_array_equal(mean, vector(id_, version))
    return found


def write_on(folder, log, first, writer="", last=sys.maxsize):
    """Carry out one operation after the other, and note when each is begun and done."""
    notes = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    store = LocalStore(folder)
    for number in range(first, last):
        operate(store, number, writer)
        os.write(notes, f"{number}\n".encode())


def test_kills_lose_and_mix_nothing(tmp_path):
    rng, folder, log = random.Random(0), tmp_path / "index", tmp_path / "log"
    kills, held, done, in_flight = times(200, 1000), {}, -1, 0
    states = [{}]
    LocalStore(folder).close()
    for _ in range(kills):
        writer = fork(write_on, folder, log, done + 1)
        time.sleep(rng.random() * 0.15)
        assert os.WIFSIGNALED(kill(writer)), "the writer failed before it was killed"
        # What the one before did unsaid is not in the log.
        before, done = done, max(done, last_of(log, done))
        for number in range(before + 1, done + 1):
            held = expect(held, number)
            states.append(held)
        store = LocalStore(folder)
        found = held_by(store)
        if found != held:  # the one in flight
            done, held, in_flight = done + 1, expect(held, done + 1), in_flight + 1
            states.append(held)
        assert found == held
        if rng.random() < 0.1:
            store.check()
        store.close()
        copy = folder.with_name("copy")
        if (copy / "index.db").exists():  # one that was killed first may be empty
            other = LocalStore(copy)
            assert held_by(other) in states[-500:] or not len(other)
            other.close()
    named = len([*(folder / "segments").iterdir()]) if (folder / "segments").exists() else 0
    assert named < 60
    report(f"{kills} kills within {done} operations, {in_flight} done unsaid; none lost or mixed")


def test_four_writers_and_four_readers_lose_nothing(tmp_path):
    folder, operations = tmp_path / "index", times(25, 500)
    LocalStore(folder).close()

    def read(until):
        store, query, count = LocalStore(folder), Gaussian(np.ones((1, WIDTH)), np.zeros((1, 8))), 0
        while not until.exists():
            held_by(store)
            store.check()
            hits = store.snapshot({"version": {"$gte": 0}}).search(query, 5, beta=1.0)
            for passage, mu in zip(hits.passages[0], hits.mu[0], strict=True):
                mean = vector(passage.id, passage.metadata["version"])
                np.testing.assert_allclose(mu, mean.sum(), rtol=1e-4, atol=1e-5)
            count += 1
        assert count

    names = "abcd"
    logs = {name: tmp_path / f"{name}.log" for name in names}
    writers = [fork(write_on, folder, logs[n], 0, n, operations) for n in names]
    readers = [fork(read, tmp_path / "done") for _ in range(4)]
    assert [os.waitpid(writer, 0)[1] for writer in writers] == [0] * 4
    (tmp_path / "done").touch()
    assert [os.waitpid(reader, 0)[1] for reader in readers] == [0] * 4
    expected = {}
    for name in names:
        held = {}
        for number in range(operations):
            held = expect(held, number, name)
        expected |= held
    store = LocalStore(folder)
    assert held_by(store) == expected
    store.check()
    report(f"4 writers of {operations} operations each beside 4 readers: nothing lost, no error")


def test_a_disk_that_fills_changes_nothing(tmp_path):
    def fill(how):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        store = LocalStore(tmp_path / how)
        add(store, [str(i) for i in range(2000)], 1)
        store.compact()
        before, room = held_by(store), 40_000 if how == "log" else 300_000
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        many = [str(i) for i in range(1000 if how == "log" else 60_000)]
        with pytest.raises(OSError, match=r"Nothing was changed|File too large") as error:
            add(store, many, 2)
        assert error.value.errno in (errno.ENOSPC, errno.EFBIG)
        assert held_by(store) == before
        with suppress(OSError), store.changing():
            store.delete(["0"])
            add(store, many, 3)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        assert held_by(store) == before
        add(store, ["new"], 4)
        assert held_by(store) == before | {"new": 4}
        store.check()

    assert in_a_child.run(fill, ["log", "segment"]) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="gives rights up")
@pytest.mark.parametrize("with_log", [False, True])
def test_where_nothing_can_be_written_it_is_read_or_that_is_said(with_log, tmp_path):
    store = LocalStore(tmp_path / "index")
    add(store, ["a", "b"], 1)
    if with_log:  # as a writer that was killed leaves it
        shutil.copytree(tmp_path / "index", tmp_path / "copy", ignore=_shared_memory)
        assert (tmp_path / "copy" / "index.db-wal").stat().st_size
    else:
        store.close()
        shutil.copytree(tmp_path / "index", tmp_path / "copy")
    for folder in (tmp_path, *tmp_path.parents):
        if str(folder).startswith("/tmp/"):
            folder.chmod(0o755)

    def read(_):
        os.setgid(65534)
        os.setuid(65534)
        if with_log:
            with pytest.raises(PermissionError, match="close the index where it was"):
                LocalStore(tmp_path / "copy", read_only=True)
            return
        opened = LocalStore(tmp_path / "copy", read_only=True)
        assert held_by(opened) == {"a": 1, "b": 1}
        with pytest.raises(PermissionError, match="read_only=True"):
            opened.delete(["a"])
        with pytest.raises(PermissionError, match="load it with read_only=True"):
            LocalStore(tmp_path / "copy")

    assert in_a_child.run(read, [0]) == []


def _shared_memory(_, names):
    return [name for name in names if name.endswith("-shm")]


@pytest.mark.parametrize("in_memory", [False, True])
def test_a_process_that_is_forked_while_others_search_and_write_goes_on(in_memory, tmp_path):
    store = LocalStore(None if in_memory else tmp_path / "index")
    add(store, [str(i) for i in range(5000)], 0)
    query = random_gaussian(np.random.default_rng(0), 8, WIDTH)

    def search_and_write(ids, version=1):
        store.snapshot({"version": {"$gte": 0}}).search(query, 3, beta=1.0)
        add(store, ids, version)
        assert store.get(ids)

    def child(number):
        search_and_write([f"child {number}"], 2)

    with beside(*(partial(search_and_write, [f"{n} {i}" for i in range(5)]) for n in range(3))):
        for number in range(times(10, 100)):
            time.sleep(0.02)
            assert in_a_child.run(child, [number]) == []
            assert bool(store.get([f"child {number}"])) != in_memory
    held_by(store)


def is_done(work, longest):
    """Have a child do something, and kill it within a time. Whether it was done."""
    child = fork(work)
    time.sleep(random.Random(child).random() * longest)
    status = kill(child)
    assert status in (0, signal.SIGKILL), "it failed by itself"
    return status == 0


def test_updates_that_are_killed_are_finished_by_the_next(fitted, tmp_path, monkeypatch):
    rng, path, folder = random.Random(2), tmp_path / "index", tmp_path / "folder"
    kills, done = times(4, 1000), 0
    folder.mkdir()
    loading = Retriever.load

    def update():
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        app(["index", str(folder), "--out", str(path), "--update"], standalone_mode=False)

    monkeypatch.setattr(Retriever, "load", lambda *_, **__: loading(path, fitted))
    monkeypatch.setattr(make_index, "say", lambda said: None)
    index = Retriever(fitted)
    sources = ("gone.md", "stays.md")  # an update of a folder without any of the files is refused
    index.add(["badero"] * 2, metadatas=[{"source": s, "file_sha256": "ab"} for s in sources])
    index.save(path)
    begun = time.monotonic()
    for turn in range(kills):
        for number in rng.sample(range(4), 2):
            file = folder / f"{number}.md"
            file.unlink(missing_ok=True)
            if count := rng.choice([0, 3, 30, 90]):
                some = passages(count, seed=rng.randrange(100))
                file.write_text("\n\n".join(f"## {i} of {turn}\n\n{t}" for i, t in enumerate(some)))
        (folder / "stays.md").write_text("Something that stays.")
        took = (time.monotonic() - begun) / (3 * turn + 1)
        done += is_done(update, longest=max(0.1, min(took, 3)))
        assert os.waitpid(fork(update), 0)[1] == 0
        read = passages_of(list_files(folder).read().documents)
        stored = sorted((p.metadata["source"], p.text) for p in index.passages())
        assert stored == sorted((p.metadata["source"], p.text) for p in read)
    report(f"{kills} kills of updates, {done} of them too late; the next brought all, once")


def test_a_first_save_that_is_killed_can_be_done_again(fitted, tmp_path):
    rng, texts = random.Random(1), passages(8)
    for attempt in range(times(10, 100)):
        path = tmp_path / str(attempt)

        def save(path=path):
            index = Retriever(fitted)
            index.add(texts)
            index.save(path)

        is_done(save, longest=rng.random() * 0.3)
        save()
        assert [p.text for p in load_index(path, fitted).passages()] == texts


@pytest.mark.interrupts
def test_interrupts_lose_and_mix_nothing(tmp_path):
    def interrupt(*_):
        raise KeyboardInterrupt

    def interrupted(seed):
        rng, store, held, hits = random.Random(seed), LocalStore(tmp_path / str(seed)), {}, 0
        signal.signal(signal.SIGALRM, interrupt)
        for number in range(60):
            after, done = expect(held, number), False
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4 + rng.random() * 0.02)
                operate(store, number)
                done = True
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                hits += not done
            signal.alarm(100)
            found = held_by(store)
            assert found == after if done else found in (held, after)
            held = found
        store.check()
        Path(tmp_path / f"{seed}.hits").write_text(json.dumps(hits))

    seeds = [*range(times(2, 80))]
    assert in_a_child.run_all(interrupted, seeds, 10) == []
    hits = sum(json.loads((tmp_path / f"{seed}.hits").read_text()) for seed in seeds)
    report(f"{60 * len(seeds)} interrupts, {hits} of them inside a change; none lost or mixed")
