"""Fitting on a cluster: a map over the pairs, and a reduction of sums.

Encoders run on pools of actors. The curvature of each part of the pairs is a task, and those of
the parts add up to that of all. The slopes follow from one similarity for each pair: that is cheap.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
import ray

from uec_rag.encoders import Encoded, Encoder, Role
from uec_rag.encoders.base import EncoderInside, InThread, WithoutVectors
from uec_rag.ensemble.fit import fit as fit_here
from uec_rag.ensemble.uec import UEC
from uec_rag.laplace.curvature import Curvature, Layer, accumulate

if TYPE_CHECKING:
    from ray import ObjectRef

    from uec_rag.ensemble.fit import PairsLike


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


_PARTS = 4  # of the pairs, for each worker


def fit(
    uec: UEC,
    pairs: PairsLike,
    resources: Resources = Resources(),
) -> UEC:
    """Fit on Ray with the result of `UEC.fit`, but for rounding.

    Parameters
    ----------
    uec : UEC
    pairs : iterable or mapping
        As in `UEC.fit`; so is what is raised.
    resources : Resources
        For each member.

    Returns
    -------
    UEC
        The same, fitted.
    """
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False)
    dense = [encoder for encoder in uec.encoders if not isinstance(encoder, WithoutVectors)]
    pools = {id(encoder): Pool(encoder, resources) for encoder in dense}
    encoders = [
        OnCluster(encoder, pools[id(encoder)]) if id(encoder) in pools else encoder
        for encoder in uec.encoders
    ]

    def mapped(layer: Layer) -> Curvature:
        task = ray.remote(num_cpus=resources.num_cpus, max_retries=-1)(accumulate)
        parts = [task.remote(part) for part in layer.parts(_PARTS * resources.workers)]
        return reduce(add, ray.get(parts))

    try:
        uec.fitted = fit_here(
            encoders,
            uec.fitted,
            pairs,
            uec.options,
            verifier=uec.verifier,
            verify_k=uec.verify_k,
            curvature=mapped,
        )
    finally:
        for pool in pools.values():
            pool.close()
    return uec


_AT_ONCE = 256  # texts of a task
