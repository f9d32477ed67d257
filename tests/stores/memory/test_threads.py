"""The memory store under several threads."""

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from tests.helpers import beside, python
from tests.stores.memory.test_store import passage
from uec_rag import Gaussian
from uec_rag.stores import MemoryStore


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_readers_never_see_half_a_write(dtype):
    """Every passage's text says what its vector must be; a reader in between would see a mismatch.

    Ids 0 to 19 are replaced all the time and never deleted, 20 to 39 come and go.
    """
    store = MemoryStore(dtype=dtype)
    everything = Gaussian([[1.0, 0.0], [0.0, 1.0]], np.zeros((2, 2)))

    def write(version, chosen):
        mean = [[i, version] for i in chosen]
        store.add(
            [passage(str(i), f"{i} {version}", even=i % 2 == 0) for i in chosen],
            Gaussian(mean, np.zeros((len(chosen), 2))),
        )

    def check(passages, mean):
        assert [p.text for p in passages] == [f"{int(i)} {int(version)}" for i, version in mean]
        assert len({p.id for p in passages}) == len(passages)

    def read(kind):
        if kind == "search":
            found = store.search(everything, 99, beta=1.0)
            for row, column in ((0, 0), (1, 1)):
                expected = [float(p.text.split()[column]) for p in found.passages[row]]
                assert found.mu[row].tolist() == expected
                assert {str(i) for i in range(20)} <= {p.id for p in found.passages[row]}
        elif kind == "filter":
            found = store.search(everything[[0]], 99, beta=1.0, filter={"even": True})
            assert {str(i) for i in range(0, 20, 2)} <= {p.id for p in found.passages[0]}
        elif kind == "snapshot":
            view = store.snapshot()
            passages = list(view.passages())
            assert len(view) == len(passages)
            check(passages, view.vectors([p.id for p in passages]).mean)
            check(view.get([p.id for p in passages]), view.vectors([p.id for p in passages]).mean)
        else:
            wanted = [str(i) for i in range(20)]
            assert [p.id for p in store.get(wanted)] == wanted
            assert store.vectors(wanted).mean[:, 0].tolist() == list(range(20))

    write(0, range(40))
    kinds = ["search", "filter", "snapshot", "get"]
    with beside(*(partial(read, kind) for kind in kinds)) as stop:
        for version in range(1, 200):
            if stop.is_set():
                break
            write(version, range(40) if version % 3 else range(10))
            if version % 5 == 0:
                store.delete([str(i) for i in range(20, 40)])


def test_writers_do_not_lose_each_others_passages():
    store = MemoryStore()

    def write(start):
        for i in range(start, start + 200):
            store.add([passage(str(i))], Gaussian([[i, 1.0]], [[0.0, 0.0]]))

    with ThreadPoolExecutor(4) as writers:
        [*writers.map(write, range(0, 4000, 1000))]
    wanted = [str(1000 * n + i) for n in range(4) for i in range(200)]
    assert len(store) == 800
    assert store.vectors(wanted).mean[:, 0].tolist() == [float(i) for i in wanted]


_FORKING = """
import faulthandler, os, sys, threading, time, warnings
import numpy as np
from uec_rag import Gaussian
from uec_rag.stores import MemoryStore, Passage
warnings.simplefilter("ignore")
store, stop = MemoryStore(), threading.Event()

def gaussians(seed, count):
    mean = np.random.default_rng(seed).standard_normal((count, 16))
    return Gaussian(mean, np.zeros(mean.shape))

def passages(start, count):
    return [Passage(str(i), "text", {"even": i % 2}) for i in range(start, start + count)]

def write():
    while not stop.is_set():
        store.add(passages(200, 40), gaussians(1, 40))
        len(store.snapshot({"even": 1}))
        store.snapshot().search(gaussians(2, 2), 3, beta=1.0)

store.add(passages(0, 200), gaussians(0, 200))
thread = threading.Thread(target=write)
thread.start()
codes = []
for number in range(12):
    time.sleep(0.01 + 0.003 * (number % 5))
    child = os.fork()
    if not child:
        faulthandler.dump_traceback_later(20, exit=True)
        store.search(gaussians(2, 2), 3, beta=1.0)
        len(store.snapshot({"even": 1}))
        store.add([Passage("new", "text")], gaussians(3, 1))
        found = store.search(gaussians(3, 1), 1, beta=1.0)
        os._exit(0 if found.passages[0][0].id == "new" else 3)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
stop.set()
thread.join()
print(codes)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_child_that_is_forked_beside_a_writer_searches_and_writes():
    done = python(_FORKING, timeout=300)
    assert done.stdout.strip() == str([0] * 12), done.stderr[-2000:]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_child_that_is_forked_after_a_search_of_many_queries_searches(dtype):
    mean = np.random.default_rng(0).standard_normal((5000, 64)).astype(np.float32)
    every = Gaussian(mean, np.zeros_like(mean))
    store, queries = MemoryStore(dtype=dtype), Gaussian(mean[:8], np.zeros_like(mean[:8]))
    store.add([passage(str(i)) for i in range(5000)], every)
    expected = store.search(queries, 3, beta=1.0).mu
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        os._exit(not np.array_equal(store.search(queries, 3, beta=1.0).mu, expected))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
