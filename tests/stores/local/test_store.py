from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import random_gaussian
from uec_rag import Gaussian
from uec_rag.base.similarity import moments, probit
from uec_rag.stores import LocalStore, Passage
from uec_rag.stores.encodings import GIVEN
from uec_rag.stores.local.store import copy_view

PROFILE = np.float32([[0.5, 0.0, 1.0], [0.25, 2.0, 0.0]])
IDS = [*"abcdefghij"]

# Multiples of 1/4 times powers of two: sums of their products are exact in float32, in any order,
# so that the store and the reference must agree to the last bit, ties included. Products are
# multiples of 2^-8, hence 2^12 and not much more beside them, or so much more that nothing is left
# of them.
GRID = st.integers(-4, 4).map(lambda i: i / 4)
SIZES = st.sampled_from([0.0, 0.25, 1.0, 2.0**12, 2.0**60])


def passage(id_, text="text", **metadata):
    return Passage(id_, text, metadata)


def gaussian(mean, scales, factored):
    if factored:
        return Gaussian.from_factors(mean, scales[:, :2], PROFILE)
    return Gaussian(mean, scales)


def everything(store, query, k, beta, keep=lambda passage: True):
    """Score all passages with the pure functions, then sort; ties in the order they came."""
    chosen = [p for p in store.passages() if keep(p)]
    mu, sigma2 = moments(query, GIVEN.passages(store.vectors([p.id for p in chosen])))
    scores = probit(mu, sigma2, beta)
    order = [sorted(range(len(chosen)), key=lambda i: (-row[i], i))[:k] for row in scores]
    return (
        [[chosen[i].id for i in row] for row in order],
        np.take_along_axis(scores, np.array(order, dtype=int).reshape(len(query), -1), axis=1),
    )


def ids(found):
    return [[p.id for p in row] for row in found.passages]


@st.composite
def histories(draw):
    """Writes to a store: each adds or replaces passages, or deletes some."""
    writes = []
    for _ in range(draw(st.integers(1, 6))):
        chosen = draw(st.lists(st.sampled_from(IDS), min_size=1, max_size=8, unique=True))
        if draw(st.booleans()) or not writes:
            rows = st.lists(
                st.tuples(GRID, GRID, GRID, SIZES, SIZES, SIZES),
                min_size=len(chosen),
                max_size=len(chosen),
            )
            writes.append((chosen, np.float32(draw(rows))))
        else:
            writes.append((chosen, None))
    return writes


@settings(max_examples=150, deadline=None)
@given(
    writes=histories(),
    factored=st.booleans(),
    queries=st.lists(
        st.tuples(GRID, GRID, GRID, *[st.sampled_from([0.0, 0.5])] * 3), min_size=1, max_size=3
    ),
    k=st.integers(1, 12),
    beta=st.sampled_from([0.0, 0.01, 1.0, 1e4]),
    letters=st.sets(st.sampled_from(IDS)),
)
def test_search_equals_scoring_everything_whatever_was_written_before(
    writes, factored, queries, k, beta, letters
):
    store, expected = LocalStore(), {}
    for chosen, rows in writes:
        before, there = store.snapshot(), [*store.passages()]
        if rows is None:
            assert store.delete(chosen) == len([expected.pop(i) for i in chosen if i in expected])
        else:
            store.add(
                [
                    passage(i, f"{i} {rows[n]}", even=IDS.index(i) % 2 == 0)
                    for n, i in enumerate(chosen)
                ],
                gaussian(rows[:, :3], rows[:, 3:], factored),
            )
            for n, i in enumerate(chosen):
                expected.pop(i, None)
                expected[i] = (f"{i} {rows[n]}", rows[n])
    assert len(store) == len(expected)
    assert [(p.id, p.text) for p in store.passages()] == [(i, t) for i, (t, _) in expected.items()]
    assert [p.id for p in store.get(IDS)] == [i for i in IDS if i in expected]
    assert [*before.passages()] == there  # as it was before the last write
    if not expected:
        return
    stored = GIVEN.passages(store.vectors(list(expected)))
    np.testing.assert_array_equal(stored.mean, [row[:3] for _, row in expected.values()])

    queries = np.float32(queries)
    query = gaussian(queries[:, :3], queries[:, 3:], factored)
    similarities = store.snapshot().compare([query.mean]).similarities[0]
    np.testing.assert_array_equal(similarities, query.mean @ stored.mean.T)
    in_letters = lambda p: p.id in letters  # noqa: E731
    cases = [(None, lambda p: True), (in_letters, in_letters)]
    if any(p.metadata["even"] for p in store.passages()):
        cases.append(({"even": True}, lambda p: p.metadata["even"]))
    for filter_, keep in cases:
        wanted, scores = everything(store, query, k, beta, keep)
        view = store.snapshot(filter_)
        found = view.search(query, k, beta=beta)
        assert ids(found) == wanted
        np.testing.assert_array_equal(found.scores, scores)
        np.testing.assert_array_equal(probit(found.mu, found.sigma2, beta), found.scores)


@pytest.mark.slow
def test_full_segments_are_left_alone():
    """As many as are merged of smaller ones, and one more."""
    store, rng = LocalStore(), np.random.default_rng(0)
    for first in range(0, 9 * 2**16, 2**16):
        passages = [Passage(str(row), "text") for row in range(first, first + 2**16)]
        store.add(passages, random_gaussian(rng, 2**16, 2))
    assert len(store) == 9 * 2**16
    assert store.get(["589823"])[0].text == "text"


def test_what_a_view_has_is_copied_after_its_files_were_merged(tmp_path):
    store, rng = LocalStore(tmp_path / "index"), np.random.default_rng(0)
    store.add([passage(str(i)) for i in range(1000)], random_gaussian(rng, 1000, 32))
    view = store.snapshot()
    store.delete([str(i) for i in range(750)])
    copy = LocalStore(tmp_path / "copy")
    copy_view(view, copy, {})
    copy.check()
    assert (len(store), len(copy)) == (250, 1000)
    names = ["3", "999"]
    [held], [expected] = copy.vectors(names), view.vectors(names)
    np.testing.assert_array_equal(held.embedding, expected.embedding)
    np.testing.assert_array_equal(held.features, expected.features)


def test_filters_see_what_is_written_undone_and_written_by_others(tmp_path):
    store, other = LocalStore(tmp_path / "idx"), LocalStore(tmp_path / "idx")
    one = Gaussian(np.ones((1, 2)), np.zeros((1, 2)))

    def counts(value):
        return [len(each.snapshot({"k": value})) for each in (store, other)]

    store.add([passage("a", k=1)], one)
    assert counts(1) == [1, 1]
    with suppress(KeyError), store.changing():
        store.add([passage("b", k=1)], one)
        assert counts(1) == [2, 1]
        raise KeyError
    other.add([passage("c", k=2)], one)  # in the row that the undone one had
    assert (counts(1), counts(2)) == ([1, 1], [1, 1])
    for number in range(70):  # more keys than are kept
        assert len(store.snapshot({f"other {number}": 1})) == 0
    assert counts(1) == [1, 1]
