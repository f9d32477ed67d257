"""A sheet's cells, and several tables in one sheet or CSV."""

import re

import pytest

from tests.documents.files import read, unzipped, write_xlsx, written, zipped
from tests.helpers import data_of
from uec_rag.documents.document import Section
from uec_rag.documents.readers import read_content

TABLES = data_of("tables_in_one.json")


def lines(name, rows):
    """The lines of the tables of rows, some of which are empty."""
    if name.endswith(".xlsx"):
        data = written(write_xlsx, rows)
    else:
        data = "\n".join(",".join(map(str, row)) for row in rows).encode()
    tables = [one for one in read_content(name, data).pages[0].blocks if hasattr(one, "names")]
    return "\n".join(table.text() for table in tables).split("\n")


@pytest.mark.parametrize("name", ["a.csv", "a.xlsx"])
@pytest.mark.parametrize(("rows", "last"), TABLES["another"])
def test_another_head_below_an_empty_row_begins_another_table(name, rows, last):
    found = lines(name, rows)
    assert found[-1] == last
    assert found[0] == lines(name, rows[:2])[0]


@pytest.mark.parametrize("name", ["a.csv", "a.xlsx"])
@pytest.mark.parametrize("rows", TABLES["the same"])
def test_rows_below_an_empty_one_stay_in_their_table(name, rows):
    assert lines(name, rows) == lines(name, [*filter(None, rows)])


def test_a_title_belongs_to_the_table_below_it():
    trains = [["Trains"], ["Train", "Seats"], ["Night", 48], ["Day", 60]]
    rows = [*trains, [], ["Ferries"], [], ["Ferry", "Cars"], ["Dawn", 12]]
    assert lines("a.xlsx", rows) == [
        *("Trains", "Train: Night, Seats: 48", "Train: Day, Seats: 60"),
        *("Ferries", "Ferry: Dawn, Cars: 12"),
    ]


def test_cells_beyond_the_size_that_a_sheet_claims_are_read():
    parts = unzipped(written(write_xlsx, [("item", "count"), ("flour", 3)]))
    claimed = {name: re.sub(rb'ref="A1:B2"', b'ref="A1"', part) for name, part in parts.items()}
    sections = (Section(("Stock",), "item: flour, count: 3"),)
    assert read("a.xlsx", zipped(claimed))[1] == sections
