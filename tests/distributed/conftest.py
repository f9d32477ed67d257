"""A cluster of three nodes on this machine, as small as they come."""

import os
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

NODES = 3


@pytest.fixture(scope="package")
def cluster():
    with pytest.MonkeyPatch.context() as patch:
        # Actors load what the tests define.
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")  # or a busy machine leaves them nothing
        node = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
        cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        for _ in range(NODES - 1):
            cluster.add_node(**node)
        ray.init(address=cluster.address, log_to_driver=False)
        cluster.wait_for_nodes()
        yield cluster
        ray.shutdown()
        cluster.shutdown()
