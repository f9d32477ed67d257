"""The example that indexes on Ray, on a cluster of this machine."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import ray

from examples import ray_index
from uec_rag import UEC, Retriever
from uec_rag.stores import Passage

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_it_indexes_all_passages_and_answers(monkeypatch, capsys):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    ray_index.main()
    ray.shutdown()
    printed = capsys.readouterr().out
    assert re.search(r"^(\d+) of \1 passages indexed\nanswer from textwrap\.dedent$", printed, re.M)


def test_what_workers_encode_is_what_one_process_indexes(cluster):
    passages = [Passage(f"p{i}", f"The {i}th text of many.", {"title": f"{i}"}) for i in range(200)]
    one, many = Retriever(UEC()), Retriever(UEC())
    one.add(*zip(*((p.text, p.id, p.metadata) for p in passages), strict=True))
    ray_index.index_passages(many, passages)
    ids = [passage.id for passage in passages]
    assert many.get(ids) == one.get(ids)
    for field in ("mean", "scales"):
        ours, theirs = (getattr(index.vectors(ids), field) for index in (one, many))
        np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-6)
    question = ["Which is the 7th text?"]
    assert many.search(question, 5).ids == one.search(question, 5).ids
