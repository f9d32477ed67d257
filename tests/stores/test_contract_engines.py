"""What every store in an engine does: candidates, other ensembles, other writers."""

import copy

import numpy as np
import pytest

from tests.helpers import bag_of_words, index_of, pairs, passages
from tests.stores.kinds import KINDS, QUICK, at_once, beside
from tests.stores.test_contract import QUERY, gaussians, numbered
from tests.stores.test_contract_words import with_words
from uec_rag import UEC, FingerprintMismatch, Gaussian, Retriever
from uec_rag.base.similarity import moments, probit
from uec_rag.stores import Passage

every_engine = pytest.mark.parametrize("kind", QUICK)
SEVERAL = [kind for kind in QUICK if kind not in ("qdrant in memory", "qdrant's engine")]
"""Those that several processes, or threads, may write to."""


@every_engine
def test_the_order_is_that_of_an_exact_search_of_as_many_candidates_as_were_asked_for(store):
    some, orders = gaussians(0, 1000), []  # so unsure that the best are not the nearest
    stored = Gaussian.from_factors(some.mean, 100 * some.scales, some.profile, widths=some.widths)
    store.add(numbered(range(1000)), stored)
    mu, sigma2 = moments(QUERY, stored)
    scores = probit(mu, sigma2, 1.0)
    for store.candidates in (256, 20):
        near = np.argsort(-mu, axis=1)[:, : store.candidates]
        best = np.argsort(-np.take_along_axis(scores, near, axis=1), axis=1)[:, :5]
        found = store.search(QUERY, 5, beta=1.0)
        assert not found.exact
        orders.append([[int(p.id[1:]) for p in row] for row in found.passages])
        assert orders[-1] == np.take_along_axis(near, best, axis=1).tolist()
    assert orders[0] != orders[1]


KEYS = ["a b", "a.b", 'quo"te', "per%cent", "semi;colon'", "ünï", "x[]", "-", "k" * 200]


@every_engine
def test_any_key_may_be_filtered_by(store, kind):
    keys = KEYS[:3] if kind == "qdrant by http" else KEYS  # which takes them as others do
    values = [5, "some text", ["text"]]
    given = [Passage(f"{key} {i}", "", {key: v}) for key in keys for i, v in enumerate(values)]
    store.add(given, gaussians(0, len(given)))
    for key in keys:
        for condition, wanted in ((5, "0"), ({"$gt": 4}, "0"), ({"$contains": "text"}, "12")):
            if '"' in key and wanted != "0":
                with pytest.raises(ValueError, match="under a key with a quotation mark"):
                    store.passages({key: condition})
                continue
            found = {p.id for p in store.passages({key: condition})}
            assert found == {f"{key} {i}" for i in wanted}, condition


@every_engine
def test_who_had_it_open_when_another_ensemble_took_the_place_is_told(store):
    """Before it searches, and before it writes its own beside theirs."""
    texts, ids = passages(20), [f"p{i}" for i in range(20)]
    first, other = (UEC([bag_of_words(24, "words")]).fit(pairs(64, seed=i)) for i in range(2))
    mine = index_of(first, texts, ids, store=store)
    mine.search(texts[:2], k=3)
    theirs = beside(store)
    theirs.delete(ids)
    Retriever(other, theirs).add(texts, ids)
    for call in (
        lambda: mine.search(texts[:2], k=3),
        lambda: mine.add(["something new"], ["new"]),
        lambda: mine.search(texts[:2], k=3),
    ):
        with pytest.raises(FingerprintMismatch, match="holds vectors of another ensemble"):
            call()
    assert len(theirs) == 20


@pytest.mark.parametrize("kind", SEVERAL)
def test_writers_at_the_same_time_lose_nothing_and_words_are_counted_exactly(store):
    """They make the place at the same time, write the same passages and their own, and delete."""
    stores = [store, *(beside(store) for _ in "abc")]

    def write(place, store):
        for turn in range(3):
            numbers = [*range(40), *range(100 * place + 100, 100 * place + 120)]
            order = np.random.default_rng([place, turn]).permutation(numbers)
            store.add(numbered(order.tolist()), with_words(10 * place + turn, 60))
            store.delete([f"p{i}" for i in range(turn, 40, 3 + place)])

    at_once(write, stores)
    own = {f"p{i}" for place in range(4) for i in range(100 * place + 100, 100 * place + 120)}
    every = {f"p{i}" for i in range(40)} | own
    for one in stores:
        assert own <= {p.id for p in one.passages()} <= every
        assert one.stamp() == store.stamp()
    points = [*store._scan(None)]
    keys = np.unique(np.concatenate([point.words[0].keys for point in points]))
    found = store._count_terms(0, keys)
    held = [sum(key in point.words[0].keys for point in points) for key in keys]
    assert found.counts_of(keys).tolist() == held
    assert found.passages == len(points) == len(store)
    assert found.length == sum(float(point.words[0].counts.sum()) for point in points)
    for one in stores[1:]:
        one.close()


def test_the_contract_is_run_on_every_engine():
    assert {"qdrant's engine", "qdrant by http"} <= {*QUICK} < {*KINDS}


@every_engine
def test_a_copy_of_a_retriever_searches_the_same_collection(store):
    retriever = index_of(
        UEC([bag_of_words(24, "first")]).fit(pairs(64)),
        passages(20),
        [f"p{i}" for i in range(20)],
        store=store,
    )
    copied = copy.deepcopy(retriever)
    assert copied.search(["badero"]).ids == retriever.search(["badero"]).ids
    copied.delete(["p0"])
    assert len(retriever) == len(copied) == 19
    assert copy.deepcopy(retriever.snapshot()).search(["badero"], k=3).scores.shape == (1, 3)


# What is read of an engine that others write to.


@every_engine
def test_the_stamp_is_another_one_after_every_write(store):
    seen = [store.stamp()]
    for write in (
        lambda: store.add(numbered(range(3)), gaussians(0, 3)),
        lambda: store.add(numbered(range(3)), gaussians(1, 3)),
        lambda: store.delete(["p1"]),
    ):
        write()
        seen.append(beside(store).stamp())
        assert beside(store).stamp() == seen[-1]
    assert len({*seen}) == 4


@every_engine
def test_what_was_replaced_by_another_is_not_read_from_before(store):
    store.add(numbered(range(9)), gaussians(0, 9))
    before = store.sample(5).mean
    beside(store).add(numbered(range(9)), gaussians(1, 9))
    assert not np.array_equal(store.sample(5).mean, before)
    np.testing.assert_array_equal(store.sample(5).mean, beside(store).sample(5).mean)


@every_engine
def test_samples_for_many_filters_are_not_all_kept(store):
    store.add(numbered(range(3)), gaussians(0, 3))
    for number in range(40):
        assert len(store.snapshot({"$id": ["p0", f"other {number}"]}).sample(5)) == 1
    assert len(store._read.samples) <= 32


@every_engine
def test_what_a_view_has_found_stays_though_another_deletes_it(store):
    store.add(numbered(range(50)), with_words(0, 50))
    query, view = with_words(9, 2), store.snapshot()
    found = view.search(query, 10, beta=1.0)
    ids = [[passage.id for passage in row] for row in found.passages]
    beside(store).delete([id_ for row in ids for id_ in row])
    assert len(view.vectors(ids[0])) == 10
    with pytest.raises(KeyError, match="is not in the store"):
        store.vectors(ids[0])


@every_engine
def test_an_index_that_finds_too_few_is_not_gone_by(store, monkeypatch):
    """Every query has as many hits as there are, or as were asked for."""
    store.add(numbered(range(400)), gaussians(0, 400))
    query, near = gaussians(9, 3), store._near
    expected = store.search(query, 5, beta=1.0)

    def missing(*asked, exact):
        return near(*asked, exact=exact) if exact else []

    monkeypatch.setattr(store, "_near", missing)
    found = store.search(query, 5, beta=1.0)
    assert [[p.id for p in row] for row in found.passages] == [
        [p.id for p in row] for row in expected.passages
    ]
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)
