"""Saved records come back equal, or say what is wrong with them."""

import gc
import json
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import data_of
from uec_rag.base.records import Living, Memory, Record, cached_property

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


def test_threads_restore_records_of_a_class_for_the_first_time_together():
    for _ in range(50):

        @dataclass(frozen=True)
        class Page(Record):
            first: Line
            lines: tuple[Line, ...] = ()

        page, start = Page(Line((1.0,), 0.0)), threading.Barrier(8, timeout=600)

        def restore(_, page=page, start=start):
            start.wait()
            return page.restore(page.metadata())

        with ThreadPoolExecutor(8) as pool:
            assert [*pool.map(restore, range(8))] == [page] * 8


class Shared:
    def __init__(self, wait):
        self.wait = wait

    @cached_property
    def state(self):
        """What is shared."""
        self.wait()
        return object()


def test_a_thread_does_not_wait_for_one_that_computes_the_property_of_another():
    begun, free = threading.Event(), threading.Event()
    busy, other = Shared(lambda: begun.set() or free.wait(20)), Shared(lambda: None)
    with ThreadPoolExecutor(1) as pool:
        computing = pool.submit(lambda: busy.state)
        begun.wait()
        assert other.state is other.state
        assert not computing.done()
        free.set()
        assert computing.result() is busy.state


def test_threads_that_compute_it_at_once_get_the_same_object():
    shared = Shared(threading.Barrier(2, timeout=600).wait)
    with ThreadPoolExecutor(2) as pool:
        values = [pool.submit(lambda: shared.state) for _ in range(2)]
    assert [value.result() for value in values] == [shared.state] * 2
    assert (Shared.state.name, Shared.state.__doc__) == ("state", "What is shared.")


def test_objects_are_listed_while_other_threads_add_some():
    living, kept = Living(), [Shared(None) for _ in range(5000)]

    def add():
        for each in kept:
            living.add(each)

    with ThreadPoolExecutor(1) as pool:
        adding = pool.submit(add)
        while not adding.done():
            assert {*living} <= {*kept}
        adding.result()
    assert [*living] == kept
    del kept[10:]
    assert [*living] == kept


def test_a_memory_of_an_object_is_its_own_and_goes_with_it():
    class Shop:
        def __eq__(self, other):
            return True

    memory, first, second = Memory(list), Shop(), Shop()
    memory.of(first).append("bread")
    assert (memory.of(first), memory.of(second)) == (["bread"], [])
    ware = Shared(None)
    memory.of(second).append(ware)
    reference = weakref.ref(ware)
    del second, ware
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("owner", [None, 7, "a name"])
def test_of_a_value_that_is_no_object_of_somebody_nothing_is_remembered(owner):
    memory = Memory(list)
    memory.of(owner).append("bread")
    assert memory.of(owner) == []
