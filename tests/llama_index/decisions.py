"""Decisions on nodes."""

from uec_rag.llama_index.gate import gate_of_nodes


def judge(nodes, query="", gate=None):
    """The decision on nodes, by a gate if there is one."""
    return gate_of_nodes(gate, query).decide(nodes)[0]
