"""What a store takes it can save, and gives back as it was."""

import decimal
import enum
import json
import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from pathlib import Path

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uec_rag import Gaussian
from uec_rag.stores import LocalStore, Passage
from uec_rag.stores.filters import matches, parse
from uec_rag.stores.metadata import DateText, KeptText, normalise
from uec_rag.stores.passage import make_passages

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
leaves = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    leaves, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20
)


@pytest.mark.slow
@given(st.dictionaries(texts, values))
def test_what_json_brings_back_is_kept_as_it_is(metadata):
    assert json.loads(json.dumps(normalise(metadata, "metadata"))) == metadata


class Colour(enum.StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (datetime(2026, 1, 31, 12, tzinfo=UTC), DateText("2026-01-31T12:00:00+00:00")),
        (date(2026, 1, 31), DateText("2026-01-31")),
        (Path("a") / "b", "a/b"),
        (uuid.UUID(int=0), "00000000-0000-0000-0000-000000000000"),
        (decimal.Decimal("0.5"), 0.5),
        (decimal.Decimal("2e3"), 2000),
        (float("nan"), None),
        (np.float32("nan"), None),
        (decimal.Decimal("nan"), None),
        (time(12, 30), "12:30:00"),
        (np.int64(3), 3),
        (2**53, 2**53),
        (-(2**53) - 1, "-9007199254740993"),
        (np.uint64(2**64 - 1), "18446744073709551615"),
        (decimal.Decimal(2**60), "1152921504606846976"),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (np.datetime64("2026-01-31"), DateText("2026-01-31")),
        (pandas.NaT, None),
        (Colour.RED, "red"),
        ((1, (2,)), [1, [2]]),
    ],
)
def test_dates_numpy_and_tuples_are_converted_as_said(value, expected):
    found = normalise({"value": [value]}, "metadata")["value"][0]
    kind = KeptText if isinstance(found, KeptText) and type(expected) is str else type(expected)
    assert (found, type(found)) == (expected, kind)


def endless():
    value = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("metadata", "error", "message"),
    [
        ({"a": {"b": [0, {1}]}}, TypeError, r"metadatas\[1\]\['a'\]\['b'\]\[1\]: .* got set"),
        ({"a": b"x"}, TypeError, "got bytes"),
        ({"a": np.zeros(2)}, TypeError, "got ndarray"),
        ({"a": 1j}, TypeError, "got complex"),
        ({"a": {1: "x"}}, TypeError, r"metadatas\[1\]\['a'\]: expected strings as keys, got 1"),
        ({"a": endless()}, ValueError, "nested deeper, or contains itself"),
        ({"a": "half \ud800"}, ValueError, r"metadatas\[1\]\['a'\] is not valid Unicode"),
        ({"\ud800": 1}, ValueError, "a key is not valid Unicode"),
        ({"a": {"b": np.float32("inf")}}, ValueError, r"\['a'\]\['b'\]: .* finite number, got inf"),
        ({"a": "x\0"}, ValueError, r"\['a'\] holds a NUL character, at 1"),
        ({"a\0": 1}, ValueError, "a key holds a NUL character"),
    ],
)
def test_what_could_not_be_saved_is_refused_with_the_path_to_it(metadata, error, message):
    with pytest.raises(error, match=message):
        make_passages(["x", "y"], None, [{}, metadata])


DAY = date(2024, 1, 31)
HELSINKI = timezone(timedelta(hours=2))
TIMES = {
    "day": DAY,
    "morning": datetime(2024, 1, 31, 10),
    "first": datetime(2024, 1, 31),
    "abroad": datetime(2024, 2, 1, 1, tzinfo=HELSINKI),
    "next": date(2024, 2, 1),
    "text": "2024-01-31",
}


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"$lte": DAY}, "day morning first abroad text"),
        ({"$gt": DAY}, "next"),
        ({"$gte": datetime(2024, 1, 31)}, "day morning first abroad next text"),
        ({"$gte": DAY, "$lt": date(2024, 2, 1)}, "day morning first abroad text"),
        ({"$lt": DAY}, ""),
        ({"$lte": datetime(2024, 1, 31)}, "day first text"),
        ({"$gt": datetime(2024, 1, 31, 22, tzinfo=UTC)}, "abroad next"),
        (DAY, "day text"),
        (datetime(2024, 1, 31, 23, tzinfo=UTC), "abroad"),
        ({"$in": [DAY, datetime(2024, 1, 31, 10)]}, "day morning text"),
        ({"$gt": "2024-01-31"}, "morning first abroad next"),
    ],
)
def test_dates_are_compared_as_moments_and_come_back_as_they_were_given(asked, found, tmp_path):
    passages = [Passage(name, name, {"d": d}) for name, d in TIMES.items()]
    memory, folder = LocalStore(), LocalStore(tmp_path / "idx")
    for store in (memory, folder):
        store.add(passages, Gaussian(np.ones((6, 2)), np.zeros((6, 2))))
    for store in (memory, folder, LocalStore(tmp_path / "idx")):
        assert " ".join(p.id for p in store.passages({"d": asked})) == found
        condition = parse({"d": asked})
        assert " ".join(p.id for p in store.passages() if matches(condition, p)) == found
    given = [str(d) for d in TIMES.values()]
    assert [p.metadata["d"].replace("T", " ") for p in memory.get([*TIMES])] == given


@pytest.mark.parametrize("dates", [str, date.fromisoformat], ids=["text", "dates"])
def test_a_date_finds_dates_that_are_kept_as_text(small, dates):
    days = ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04", "2024-02-01"]
    metadatas = [{"d": dates(day)} for day in days]
    small.add([f"tavone {day}" for day in days], days, metadatas)
    for asked in (date(2024, 1, 3), datetime(2024, 1, 3)):
        assert [p.id for p in small.passages({"d": {"$gte": asked}})] == days[2:]


def test_operators_on_what_a_dict_holds_are_parsed(small):
    pages = [{"loc": {"page": page, "in": {"line": 1}}} for page in (1, 2, 3)]
    small.add(["tavone", "tavone b", "tavone c"], ids=["1", "2", "3"], metadatas=pages)
    for filter, ids in (
        ({"loc": {"page": {"$gte": 2}}}, ["2", "3"]),
        ({"loc": {"page": {"$gte": 2}, "in": {"line": {"$lt": 2}}}}, ["2", "3"]),
        ({"loc": {"page": {"$gte": 2, "$ne": 3}}}, ["2"]),
        ({"loc": {"page": 2, "in": {"line": 1}}}, ["2"]),
    ):
        assert [p.id for p in small.passages(filter)] == ids


def test_a_text_that_is_given_twice_with_one_id_is_added_once(small):
    twice = ["tavone", "golugo", "tavone"]
    metadatas = [{"n": 1}, {"n": 2}, {"n": 3}]
    assert small.add(twice, ["a", "b", "a"], metadatas) == ["a", "b", "a"]
    assert {p.id: p.metadata["n"] for p in small.get(["a", "b"])} == {"a": 3, "b": 2}
    before = len(small)
    with pytest.raises(ValueError, match=r"ids: 'c' is given twice, with the texts 'x' and 'y'"):
        small.add(["x", "tavone", "y"], ["c", "d", "c"])
    assert len(small) == before
