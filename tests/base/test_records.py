"""Saved records come back equal, or say what is wrong with them."""

import json
import subprocess
import sys
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


_THREADS = """
import sys, threading
from dataclasses import dataclass
from uec_rag.base.records import Record

sys.setswitchinterval(1e-6)
for _ in range(50):

    @dataclass(frozen=True)
    class Line(Record):
        slopes: tuple[float, ...]

    @dataclass(frozen=True)
    class Sheet(Record):
        line: Line
        lines: tuple[Line, ...] = ()

    state, start = Sheet(Line((1.0,))).metadata(), threading.Barrier(8)

    def restore():
        start.wait()
        Sheet.restore(state)

    threads = [threading.Thread(target=restore) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_restore_records_of_a_class_for_the_first_time_together():
    subprocess.run([sys.executable, "-c", _THREADS], check=True)
