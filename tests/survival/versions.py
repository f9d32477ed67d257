"""An index whose every part says which version it is of: a mixture of two shows."""

import os
import random
import signal
import time

import numpy as np

from tests.helpers import passages
from uec_rag import Retriever

COUNT = 8


def write(index, version):
    """Replace all passages by those of a version."""
    index.add(
        passages(COUNT, seed=version % 100),
        ids=[f"p{i}" for i in range(COUNT)],
        metadatas=[{"version": version}] * COUNT,
    )


def version_of(index):
    """The one version that ids, texts, metadata and vectors of an index are of."""
    found = list(index.passages())
    (version,) = {passage.metadata["version"] for passage in found}
    assert [passage.id for passage in found] == [f"p{i}" for i in range(COUNT)]
    assert [passage.text for passage in found] == passages(COUNT, seed=version % 100)
    vectors = index.vectors([passage.id for passage in found])
    expected = index.uec.embed([passage.text for passage in found])
    np.testing.assert_array_equal(vectors.mean, expected.mean)
    np.testing.assert_array_equal(vectors.variance, expected.variance)
    return version


def save(path, uec, version):
    """Make an index of a version in memory and save it."""
    index = Retriever(uec)
    write(index, version)
    index.save(path)


def fill(path, uec, version):
    """Have an index of a version written as it comes."""
    with Retriever.filling(path, uec) as index:
        write(index, version)


class Saver:
    """A process that saves one version after the other and says when each save is done."""

    def __init__(self, path, uec, first, save=save):
        self._done, done = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(done)
            return
        try:
            version = first
            while True:
                save(path, uec, version)
                os.write(done, version.to_bytes(8, "little"))
                version += 1
        finally:
            os._exit(1)

    def wait_for_first(self):
        """Wait until a save is done."""
        return int.from_bytes(os.read(self._done, 8), "little")

    def kill(self):
        """End it at once; the last version whose save it said was done, None if none was."""
        os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        assert os.WIFSIGNALED(status), "the saver failed before it was killed"
        said = b""
        while some := os.read(self._done, 2**16):
            said += some
        os.close(self._done)
        return int.from_bytes(said[-8:], "little") if said else None


def after_a_while(rng: random.Random, longest: float) -> None:
    """Sleep for anything up to so many seconds."""
    time.sleep(rng.random() * longest)
