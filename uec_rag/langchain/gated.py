"""What is decided about a question, as LangChain's runnables, tools and graphs hand it on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from typing_extensions import TypedDict

from uec_rag.confidence.decision import Action, Decision
from uec_rag.langchain.documents import PIECE


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
    rivals = decision.candidates if decision.action == "clarify" else ()
    return Gated(
        question=question,
        documents=list(documents),
        decision=decision.action,
        reason=decision.reason,
        candidates=[document for document in documents if _is_one_of(document, rivals)],
        confidence=decision.confidence,
    )


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
        return gated(question, [], Decision("abstain", "nothing was found"))
    known = [document.metadata for document in found if "uec_decision" in document.metadata]
    if not known:
        raise ValueError(
            "documents: none has uec_decision in its metadata; expected documents of a "
            "UECRetriever or a UECGate."
        )
    surest = max(known, key=lambda metadata: float(metadata["uec_confidence"]))
    decision = Decision(
        surest["uec_decision"],
        surest["uec_reason"],
        tuple(surest["uec_candidates"]),
        float(surest["uec_confidence"]),
    )
    rivals = decision.candidates if decision.action == "clarify" else ()
    return Gated(
        question=question,
        documents=list(found),
        decision=decision.action,
        reason=decision.reason,
        candidates=[document for document in found if _is_one_of(document, rivals)],
        confidence=decision.confidence,
    )


def _is_one_of(document: Document, ids: Collection[str]) -> bool:
    return document.id in ids or document.metadata.get(PIECE) in ids
