"""What is decided about a question, as LangChain's runnables, tools and graphs hand it on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from typing_extensions import TypedDict

from uec_rag.confidence.decision import Action, Decision
from uec_rag.langchain.documents import PIECE
from uec_rag.retrieval.result import surest_decision


class Gated(TypedDict):
    """What a gate hands on; also a state of a graph.

    Attributes
    ----------
    question : str
    documents : list of Document
        The hits, with the `uec_` metadata.
    decision : {"answer", "clarify", "abstain"}
    reason : str
        In plain words.
    candidates : list of Document
        The hits that compete, where the decision is "clarify".
    confidence : float
    """

    question: str
    documents: list[Document]
    decision: Action
    reason: str
    candidates: list[Document]
    confidence: float


def gated(question: str, documents: Sequence[Document], decision: Decision) -> Gated:
    """Join a question, its documents and what is decided about them.

    The decision is written on the documents, too.
    """
    for document in documents:
        document.metadata["uec_decision"] = decision.action
        document.metadata["uec_reason"] = decision.reason
    return _joined(question, documents, decision)


def told(question: str, found: Mapping[str, Any] | Sequence[Document]) -> Gated:
    """Read what was decided off what a gate, or a retriever, handed on.

    Where documents come from several searches (of a `MultiQueryRetriever`, an
    `EnsembleRetriever`), the one of the highest confidence counts.

    Raises
    ------
    ValueError
        If no document says what was decided.
    """
    if isinstance(found, Mapping):
        return Gated(
            question=found["question"],
            documents=found["documents"],
            decision=found["decision"],
            reason=found["reason"],
            candidates=found["candidates"],
            confidence=found["confidence"],
        )
    if not found:
        return _joined(question, [], Decision("abstain", "nothing was found"))
    decision = surest_decision(document.metadata for document in found)
    if decision is None:
        raise ValueError(
            "documents: none has uec_decision in its metadata; expected documents of a "
            "UECRetriever or a UECGate."
        )
    return _joined(question, found, decision)


def _joined(question: str, documents: Sequence[Document], decision: Decision) -> Gated:
    rivals = decision.candidates if decision.action == "clarify" else ()
    return Gated(
        question=question,
        documents=list(documents),
        decision=decision.action,
        reason=decision.reason,
        candidates=[document for document in documents if _is_one_of(document, rivals)],
        confidence=decision.confidence,
    )


def _is_one_of(document: Document, ids: Collection[str]) -> bool:
    return document.id in ids or document.metadata.get(PIECE) in ids
