"""The gate as a LangChain runnable: answer, ask back or abstain."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self, TypeAlias, TypedDict

from langchain_core.callbacks import adispatch_custom_event, dispatch_custom_event
from langchain_core.documents import Document
from langchain_core.runnables import (
    Runnable,
    RunnableBranch,
    RunnableConfig,
    RunnableSerializable,
)
from pydantic import ConfigDict, PrivateAttr

from uec_rag.base.checks import check_k
from uec_rag.langchain.documents import passage_filter, refuse_unknown, with_uncertainty
from uec_rag.langchain.retriever import UECRetriever
from uec_rag.retrieval.gate import Gate
from uec_rag.retrieval.result import SearchResult

Question: TypeAlias = str | Mapping[str, Any]
"""The question itself, or a mapping with a "question"."""

EVENT = "uec_gate"
"""Name of the custom callback event that every decision sends."""


class Gated(TypedDict):
    """What the gate hands on.

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
    decision: Literal["answer", "clarify", "abstain"]
    reason: str
    candidates: list[Document]
    confidence: float


class UECGate(RunnableSerializable[Question, dict[str, Any]]):
    """Retrieves, and decides whether to answer, to ask back or to abstain.

    Takes a question, or a mapping with a "question" whose other keys are handed on; gives the keys
    of `Gated`. Each decision is also sent to the callbacks, as the custom event "uec_gate".

    Parameters
    ----------
    retriever : UECRetriever
    gate : Gate, optional
        From `calibrate`; without one the threshold is a confidence of one half, and nothing is
        guaranteed.

    Examples
    --------
    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> from langchain_core.runnables import RunnableLambda
    >>> texts = ["cats purr", "dogs bark", "birds sing"]
    >>> retriever = UECRetriever.from_texts(texts, DeterministicFakeEmbedding(size=8), k=2)
    >>> chain = UECGate(retriever=retriever).route(
    ...     answer=RunnableLambda(lambda found: found["documents"][0].page_content),
    ...     clarify=RunnableLambda(lambda found: "Which one do you mean?"),
    ...     abstain=RunnableLambda(lambda found: "I do not know."),
    ... )
    >>> chain.invoke("dogs bark")
    'dogs bark'
    """

    retriever: UECRetriever
    gate: Gate | None = None

    _calibrated_at: int | None = PrivateAttr(default=None)

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @classmethod
    def calibrate(
        cls,
        retriever: UECRetriever,
        queries: Sequence[str],
        relevant_ids: Sequence[Collection[str]],
        risk: float = 0.05,
        certainty: float = 0.95,
        confidence: float | None = None,
    ) -> Self:
        """Make a gate that keeps the share of wrong answers below a target.

        Parameters
        ----------
        retriever : UECRetriever
            Its k says how many hits an answer may rest on, its filter among which passages.
        queries, relevant_ids, risk, certainty, confidence
            As in `uec_rag.retrieval.gate.Gate.calibrate`.
        """
        gate = Gate.calibrate(
            retriever.vectorstore.retriever,
            queries,
            relevant_ids,
            risk=risk,
            certainty=certainty,
            confidence=confidence,
            k=retriever.k,
            filter=passage_filter(retriever.filter),
        )
        made = cls(retriever=retriever, gate=gate)
        made._calibrated_at = retriever.vectorstore.retriever.changes
        return made

    def _warn_changed(self) -> None:
        changes = self.retriever.vectorstore.retriever.changes
        if self._calibrated_at not in (None, changes):
            self._calibrated_at = changes
            warnings.warn(
                "The index has changed since the gate was calibrated: its guarantee is about the "
                "old corpus. Call UECGate.calibrate again.",
                UserWarning,
                stacklevel=2,
            )

    @property
    def report(self) -> str:
        """What the threshold rests on, in plain words."""
        if self.gate is None:
            return "Answering above confidence 0.5; nothing is guaranteed: calibrate the gate."
        return self.gate.report

    def route(
        self,
        answer: Runnable[Any, Any],
        clarify: Runnable[Any, Any],
        abstain: Runnable[Any, Any],
    ) -> Runnable[Question, Any]:
        """Chain each way out to a runnable of its own; it is given what the gate hands on."""
        return self | RunnableBranch(
            (lambda found: found["decision"] == "answer", answer),
            (lambda found: found["decision"] == "clarify", clarify),
            abstain,
        )

    def invoke(
        self, input: Question, config: RunnableConfig | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Retrieve and decide."""
        return self._call_with_config(partial(self._gate, kwargs), input, config)

    async def ainvoke(
        self, input: Question, config: RunnableConfig | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Retrieve and decide, without blocking the event loop."""
        return await self._acall_with_config(partial(self._agate, kwargs), input, config)

    def _gate(
        self, options: Mapping[str, Any], given: Question, config: RunnableConfig
    ) -> dict[str, Any]:
        question, k = _question(given), self._hits(options)
        result = self.retriever.vectorstore._search(question, k, self.retriever.filter)
        found = self._decide(given, question, result)
        dispatch_custom_event(EVENT, _event(found), config=config)
        return found

    async def _agate(
        self, options: Mapping[str, Any], given: Question, config: RunnableConfig
    ) -> dict[str, Any]:
        question, k = _question(given), self._hits(options)
        result = await self.retriever.vectorstore._asearch(question, k, self.retriever.filter)
        found = self._decide(given, question, result)
        await adispatch_custom_event(EVENT, _event(found), config=config)
        return found

    def _hits(self, options: Mapping[str, Any]) -> int:
        refuse_unknown(options, "invoke", "k")
        k: int = options.get("k", self.retriever.k)
        check_k(k)
        if self.gate is not None and k < self.gate.k:
            raise ValueError(
                f"k: expected at least the {self.gate.k} hits that the gate was calibrated for, "
                f"got {k}; among fewer the answer may be missing. Calibrate a gate for this k."
            )
        return k

    def _decide(self, given: Question, question: str, result: SearchResult) -> dict[str, Any]:
        self._warn_changed()
        decision = result.decisions[0] if self.gate is None else self.gate.decide(result)[0]
        documents = with_uncertainty(result)
        for document in documents:
            document.metadata["uec_decision"] = decision.action
            document.metadata["uec_reason"] = decision.reason
        rivals = decision.candidates if decision.action == "clarify" else ()
        found = Gated(
            question=question,
            documents=documents,
            decision=decision.action,
            reason=decision.reason,
            candidates=[d for d in documents if d.id in rivals],
            confidence=float(result.confidence[0]),
        )
        return dict(given if isinstance(given, Mapping) else {}) | dict(found)


def _question(given: Question) -> str:
    question = given.get("question") if isinstance(given, Mapping) else given
    if not isinstance(question, str):
        raise TypeError(
            'input: expected a question, a string, or a mapping with a string "question", '
            f"got {given!r:.80}."
        )
    return question


def _event(found: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("question", "decision", "reason", "confidence")
    scores = [d.metadata["uec_score"] for d in found["documents"]]
    return {key: found[key] for key in keys} | {
        "ids": [document.id for document in found["documents"]],
        "scores": scores,
        "sigma2": [document.metadata["uec_sigma2"] for document in found["documents"]],
        "relevance": [document.metadata["uec_relevance"] for document in found["documents"]],
    }
