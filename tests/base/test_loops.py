"""A method that works in one way alone is called in the other, in the loop that it belongs to."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from uec_rag.base.loops import either, from_this_loop, run_to_end


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
async def test_in_a_thread_of_a_loop_the_twin_runs_in_that_loop(first):
    method = either(refuses, awaited, awaited_first=first)
    with from_this_loop():
        number, loop = await asyncio.to_thread(method, 8)
    assert (number, loop) == (8, id(asyncio.get_running_loop()))


def test_what_is_refused_in_both_ways_is_told_as_it_was_first():
    async def also_refuses(number):
        raise NotImplementedError("neither")

    with ThreadPoolExecutor(1) as pool, pytest.raises(NotImplementedError, match="use the other"):
        pool.submit(either(refuses, also_refuses), 9).result()
