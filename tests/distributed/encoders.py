"""Encoders that processes of a cluster can load."""

import os
import signal
import time
from pathlib import Path

from tests.helpers import bag_of_words


class Words:
    """A bag of words that notes each text it is given, and may die of one of them, once.

    Where a file "together" is, its processes wait until another one is given texts, too.
    """

    def __init__(self, dimension, name, seed, folder, deadly=None):
        self.__name__, self._folder, self._deadly = name, Path(folder), deadly
        self._embed = bag_of_words(dimension, name, seed)
        self._arguments = (dimension, name, seed, folder, deadly)

    def __reduce__(self):
        return Words, self._arguments

    def __call__(self, texts):
        died = self._folder / "died"
        if self._deadly in texts and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        notes = self._folder / f"{self.__name__}.txt"
        with notes.open("a") as file:
            file.writelines(f"{os.getpid()} {text}\n" for text in texts)
        # A process that starts first may do all the work before another one is there.
        until = time.monotonic() + 60
        while (self._folder / "together").exists() and time.monotonic() < until:
            if len({line.split(" ", 1)[0] for line in notes.read_text().splitlines()}) > 1:
                break
            time.sleep(0.05)
        return self._embed(texts)
