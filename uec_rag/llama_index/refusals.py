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

from uec_rag.retrieval.hits import KEY

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
        self.told: dict[str, Any] = {}  # the decision, if it was a refusal

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._synthesizer, name)

    def synthesize(self, *given: Any, **options: Any) -> RESPONSE_TYPE:
        """Return the refusal, or what the synthesizer makes of the parts' answers."""
        said: RESPONSE_TYPE = self.refusal(is_async=False) or self._synthesizer.synthesize(
            *given, **options
        )
        return said

    async def asynthesize(self, *given: Any, **options: Any) -> RESPONSE_TYPE:
        """Run `synthesize` asynchronously."""
        said: RESPONSE_TYPE = self.refusal(is_async=True) or await self._synthesizer.asynthesize(
            *given, **options
        )
        return said

    def refusal(self, *, is_async: bool) -> RESPONSE_TYPE | None:
        """Return the surest refusal, with all sources, if there is nothing else."""
        if not self._responses or any(
            _told(one).get(f"{KEY}decision", "answer") == "answer" for one in self._responses
        ):
            return None
        [surest] = _without_refusals(self._responses)
        streams = bool(getattr(self._synthesizer, "_streaming", False))
        made = response_of(  # a stream has been read
            str(surest), surest.source_nodes, streams=streams, is_async=is_async
        )
        made.metadata, self.told = surest.metadata, _told(surest)
        return made


def _refusing(engine: Any) -> tuple[Any, _Refusing]:  # noqa: ANN401
    """Return a copy of an engine of parts that calls no model where all are refused."""
    made, responses = copy(engine), list[RESPONSE_TYPE]()
    made._response_synthesizer = _Refusing(engine._response_synthesizer, responses)
    if isinstance(engine, SubQuestionQueryEngine):
        engines = engine._query_engines.items()
        made._query_engines = {name: _Noting(one, responses) for name, one in engines}
    else:
        made._query_engine = _Noting(engine._query_engine, responses)
    return made, made._response_synthesizer


def _with_decision(response: RESPONSE_TYPE, synthesizer: _Refusing) -> RESPONSE_TYPE:
    """Tell the decision of a refusal, whose metadata an engine of several steps has replaced."""
    if synthesizer.told:
        response.metadata = {**(response.metadata or {}), **synthesizer.told}
    return response


def _of_parts(kind: Any) -> None:  # noqa: ANN401
    """Let a class of engines ask no model to join refusals."""
    query: Callable[..., RESPONSE_TYPE] = kind._query
    aquery: Callable[..., Any] = kind._aquery

    def run(self: BaseQueryEngine, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        made, synthesizer = _refusing(self)
        return _with_decision(query(made, query_bundle), synthesizer)

    async def arun(self: BaseQueryEngine, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        made, synthesizer = _refusing(self)
        return _with_decision(await aquery(made, query_bundle), synthesizer)

    kind._query, kind._aquery = run, arun


def leave_out_refusals() -> None:
    """Let LlamaIndex's engines join the responses that answer; refusals need no model."""
    if router_query_engine.combine_responses is _combine:
        return
    router_query_engine.combine_responses = _combine
    router_query_engine.acombine_responses = _acombine
    _of_parts(SubQuestionQueryEngine)
    _of_parts(MultiStepQueryEngine)
