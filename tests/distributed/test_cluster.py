"""What several nodes index is what one does."""

import os
from collections import Counter

import numpy as np
import pytest

from tests.distributed.encoders import Words
from tests.helpers import pairs, passages
from uec_rag import UEC, Retriever
from uec_rag.distributed import Resources, index
from uec_rag.distributed.cluster import Indexed, is_as
from uec_rag.stores import LocalStore, Passage
from uec_rag.stores.qdrant import QdrantStore

pytestmark = pytest.mark.slow


TEXTS = list(dict.fromkeys(passages(1400)))
PASSAGES = [Passage(f"p{i}", text, {"n": i}) for i, text in enumerate(TEXTS)]
HALF = Resources(num_cpus=0.5)


def ensemble(folder, deadly=None):
    encoders = [
        Words(16, "small", 0, str(folder), deadly),
        Words(24, "large", 1, str(folder)),
        "bm25",
    ]
    return UEC(encoders)


def encoded(folder, name):
    """How often each text was encoded, and by how many processes."""
    lines = (folder / f"{name}.txt").read_text().splitlines()
    given = [line.split(" ", 1) for line in lines]
    return Counter(text for _, text in given), {process for process, _ in given}


@pytest.fixture
def fitted(tmp_path):
    uec = ensemble(tmp_path).fit(pairs(80))
    (tmp_path / "small.txt").unlink()
    (tmp_path / "large.txt").unlink()
    return uec


def test_it_writes_what_one_machine_writes_and_goes_on_where_it_was(cluster, fitted, tmp_path):
    one = Retriever(fitted)
    one.add(*zip(*((p.text, p.id, p.metadata) for p in PASSAGES[:700]), strict=True))
    (tmp_path / "small.txt").unlink()
    (tmp_path / "large.txt").unlink()
    many, told = Retriever(fitted, LocalStore()), []
    done = index(many, iter(PASSAGES[:300]), HALF, advance=told.append)
    assert done == Indexed(300, 300)
    assert sum(told) == 300
    assert index(many, iter(PASSAGES[:700]), HALF) == Indexed(700, 400)
    ids = [p.id for p in PASSAGES[:700]]
    np.testing.assert_allclose(many.vectors(ids).mean, one.vectors(ids).mean, atol=1e-6)
    np.testing.assert_allclose(many.vectors(ids).scales, one.vectors(ids).scales, rtol=1e-5)
    assert many.get(ids) == one.get(ids)
    queries = [query for query, _ in pairs(10, seed=1)]
    assert many.search(queries, 5).ids == one.search(queries, 5).ids
    for name in ("small", "large"):
        counts, _ = encoded(tmp_path, name)
        assert set(TEXTS[:700]) <= set(counts)
        assert max(counts[text] for text in TEXTS[:700]) == 1
    changed = Passage("p3", "quite another text", {"n": 3})
    assert index(many, [*PASSAGES[:3], changed], HALF) == Indexed(4, 1)
    assert many.get(["p3"]) == [changed]


def test_a_passage_that_is_stored_is_not_encoded_again():
    given = Passage("p", "...", {"n": 1})
    assert is_as(given, Passage("p", "...", {"n": 1, "uec_score": 1.0}))
    assert not is_as(given, Passage("p", "...", {"n": 2}))
    assert not is_as(given, Passage("p", "other", {"n": 1}))


def test_an_actor_killed_in_mid_run_costs_nothing_and_nothing_comes_twice(cluster, tmp_path):
    uec = UEC(ensemble(tmp_path, TEXTS[900]).encoders[:2]).fit(pairs(80))
    store = QdrantStore(location=":memory:")
    done = index(Retriever(uec, store), iter(PASSAGES[:1200]), HALF)
    assert (tmp_path / "died").exists()
    assert done == Indexed(1200, 1200)
    assert len(store) == 1200
    assert {p.id for p in store.passages()} == {p.id for p in PASSAGES[:1200]}
    _, processes = encoded(tmp_path, "small")
    assert len(processes - {str(os.getpid())}) == 2  # the one that died, and the one after it


def test_several_workers_share_the_work(cluster, fitted, tmp_path):
    (tmp_path / "together").touch()
    done = index(Retriever(fitted), PASSAGES, Resources(workers=2, num_cpus=0.5))
    assert done.written == len(TEXTS)
    _, processes = encoded(tmp_path, "large")
    assert len(processes - {str(os.getpid())}) == 2
    with pytest.raises(ValueError, match="workers: expected an integer >= 1, got 0"):
        Resources(workers=0)
