"""What a fork finds locked: nothing that is registered."""

import os
import sys
import threading
import time

import pytest

from uec_rag.base.forks import free_after_fork


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_an_inner_lock_that_is_made_while_a_fork_waits_is_free_in_the_child():
    outer, held, made = free_after_fork(threading.Lock()), threading.Event(), []

    def write():
        with outer:
            held.set()
            time.sleep(0.3)  # meanwhile the fork waits for the outer lock
            made.append(free_after_fork(threading.Lock(), inner=True))
            made[0].acquire()
        time.sleep(0.3)
        made[0].release()

    writer = threading.Thread(target=write)
    writer.start()
    held.wait()
    child = os.fork()
    if not child:
        os._exit(0 if made[0].acquire(blocking=False) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    writer.join()
