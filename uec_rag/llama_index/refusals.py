"""Engines of ours below others of LlamaIndex, which ask a model to join several responses.

Where all of them are refusals, the refusal is the response, and no model is asked. LlamaIndex has
no place for this but functions and methods of its own, which are replaced once an engine of ours is
made.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from copy import copy
from operator import itemgetter
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.query_engine import (
    MultiStepQueryEngine,
    SubQuestionQueryEngine,
    router_query_engine,
)
from llama_index.core.response_synthesizers import TreeSummarize
from llama_index.core.schema import NodeWithScore, QueryBundle, QueryType

from uec_rag.retrieval.results import KEY

_join, _ajoin = router_query_engine.combine_responses, router_query_engine.acombine_responses


def response_of(
    text: str, nodes: list[NodeWithScore], *, streams: bool, is_async: bool
) -> RESPONSE_TYPE:
    """Return a text as a response, or as the stream of one."""
    if not streams:
        return Response(text, nodes)
    if is_async:
        return AsyncStreamingResponse(_astream(text), nodes)
    return StreamingResponse((part for part in [text]), nodes)


async def _astream(text: str) -> AsyncGenerator[str, None]:
    yield text


def _decision_of(response: RESPONSE_TYPE) -> dict[str, Any]:
    """Return the decision in the metadata of a response; nothing if it is of another engine."""
    return {key: value for key, value in (response.metadata or {}).items() if key.startswith(KEY)}


def _without_refusals(responses: Sequence[RESPONSE_TYPE]) -> list[RESPONSE_TYPE]:
    """Return the responses that are no refusals; if all are, the surest, with all sources.

    The decision of the surest of those that are left is in the metadata of all of these.
    """
    answers = [r for r in responses if _decision_of(r).get(f"{KEY}decision", "answer") == "answer"]
    decisions = [decision for r in answers or responses if (decision := _decision_of(r))]
    surest = max(decisions, key=itemgetter(f"{KEY}confidence"), default={})
    if not answers:
        [refusal, *_] = [r for r in responses if _decision_of(r) == surest]
        refusal.source_nodes = [node for r in responses for node in r.source_nodes]
        answers = [refusal]
    for r in answers:
        r.metadata = {**(r.metadata or {}), **surest}
    return answers


def _combine(
    summarizer: TreeSummarize, responses: list[RESPONSE_TYPE], query_bundle: QueryBundle
) -> RESPONSE_TYPE:
    answers = _without_refusals(responses)
    response = answers[0] if len(answers) == 1 else _join(summarizer, answers, query_bundle)
    response.metadata = {**(response.metadata or {}), **_decision_of(answers[0])}
    return response


async def _acombine(
    summarizer: TreeSummarize, responses: list[RESPONSE_TYPE], query_bundle: QueryBundle
) -> RESPONSE_TYPE:
    answers = _without_refusals(responses)
    response = answers[0] if len(answers) == 1 else await _ajoin(summarizer, answers, query_bundle)
    response.metadata = {**(response.metadata or {}), **_decision_of(answers[0])}
    return response


class _Noting:
    """An engine whose responses to the parts of a question are noted."""

    def __init__(self, engine: BaseQueryEngine, responses: list[RESPONSE_TYPE]) -> None:
        self._engine, self._responses = engine, responses

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._engine, name)

    def query(self, query: QueryType) -> RESPONSE_TYPE:
        """Query the engine."""
        response = self._engine.query(query)
        self._responses.append(response)
        return response

    async def aquery(self, query: QueryType) -> RESPONSE_TYPE:
        """Run `query` asynchronously."""
        response = await self._engine.aquery(query)
        self._responses.append(response)
        return response


class _Refusing:
    """A synthesizer that says a refusal where all parts of a question were refused."""

    def __init__(self, synthesizer: Any, responses: list[RESPONSE_TYPE]) -> None:  # noqa: ANN401
        self._synthesizer, self._responses = synthesizer, responses
        self.decision: dict[str, Any] = {}  # the decision, if it was a refusal

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._synthesizer, name)

    def synthesize(self, *arguments: Any, **options: Any) -> RESPONSE_TYPE:
        """Return the refusal, or what the synthesizer makes of the parts' answers."""
        response: RESPONSE_TYPE = self.refusal(is_async=False) or self._synthesizer.synthesize(
            *arguments, **options
        )
        return response

    async def asynthesize(self, *arguments: Any, **options: Any) -> RESPONSE_TYPE:
        """Run `synthesize` asynchronously."""
        response: RESPONSE_TYPE = self.refusal(
            is_async=True
        ) or await self._synthesizer.asynthesize(*arguments, **options)
        return response

    def refusal(self, *, is_async: bool) -> RESPONSE_TYPE | None:
        """Return the surest refusal, with all sources, if there is nothing else."""
        if not self._responses or any(
            _decision_of(r).get(f"{KEY}decision", "answer") == "answer" for r in self._responses
        ):
            return None
        [surest] = _without_refusals(self._responses)
        streams = bool(getattr(self._synthesizer, "_streaming", False))
        refusal = response_of(  # a stream has been read
            str(surest), surest.source_nodes, streams=streams, is_async=is_async
        )
        refusal.metadata, self.decision = surest.metadata, _decision_of(surest)
        return refusal


def _with_refusal(engine: Any) -> tuple[Any, _Refusing]:  # noqa: ANN401
    """Return a copy of an engine of parts that calls no model where all are refused."""
    twin, responses = copy(engine), list[RESPONSE_TYPE]()
    twin._response_synthesizer = _Refusing(engine._response_synthesizer, responses)
    if isinstance(engine, SubQuestionQueryEngine):
        engines = engine._query_engines.items()
        twin._query_engines = {name: _Noting(inner, responses) for name, inner in engines}
    else:
        twin._query_engine = _Noting(engine._query_engine, responses)
    return twin, twin._response_synthesizer


def _with_decision(response: RESPONSE_TYPE, synthesizer: _Refusing) -> RESPONSE_TYPE:
    """Tell the decision of a refusal, whose metadata an engine of several steps has replaced."""
    if synthesizer.decision:
        response.metadata = {**(response.metadata or {}), **synthesizer.decision}
    return response


def _of_parts(kind: Any) -> None:  # noqa: ANN401
    """Let a class of engines ask no model to join refusals."""
    query: Callable[..., RESPONSE_TYPE] = kind._query
    aquery: Callable[..., Any] = kind._aquery

    def run(self: BaseQueryEngine, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        twin, synthesizer = _with_refusal(self)
        return _with_decision(query(twin, query_bundle), synthesizer)

    async def arun(self: BaseQueryEngine, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        twin, synthesizer = _with_refusal(self)
        return _with_decision(await aquery(twin, query_bundle), synthesizer)

    kind._query, kind._aquery = run, arun


def leave_out_refusals() -> None:
    """Let LlamaIndex's engines join the responses that answer; refusals need no model."""
    if router_query_engine.combine_responses is _combine:
        return
    router_query_engine.combine_responses = _combine
    router_query_engine.acombine_responses = _acombine
    _of_parts(SubQuestionQueryEngine)
    _of_parts(MultiStepQueryEngine)
