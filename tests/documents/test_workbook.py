"""A sheet's cells, and several tables in one sheet or CSV."""

import io
import re
import zipfile

import pytest
from openpyxl import Workbook

from tests.documents.files import sections_of, write_xlsx, written
from uec_rag.documents.document import Section
from uec_rag.documents.readers import read_content

TRAINS = [["Train", "Seats"], ["Night", 48], ["Day", 60]]
STAFF = [["Role", "Name"], ["Guard", "Ann"], ["Driver", "Bob"]]


def lines(name, rows):
    """The lines of the tables of rows, some of which are empty."""
    if name.endswith(".xlsx"):
        data = written(write_xlsx, rows)
    else:
        data = "\n".join(",".join(map(str, row)) for row in rows).encode()
    tables = [one for one in read_content(name, data).pages[0].blocks if hasattr(one, "names")]
    return "\n".join(table.text() for table in tables).split("\n")


@pytest.mark.parametrize("name", ["a.csv", "a.xlsx"])
@pytest.mark.parametrize(
    ("rows", "last"),
    [
        ([*TRAINS, [], ["Ferry", "Cars"], ["Dawn", 12]], "Ferry: Dawn, Cars: 12"),
        ([*TRAINS, [], [], *STAFF], "Role: Driver, Name: Bob"),
        ([*STAFF, [], *TRAINS], "Train: Day, Seats: 60"),
        ([*TRAINS, [], *TRAINS], "Train: Day, Seats: 60"),
        (
            [*TRAINS, [], ["Port", "Pier", "Open"], ["Oslo", 3, "May"]],
            "Port: Oslo, Pier: 3, Open: May",
        ),
        ([["A", "B", "C"], ["x", "y", "z"], [], *STAFF], "Role: Driver, Name: Bob"),
        ([*STAFF, [], *TRAINS, [], ["Port", "Pier"], ["Oslo", 3]], "Port: Oslo, Pier: 3"),
    ],
)
def test_another_head_below_an_empty_row_begins_another_table(name, rows, last):
    found = lines(name, rows)
    assert found[-1] == last
    assert found[0] == lines(name, rows[:2])[0]


@pytest.mark.parametrize("name", ["a.csv", "a.xlsx"])
@pytest.mark.parametrize(
    "rows",
    [
        [*TRAINS, [], ["Dusk", 20], ["Dawn", 12]],
        [*STAFF, [], ["Cook", "Cid"], ["Clerk", "Dan"]],
        [*TRAINS, [], ["Sleepers"], ["Dusk", 20], ["Dawn", 12]],
    ],
)
def test_rows_below_an_empty_one_stay_in_their_table(name, rows):
    assert lines(name, rows) == lines(name, [*filter(None, rows)])


def test_a_title_belongs_to_the_table_below_it():
    rows = [["Trains"], *TRAINS, [], ["Ferries"], [], ["Ferry", "Cars"], ["Dawn", 12]]
    assert lines("a.xlsx", rows) == [
        *("Trains", "Train: Night, Seats: 48", "Train: Day, Seats: 60"),
        *("Ferries", "Ferry: Dawn, Cars: 12"),
    ]


def test_cells_beyond_the_size_that_a_sheet_claims_are_read(tmp_path):
    book, content = Workbook(), io.BytesIO()
    book.active.append(["item", "count"])
    book.active.append(["flour", 3])
    book.save(content)
    with zipfile.ZipFile(content) as saved, zipfile.ZipFile(tmp_path / "a.xlsx", "w") as claimed:
        for name in saved.namelist():
            claimed.writestr(name, re.sub(rb'ref="A1:B2"', b'ref="A1"', saved.read(name)))
    assert sections_of(tmp_path) == [Section(("Sheet",), "item: flour, count: 3")]
