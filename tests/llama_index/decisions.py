"""Decisions on nodes."""

from uec_rag.llama_index.gate import decide


def judge(nodes, query=None, gate=None):
    """The decision on nodes, by a gate if there is one."""
    return decide(nodes, query, gate)[0]
