"""Filters of a local index, and what any combination of them means."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import data_of, random_gaussian, refused
from uec_rag.stores import LocalStore, Passage
from uec_rag.stores.filters import check_size, matches, parse

METADATA = data_of("filtered_metadata.json")
SELECTED = data_of("filters.json")  # filters, with the ids that they select
COMPARISONS = [filter_ for filter_, _ in SELECTED] + [lambda passage: "1" in passage.text]


FILTERS = st.recursive(
    st.sampled_from(COMPARISONS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda some: {"$and": some}),
        st.lists(inner, max_size=3).map(lambda some: {"$or": some}),
        inner.map(lambda one: {"$not": one}),
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def store():
    """Passages of which some were replaced and some are gone, with values of other types."""
    store, rng = LocalStore(), np.random.default_rng(0)
    gone = [Passage(f"p{i}", "", {"year": "old", "lang": 7, "note": 3}) for i in range(3)]
    store.add([*gone, Passage("gone", "", {"tags": 5})], random_gaussian(rng, 4, 2))
    store.add(
        [Passage(f"p{i}", f"text {i}", m) for i, m in enumerate(METADATA)],
        random_gaussian(rng, len(METADATA), 2),
    )
    store.delete(["gone"])
    return store


@pytest.mark.parametrize(("filter_", "ids"), SELECTED)
def test_a_filter_selects_what_it_says(store, filter_, ids):
    assert [p.id for p in store.passages(filter_)] == ids


@settings(max_examples=300, deadline=None)
@given(filter_=FILTERS)
def test_any_combination_lets_through_what_it_says(store, filter_):
    condition = parse(filter_)
    assert [*store.passages(filter_)] == [p for p in store.passages() if matches(condition, p)]
    view = store.snapshot(filter_)
    assert [*view.passages()] == [*store.passages(filter_)]
    assert len(view) == len([*view.passages()])


@pytest.mark.parametrize(
    ("filter_", "message"),
    [
        ({f"k{i}": 1 for i in range(11)}, "10 conditions, got 11"),
        ({"$or": [{"k": 1}] * 11}, "10 conditions, got 11"),
        ({"n": {"$in": [*range(20)]}}, "20 values, got 21"),
        ({"$id": ["a"] * 21}, "20 values, got 21"),
        ({"n": [[1] * 10] * 2}, "20 values, got 21"),
        ({"n": {"a" * 31: 1}}, "30 characters in a key or a value, got 31"),
        ({"a" * 31: 1}, "30 characters in a key or a value, got 31"),
        ({"n": {"$in": ["a" * 31]}}, "30 characters in a key or a value, got 31"),
    ],
)
def test_a_filter_may_be_so_large(filter_, message):
    with pytest.raises(ValueError, match=re.escape(f"filter: expected at most {message}.")):
        check_size(parse(filter_), 10, 20, 30)
    check_size(parse(filter_), 11, 50, 31)


@pytest.mark.parametrize(
    ("filter_", "error", "message"),
    [*refused("filter"), ({3: 1}, ValueError, "expected a metadata key")],
)
def test_what_is_no_filter_is_refused_by_an_empty_store_too(store, filter_, error, message):
    for any_store in (store, LocalStore()):
        with pytest.raises(error, match=re.escape(f"filter: {message}")):
            any_store.passages(filter_)
