"""Threads that add, delete, search and save at once: every answer is of one moment."""

import threading
import time

import numpy as np
import pytest

from tests.helpers import load_index, passages
from tests.survival.scale import LONG, report
from uec_rag import Retriever

pytestmark = pytest.mark.slow


def test_eight_threads_see_whole_states_and_lose_nothing(fitted, tmp_path):
    index, stop = Retriever(fitted), threading.Event()
    texts = passages(40, seed=5)
    failures, counts, lock = [], {"writes": 0, "searches": 0, "saves": 0}, threading.Lock()

    def body(number, work, name):
        rng = np.random.default_rng(number)
        try:
            while not stop.is_set():
                work(number, rng)
                with lock:
                    counts[name] += 1
        except BaseException as error:
            failures.append(error)
            stop.set()

    def write(number, rng):
        # Ten passages of its own, all of one version, or none of them.
        version = int(rng.integers(1000))
        index.add(
            [texts[(version + i) % 40] for i in range(10)],
            ids=[f"{number}-{i}" for i in range(10)],
            metadatas=[{"writer": number, "version": version}] * 10,
        )
        if rng.random() < 0.3:
            index.delete([f"{number}-{i}" for i in range(10)])

    def whole(found):
        for writer in {p.metadata["writer"] for p in found}:
            own = [p.metadata["version"] for p in found if p.metadata["writer"] == writer]
            assert len(own) == 10
            assert len({*own}) == 1

    def search(number, rng):
        view = index.snapshot()
        whole(list(view.passages()))
        query = texts[int(rng.integers(40))]
        result = view.search([query], k=5)
        everything = view.search([query], k=max(1, len(view)))
        np.testing.assert_allclose(result.scores[0], everything.scores[0, :5], rtol=1e-5)

    def save(number, rng):
        try:
            index.save(tmp_path / "index")
        except BlockingIOError:
            return
        whole(list(load_index(tmp_path / "index", fitted).passages()))

    works = [(write, "writes")] * 3 + [(search, "searches")] * 4 + [(save, "saves")]
    threads = [
        threading.Thread(target=body, args=(number, *work)) for number, work in enumerate(works)
    ]
    for thread in threads:
        thread.start()
    begun = time.monotonic()
    while not stop.is_set() and time.monotonic() - begun < (60 if LONG else 3):
        time.sleep(0.1)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures, failures
    whole(list(index.passages()))
    report(f"8 threads for {time.monotonic() - begun:.0f} s: {counts}; every state whole")
