"""Engines of ours below LlamaIndex's routers, which ask a model to join several responses.

A router has no place for this but the functions by which its module joins them.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from llama_index.core.base.response.schema import RESPONSE_TYPE
from llama_index.core.query_engine import router_query_engine
from llama_index.core.response_synthesizers import TreeSummarize
from llama_index.core.schema import QueryBundle

from uec_rag.retrieval.metadata import KEY

_join, _ajoin = router_query_engine.combine_responses, router_query_engine.acombine_responses


def _told(response: RESPONSE_TYPE) -> dict[str, Any]:
    """Return the decision in the metadata of a response; nothing if it is of another engine."""
    return {key: one for key, one in (response.metadata or {}).items() if key.startswith(KEY)}


def _without_refusals(responses: Sequence[RESPONSE_TYPE]) -> list[RESPONSE_TYPE]:
    """Return the responses that are no refusals; if all are, the surest, with all sources.

    The decision of the surest of those that are left is in the metadata of all of these.
    """
    left = [one for one in responses if _told(one).get(f"{KEY}decision", "answer") == "answer"]
    told = [known for one in left or responses if (known := _told(one))]
    surest = max(told, key=itemgetter(f"{KEY}confidence"), default={})
    if not left:
        [first, *_] = [one for one in responses if _told(one) == surest]
        first.source_nodes = [node for one in responses for node in one.source_nodes]
        left = [first]
    for one in left:
        one.metadata = {**(one.metadata or {}), **surest}
    return left


def _combine(
    summarizer: TreeSummarize, responses: list[RESPONSE_TYPE], query_bundle: QueryBundle
) -> RESPONSE_TYPE:
    left = _without_refusals(responses)
    joined = left[0] if len(left) == 1 else _join(summarizer, left, query_bundle)
    joined.metadata = {**(joined.metadata or {}), **_told(left[0])}
    return joined


async def _acombine(
    summarizer: TreeSummarize, responses: list[RESPONSE_TYPE], query_bundle: QueryBundle
) -> RESPONSE_TYPE:
    left = _without_refusals(responses)
    joined = left[0] if len(left) == 1 else await _ajoin(summarizer, left, query_bundle)
    joined.metadata = {**(joined.metadata or {}), **_told(left[0])}
    return joined


def leave_out_refusals() -> None:
    """Let LlamaIndex's routers join the responses that answer; refusals need no model."""
    router_query_engine.combine_responses = _combine
    router_query_engine.acombine_responses = _acombine
