"""One model on several devices, or in several processes on a CPU of many cores."""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.queues import SimpleQueue
from typing import Any

import numpy as np

from uec_rag.base.checks import check_texts
from uec_rag.encoders.base import Encoded, Encoder, EncoderInside, InThread, Role, check_role

_CHUNK = 256  # texts handed to a process at a time; fewer are encoded here

_encoder: Encoder | None = None  # of a worker process


class ParallelEncoder(InThread, EncoderInside):
    """An encoder that shares long lists of texts out among processes, one for each device.

    Each process loads the model anew, so features are what they are in one process. The processes
    start at the first long list and end with the encoder. As everywhere where processes are
    spawned, a script must do its work under ``if __name__ == "__main__":``.

    Parameters
    ----------
    encoder
        Takes what is too little to share out, a query say.
    load
        Makes the same encoder on a device; pickled, hence a function of a module, or a partial.
    devices
        As torch names them, one process each: ("cuda:0", "cuda:1"), or ("cpu",) * 4, which share
        the cores among them.
    """

    def __init__(
        self, encoder: Encoder, load: Callable[[str], Encoder], devices: Sequence[str]
    ) -> None:
        super().__init__(encoder)
        self.revision = encoder.revision
        self.devices = tuple(devices)
        self._load = load
        self._pool: ProcessPoolExecutor | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """As pickle stores it: without the processes, which start anew when they are needed."""
        return ParallelEncoder, (self._encoder, self._load, self.devices)

    def encode(self, texts: Sequence[str], role: Role, *, show_progress: bool = False) -> Encoded:
        """Embed texts as queries or as passages.

        Raises TypeError, ValueError as the encoder inside. RuntimeError if a process ended before
        its work.
        """
        from tqdm.auto import tqdm  # type: ignore[import-untyped]

        check_role(role)
        checked = check_texts(texts)
        if len(checked) <= _CHUNK:
            return self._encoder.encode(checked, role, show_progress=show_progress)
        # Longest first, so that no process is left with them at the end.
        order = np.argsort([-len(text) for text in checked], kind="stable")
        chunks = [
            [checked[row] for row in order[start : start + _CHUNK]]
            for start in range(0, len(order), _CHUNK)
        ]
        try:
            encoded = self._started().map(partial(_encode, role=role), chunks)
            parts = list(tqdm(encoded, "Chunks", len(chunks), disable=not show_progress))
        except BrokenProcessPool as error:
            self._pool = None
            raise RuntimeError(
                f"encoder {self.name!r}: a process for one of {self.devices} ended before its "
                "work; its own message is above. In a script, encode under "
                "'if __name__ == \"__main__\":'; or the memory may not do for so many processes"
            ) from error
        back = np.argsort(order)
        embedding = np.concatenate([part.embedding for part in parts])[back]
        if parts[0].features is parts[0].embedding:
            return Encoded(embedding, embedding)
        return Encoded(embedding, np.concatenate([part.features for part in parts])[back])

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")  # a fork would break CUDA and threads
            devices = context.SimpleQueue()
            for device in self.devices:
                devices.put(device)
            threads = max(1, (os.cpu_count() or 1) // len(self.devices))
            self._pool = ProcessPoolExecutor(
                len(self.devices), context, _start, (self._load, devices, threads)
            )
        return self._pool


def _start(load: Callable[[str], Encoder], devices: "SimpleQueue[str]", threads: int) -> None:
    """Load a worker's encoder."""
    import torch

    global _encoder
    device = devices.get()
    if device == "cpu":
        torch.set_num_threads(threads)
    _encoder = load(device)


def _encode(texts: list[str], role: Role) -> Encoded:
    assert _encoder is not None
    return _encoder.encode(texts, role)
