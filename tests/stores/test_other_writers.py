"""What is read of an engine that others write to."""

import numpy as np
import pytest

from tests.stores.kinds import QUICK, beside
from tests.stores.test_contract import gaussians, numbered
from tests.stores.test_contract_words import with_words

every_engine = pytest.mark.parametrize("kind", QUICK)


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
    query, near = gaussians(9, 3), store.near
    expected = store.search(query, 5, beta=1.0)

    def missing(*asked, exact):
        return near(*asked, exact=exact) if exact else []

    monkeypatch.setattr(store, "near", missing)
    found = store.search(query, 5, beta=1.0)
    assert [[p.id for p in row] for row in found.passages] == [
        [p.id for p in row] for row in expected.passages
    ]
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)
