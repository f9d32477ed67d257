"""The decision about a question, in the form of LangChain's runnables, graphs and tools."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial, wraps
from types import MappingProxyType
from typing import Any, NotRequired, Unpack, cast

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, HumanMessage, convert_to_messages
from langchain_core.runnables import (
    Runnable,
    RunnableConfig,
    RunnableLambda,
    RunnableSequence,
    RunnableSerializable,
    RunnableWithFallbacks,
)
from langchain_core.runnables.base import RunnableBinding, RunnableBindingBase
from langchain_core.runnables.configurable import (
    DynamicRunnable,
    RunnableConfigurableAlternatives,
    RunnableConfigurableFields,
)
from langchain_core.runnables.utils import AnyConfigurableField, Input, Output
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from uec_rag.adapters.other_retrievers import decision_on
from uec_rag.adapters.tool import TOOL_DESCRIPTION, TOOL_NAME, tool_reply
from uec_rag.base.checks import did_you_mean
from uec_rag.confidence.decision import Action, Decision
from uec_rag.langchain.conversion import (
    CONDITIONS,
    CallOptions,
    Question,
    all_options,
    check_config,
    check_named,
    check_options,
    plain_document,
    text_of,
    turns,
)
from uec_rag.retrieval.results import read_by_model, tell
from uec_rag.stores.base import EVERYONE
from uec_rag.stores.filters import owned

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


def _bound(name: str) -> Any:  # noqa: ANN401
    """Return a method of LangChain's runnables whose result is one of ours, with its limits."""

    def method(self: AsTool[Any, Any], *args: Any, **kwargs: Any) -> Bound[Any, Any]:
        runnable = getattr(super(AsTool, self), name)(*args, **kwargs)
        return Bound(bound=runnable, kwargs={}, config={})

    return wraps(getattr(RunnableSerializable, name))(method)


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

    def narrowed(self, limits: Mapping[str, Any]) -> Runnable[Input, Output]:
        """Return it with a `tenant` and a `filter` that no call or configuration lifts."""
        raise NotImplementedError

    @property
    def limits(self) -> Mapping[str, Any]:
        """The `tenant` and the `filter` that no call or configuration lifts."""
        raise NotImplementedError

    def bind(self, **kwargs: Any) -> Runnable[Input, Output]:
        """Return a runnable with options of all calls, whose `tenant` and `filter` limit theirs."""
        check_named(kwargs)
        limits = {name: owned(kwargs.pop(name)) for name in CONDITIONS if name in kwargs}
        runnable = narrow(self, limits)
        return Bound(bound=runnable, kwargs=kwargs, config={}) if kwargs else runnable

    def with_config(
        self, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Runnable[Input, Output]:
        """Return a runnable with a configuration of all calls."""
        merged = cast(RunnableConfig, {**(config or {}), **kwargs})
        known = {spec.id for spec in self.config_specs}
        check_config(cast(RunnableConfig, {k: v for k, v in merged.items() if k not in known}))
        return Bound(bound=self, kwargs={}, config=merged)

    with_retry = _bound("with_retry")
    with_listeners = _bound("with_listeners")
    with_alisteners = _bound("with_alisteners")
    with_types = _bound("with_types")
    configurable_alternatives = _bound("configurable_alternatives")

    def with_fallbacks(  # type: ignore[override]
        self, fallbacks: Sequence[Runnable[Any, Any]], **kwargs: Any
    ) -> Runnable[Input, Output]:
        """Return a runnable with fallbacks, of which those that take no options refuse them."""
        runnable = super().with_fallbacks([*map(_refusing, fallbacks)], **kwargs)
        return Bound(bound=runnable, kwargs={}, config={})

    def configurable_fields(self, **kwargs: AnyConfigurableField) -> Any:  # noqa: ANN401
        """Let a configuration choose parameters; it limits a `tenant`, and cannot lift it."""
        runnable = super().configurable_fields(**kwargs)  # type: ignore[misc]
        runnable = _Configurable(default=runnable.default, fields=runnable.fields)
        return Bound(bound=runnable, kwargs={}, config={})


class Bound(AsTool[Input, Output], RunnableBinding[Input, Output]):
    """A wrapper of a gate or a retriever that keeps its limits, in any order of wrapping."""

    def narrowed(self, limits: Mapping[str, Any]) -> Runnable[Input, Output]:
        """See `AsTool.narrowed`."""
        return self.model_copy(update={"bound": narrow(self.bound, limits)})

    @property
    def limits(self) -> Mapping[str, Any]:
        """See `AsTool.limits`."""
        inner = innermost(self)
        return inner.limits if isinstance(inner, AsTool) else {}


class _Configurable(RunnableConfigurableFields):  # type: ignore[type-arg]
    """A gate or a retriever whose limits count beside what a configuration chooses.

    A tenant that the configuration is to choose is required.
    """

    def _prepare(
        self, config: RunnableConfig | None = None
    ) -> tuple[Runnable[Any, Any], RunnableConfig]:
        runnable, config = super()._prepare(config)
        names = {spec.id for spec in self.config_specs}
        values = config["configurable"]
        for name in values.keys() - names:
            if advice := did_you_mean(name, names):
                key = f"configurable[{name!r:.60}]"
                raise TypeError(f"config: no parameter is read from {key}{advice}")
        if runnable is not self.default and isinstance(runnable, AsTool):
            runnable = runnable.narrowed(cast(AsTool[Any, Any], self.default).limits)
        field = self.fields.get("tenant")
        if field is not None and field.id not in values:
            runnable = runnable.model_copy(update={"tenant_required": True})  # type: ignore[attr-defined]
        return runnable, config


def narrow(runnable: Runnable[Any, Any], limits: Mapping[str, Any]) -> Runnable[Any, Any]:
    """Return a runnable with a `tenant` and a `filter` that no later call lifts.

    TypeError if something that it runs takes neither.
    """

    def part(inner: Any) -> Any:  # noqa: ANN401
        if isinstance(inner, Runnable):
            return narrow(inner, limits)
        return lambda: narrow(inner(), limits)  # an alternative that is made when it is chosen

    update: dict[str, Any] = {}
    if not any(limit not in (None, EVERYONE) for limit in limits.values()):
        return runnable
    if isinstance(runnable, AsTool):
        return runnable.narrowed(limits)
    if isinstance(runnable, RunnableBindingBase):
        update = {"bound": part(runnable.bound)}
    elif isinstance(runnable, DynamicRunnable):
        update = {"default": part(runnable.default)}
        if isinstance(runnable, RunnableConfigurableAlternatives):
            update["alternatives"] = {k: part(way) for k, way in runnable.alternatives.items()}
    elif isinstance(runnable, RunnableWithFallbacks):
        fallbacks = [*map(part, runnable.fallbacks)]
        update = {"runnable": part(runnable.runnable), "fallbacks": fallbacks}
    elif isinstance(runnable, RunnableSequence):
        update = {"first": part(runnable.first)}
    else:
        _check_takes(runnable, limits)
        return runnable.bind(**limits)
    return runnable.model_copy(update=update)


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
    alone: Runnable[Any, str] = RunnableLambda(lambda _: question)

    def ready(runnable: Runnable[Any, Any]) -> Runnable[Any, Any]:
        if isinstance(runnable, Bound):
            return runnable.model_copy(update={"bound": ready(runnable.bound)})
        if not isinstance(runnable, RunnableWithFallbacks):
            return runnable
        fallbacks = [
            fallback if isinstance(innermost(fallback, config), AsTool) else alone | fallback
            for fallback in runnable.fallbacks
        ]
        return runnable.model_copy(update={"fallbacks": fallbacks})

    return ready(retriever), {"question": question, "chat_history": before}


def _refusing(fallback: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Return a fallback that refuses options, if it would drop them."""
    if _takes_options(fallback):
        return fallback

    def call(input: object, config: RunnableConfig, **options: Any) -> object:
        _check_takes(fallback, options)
        return fallback.invoke(input, config)

    async def acall(input: object, config: RunnableConfig, **options: Any) -> object:
        _check_takes(fallback, options)
        return await fallback.ainvoke(input, config)

    return RunnableLambda(call, acall)


def _takes_options(runnable: Runnable[Any, Any]) -> bool:
    inner = innermost(runnable)
    takes = isinstance(inner, AsTool | RunnableLambda)
    return takes or bool(getattr(inner, "_expects_other_args", False))


def _check_takes(retriever: Runnable[Any, Any], options: Mapping[str, Any]) -> None:
    """Raise TypeError if a retriever, such as many of LangChain's, drops the options of a call."""
    if options and not _takes_options(retriever):
        kind = type(innermost(retriever)).__name__
        raise TypeError(
            f"{', '.join(options)}: {kind} takes no options; set them in the UECRetriever below it."
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
            options = all_options(keys, options)
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


def _question_and_messages(state: Mapping[str, Any]) -> tuple[str, str, Sequence[BaseMessage]]:
    """Return the question, the newest human message by its id or text, and those before it."""
    question, given = state.get("question"), state.get("messages") or []
    is_single = isinstance(given, str | Mapping | BaseMessage | tuple)
    messages = convert_to_messages([given] if is_single else given)
    positions = [at for at, message in enumerate(messages) if isinstance(message, HumanMessage)]
    texts = [text_of(messages[at]) for at in positions]
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
