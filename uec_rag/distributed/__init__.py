"""Bulk work on a Ray cluster: indexing into any store."""

from uec_rag.base.environment import missing_extra

try:
    import ray  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "ray":
        raise
    raise ImportError(missing_extra("ray", "ray")) from error

from uec_rag.distributed.cluster import Resources, index, read_passages

__all__ = ["Resources", "index", "read_passages"]
