"""A property that is computed once waits for nobody: no thread, and no process that is gone."""

import threading

import pytest

from uec_rag.base.properties import cached_property
from uec_rag.stores import Passage


class Waiting(dict):
    """Metadata that are read only after somebody says so."""

    def __init__(self):
        super().__init__()
        self.begun, self.free = threading.Event(), threading.Event()

    def get(self, key, default=None):
        self.begun.set()
        self.free.wait()
        return default


@pytest.fixture
def busy():
    """A passage whose subject another thread is about to derive, for as long as a test takes."""
    passage = Passage("busy", "text", Waiting())
    thread = threading.Thread(target=lambda: passage.about, daemon=True)
    thread.start()
    passage.metadata.begun.wait()
    yield passage
    passage.metadata.free.set()
    thread.join()


def test_a_thread_does_not_wait_for_one_that_computes_the_same_property_of_another(busy):
    other = Passage("other", "text", {"title": "Loans"})
    thread = threading.Thread(target=lambda: other.about, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    assert other.about.subject == "Loans"


def test_threads_that_compute_it_at_once_get_the_same_object():
    both, values = threading.Barrier(2, timeout=20), []

    class Shared:
        @cached_property
        def state(self):
            """What is shared."""
            both.wait()
            return object()

    shared = Shared()
    threads = [threading.Thread(target=lambda: values.append(shared.state)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values == [shared.state] * 2
    assert (Shared.state.name, Shared.state.__doc__) == ("state", "What is shared.")
