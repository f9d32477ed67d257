"""Decisions on nodes."""

from uec_rag.llama_index.gate import pending_on_nodes


def judge(nodes, query=None, gate=None):
    """The decision on nodes, by a gate if there is one."""
    return pending_on_nodes(nodes, gate, query).finish()[0][0]
