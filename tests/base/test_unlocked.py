"""What threads share waits for nobody: no thread, and no process that is gone."""

import threading
from concurrent.futures import ThreadPoolExecutor

from uec_rag.base.unlocked import Living, cached_property


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
