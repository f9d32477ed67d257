"""Fitting on a cluster: a map over the pairs, and a reduction of sums.

Encoders run on pools of actors. The curvature of each part of the pairs is a task, and those of
the parts add up to that of all. The slopes follow from one similarity for each pair: that is cheap.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TYPE_CHECKING

import ray

from uec_rag.distributed.members import OnCluster, Pool, Resources
from uec_rag.encoders.base import WithoutVectors
from uec_rag.ensemble.fit import fit as fit_here
from uec_rag.ensemble.uec import UEC
from uec_rag.laplace.curvature import Curvature, Layer, accumulate

if TYPE_CHECKING:
    from uec_rag.ensemble.fit import PairsLike

_PARTS = 4  # of the pairs, for each worker


def fit(
    uec: UEC,
    pairs: PairsLike,
    resources: Resources = Resources(),  # noqa: B008  (frozen)
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
