"""Saved records come back equal, or say what is wrong with them."""

import json
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import data_of
from uec_rag.base.records import Record

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@dataclass(frozen=True)
class Line(Record):
    slopes: tuple[float, ...]
    offset: float


@dataclass(frozen=True)
class Sheet(Record):
    name: str
    first: Line
    second: Line | None = None


@given(st.text(), st.lists(FINITE), FINITE, st.booleans())
def test_a_record_in_a_record_comes_back_from_json(name, slopes, offset, both):
    line = Line(tuple(slopes), offset)
    sheet = Sheet(name, line, line if both else None)
    assert Sheet.restore(json.loads(json.dumps(sheet.metadata()))) == sheet


@pytest.mark.parametrize(("state", "about"), data_of("no_records.json"))
def test_what_is_missing_unknown_or_of_another_type_is_refused_by_name(state, about):
    with pytest.raises(ValueError, match=rf"(?s)expected the fields of a saved.*{about}"):
        Sheet.restore(state)
