"""Experiments that may end or hang their process: each batch in a child of its own."""

import os
import signal
import sys
import traceback

import pytest

FORKED = [
    pytest.mark.skipif(sys.platform == "win32", reason="processes are forked"),
    pytest.mark.slow,
]
_SECONDS = 300


def run_all(experiment, items, size=250):
    """What went wrong with which of many items, each batch of them run in a child of its own."""
    batches = (items[start : start + size] for start in range(0, len(items), size))
    return [entry for batch in batches for entry in run(experiment, batch)]


def run(experiment, batch):
    """Run `experiment(item)` for each of a batch in a forked child; what went wrong with which.

    The child says which item it is at, so that a crash or a hang is put down to it.
    """
    said, say = os.pipe()
    child = os.fork()
    if not child:
        os.close(said)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        try:
            for number, item in enumerate(batch):
                signal.alarm(_SECONDS)
                os.write(say, f"at {number}\n".encode())
                try:
                    experiment(item)
                except BaseException:
                    os.write(say, f"failed {traceback.format_exc()!r}\n".encode())
            os.write(say, b"done\n")
        finally:
            os._exit(0)
    os.close(say)
    with os.fdopen(said) as lines:
        wrong, at = [], None
        for line in lines:
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "at":
                at = batch[int(rest)]
            elif word == "failed":
                wrong.append((at, rest))
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        wrong.append((at, f"ended by {signal.Signals(os.WTERMSIG(status)).name}"))
    return wrong
