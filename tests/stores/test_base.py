"""What a store takes it can save, and gives back as it was."""

import datetime
import enum
import json
import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import bag_of_words
from uec_rag import UEC, Retriever
from uec_rag.stores import base as stored
from uec_rag.stores.base import make_passages, normalise

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
leaves = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    leaves, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20
)


@given(st.dictionaries(texts, values))
def test_what_json_brings_back_is_kept_as_it_is(metadata):
    assert json.loads(json.dumps(normalise(metadata, "metadata"))) == metadata


class Colour(enum.StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC), "2026-01-31T12:00:00+00:00"),
        (datetime.date(2026, 1, 31), "2026-01-31"),
        (datetime.time(12, 30), "12:30:00"),
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (np.datetime64("2026-01-31"), "2026-01-31"),
        (Colour.RED, "red"),
        ((1, (2,)), [1, [2]]),
    ],
)
def test_dates_numpy_and_tuples_are_converted_as_said(value, expected):
    found = normalise({"value": [value]}, "metadata")["value"][0]
    assert (found, type(found)) == (expected, type(expected))


def endless():
    value = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("metadata", "error", "message"),
    [
        ({"a": {"b": [0, {1}]}}, TypeError, r"metadatas\[1\]\['a'\]\['b'\]\[1\]: .* got set"),
        ({"a": b"x"}, TypeError, "got bytes"),
        ({"a": uuid.UUID(int=0)}, TypeError, "got UUID"),
        ({"a": np.zeros(2)}, TypeError, "got ndarray"),
        ({"a": 1j}, TypeError, "got complex"),
        ({"a": {1: "x"}}, TypeError, r"metadatas\[1\]\['a'\]: expected strings as keys, got 1"),
        ({"a": endless()}, ValueError, "nested deeper, or contains itself"),
        ({"a": "half \ud800"}, ValueError, r"metadatas\[1\]\['a'\] is not valid Unicode"),
        ({"\ud800": 1}, ValueError, "a key is not valid Unicode"),
        ({"a": 10**5000}, ValueError, r"\['a'\]: .* from -2\*\*53 to 2\*\*53, .* as text"),
        ({"a": [-(2**53) - 1]}, ValueError, r"\['a'\]\[0\]: expected whole numbers from"),
        ({"a": np.uint64(2**64 - 1)}, ValueError, "got one of 64 bits"),
        ({"a": float("nan")}, ValueError, "expected a finite number, got nan"),
        ({"a": {"b": np.float32("inf")}}, ValueError, r"\['a'\]\['b'\]: .* finite number, got inf"),
        ({"a": "x\0"}, ValueError, r"\['a'\] holds a NUL character, at 1"),
        ({"a\0": 1}, ValueError, "a key holds a NUL character"),
    ],
)
def test_what_could_not_be_saved_is_refused_with_the_path_to_it(metadata, error, message):
    with pytest.raises(error, match=message):
        make_passages(["x", "y"], None, [{}, metadata])


def test_a_filter_may_name_a_date_as_it_was_given(small):
    day = datetime.date(2026, 1, 31)
    small.add(["tavone"], ids=["new"], metadatas=[{"day": day, "size": (1, 2)}])
    for where in ({"day": day}, {"day": "2026-01-31"}, {"size": (1, 2)}, {"size": [1, 2]}):
        assert small.search(["tavone"], filter=where).ids == [["new"]]


def test_metadata_is_checked_and_copied_once_on_its_way_in(monkeypatch):
    seen, checked = [], stored.normalise
    monkeypatch.setattr(
        stored, "normalise", lambda given, where: seen.append(where) or checked(given, where)
    )
    retriever, given = Retriever(UEC([bag_of_words(8, "words")])), {"tags": ["a"], "rows": (1, 2)}
    retriever.add(["one", "two"], ["1", "2"], [given, given])
    assert seen == ["metadatas[0]", "metadatas[1]"]
    given["tags"].append("b")
    [held] = retriever.get(["1"])
    assert held.metadata == {"tags": ["a"], "rows": [1, 2]}
    held.metadata["tags"].append("c")
    assert retriever.get(["1", "2"])[0].metadata["tags"] == ["a"]
    retriever.store.add([held], retriever.vectors(["1"]))  # which may come from anywhere
    assert seen[2:] == ["metadata of '1'"]
