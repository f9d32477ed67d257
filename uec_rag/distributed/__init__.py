"""Bulk work on a Ray cluster: encoding into any store, and fitting."""

from uec_rag.base.environment import missing_extra

try:
    import ray  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "ray":
        raise
    raise ImportError(missing_extra("ray", "ray")) from error

from uec_rag.distributed.fit import fit
from uec_rag.distributed.index import Indexed, index
from uec_rag.distributed.members import Resources
from uec_rag.distributed.rows import read_passages

__all__ = ["Indexed", "Resources", "fit", "index", "read_passages"]
