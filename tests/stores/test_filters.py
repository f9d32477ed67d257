"""Filters of a local index, and what any combination of them means."""

import contextlib
import datetime
import itertools
import re
import unicodedata

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.helpers import data_of, random_gaussian, refused
from uec_rag.stores import LocalStore, Passage
from uec_rag.stores.comparisons import Compare, Values, holds
from uec_rag.stores.filters import check_size, key_of, matches, parse
from uec_rag.stores.metadata import normalise

pytestmark = pytest.mark.filterwarnings("ignore:filter. '.*' is compared:UserWarning")
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


DAYS = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)]
MOMENTS = [
    datetime.datetime(2024, 1, 1),
    datetime.datetime(2024, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
]
PLAIN = [None, True, False, 0, 1, 2, 1.0, 0.5, -0.0, "", "1", "a", "ab", "2024-01-01"]
VALUES = st.one_of(
    st.sampled_from([*PLAIN, *DAYS, *MOMENTS]),
    st.lists(st.sampled_from([*PLAIN, ["a"], [True], {"a": 1}]), max_size=3),
    st.dictionaries(st.sampled_from("ab"), st.sampled_from([*PLAIN, [1]]), min_size=1, max_size=2),
)


def moment(value):
    """The time of a date, from its first moment to the next one or the next day."""
    if isinstance(value, datetime.datetime):
        first = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        return first, None
    return datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC), "day"


def equals(held, asked):
    """Whether a value, or an item of a list, is one that is asked for."""
    return is_same(held, asked) or (isinstance(held, list) and has(held, asked))


def is_same(held, asked):
    """Whether two values are equal, one by one."""
    dates = [isinstance(value, datetime.date) for value in (held, asked)]
    if all(dates):
        return moment(held) == moment(asked)
    held, asked = (
        value.isoformat() if is_date else value
        for value, is_date in zip((held, asked), dates, strict=True)
    )
    if isinstance(held, bool) or isinstance(asked, bool):
        return held is asked
    if isinstance(held, list) and isinstance(asked, list):
        return len(held) == len(asked) and all(map(is_same, held, asked))
    if isinstance(held, dict) and isinstance(asked, dict):
        return held.keys() == asked.keys() and all(is_same(held[k], asked[k]) for k in held)
    return held == asked


def has(held, asked):
    if isinstance(held, list):
        return any(is_same(item, asked) for item in held)
    texts = [v.isoformat() if isinstance(v, datetime.date) else v for v in (held, asked)]
    return all(isinstance(text, str) for text in texts) and texts[1] in texts[0]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(held=st.lists(VALUES, min_size=1, max_size=8), asked=st.lists(VALUES, max_size=8))
def test_lists_of_values_select_what_comparing_one_by_one_does(held, asked):
    store, names = LocalStore(), [f"p{i}" for i in range(len(held))]
    given = [Passage(id_, id_, {"key": v}) for id_, v in zip(names, held, strict=True)]
    given.append(Passage("none", "none"))
    store.add(given, random_gaussian(np.random.default_rng(0), len(given), 2))
    among = {
        id_ for id_, v in zip(names, held, strict=True) if any(equals(v, one) for one in asked)
    }
    cases = [({"$in": asked}, among), (asked, among), ({"$nin": asked}, {*names, "none"} - among)]
    for one in asked:
        equal = {id_ for id_, v in zip(names, held, strict=True) if equals(v, one)}
        part = {id_ for id_, v in zip(names, held, strict=True) if has(v, one)}
        cases += [
            ({"$eq": one}, equal),
            ({"$ne": one}, {*names, "none"} - equal),
            ({"$contains": one}, part),
        ]
    for filter_, expected in cases:
        assert {p.id for p in store.passages({"key": filter_})} == expected, filter_
        condition = parse({"key": filter_})
        assert {p.id for p in store.passages() if matches(condition, p)} == expected, filter_


@given(
    held=st.lists(VALUES, max_size=8),
    operator=st.sampled_from(["$eq", "$gt", "$gte", "$lt", "$lte", "$contains", "$exists"]),
    asked=VALUES,
)
def test_a_comparison_with_all_values_at_once_says_what_it_does_one_by_one(held, operator, asked):
    try:
        condition = parse({"key": {operator: asked}})
    except TypeError:  # "$gt" of a list
        assume(False)
    assume(isinstance(condition, Compare))  # a text with accents is compared in each of its forms
    stored = [normalise({"key": value}, "metadata")["key"] for value in held]
    fits = Values([*Values().values, *stored]).fits(condition)
    rows = [{}, *({"key": value} for value in stored)]
    assert fits.tolist() == [holds(condition, row) for row in rows]


def test_filters_that_are_remembered_as_one_mean_the_same():
    """True is not 1, nor a date its text, though Python finds some of them equal."""
    values = [*PLAIN, *DAYS, *MOMENTS, ["a"], [1], [True], {"a": 1}, {"a": True}, {"a": [1, "1"]}]
    store = LocalStore()
    held = [Passage(f"p{i}", f"p{i}", {"key": value}) for i, value in enumerate(values)]
    store.add([*held, Passage("none", "none")], random_gaussian(np.random.default_rng(0), 25, 2))
    names = "$eq", "$ne", "$gt", "$lte", "$contains"
    filters = [{"key": {name: value}} for name in names for value in values]
    filters += [{"key": {"$in": [*two]}} for two in itertools.combinations(values, 2)]
    selected = {}
    for filter_ in filters:
        with contextlib.suppress(TypeError):  # of an order of lists
            ids = [passage.id for passage in store.passages(filter_)]
            assert selected.setdefault(key_of(parse(filter_)), ids) == ids, filter_
    assert None not in selected
    assert len(selected) > 250


@pytest.mark.parametrize("kind", ["$and", "$or", "$not"])
def test_a_filter_with_a_function_is_not_remembered(kind):
    inner = {"$or": [{"a": 1}, bool]}
    assert key_of(parse({kind: inner if kind == "$not" else [{"b": 2}, inner]})) is None
    assert key_of(parse(bool)) is None


class Counted(str):
    """A text that counts how often it is compared with another."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Counted.compared += 1
        return str.__eq__(self, other)


def test_a_list_of_values_is_not_compared_with_each_of_as_many_passages():
    condition = parse({"source": {"$in": [f"s{i}" for i in range(2000)]}})
    Counted.compared = 0
    found = [
        matches(condition, Passage("a", "", {"source": Counted(f"s{i}")})) for i in range(3000)
    ]
    assert found.count(True) == 2000
    assert Counted.compared < 10_000


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


@pytest.mark.parametrize("operator", ["plain", "$eq", "$in", "$ne", "$nin"])
def test_a_name_is_found_with_its_accents_joined_or_apart(operator):
    joined, apart = (unicodedata.normalize(form, "Geb\u00fchren.md") for form in ("NFC", "NFD"))
    for stored, asked in ((joined, apart), (apart, joined), (apart, apart)):
        value = [asked, "x"] if operator in ("$in", "$nin") else asked
        condition = parse({"source": value if operator == "plain" else {operator: value}})
        is_found = matches(condition, Passage("a", "text", {"source": stored}))
        assert is_found == (operator not in ("$ne", "$nin"))
    assert key_of(parse({"source": joined})) == key_of(parse({"source": apart}))
    assert parse({"source": "Fees.md"}) == Compare(("source",), "$eq", "Fees.md")
