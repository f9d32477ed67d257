"""Fitting on a cluster: a map over the pairs, and a reduction of sums.

Encoders run on pools of actors. The curvature of each part of the pairs is a task: the Kronecker
factors A and G, or the diagonal H, and the loss are sums over pairs, so those of the parts add up
to those of all. The slopes follow from one similarity for each pair, which costs little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import ray

from uec_rag.distributed.members import OnCluster, Pool, Resources
from uec_rag.encoders.base import WithoutVectors
from uec_rag.ensemble.fit import fit as fit_here
from uec_rag.ensemble.uec import UEC
from uec_rag.laplace.fit import Batches, Model, accumulate, require_laplace

if TYPE_CHECKING:
    from laplace import ParametricLaplace

    from uec_rag.ensemble.fit import PairsLike

_PARTS = 4  # of the pairs, for each worker


def fit(
    uec: UEC,
    pairs: PairsLike,
    resources: Resources = Resources(),  # noqa: B008  (frozen)
) -> UEC:
    """`UEC.fit` on Ray: what it finds is what `UEC.fit` finds, but for rounding.

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
    require_laplace()
    from uec_rag.laplace.sums import added

    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False)
    dense = [encoder for encoder in uec.encoders if not isinstance(encoder, WithoutVectors)]
    pools = {id(encoder): Pool(encoder, resources) for encoder in dense}
    encoders = [
        OnCluster(encoder, pools[id(encoder)]) if id(encoder) in pools else encoder
        for encoder in uec.encoders
    ]

    def mapped(batches: Batches, model: Model) -> ParametricLaplace:
        task = ray.remote(num_cpus=resources.num_cpus, max_retries=-1)(accumulate)
        held = ray.put(model)
        parts = [task.remote(part, held) for part in batches.parts(_PARTS * resources.workers)]
        return added(cast("list[ParametricLaplace]", ray.get(parts)))

    try:
        uec.fitted = fit_here(
            encoders,
            uec.fitted,
            pairs,
            structure=uec.structure,
            likelihood=uec.likelihood,
            negatives=uec.negatives,
            scaled=uec.scaled,
            seed=uec.seed,
            verifier=uec.verifier,
            verify_k=uec.verify_k,
            curvature=mapped,
        )
    finally:
        for pool in pools.values():
            pool.close()
    return uec
