"""A method that works in one way alone is called in the other, in the loop that it belongs to."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from uec_rag.base.loops import beside, check_cancelled, either, run_to_end, waiting

LONGEST = 60  # seconds that nothing takes


async def awaited(number):
    await asyncio.sleep(0)
    return number, id(asyncio.get_running_loop())


def refuses(number):
    raise NotImplementedError("use the other")


def fails(number):
    raise LookupError("gone")


def test_a_coroutine_runs_to_its_end_with_and_without_a_loop_around():
    assert run_to_end(awaited(3))[0] == 3

    async def around():
        return run_to_end(awaited(4))[0]

    assert asyncio.run(around()) == 4


def test_a_refusal_is_followed_by_the_awaited_twin_and_no_other_error_is():
    assert either(refuses, awaited)(5)[0] == 5
    assert either(lambda number: number, awaited)(6) == 6
    with pytest.raises(LookupError, match="gone"):
        either(fails, awaited)(7)


@pytest.mark.parametrize("first", [False, True])
async def test_beside_a_loop_the_twin_runs_in_that_loop(first):
    number, loop = await beside(either(refuses, awaited, awaited_first=first), 8)
    assert (number, loop) == (8, id(asyncio.get_running_loop()))


async def test_a_thread_of_the_loops_own_never_waits_for_that_loop():
    async def in_its_thread(number):
        return await asyncio.to_thread(either(refuses, awaited, awaited_first=True), number)

    number, loop = await beside(either(refuses, in_its_thread), 9)
    assert (number, loop != id(asyncio.get_running_loop())) == (9, True)


def test_what_is_refused_in_both_ways_is_told_as_it_was_first():
    async def also_refuses(number):
        raise NotImplementedError("neither")

    with ThreadPoolExecutor(1) as pool, pytest.raises(NotImplementedError, match="use the other"):
        pool.submit(either(refuses, also_refuses), 9).result()


async def test_few_compute_at_once_and_any_number_waits():
    lock, computing, most, everyone = threading.Lock(), 0, 0, threading.Barrier(100)

    def work():
        nonlocal computing, most
        with lock:
            computing += 1
            most = max(most, computing)
        with lock:
            computing -= 1
        with waiting():
            everyone.wait(LONGEST)  # a hundred wait beside each other

    await asyncio.gather(*(beside(work) for _ in range(100)))
    assert most <= min(32, (os.cpu_count() or 1) + 4)


async def test_what_is_cancelled_ends_where_it_waits_and_is_never_begun_if_it_has_not():
    let_go, begun, ended, order = threading.Event(), threading.Event(), threading.Event(), []

    def work():
        try:
            with waiting():
                begun.set()
                assert let_go.wait(LONGEST)
            order.append("went on")
        except asyncio.CancelledError:
            order.append("ended")
            ended.set()

    task = asyncio.create_task(beside(work))
    await beside(begun.wait, LONGEST)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    let_go.set()
    await beside(ended.wait, LONGEST)
    assert order == ["ended"]
    check_cancelled()  # this is another call


async def test_a_failure_of_the_store_itself_is_no_cancellation():
    async def cancelled(number):
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="has cancelled itself"):
        await beside(either(refuses, cancelled), 3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_forked_child_has_threads_of_its_own():
    assert asyncio.run(beside(os.getpid)) == os.getpid()
    if not (child := os.fork()):
        code = 1
        try:
            code = int(asyncio.run(beside(os.getpid)) != os.getpid())
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
