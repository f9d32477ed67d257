"""Retrieval as a tool: an agent sees the passages and what was decided about them."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.utils import Input, Output
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, Field

from uec_rag.langchain.gated import Gated, told

NAME = "search_documents"
DESCRIPTION = (
    "Searches the documents. Says whether they answer the question: whether to answer from them, "
    "to ask the user back, or to say that they do not tell."
)

_WHAT_TO_DO = {
    "answer": "Answer from these passages only.",
    "clarify": "Do not answer yet: ask the user which of the passages is meant.",
    "abstain": "Do not answer, neither from these passages nor from memory: the documents do not "
    "tell.",
}


class ToolInput(BaseModel):
    """What an agent gives the tool."""

    query: str = Field(description="What to look up, as a question that can stand alone.")


def retriever_tool(
    retriever: Runnable[Any, Any],
    name: str = NAME,
    description: str = DESCRIPTION,
    *,
    source_key: str = "source",
) -> StructuredTool:
    """Make a tool of a retriever or a gate.

    Its content, which the model reads, is the decision with its reason and what to do about it,
    then the passages. Its artifact, which a program reads, is a `Gated` mapping: documents,
    decision, reason, candidates, confidence.

    Parameters
    ----------
    retriever : Runnable
        A `UECGate`, a `UECRetriever`, or a retriever of LangChain's over such.
    name, description : str
        By which a model chooses it; say what the documents are about.
    source_key : str
        Metadata that names a passage's source to the model.
    """

    def search(query: str, config: RunnableConfig) -> tuple[str, Gated]:
        found = told(query, retriever.invoke(query, config))
        return as_text(found, source_key), found

    async def asearch(query: str, config: RunnableConfig) -> tuple[str, Gated]:
        found = told(query, await retriever.ainvoke(query, config))
        return as_text(found, source_key), found

    return StructuredTool.from_function(
        search,
        asearch,
        name=name,
        description=description,
        args_schema=ToolInput,
        response_format="content_and_artifact",
    )


class AsTool(Runnable[Input, Output]):
    """What a gate and a retriever inherit to become a tool that tells what was decided."""

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> BaseTool:
        """Make the tool of `retriever_tool`: passages, decision, reason and confidence.

        Parameters
        ----------
        args_schema, arg_types
            Where one is given, LangChain's own `as_tool` makes the tool.
        name, description : str, optional
            By which a model chooses it; say what the documents are about.
        """
        if args_schema is not None or arg_types is not None:
            return super().as_tool(
                args_schema, name=name, description=description, arg_types=arg_types
            )
        return retriever_tool(self, name or NAME, description or DESCRIPTION)


def as_text(found: Gated, source_key: str = "source") -> str:
    """What a language model is told of what was found: the decision first, then the passages."""
    lines = [f"Decision: {found['decision']} ({found['reason']}). {_WHAT_TO_DO[found['decision']]}"]
    for place, document in enumerate(found["documents"], start=1):
        source = document.metadata.get(source_key)
        mark = f"[{place}]" if source is None else f"[{place}] ({source})"
        rival = " (candidate)" if document in found["candidates"] else ""
        lines.append(f"{mark}{rival} {document.page_content}")
    return "\n\n".join(lines)
