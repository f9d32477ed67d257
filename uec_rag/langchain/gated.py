"""The decision about a question, in the form of LangChain's runnables, graphs and tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, cast

from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.utils import Input, Output
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool
from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import TypedDict

from uec_rag.base.checks import check_text
from uec_rag.base.errors import warn
from uec_rag.confidence.decision import Action, Decision
from uec_rag.langchain.documents import Question, messages_of, place_of_question, turns
from uec_rag.retrieval.result import KEY, surest_decision
from uec_rag.retrieval.tool import TOOL_DESCRIPTION, TOOL_NAME, is_doubted, tool_reply


class GateOutput(TypedDict):
    """The output of a gate.

    Attributes
    ----------
    question : str
    documents : list of Document
        The hits, with the `uec_` metadata.
    decision : {"answer", "clarify", "abstain"}
    reason : str
        The reason in plain words.
    reason_code : str
        The kind of reason: answered, underspecified, uncertain, no_answer, off_topic or
        nothing_found.
    candidates : list of Document
        If the decision is "clarify", the hits that the question may mean; all hits if these are
        not known, as after serialisation.
    readings : list of dict
        If the decision is "clarify", the readings of the question, each with "title", "ids" and
        "probability"; empty if not known. Pass the chosen one as `within` to the next search.
    clarifying_question : str
        "Do you mean A or B?" if the decision is "clarify", else "".
    confidence : float
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


class Gated(GateOutput, total=False):
    """The output of a gate and, for the state of a graph, the reading to search next.

    Attributes
    ----------
    within : a reading, its ids, its label or a place ("2"), or None
        The chosen reading; it applies to the next search alone.
    """

    within: object


def to_gated(question: str, documents: Sequence[Document], decision: Decision) -> Gated:
    """Join a question, its documents and the decision, which is also set in their metadata."""
    for document in documents:
        document.metadata["uec_decision"] = decision.action
        document.metadata["uec_reason"] = decision.reason
        document.metadata["uec_reason_code"] = decision.code
        for key, value in decision.advice_metadata().items():
            document.metadata[f"{KEY}{key}"] = value
    return _join(question, documents, decision)


def read_decision(question: str, found: Mapping[str, Any] | Sequence[Document]) -> Gated:
    """Read the decision from the output of a gate, or of a retriever by `decision_on`."""
    if isinstance(found, Mapping):
        return cast(Gated, {key: found[key] for key in GateOutput.__annotations__})
    return _join(question, found, decision_on(found))


def decision_on(documents: Sequence[Document], origin: str = "documents") -> Decision:
    """Read the decision in the metadata of documents; to abstain if there are no documents.

    If they come from several searches (by a `MultiQueryRetriever` or an `EnsembleRetriever`), it is
    the one with the highest confidence. ValueError if none has a decision, with their `origin`.
    """
    if not documents:
        return Decision.empty()
    decision = surest_decision(document.metadata for document in documents)
    if decision is None:
        raise ValueError(
            f"{origin}: none has uec_decision and uec_confidence in its metadata; expected those "
            "of a UECRetriever, a UECGate, or a retriever over one that keeps metadata."
        )
    return decision


def _join(question: str, documents: Sequence[Document], decision: Decision) -> Gated:
    rivals: Sequence[Document] = ()
    if decision.action == "clarify":
        ids = decision.candidates
        rivals = [d for d in documents if d.id in ids]
        rivals = rivals if ids else documents
    return Gated(
        question=question,
        documents=list(documents),
        decision=decision.action,
        reason=decision.reason,
        reason_code=decision.code,
        candidates=list(rivals),
        readings=decision.choices,
        clarifying_question=decision.clarifying_question,
        confidence=decision.confidence,
    )


class ToolInput(BaseModel):
    """The input of the tool."""

    # An agent reports an invalid argument to its model, which tries again.
    query: Annotated[str, AfterValidator(partial(check_text, argument="query"))] = Field(
        description="The question to look up, phrased so that it can stand alone."
    )


def retriever_tool(
    retriever: Runnable[Any, Any],
    name: str = TOOL_NAME,
    description: str = TOOL_DESCRIPTION,
    *,
    source_key: str = "source",
) -> StructuredTool:
    """Create a tool from a retriever or a gate.

    The content for the model is the decision with its reason and an instruction, followed by the
    passages or the readings of the question. The artifact for programs is a `Gated` mapping. In a
    LangGraph agent, `UECGate` and `UECRetriever` search with the turns before the user's last one.

    Parameters
    ----------
    retriever : Runnable
        A `UECGate`, a `UECRetriever`, or a LangChain retriever built on one.
    name, description : str
        The name and description by which the model chooses the tool; describe the subject of the
        documents.
    source_key : str
        Metadata key of the source of a passage to show to the model.
    """

    def search(
        query: str, config: RunnableConfig, runtime: Annotated[object, InjectedToolArg] = None
    ) -> tuple[str, Gated]:
        question = in_context(retriever, query, _turns_of_agent(runtime))
        return reply_to(query, retriever.invoke(question, config), runtime)

    async def asearch(
        query: str, config: RunnableConfig, runtime: Annotated[object, InjectedToolArg] = None
    ) -> tuple[str, Gated]:
        asked_question = in_context(retriever, query, _turns_of_agent(runtime))
        return reply_to(query, await retriever.ainvoke(asked_question, config), runtime)

    def reply_to(
        query: str, output: Mapping[str, Any] | Sequence[Document], runtime: object
    ) -> tuple[str, Gated]:
        gated_output = read_decision(query, output)
        labels = [reading["title"] for reading in gated_output["readings"]]
        passages = [(d.page_content, d.metadata.get(source_key)) for d in gated_output["documents"]]
        is_first = not _has_searched(runtime)
        reply = tool_reply(
            gated_output["decision"],
            gated_output["reason"],
            labels,
            passages,
            doubted=is_first and is_doubted(gated_output["confidence"]),
            rephrases=is_first,
        )
        return reply, gated_output

    return StructuredTool.from_function(
        search,
        asearch,
        name=name,
        description=description,
        args_schema=ToolInput,
        response_format="content_and_artifact",
    )


def _has_searched(runtime: object) -> bool:
    """Return whether the tool has been called since the user's last turn."""
    messages = messages_of(getattr(runtime, "state", None))
    since = messages[place_of_question(messages) :]
    return any(
        isinstance(message, ToolMessage) and message.artifact is not None for message in since
    )


def _turns_of_agent(runtime: object) -> list[str]:
    """Return the turns before the user's last one, which the model itself turns into the query."""
    # LangGraph passes the state of its graph to a parameter named "runtime".
    messages = messages_of(getattr(runtime, "state", None))
    return turns(messages[: place_of_question(messages)])


def in_context(retriever: Runnable[Any, Any], question: str, before: Sequence[str]) -> Question:
    """Add the turns before a question if the retriever or gate is of this package; else warn."""
    ours = retriever
    while isinstance(ours, RunnableBindingBase):
        ours = ours.bound
    if not before:
        return question
    if not isinstance(ours, AsTool):
        warn_of_turns(ours)
        return question
    return {"question": question, "chat_history": [*before]}


def warn_of_turns(retriever: Runnable[Any, Any]) -> None:
    """Warn that a retriever does not receive the turns before a question."""
    kind = type(retriever).__name__
    warn(
        f"retriever: this {kind} takes only a question, without the turns before it. Use the "
        f"UECRetriever itself, or a UECGate over a history-aware retriever of the {kind}."
    )


class AsTool(Runnable[Input, Output]):
    """A mixin that converts a gate or a retriever to a tool that reports the decision."""

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> BaseTool:
        """Create the tool of `retriever_tool`: passages, decision, reason and confidence.

        Parameters
        ----------
        args_schema, arg_types
            If one is given, LangChain's own `as_tool` creates the tool.
        name, description : str, optional
            As in `retriever_tool`.
        """
        if args_schema is not None or arg_types is not None:
            return super().as_tool(
                args_schema, name=name, description=description, arg_types=arg_types
            )
        return retriever_tool(self, name or TOOL_NAME, description or TOOL_DESCRIPTION)
