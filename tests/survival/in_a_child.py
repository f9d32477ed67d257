"""Experiments that may end or hang their process: each batch in a child of its own."""

import os
import signal
import sys
import threading
import traceback

import pytest
from tqdm import tqdm

FORKED = [
    pytest.mark.skipif(sys.platform == "win32", reason="processes are forked"),
    pytest.mark.slow,
]
_SECONDS = 300


def run_all(experiment, items, size=250):
    """What went wrong with which of many items, each batch of them run in a child of its own."""
    batches = (items[start : start + size] for start in range(0, len(items), size))
    return [entry for batch in batches for entry in run(experiment, batch)]


def fork(work, *arguments):
    """Have a forked child do something, and end with 0 if that went well; its process id."""
    child = os.fork()
    if not child:
        # That of tqdm is one with the parent's, which would wait for a child that was killed.
        tqdm.set_lock(threading.RLock())
        try:
            work(*arguments)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return child


def kill(child):
    """Kill a child; how it ended, by a signal if it had not ended before."""
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def last_of(log, before):
    """The last operation that was noted as done."""
    lines = log.read_text().split() if log.exists() else []
    return int(lines[-1]) if lines else before


def run(experiment, batch):
    """Run `experiment(item)` for each of a batch in a forked child; what went wrong with which.

    The child says which item it is at, so that a crash or a hang is put down to it.
    """
    said, say = os.pipe()

    def work():
        os.close(said)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        for number, item in enumerate(batch):
            signal.alarm(_SECONDS)
            os.write(say, f"at {number}\n".encode())
            try:
                experiment(item)
            except BaseException:
                signal.alarm(0)  # nothing interrupts the report
                os.write(say, f"failed {traceback.format_exc()!r}\n".encode())

    child = fork(work)
    os.close(say)
    with os.fdopen(said) as lines:
        wrong, at = [], None
        for line in lines:
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "at":
                at = batch[int(rest)]
            else:
                wrong.append((at, rest))
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        wrong.append((at, f"ended by {signal.Signals(os.WTERMSIG(status)).name}"))
    return wrong
