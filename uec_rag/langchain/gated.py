"""The decision about a question, in the form of LangChain's runnables, graphs and tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.utils import Input, Output
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from uec_rag.base.errors import warn
from uec_rag.base.text import SOURCE_KEYS, first_value
from uec_rag.confidence.decision import Action, Decision
from uec_rag.langchain.documents import Question, messages_of, place_of_question, turns
from uec_rag.retrieval.adapters import decision_on
from uec_rag.retrieval.result import KEY
from uec_rag.retrieval.tool import TOOL_DESCRIPTION, TOOL_NAME, tool_reply

DECIDED = "expected documents of a UECRetriever, or of a retriever over one that keeps metadata."
"""Which documents have a decision."""


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


def is_gated(output: object) -> bool:
    """Return whether something is the output of a gate, also from a checkpoint."""
    return isinstance(output, Mapping) and GateOutput.__annotations__.keys() <= output.keys()


def to_gated(question: str, documents: Sequence[Document], decision: Decision) -> Gated:
    """Join a question, its documents and the decision, which is also set in their metadata."""
    told = {"decision": decision.action, "reason": decision.reason, "reason_code": decision.code}
    for document in documents:
        for key, value in {**told, **decision.advice_metadata()}.items():
            document.metadata[f"{KEY}{key}"] = value
    rivals = documents if decision.action == "clarify" else ()
    known = [document for document in rivals if document.id in decision.candidates]
    return Gated(
        question=question,
        documents=list(documents),
        decision=decision.action,
        reason=decision.reason,
        reason_code=decision.code,
        candidates=list(known if decision.candidates else rivals),
        readings=decision.choices,
        clarifying_question=decision.clarifying_question,
        confidence=decision.confidence,
    )


def read_decision(question: str, found: Mapping[str, Any] | Sequence[Document]) -> Gated:
    """Read the decision from the output of a gate, or of a retriever by `decision_on`."""
    if isinstance(found, Mapping):
        return cast(Gated, {key: found[key] for key in GateOutput.__annotations__})
    return to_gated(question, found, decision_on(found, DECIDED))


class ToolInput(BaseModel):
    """The input of the tool."""

    query: str = Field(description="The question to look up, phrased so that it can stand alone.")


def retriever_tool(
    retriever: Runnable[Any, Any], name: str = TOOL_NAME, description: str = TOOL_DESCRIPTION
) -> StructuredTool:
    """Create a tool from a retriever or a gate.

    The content for the model is the decision with its reason and an instruction, followed by the
    passages, each with its source, or the readings of the question. The artifact for programs is a
    `Gated` mapping. In a LangGraph agent, `UECGate` and `UECRetriever` search with the turns before
    the user's last one.

    Parameters
    ----------
    retriever : Runnable
        A `UECGate`, a `UECRetriever`, or a LangChain retriever built on one.
    name, description : str
        The name and description by which the model chooses the tool; describe the subject of the
        documents.
    """

    # LangGraph passes the state of its graph to a parameter named "runtime".
    def search(
        query: str, config: RunnableConfig, runtime: Annotated[object, InjectedToolArg] = None
    ) -> tuple[str, Gated]:
        messages = messages_of(getattr(runtime, "state", None))
        question = in_context(retriever, query, messages[: place_of_question(messages)])
        return _reply(query, retriever.invoke(question, config))

    async def asearch(
        query: str, config: RunnableConfig, runtime: Annotated[object, InjectedToolArg] = None
    ) -> tuple[str, Gated]:
        messages = messages_of(getattr(runtime, "state", None))
        question = in_context(retriever, query, messages[: place_of_question(messages)])
        return _reply(query, await retriever.ainvoke(question, config))

    return StructuredTool.from_function(
        search,
        asearch,
        name=name,
        description=description,
        args_schema=ToolInput,
        response_format="content_and_artifact",
    )


def _reply(query: str, found: Mapping[str, Any] | Sequence[Document]) -> tuple[str, Gated]:
    """Return what the model reads, and what programs get."""
    output = read_decision(query, found)
    reply = tool_reply(
        output["decision"],
        output["reason"],
        [reading["title"] for reading in output["readings"]],
        [
            (document.page_content, first_value(document.metadata, SOURCE_KEYS) or None)
            for document in output["documents"]
        ],
    )
    return reply, output


def in_context(retriever: Runnable[Any, Any], question: str, messages: Sequence[Any]) -> Question:
    """Add the turns before a question if the retriever or gate is of this package; else warn."""
    ours, before = retriever, turns(messages)
    while isinstance(ours, RunnableBindingBase):
        ours = ours.bound
    if not before:
        return question
    if not isinstance(ours, AsTool):
        warn_of_turns(ours)
        return question
    return {"question": question, "chat_history": before}


def warn_of_turns(retriever: object) -> None:
    """Warn that a retriever does not receive the turns before a question."""
    kind = type(retriever).__name__
    warn(
        f"retriever: this {kind} takes only a question, without the turns before it. Use the "
        f"UECRetriever itself, or a UECGate over a history-aware retriever of the {kind}."
    )


class AsTool(Runnable[Input, Output]):
    """A mixin that converts a gate or a retriever to a tool that reports the decision."""

    def as_tool(  # type: ignore[override]
        self, *, name: str = TOOL_NAME, description: str = TOOL_DESCRIPTION
    ) -> BaseTool:
        """Create the tool of `retriever_tool`: passages, decision, reason and confidence."""
        return retriever_tool(self, name, description)
