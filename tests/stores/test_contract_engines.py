"""What every store in an engine does: candidates, other ensembles, other writers."""

import copy

import numpy as np
import pytest

from tests.helpers import bag_of_words, index_of, pairs, passages
from tests.stores.kinds import KINDS, QUICK, at_once, beside
from tests.stores.test_contract import QUERY, gaussians, numbered
from tests.stores.test_contract_words import alike, with_words
from uec_rag import UEC, FingerprintMismatch, Gaussian, Retriever
from uec_rag.base.similarity import moments, probit
from uec_rag.stores import LocalStore

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
    ids = [passage.id for passage in store.passages()]
    reference = LocalStore()
    reference.add(store.get(ids), store.vectors(ids))
    alike(store, reference)
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
