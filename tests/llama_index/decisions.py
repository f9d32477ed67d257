"""Decisions on nodes, without an event loop."""

from uec_rag.confidence.advice import run_to_end
from uec_rag.llama_index.gate import decide


def judge(nodes, query=None, gate=None):
    """The decision on nodes, by a gate if there is one."""
    return run_to_end(decide(nodes, query, gate))[0]
