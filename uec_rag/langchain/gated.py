"""The decision about a question, in the form of LangChain's runnables, graphs and tools."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, NotRequired, Unpack, cast

from langchain_core.documents import Document
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import (
    Runnable,
    RunnableConfig,
    RunnableLambda,
    RunnableSequence,
    RunnableWithFallbacks,
)
from langchain_core.runnables.base import RunnableBinding, RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.runnables.utils import Input, Output
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from uec_rag.adapters.other_retrievers import decision_on
from uec_rag.adapters.tool import TOOL_DESCRIPTION, TOOL_NAME, tool_reply
from uec_rag.confidence.decision import Action, Decision
from uec_rag.langchain.conversion import (
    CallOptions,
    Question,
    check_named,
    check_options,
    plain_document,
    turns,
    with_limits,
)
from uec_rag.retrieval.results import read_by_model, tell

DECIDED = "expected documents of a UECRetriever, or of a retriever over one that keeps metadata."
"""Which documents have a decision."""


class Gated(TypedDict):
    """The output of a gate and, for the state of a graph, the reading to search next.

    Attributes
    ----------
    question : str
    documents : list of Document
        The hits, with the `uec_` metadata.
    decision : {"answer", "clarify", "abstain"}
    reason : str
        The reason in plain words.
    reason_code : str
        The kind of reason: answered; underspecified; uncertain, if `documents` are near but may
        not answer; no_answer, off_topic or nothing_found, if nothing is near.
    candidates : list of Document
        If the decision is "clarify", the hits that the question may mean; all hits if none of
        these is among them.
    readings : list of dict
        If the decision is "clarify", the readings of the question, each with "title", "ids" and
        "probability"; empty if not known. Pass the chosen one as `within` to the next search.
    clarifying_question : str
        "Do you mean A or B?" if the decision is "clarify", else "".
    confidence : float
    within : a reading, its ids, its label or a place ("2"), or None
        The chosen reading; it applies to the next search alone. A gate's output has none.
    searched : list of str
        The question that was searched last, and the human message that was the newest then, by
        which a node knows that another message is a new question. A gate's output has none.
    filter, tenant : mapping or callable
        Select the documents of all searches, as in `UECRetriever`. A `tenant` that is None is
        refused: leave it out. A gate's output has none. A checkpointer keeps a mapping only; give a
        function to the retriever, ``UECRetriever(..., filter=function)``.
    """

    question: str
    documents: list[Document]
    decision: Action
    reason: str
    reason_code: str
    candidates: list[Document]
    readings: list[dict[str, Any]]
    clarifying_question: str
    confidence: float
    within: NotRequired[object]
    searched: NotRequired[list[str]]
    filter: NotRequired[object]
    tenant: NotRequired[object]


_OPTIONS = ("filter", "tenant", "within")
TOLD = Gated.__annotations__.keys() - {*_OPTIONS, "searched"}
"""The keys that a gate's output has."""


def _meant(decision: Decision) -> set[str]:
    """Return the titles of the readings, and the ids of their passages."""
    return {*decision.candidates, *(reading.title for reading in decision.readings)}


def to_gated(question: str, documents: Sequence[Document], decision: Decision) -> Gated:
    """Join a question, copies of its documents and the decision, which these tell, too."""
    documents = [*map(plain_document, documents)]
    for document in documents:
        tell(document.metadata, decision)
    rivals = documents if decision.action == "clarify" else ()
    matches = [  # a compressor may drop ids
        document
        for document in rivals
        if (document.id or document.metadata.get("uec_reading")) in _meant(decision)
    ]
    return Gated(
        question=question,
        documents=documents,
        decision=decision.action,
        reason=decision.reason,
        reason_code=decision.code,
        candidates=list(matches or rivals),
        readings=decision.choices,
        clarifying_question=decision.clarifying_question,
        confidence=decision.confidence,
    )


def read_decision(question: str, output: Mapping[str, Any] | Sequence[Document]) -> Gated:
    """Read the decision from the output of a gate, or of a retriever by `decision_on`."""
    if isinstance(output, Mapping):
        return cast(Gated, {key: output[key] for key in TOLD})
    return to_gated(question, output, decision_on(output, DECIDED))


class AsTool(Runnable[Input, Output]):
    """A gate or a retriever of this package: it takes turns, and is a tool with a decision."""

    def as_tool(  # type: ignore[override]
        self,
        *,
        name: str = TOOL_NAME,
        description: str = TOOL_DESCRIPTION,
        **options: Unpack[CallOptions],
    ) -> BaseTool:
        """Create the tool of `retriever_tool`: passages, decision, reason and confidence.

        `**options`: those of every call, such as the `tenant`, which no call of the tool lifts.
        """
        check_options(options)
        return retriever_tool(self.bind(**options) if options else self, name, description)

    def bind(self, **kwargs: Any) -> Runnable[Input, Output]:
        """Return a runnable with options of all calls, whose `tenant` and `filter` limit theirs."""
        return Bound(bound=self, kwargs=with_limits({}, kwargs), config={})

    def with_config(
        self, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Runnable[Input, Output]:
        """Return a runnable with a configuration of all calls."""
        merged = cast(RunnableConfig, {**(config or {}), **kwargs})
        return Bound(bound=self, kwargs={}, config=merged)

    def with_retry(self, **kwargs: Any) -> Runnable[Input, Output]:
        """Return a runnable that is tried again where it fails."""
        return Bound(bound=super().with_retry(**kwargs), kwargs={}, config={})


class Bound(RunnableBinding[Input, Output], AsTool[Input, Output]):
    """A gate or a retriever with options: where LangChain's bindings take the latest, all limit."""

    def bind(self, **kwargs: Any) -> Runnable[Input, Output]:
        """See `AsTool.bind`."""
        return super().bind(**with_limits(self.kwargs, kwargs))


def innermost(
    runnable: Runnable[Any, Any], config: RunnableConfig | None = None
) -> Runnable[Any, Any]:
    """Return what a runnable binds, retries, configures, falls back from or begins with.

    `config`: that of the call, which may choose among alternatives.
    """
    while isinstance(runnable, Bound) or not isinstance(runnable, AsTool):
        if isinstance(runnable, RunnableBindingBase):
            runnable = runnable.bound
        elif isinstance(runnable, DynamicRunnable):
            runnable = runnable.prepare(config)[0] if config else runnable.default
        elif isinstance(runnable, RunnableWithFallbacks):
            runnable = runnable.runnable
        elif isinstance(runnable, RunnableSequence):
            runnable = runnable.first
        else:
            break
    return runnable


def _in_context(
    retriever: Runnable[Any, Any], question: str, messages: Sequence[Any], config: RunnableConfig
) -> tuple[Runnable[Any, Any], Question]:
    """Add the turns before a question if the retriever or gate is of this package.

    Returns the retriever, whose fallbacks get the question alone if they are of another.
    """
    before = turns(messages)
    if not before or not isinstance(innermost(retriever, config), AsTool):
        return retriever, question
    if isinstance(retriever, RunnableWithFallbacks):
        alone: Runnable[Any, str] = RunnableLambda(lambda _: question)
        fallbacks = [
            fallback if isinstance(innermost(fallback, config), AsTool) else alone | fallback
            for fallback in retriever.fallbacks
        ]
        retriever = retriever.model_copy(update={"fallbacks": fallbacks})
    return retriever, {"question": question, "chat_history": before}


def _check_takes(retriever: Runnable[Any, Any], options: Mapping[str, Any]) -> None:
    """Raise TypeError if a retriever, such as many of LangChain's, drops the options of a call."""
    inner = innermost(retriever)
    takes = isinstance(inner, AsTool | RunnableLambda)
    takes = takes or getattr(inner, "_expects_other_args", False)
    if options and not takes:
        raise TypeError(
            f"{', '.join(options)}: {type(inner).__name__} takes no options; set them in the "
            "UECRetriever below it."
        )


class _SearchTool(StructuredTool):
    """A tool that takes the options of a search beside its query from a program alone.

    A model is not told of them, and what it writes into a call beside the query is refused. A
    program passes them as keywords or, unless it hands a model's call on, as keys of the input.
    """

    def run(self, tool_input: str | dict[str, Any], *arguments: Any, **call: Any) -> Any:  # noqa: ANN401
        """Run the tool, with the options of a program."""
        tool, request = self._with_options(tool_input, call)
        return StructuredTool.run(tool, request, *arguments, **call)

    async def arun(self, tool_input: str | dict[str, Any], *arguments: Any, **call: Any) -> Any:  # noqa: ANN401
        """Run the tool, with the options of a program."""
        tool, request = self._with_options(tool_input, call)
        return await StructuredTool.arun(tool, request, *arguments, **call)

    def _with_options(
        self, tool_input: str | dict[str, Any], call: dict[str, Any]
    ) -> tuple[StructuredTool, str | dict[str, Any]]:
        """Return the tool with what LangChain's do not take from a call, and its arguments."""
        options = {name: call.pop(name) for name in [*call] if name not in _RUN}
        if "color" in call:  # as AgentExecutor calls, which a refusal would end
            return self.model_copy(update={"handle_validation_error": str}), tool_input
        if isinstance(tool_input, dict) and call.get("tool_call_id") is None:
            keys = {k: v for k, v in tool_input.items() if k not in _Asked.model_fields}
            tool_input = {k: v for k, v in tool_input.items() if k in _Asked.model_fields}
            for name in keys.keys() - CallOptions.__annotations__.keys():
                raise TypeError(f"{name!r:.60}: {self.name} has no such argument.")
            options = with_limits(with_limits({}, keys), options) if keys else options
        if not options:
            return self, tool_input
        functions = {"func": self.func, "coroutine": self.coroutine}
        update = {k: partial(f, options=options) for k, f in functions.items() if f is not None}
        return self.model_copy(update=update), tool_input


_RUN = inspect.signature(StructuredTool.run).parameters


class _Asked(BaseModel, extra="forbid"):
    query: str = Field(description="The question to look up, phrased so that it can stand alone.")


def retriever_tool(
    retriever: Runnable[Any, Any], name: str = TOOL_NAME, description: str = TOOL_DESCRIPTION
) -> StructuredTool:
    """Create a tool from a retriever or a gate.

    The content for the model is the decision with its reason and an instruction, followed by the
    passages, each with its source, or the readings of the question. The artifact for programs is a
    `Gated` mapping; a checkpointer makes dicts of its documents, which `Document.model_validate`
    reads. The query is searched without the turns before it, so it must stand alone.

    Parameters
    ----------
    retriever : Runnable
        A `UECGate`, a `UECRetriever`, or a LangChain retriever built on one. A program that calls a
        tool of the first two may pass their options, which limit what was set before. A call by a
        model has the query alone: what else it has is refused.
    name, description : str
        The name and description by which the model chooses the tool; describe the subject of the
        documents.
    """

    def ready(options: Mapping[str, Any]) -> tuple[Runnable[Any, Any], Mapping[str, Any]]:
        """Return the retriever with the options of a program, or both if it is not of this kind."""
        _check_takes(retriever, options)
        is_ours = isinstance(retriever, AsTool)
        return (retriever.bind(**options), {}) if options and is_ours else (retriever, options)

    def search(
        query: str, config: RunnableConfig, options: Mapping[str, Any] = MappingProxyType({})
    ) -> tuple[str, Gated]:
        runnable, call = ready(options)
        with read_by_model():
            return _reply(query, runnable.invoke(query, config, **call))

    async def asearch(
        query: str, config: RunnableConfig, options: Mapping[str, Any] = MappingProxyType({})
    ) -> tuple[str, Gated]:
        runnable, call = ready(options)
        with read_by_model():
            return _reply(query, await runnable.ainvoke(query, config, **call))

    return _SearchTool(
        name=name,
        description=description,
        args_schema=_Asked,
        func=search,
        coroutine=asearch,
        response_format="content_and_artifact",
    )


def _reply(query: str, response: Mapping[str, Any] | Sequence[Document]) -> tuple[str, Gated]:
    """Return what the model reads, and what programs get."""
    output = read_decision(query, response)
    return reply_of(output), output


def reply_of(gated: Gated) -> str:
    """Return what a model reads of a gate's output; see `tool_reply`."""
    hits = [(document.page_content, document.metadata) for document in gated["documents"]]
    summary = gated["decision"], gated["reason_code"], gated["reason"]
    return tool_reply(*summary, gated["readings"], hits)


def retrieval_node(retriever: Runnable[Any, Any]) -> Runnable[Any, Gated]:
    """Create a node that retrieves and writes the keys of `Gated` into a graph's state.

    The question is the state's "question" or, if there is none or it was searched before another
    human message came, the last human message. The state may be a mapping, a pydantic model or a
    dataclass; if other nodes set its "question", let it have the key "searched". A `UECGate` or a
    `UECRetriever` searches with the turns before it in the state's "messages", and within the
    chosen reading in the state's "within", which applies to one question; other retrievers take
    only the question.

    Parameters
    ----------
    retriever : Runnable
        A `UECGate`, a `UECRetriever`, or a LangChain retriever built on one.

    Examples
    --------
    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> from uec_rag.langchain import UECRetriever
    >>> embedding = DeterministicFakeEmbedding(size=8)
    >>> node = retrieval_node(UECRetriever.from_texts(["cats purr", "dogs bark"], embedding))
    >>> state = node.invoke({"messages": [HumanMessage("dogs bark")]})
    >>> state["documents"][0].page_content, state["decision"]
    ('dogs bark', 'answer')
    """

    def parse(state: object, config: RunnableConfig) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        values = _values_of(state)
        check_named(values)
        question, newest, before = _question_and_messages(values)
        options = {name: values[name] for name in _OPTIONS if values.get(name) is not None}
        _check_takes(retriever, options)
        updates: dict[str, Any] = {"question": question, "searched": [question, newest]}
        if "within" in options:  # the chosen reading applies to this search only
            updates["within"] = None
        return _in_context(retriever, question, before, config), options, updates

    def node(state: object, config: RunnableConfig) -> Gated:
        (ready, input), options, updates = parse(state, config)
        response = ready.invoke(input, config, **options)
        return cast(Gated, {**read_decision(updates["question"], response), **updates})

    async def anode(state: object, config: RunnableConfig) -> Gated:
        (ready, input), options, updates = parse(state, config)
        response = await ready.ainvoke(input, config, **options)
        return cast(Gated, {**read_decision(updates["question"], response), **updates})

    return RunnableLambda(node, anode, name="retrieve")


def _values_of(state: Any) -> Mapping[str, Any]:  # noqa: ANN401
    """Return the state of a graph by its keys; a pydantic model iterates over its fields."""
    if is_dataclass(state):
        return {field.name: getattr(state, field.name) for field in fields(state)}
    return state if isinstance(state, Mapping) else dict(state)


def _question_and_messages(state: Mapping[str, Any]) -> tuple[str, str, Sequence[AnyMessage]]:
    """Return the question, the newest human message by its id or text, and those before it."""
    question, messages = state.get("question"), state.get("messages") or []
    positions = [at for at, message in enumerate(messages) if isinstance(message, HumanMessage)]
    texts = [messages[at].text for at in positions]
    newest = str(messages[positions[-1]].id or texts[-1]) if positions else ""
    # A checkpointer keeps an earlier turn's question, which is asked again if a reading is chosen.
    is_known = state.get("decision") and state.get("within") is None
    searched = state.get("searched") or (question, None)
    is_spent = is_known and question == searched[0] and newest != searched[1]
    if not isinstance(question, str) or not question or (is_spent and texts):
        if not texts:
            raise ValueError('state: expected a "question", or a human message in its "messages".')
        question = texts[-1]
    # The state's question may be among the messages, or come after all of them.
    return question, newest, messages[: positions[-1]] if question in texts[-1:] else messages
