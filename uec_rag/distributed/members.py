"""An ensemble's members on a cluster: a pool of actors for each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import ray

from uec_rag.encoders import Encoded, Encoder, Role
from uec_rag.encoders.base import EncoderInside, InThread

if TYPE_CHECKING:
    from ray import ObjectRef

_AT_ONCE = 256  # texts of a task


@dataclass(frozen=True)
class Resources:
    """The resources that Ray reserves.

    Attributes
    ----------
    workers : int
        Actors of each member.
    num_cpus, num_gpus : float
        Of each actor; parts of a GPU are shared by several.
    """

    workers: int = 1
    num_cpus: float = 1.0
    num_gpus: float = 0.0

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"workers: expected an integer >= 1, got {self.workers}.")


class _Member:
    """One encoder in a process of its own."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def encode(self, texts: list[str], role: Role) -> Encoded:
        return self._encoder.encode(texts, role)


class Pool:
    """A pool of actors that hold one encoder, started with the first text.

    Ray starts a dead one again and asks it once more.

    Parameters
    ----------
    encoder : Encoder
    resources : Resources
    """

    def __init__(self, encoder: Encoder, resources: Resources) -> None:
        self._encoder, self._resources = encoder, resources
        self._actors: list[Any] = []
        self._turn = itertools.count()

    def submit(self, texts: Sequence[str], role: Role) -> ObjectRef[Encoded]:
        """Ask one of the actors, in turn."""
        if not self._actors:
            self._start()
        actor = self._actors[next(self._turn) % len(self._actors)]
        reference: ObjectRef[Encoded] = actor.encode.remote(list(texts), role)
        return reference

    def _start(self) -> None:
        kind: Any = ray.remote(
            num_cpus=self._resources.num_cpus,
            num_gpus=self._resources.num_gpus,
            max_restarts=-1,
            max_task_retries=-1,
        )(_Member)
        self._actors = [kind.remote(self._encoder) for _ in range(self._resources.workers)]

    def close(self) -> None:
        """End the actors."""
        for actor in self._actors:
            ray.kill(actor)


class OnCluster(InThread, EncoderInside):
    """An encoder with vectors whose texts its pool encodes.

    Parameters
    ----------
    encoder : Encoder
    pool : Pool
    """

    def __init__(self, encoder: Encoder, pool: Pool) -> None:
        super().__init__(encoder)
        self._pool = pool

    @property
    def revision(self) -> str:
        """The revision of the encoder inside."""
        return self._encoder.revision

    def encode(self, texts: Sequence[str], role: Role, *, show_progress: bool = False) -> Encoded:
        """Embed texts, some hundred on each actor at a time."""
        parts = [texts[i : i + _AT_ONCE] for i in range(0, len(texts), _AT_ONCE)]
        if not parts:
            return self._encoder.encode(texts, role)
        encoded = ray.get([self._pool.submit(part, role) for part in parts])
        embedding = np.concatenate([part.embedding for part in encoded])
        if all(part.features is part.embedding for part in encoded):
            return Encoded(embedding, embedding)
        return Encoded(embedding, np.concatenate([part.features for part in encoded]))
