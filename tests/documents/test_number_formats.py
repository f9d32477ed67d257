"""What a sheet shows for a value."""

import pytest

from tests.helpers import data_of
from uec_rag.documents.number_formats import show


@pytest.mark.parametrize(("value", "code", "shown"), data_of("number_formats.json"))
def test_a_value_is_shown_as_its_format_says(value, code, shown):
    assert show(value, code) == shown


def test_days_are_counted_from_1904_where_the_workbook_does():
    assert show(1, "yyyy-mm-dd", from_1904=True) == "1904-01-02"


@pytest.mark.parametrize(
    "code",
    ["%" * 255, "0" * 255, "?/" * 127, "# ?/" + "?" * 251, "0.0E+0" * 42, "[" * 255, "0,." * 85],
)
@pytest.mark.parametrize("value", [1e308, -5e-324, 0.0, 1 / 3])
def test_no_format_makes_more_of_a_number_than_its_digits(code, value):
    assert len(show(value, code)) < 2_000
    assert show(value, code + "0" * 256) == show(value, "General")
