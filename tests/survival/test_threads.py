"""Threads that add, delete, search and save at once: every answer is of one moment."""

import time
from collections import Counter
from functools import partial

import numpy as np
import pytest

from tests.helpers import beside, load_index, passages
from tests.survival.scale import LONG, report
from uec_rag import Retriever

pytestmark = pytest.mark.slow


def test_eight_threads_see_whole_states_and_lose_nothing(fitted, tmp_path):
    index, texts = Retriever(fitted), passages(40, seed=5)
    done = []

    def body(work, rng, number):
        work(number, rng)
        done.append(work.__name__)

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
        index.snapshot().save(tmp_path / "index")
        whole(list(load_index(tmp_path / "index", fitted).passages()))

    works = [write] * 3 + [search] * 4 + [save]
    bodies = [partial(body, work, np.random.default_rng(n), n) for n, work in enumerate(works)]
    begun = time.monotonic()
    with beside(*bodies) as stop:
        stop.wait(60 if LONG else 3)
    whole(list(index.passages()))
    report(f"8 threads for {time.monotonic() - begun:.0f} s: {Counter(done)}; every state whole")
